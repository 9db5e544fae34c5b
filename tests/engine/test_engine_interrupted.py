"""An engine interrupted anywhere: blocks come back, and nobody's text changes."""

import random
import signal

import pytest

import minipaged as mp
from helpers.interrupting import Lines, run_interrupted
from helpers.serving import (
    CONFIGS,
    PROMPTS,
    Simulated,
    add_all,
    check,
    check_idle,
    config,
    expected,
    make,
)
from helpers.thorough import THOROUGH, all_or
from minipaged.attention.rectangles import gathered_attention
from minipaged.engine.engine import Engine
from minipaged.scheduling.interruption import StepUndo

pytestmark = pytest.mark.filterwarnings("ignore:thrashing")
MODES = pytest.mark.parametrize("mode", ["recompute", "swap"])


def check_survivors(streams):
    """Their answers are HuggingFace's; `streams`: with the number of the prompt."""
    for stream, number in streams:
        if stream.output.finish_reason != "aborted":
            check([stream.output], [expected()[number]])
        elif stream.request.num_parallel == 1:
            right = expected()[number].sequences[0]
            assert stream.tokens == right[: len(stream.tokens)]


# --- by lines -------------------------------------------------------------------------


@MODES
@pytest.mark.parametrize("seed", all_or(range(3), [0]))
def test_interrupted_at_any_line(mode, seed):
    draw = random.Random(seed)
    engine = make(24, cache=seed % 2 == 0, preemption=mode)
    streams = add_all(engine)
    moments = [draw.randrange(1, 60_000) for _ in range(25)]
    assert run_interrupted(engine, Lines(moments)) > 10
    check([stream.output for stream in streams])
    check_idle(engine)


def test_interrupted_while_streams_are_told():
    """What a step has computed is told in the end, also if nothing is left to do."""
    engine, draw = make(24), random.Random(0)
    streams, tell = add_all(engine), engine._tell

    def tell_or_stop(*arguments):
        if draw.random() < 0.2:
            raise KeyboardInterrupt
        tell(*arguments)

    engine._tell = tell_or_stop
    for _ in range(2000):
        try:
            if not engine.step():
                break
        except KeyboardInterrupt:
            pass
    else:
        raise AssertionError("it never ends")
    check([stream.output for stream in streams])
    check_idle(engine)


def test_an_interrupted_step_is_no_preemption():
    engine = make(96)
    streams = add_all(engine)
    engine.step()
    with Lines([200]) as lines, pytest.raises(KeyboardInterrupt):
        engine.step()
    assert lines.places and not engine.scheduler.running
    check(engine.run())
    assert engine.stats.num_preemptions == 0 < engine.stats.recomputed_tokens
    assert not any(stream.num_preemptions for stream in streams)


STRIDES = [("add", 13), ("abort", 2)] if THOROUGH else [("add", 39), ("abort", 6)]


@pytest.mark.parametrize("what, stride", STRIDES)
def test_interrupted_while_adding_or_aborting(what, stride):
    """At one line after the other: it was done, or it was not."""
    engine = make(24)
    for line in range(1, 2000, stride):
        streams = [engine.add(PROMPTS[1], config(3)), engine.add([5] * 9, config(3))]
        engine.step()
        with Lines([line]) as lines:
            try:
                if what == "add":
                    streams.append(engine.add([7], config(1)))
                else:
                    engine.abort(streams[1])
            except KeyboardInterrupt:
                pass
        if not lines.places:
            break  # it has fewer lines
        engine.abort(streams[1])
        run_with_a_limit(engine)
        assert all(stream.finished for stream in streams)
        assert streams[1].output.finish_reason == "aborted"
        check_idle(engine)
    assert line > 100


# --- by real signals ------------------------------------------------------------------


class Alarm:
    """Within this block the next signal comes after `seconds`, again and again."""

    def __init__(self, draw, longest):
        self.draw, self.longest, self.count = draw, longest, 0

    def __enter__(self):
        self.before = signal.signal(signal.SIGALRM, self.interrupt)
        return self

    def __exit__(self, *_error):
        self.stop()
        signal.signal(signal.SIGALRM, self.before)

    def set(self):
        signal.setitimer(signal.ITIMER_REAL, self.draw.uniform(1e-4, self.longest))

    def stop(self):
        signal.setitimer(signal.ITIMER_REAL, 0)

    def interrupt(self, _number, _frame):
        self.count += 1
        raise KeyboardInterrupt


