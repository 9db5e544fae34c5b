"""Prefill and decode apart: K and V are moved, and prompts hold nobody up."""

from math import inf

import pytest

from minipaged.lab import StepClock
from minipaged.memory.block_pool import BlockPool
from minipaged.scheduling.preemption import PreemptingScheduler
from minipaged.scheduling.routing import LeastLoaded
from minipaged.simulate.apart import Handed, decoder, simulate_apart, transfers_of
from minipaged.simulate.cluster import simulate_cluster
from minipaged.simulate.loop import Replica
from minipaged.simulate.shared_prefixes import shared_texts
from minipaged.simulate.traces import Asked, poisson_trace, wmt_like

COSTS = StepClock(0.02, 1e-4)  # a step, and a token


def prefills(num_blocks=400):
    return Replica(PreemptingScheduler(BlockPool(num_blocks, 16)), COSTS)


def decodes(num_blocks=400):
    return Replica(decoder(num_blocks, 16), COSTS)


def test_one_request_step_by_step():
    """100 tokens: 30 ms; 100 kB at 1 MB a second: 100 ms; two steps of 20.1 ms."""
    trace = [Asked(1.0, [1] * 100, (3,))]
    report = simulate_apart((1, prefills), (1, decodes), trace, 1000, 1e6)
    ((answer),) = report.cluster.answers
    served = answer.served
    assert served.first_token == pytest.approx(1.03)
    assert served.end == pytest.approx(1.03 + 0.1 + 2 * 0.0201)
    assert (served.arrival, served.output, answer.replica) == (1.0, 3, 1)
    assert answer.pause == pytest.approx(0.1 + 0.0201)
    ((transfer),) = report.transfers
    assert transfer.num_bytes == 100_000 and transfer.waited == 0.0
    ((life),) = [life for life in report.cluster.lives if life.replica == 1]
    assert [step.num_tokens for step in life.steps] == [1, 1]  # no prompt is computed


def test_each_is_answered_once_with_its_length():
    trace = poisson_trace(wmt_like(300), 100.0)
    report = simulate_apart((2, prefills), (2, decodes), trace, 1000, 1e8)
    answers = report.cluster.answers
    assert sorted(one.number for one in answers) == [*range(300)]
    for one in answers:
        asked = trace[one.number]
        assert (one.served.arrival, one.served.output) == (
            asked.arrival, *asked.lengths
        )  # fmt: skip
        assert one.served.arrival < one.served.first_token <= one.served.end
    moved = {one.number for one in report.transfers}
    assert moved == {at for at, one in enumerate(trace) if one.lengths[0] > 1}


def test_a_link_is_a_queue():
    trace = [Asked(0.0, [at] * 100, (2,)) for at in range(3)]
    report = simulate_apart((1, prefills), (1, decodes), trace, 1000, 1e6)
    waited = sorted(one.waited for one in report.transfers)
    assert waited == pytest.approx([0.0, 0.1, 0.2])
    apart = simulate_apart((3, prefills), (1, decodes), trace, 1000, 1e6)
    assert [one.waited for one in apart.transfers] == [0.0, 0.0, 0.0]
    assert transfers_of([], 1000, 1e6) == []


def test_nobody_waits_for_another_s_prompt_but_for_bytes():
    """Mixed, long prompts hold up those who decode; apart, a slow link does."""
    trace = shared_texts(120, 8.0, texts=1000, text_tokens=1000, answer=30.0)
    mixed = simulate_cluster(prefills, 4, trace, LeastLoaded()).wait("pause")
    waits = {}
    for bandwidth in (inf, 1e8, 1e6):
        report = simulate_apart((2, prefills), (2, decodes), trace, 1000, bandwidth)
        waits[bandwidth] = report.cluster.wait("pause")
    assert waits[inf].p99 < 0.5 * mixed.p99
    assert waits[inf].mean < waits[1e8].mean < mixed.mean < waits[1e6].mean


def test_without_room_an_answer_is_computed_again():
    """Four answers of 150 tokens, 10 blocks each in the end; the pool has 24."""
    trace = [Asked(0.0, [at] * 40, (120,)) for at in range(4)]
    report = simulate_apart(
        (1, prefills), (1, lambda: decodes(num_blocks=24)), trace, 1000, inf
    )
    answers = report.cluster.answers
    assert sum(one.served.preemptions for one in answers) > 0
    assert sorted(one.served.output for one in answers) == [120] * 4


def test_a_handed_request_computes_no_prompt():
    """Planted: without its K and V, the step would compute 100 tokens, not 1."""
    for kind, computed in ((Handed, 1), (Asked, 100)):
        scheduler = decoder(40, 16)
        _, request = kind(0.0, [1] * 100, (3,)).arrive()
        scheduler.add(request)
        assert scheduler.schedule().num_tokens == computed
