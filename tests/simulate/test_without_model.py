"""A scheduler that is driven without a model."""

from itertools import islice

from minipaged.memory.block_pool import BlockPool
from minipaged.scheduling.preemption import PreemptingScheduler
from minipaged.scheduling.request import Request
from minipaged.simulate.without_model import steps


def test_a_request_that_comes_after_all_have_ended_is_served_too():
    scheduler = PreemptingScheduler(BlockPool(4, 4))
    plans = steps(scheduler)
    scheduler.add(Request([0] * 3, 2))
    assert [plan.num_tokens for plan in islice(plans, 3)] == [3, 1, 0]
    scheduler.add(Request([0] * 2, 1))
    assert [plan.num_tokens for plan in islice(plans, 2)] == [2, 0]