# Python drops a signal that comes within a finalizer or a callback of the garbage
# collector (hypothesis has one), and says so in a warning: nothing was interrupted.
DROPPED = "ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning"


@MODES
@pytest.mark.filterwarnings(DROPPED)
def test_real_signals_at_random_places(mode):
    draw = random.Random(7)
    engine = make(24, cache=True, preemption=mode)
    streams = []
    with Alarm(draw, longest=0.06) as alarm:
        while alarm.count < 40 or engine.streams:
            if not engine.streams:
                streams += zip(add_all(engine), range(len(PROMPTS)), strict=True)
            try:
                if alarm.count < 40:
                    alarm.set()
                if draw.random() < 0.1:
                    engine.abort(draw.choice(list(engine.streams.values())))
                engine.run()
                alarm.stop()
            except KeyboardInterrupt:
                pass
    check_survivors(streams)
    check_idle(engine)


# --- arrivals, aborts and a forward that fails ----------------------------------------


@MODES
@pytest.mark.parametrize(
    "error", all_or([RuntimeError, KeyboardInterrupt], [KeyboardInterrupt])
)
def test_arrivals_aborts_and_failing_forwards_at_random(mode, error):
    draw = random.Random(f"{mode}{error}")
    is_fragile = [False]

    def attend(*arguments):
        if is_fragile[0] and draw.random() < 0.03:
            raise error
        return gathered_attention(*arguments)

    engine = make(24, cache=True, attention=attend, preemption=mode, clock=Simulated())
    streams, failed = [], 0
    for round_ in range(4):
        for number, own in enumerate(PROMPTS):
            arrival = engine.clock.now() + draw.random() * 40
            stream = engine.add(own, CONFIGS[number], seed=number, arrival=arrival)
            streams.append((stream, number))
        is_fragile[0] = round_ < 3
        while engine.streams:
            try:
                engine.step()
            except error:
                failed += 1
                assert engine.paged.pool.num_free == 24
            if draw.random() < 0.02 and engine.streams:
                engine.abort(draw.choice(list(engine.streams.values())))
    assert failed > 5
    check_survivors(streams)
    check_idle(engine)


# --- wrong versions, which these tests must reject ------------------------------------


def takes_no_step_back(undo):
    """Wrong: whoever was computing stays where it was."""


def saves_nothing(undo, requests):
    """Wrong: tokens and random numbers are not taken back."""


def is_told_once(engine):
    """Wrong: takes a plan off the list before its tokens are told."""
    while engine._committed:
        plan, now = engine._committed.pop(0), engine.clock.now()
        for request in dict.fromkeys(work.request for work in plan.works):
            if request in engine.streams:
                engine._tell(engine.streams[request], now)


def aborts_halfway(engine, request):
    """Wrong: interrupted, some of its blocks are neither held nor free."""
    engine.scheduler.abort(request)


WRONG = {
    "takes no step back": (StepUndo, "undo", takes_no_step_back),
    "saves nothing": (StepUndo, "save_texts", saves_nothing),
    "aborts halfway": (Engine, "_abort", aborts_halfway),
    "is told once": (Engine, "_tell_streams", is_told_once),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_engines_are_noticed(monkeypatch, name):
    where, what, wrong = WRONG[name]
    monkeypatch.setattr(where, what, wrong)
    monkeypatch.setattr(Engine, "run", run_with_a_limit)
    # Also: beams without logits, and a plan that is committed beside an older one.
    noticed = AssertionError, LookupError, RuntimeError, ValueError
    with pytest.raises((*noticed, mp.OutOfBlocks, mp.TableFreed)):
        if "abort" in name:
            test_interrupted_while_adding_or_aborting("abort", 1)
        if "told" in name:
            test_interrupted_while_streams_are_told()
        for seed in (0, 1, 10, *range(20)):  # those that notice it with CPython 3.11
            test_interrupted_at_any_line("swap", seed)


def run_with_a_limit(engine):
    """So that a test of an engine that never ends does end."""
    for _ in range(2000):
        if not engine.step():
            return
    raise AssertionError("it never ends")
