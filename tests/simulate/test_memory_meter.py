"""How much of the memory holds tokens: counted while somebody waits."""

import minipaged as mp
from minipaged.lab import StepClock
from minipaged.memory.contiguous import reserve_max
from minipaged.scheduling.scheduler import Scheduler
from minipaged.simulate.loop import Arrival, simulate
from minipaged.simulate.memory_meter import MemoryMeter
from minipaged.simulate.reserving import ReservingScheduler
from minipaged.simulate.script import Script


def filled(scheduler, num_slots, *scripts):
    meter = MemoryMeter(scheduler, num_slots)
    requests = [Script([length]).request([1] * prompt) for prompt, length in scripts]
    simulate(scheduler, [Arrival(0.0, each) for each in requests], StepClock())
    return meter


def test_tokens_count_while_somebody_waits():
    """The first has 6, 7 and 8 tokens in 8 slots; then the second is alone."""
    meter = filled(Scheduler(mp.BlockPool(2, 4)), 8, (6, 3), (5, 2))
    assert (meter.num_tokens, meter.num_steps) == (6 + 7 + 8, 3)
    assert meter.filled == 21 / 24


def test_what_is_reserved_is_not_filled():
    """Room for one request of 16 slots at a time."""
    scheduler = ReservingScheduler.over(16, 16, reserve_max)
    assert filled(scheduler, 16, (6, 3), (5, 2)).filled == 21 / 48


def test_nobody_waits():
    assert filled(Scheduler(mp.BlockPool(8, 4)), 32, (6, 3)).filled == 0
