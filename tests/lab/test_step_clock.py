"""The clock that appendices and tests give to an engine."""

import pytest

import minipaged as mp
from helpers.serving import config, make
from minipaged.lab import StepClock


def serve(clock, arrivals=(0.0, 2.5, 40.0), **options):
    engine = make(clock=clock, observers=[clock], **options)
    streams = [
        engine.add([5, 6, 7, number], config(4), arrival=arrival)
        for number, arrival in enumerate(arrivals)
    ]
    engine.run()
    return engine, streams


def test_it_counts_steps_and_passes_over_idle_time():
    clock = StepClock()
    engine, streams = serve(clock)
    assert engine.stats.num_steps == 11  # 4, of which 1 serves two; 4
    assert [one.first_token_at for one in streams] == [1.0, 4.0, 41.0]
    assert [one.finished_at for one in streams] == [4.0, 7.0, 44.0]
    assert clock.now() == 44.0


def test_tokens_cost_what_they_are_said_to_cost():
    clock = StepClock(per_step=0.5, per_token=0.25)
    engine, _ = serve(clock, arrivals=(0.0,))
    assert clock.now() == 4 * 0.5 + 7 * 0.25  # 4 of the prompt, 3 read back
    assert engine.stats.num_scheduled_tokens == 7


@pytest.mark.parametrize("budget", [5, 32])
def test_two_runs_take_equally_long(budget):
    ends = []
    for _ in range(2):
        clock = StepClock(per_token=0.1)
        _, streams = serve(
            clock, arrivals=(0.0, 0.0, 0.3), max_tokens=budget, max_sequences=4
        )
        ends.append([one.finished_at for one in streams])
    assert ends[0] == ends[1]
    assert isinstance(clock, mp.Observer)
