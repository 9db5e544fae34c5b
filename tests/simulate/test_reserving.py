"""The paper's baselines: contiguous reservation, and static batches."""

import pytest

from minipaged.errors import OutOfBlocks
from minipaged.lab import StepClock
from minipaged.memory.contiguous import (
    BuddyAllocator,
    RequestLengths,
    reserve_max,
    reserve_oracle,
    reserve_pow2,
)
from minipaged.memory.waste import simulate as simulate_lesson_1
from minipaged.simulate.loop import Arrival, simulate
from minipaged.simulate.reserving import ReservingScheduler, StaticBatches
from minipaged.simulate.script import BeamScript, Script
from minipaged.simulate.servers import OPT_13B
from minipaged.simulate.systems import SYSTEMS
from minipaged.simulate.traces import arrivals, poisson_trace, sharegpt_like

POLICIES = [reserve_max, reserve_pow2, reserve_oracle]


def orca(policy=reserve_oracle, num_slots=4096, kind=ReservingScheduler, **limits):
    return kind.over(num_slots, 2048, policy, **limits)


@pytest.mark.parametrize("lengths", [[9], [2000] * 2, [2000] * 3, [1] * 5])
def test_what_fits_is_what_can_start(lengths):
    """Of 4,096 slots, and 4 sequences at a time."""
    scheduler = orca(max_sequences=4)
    fits = scheduler.fits(Script(lengths).request([0] * 40))
    assert scheduler.memory.num_free == 4096
    scheduler.add(Script(lengths).request([0] * 40))
    try:
        scheduler.schedule()
    except OutOfBlocks:
        assert not fits
    else:
        assert fits


def at_once(chats):
    """All arrive at 0."""
    return [
        Arrival(0.0, Script([chat.output]).request([number] * chat.prompt))
        for number, chat in enumerate(chats)
    ]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.__name__)
def test_it_runs_what_lesson_1_runs(policy):
    """The same requests at the same time, in every iteration under load."""
    chats = sharegpt_like(300)
    lesson = simulate_lesson_1(chats, policy, 15_728, 2048)
    report = simulate(orca(policy, 15_728), at_once(chats), StepClock())
    assert len(report.timeline) == lesson.num_steps
    under_load = [moment.running for moment in report.timeline if moment.waiting]
    assert max(under_load) == lesson.peak_running
    mean = sum(under_load) / len(under_load)
    assert mean == pytest.approx(lesson.mean_running, rel=1e-3)


def free_slots(scheduler):
    assert isinstance(scheduler.memory, BuddyAllocator)
    return scheduler.memory.num_free


@pytest.mark.parametrize("kind", [ReservingScheduler, StaticBatches])
def test_all_memory_comes_back(kind):
    scheduler = orca(num_slots=4096, kind=kind)
    scripts = [Script([3, 9, 1]), BeamScript(3, 5), Script([1]), Script([7])]
    coming = [Arrival(0.5 * n, s.request([n] * 20)) for n, s in enumerate(scripts)]
    report = simulate(scheduler, coming, StepClock())
    assert len(report.served) == 4 and free_slots(scheduler) == 4096
    assert scheduler.pool.num_free == scheduler.pool.num_blocks


def test_each_sample_has_a_piece_and_gives_it_back_when_it_ends():
    scheduler = orca(num_slots=256)
    scheduler.add(Script([40, 4]).request([0] * 24))  # 64 and 28 slots: 64 and 32
    free = []
    for _ in range(6):
        plan = scheduler.schedule()
        free.append(free_slots(scheduler))
        for request in dict.fromkeys(work.request for work in plan.works):
            request.strategy.say(request)
        assert not plan.copies
        scheduler.commit(plan)
    assert free == [160] * 4 + [192] * 2


def test_samples_that_do_not_all_fit_take_nothing():
    scheduler = orca(num_slots=128)
    scheduler.add(Script([40, 40, 40]).request([0] * 24))
    with pytest.raises(OutOfBlocks):
        scheduler.schedule()
    assert free_slots(scheduler) == 128


def test_a_static_batch_waits_for_its_last():
    scheduler = orca(reserve_max, num_slots=4096, kind=StaticBatches)  # two at a time
    chats = [RequestLengths(4, length) for length in (2, 9, 3)]
    report = simulate(scheduler, at_once(chats), StepClock())
    assert [one.end for one in report.served] == [2, 9, 12]
    continuous = simulate(orca(reserve_max, 4096), at_once(chats), StepClock())
    assert [one.end for one in continuous.served] == [2, 5, 9]


def test_limits_hold():
    report = simulate(
        orca(max_sequences=3), at_once([RequestLengths(4, 5)] * 9), StepClock()
    )
    assert max(moment.running for moment in report.timeline) == 3


def test_the_systems_stand_in_the_paper_s_order():
    """On OPT-13B under load; vLLM runs most requests at a time, and ends first."""
    trace = poisson_trace(sharegpt_like(150), rate=50.0)
    reports = [
        simulate(make(OPT_13B), arrivals(trace), OPT_13B) for make in SYSTEMS.values()
    ]
    seconds = [report.seconds for report in reports]
    assert seconds == sorted(seconds) and len({*seconds}) == len(SYSTEMS)
    running = [report.mean_running for report in reports]
    assert running == sorted(running, reverse=True)
