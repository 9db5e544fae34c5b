"""A real engine's run, told as a simulation's is; and a clock that skips waits."""

import time

from transformers import GenerationConfig

import minipaged as mp
from helpers.tiny_models import tiny_model
from minipaged.lab import BusyClock, EngineReport, StepClock, report_lines
from minipaged.scheduling.observer import Observer
from minipaged.scheduling.preemption import PreemptingScheduler
from minipaged.simulate.loop import simulate
from minipaged.simulate.traces import Asked, arrivals

# The third comes while nobody is there.
TRACE = [
    Asked(0.0, [5] * 9, (6,)),
    Asked(1.5, [6] * 7, (5,)),
    Asked(90.0, [7] * 4, (3,)),
]


class Host(Observer):
    """Takes half a second between two steps."""

    def __init__(self, clock):
        self.clock = clock

    def committed(self, plan):
        self.clock.moment += 0.5


def engine_report(clock, num_blocks=5, host=None):
    model = tiny_model("qwen3")
    model.generation_config.eos_token_id = None
    paged = mp.PagedModel(model, num_blocks, 4)
    watching = [clock] if isinstance(clock, StepClock) else []
    engine = mp.Engine(paged, clock=clock, observers=watching)
    report = EngineReport(engine)
    if host:
        engine.scheduler.observers.append(host)
    streams = [
        engine.add(
            asked.prompt,
            GenerationConfig(max_new_tokens=asked.lengths[0]),
            arrival=asked.arrival,
        )
        for asked in TRACE
    ]
    engine.run()
    return report.tell(streams)


def test_it_is_the_report_of_the_simulation():
    """On a clock of steps, a preemption included, both are equal, step by step."""
    found = engine_report(StepClock(1.0, 0.25))
    scheduler = PreemptingScheduler(mp.BlockPool(5, 4), max_tokens=2048)
    right = simulate(scheduler, arrivals(TRACE), StepClock(1.0, 0.25))
    assert right.preemptions == found.preemptions == 1
    assert sorted(found.served) == sorted(right.served)
    assert found.timeline == right.timeline
    assert found.computed_tokens == right.computed_tokens
    assert found.recomputed_tokens == right.recomputed_tokens
    assert [step.seconds for step in found.steps] == [
        1.0 + 0.25 * step.load.num_tokens for step in found.steps
    ]


def test_a_step_lasts_up_to_the_next_that_follows():
    """So the host's part counts; not where nobody was there."""
    clock = StepClock(1.0, 0.25)
    report = engine_report(clock, host=Host(clock))
    over = [step.seconds - 1.0 - 0.25 * step.load.num_tokens for step in report.steps]
    first, *_, late = [at for at, more in enumerate(over) if more == 0]
    assert first == 0 and report.timeline[late].end > 90
    assert {*over} == {0, 0.5} and over.count(0) == 2


def test_means_of_several_steps():
    report = engine_report(StepClock(1.0, 0.25))
    (first, second, *_), means = report.steps, report.means(2)
    assert means[0].seconds == (first.seconds + second.seconds) / 2
    assert means[0].load.num_tokens == (first.load[0] + second.load[0]) / 2
    assert len(means) == -(-len(report.steps) // 2)


def test_waits_take_no_time_on_a_busy_clock():
    start = time.perf_counter()
    report = engine_report(BusyClock(), num_blocks=20)
    assert time.perf_counter() - start < 60 < 90 < report.seconds
    assert report.served[-1].arrival == 90.0
    assert all(0 < step.seconds < 60 for step in report.steps)


def test_a_busy_clock_counts_what_is_computed():
    clock = BusyClock()
    assert clock.now() == 0
    clock.start()
    before = clock.now()
    time.sleep(0.2)
    assert clock.now() - before < 0.1
    while clock.now() - before < 0.01:
        pass
    clock.sleep_until(50.0)
    assert 50 <= clock.now() < 51


def test_a_line_for_each_report():
    report = engine_report(StepClock(1.0, 0.25))
    lines = report_lines({"engine": report, "again": report}).splitlines()
    assert len(lines) == 5 and lines[4].split() == ["+0.0%"] * 6
    assert len(report_lines({"engine": report}).splitlines()) == 3
    mean, p99 = report.summary("latency")
    assert lines[2].split()[0] == "engine" and lines[2].split()[-1] == "1"
    assert f"{1000 * mean:,.1f}" in lines[2] and f"{1000 * p99:,.1f}" in lines[2]
