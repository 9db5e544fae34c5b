"""An engine's edges: limits that fit each other, statistics, its log, its arguments."""

import contextlib
import logging
import os
import sys
import threading

import pytest
import torch

import minipaged as mp
from helpers import engine_soak
from helpers.serving import KINDS, PROMPTS, add_all, check, check_idle, expected, make
from helpers.thorough import often
from helpers.tiny_models import tiny_model
from minipaged.engine.stats import Stats
from minipaged.scheduling.interruption import StepUndo

# --- limits ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given, decided",
    [
        ({}, (2048, 256)),
        ({"max_tokens": 24}, (24, 24)),
        ({"max_tokens": 4096}, (4096, 256)),
        ({"max_sequences": 8}, (2048, 8)),
        ({"max_sequences": 4096}, (4096, 4096)),
        ({"max_tokens": 64, "max_sequences": 64}, (64, 64)),
    ],
    ids=str,
)
def test_a_limit_that_is_not_given_fits_the_other(given, decided):
    paged = mp.PagedModel(tiny_model("qwen3"), 64, 4)
    engine = mp.Engine(paged, **given)
    scheduler = engine.scheduler
    assert (scheduler.max_tokens, scheduler.max_sequences) == decided
    engine.add(PROMPTS[0], KINDS[0])
    check(engine.run(), expected()[:1])


@pytest.mark.parametrize(
    "options, words",
    [
        ({"max_tokens": 8, "max_sequences": 9}, "raise max_tokens"),
        ({"max_tokens": 0}, "max_tokens must be a whole number"),
        ({"max_sequences": 2.0}, "max_sequences must be a whole number"),
        ({"max_sequences": True}, "max_sequences must be a whole number"),
        ({"observers": [print]}, "mp.Observer"),
        ({"observers": mp.Observer}, "a list of them"),
        ({"clock": 3.0}, "clock must be a Clock"),
        ({"tokenizer": "pocket"}, "mp.load returns it"),
        ({"run": "fast"}, "run must be"),
        ({"preemption": None}, "preemption must be"),
        ({"preemption": "swap", "swap_blocks": 0}, "swap_blocks"),
    ],
    ids=str,
)
def test_arguments_are_looked_at_when_they_are_given(options, words):
    paged = mp.PagedModel(tiny_model("qwen3"), 64, 4)
    with pytest.raises((TypeError, ValueError), match=words):
        mp.Engine(paged, **options)


# --- what is counted is taken back with a step ----------------------------------------


class Raises(mp.Observer):
    """Ctrl-C at the so manyth time that this event is told."""

    def __init__(self, event, number):
        self.left = number
        setattr(self, event, self._tell)

    def _tell(self, *_facts):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize("number", [1, 2, 4])
@pytest.mark.parametrize("event", ["planned", "computed", "chosen", "committed"])
def test_a_step_that_is_undone_is_not_counted(event, number):
    """As in an undisturbed run, but for what has to be computed again."""

    quiet = make(cache=True)
    engine = make(cache=True, observers=[Raises(event, number)])
    for each in (quiet, engine):
        streams = [each.add(PROMPTS[1], KINDS[0]) for _ in range(2)]
    quiet.run()
    interrupted = 0
    while engine.streams:
        try:
            engine.step()
        except KeyboardInterrupt:
            interrupted += 1
    assert interrupted == 1
    stats, undisturbed = engine.stats, quiet.stats
    tokens = sum(len(stream.tokens) for stream in streams)
    assert stats.generation_tokens == tokens == undisturbed.generation_tokens
    assert stats.prompt_tokens == undisturbed.prompt_tokens == 2 * len(PROMPTS[1])
    assert stats.prefix_cache_queries == undisturbed.prefix_cache_queries
    assert len(stats.history) == stats.num_steps
    assert sum(one.generation_tokens for one in stats.history) == tokens
    computed = sum(one.num_scheduled_tokens for one in stats.history)
    assert computed == stats.num_scheduled_tokens
    assert stats.num_preemptions == 0
    assert [stream.num_preemptions for stream in streams] == [0, 0]
    # In the first step it is as if nothing had been; but what was published stays.
    if number == 1 and event != "committed":
        ours, theirs = (one.scheduler.prefix_cache for one in (engine, quiet))
        assert (ours.tokens_asked, ours.tokens_hit) == (
            theirs.tokens_asked,
            theirs.tokens_hit,
        )


def test_a_preemption_that_is_undone_is_not_counted():
    engine = make(24, observers=[Raises("preempted", 1)])
    streams = add_all(engine)
    interrupted = 0
    while engine.streams:
        try:
            engine.step()
        except KeyboardInterrupt:
            interrupted += 1
    assert interrupted == 1
    told = sum(stream.num_preemptions for stream in streams)
    assert engine.stats.num_preemptions == told
    check([stream.output for stream in streams])


def test_an_observer_that_cannot_be_restored_spoils_nothing_else():
    class Spoils(mp.Observer):
        def chosen(self, plan):
            raise KeyboardInterrupt

        def restore_counts(self, saved):
            raise RuntimeError("I cannot")

    engine = make(24, observers=[spoils := Spoils()])
    streams = add_all(engine)
    with pytest.raises(RuntimeError, match="I cannot"):
        engine.run()
    assert engine.paged.pool.num_free == 24
    engine.scheduler.observers.remove(spoils)
    engine.run()
    check([stream.output for stream in streams])
    check_idle(engine)


def test_the_history_is_as_long_as_it_may_be_and_no_step_is_there_twice():
    engine = make(96)
    engine.stats.history = type(engine.stats.history)(maxlen=4)
    streams = add_all(engine)
    for _ in range(6):
        engine.step()
    last = list(engine.stats.history)
    engine.scheduler.observers.append(Raises("committed", 1))
    with pytest.raises(KeyboardInterrupt):
        engine.step()
    assert list(engine.stats.history) == last
    engine.run()
    check([stream.output for stream in streams])


def test_an_engine_that_takes_nothing_back_is_noticed(monkeypatch):
    monkeypatch.setattr(Stats, "restore_counts", lambda stats, saved: None)
    with pytest.raises(AssertionError):
        test_a_step_that_is_undone_is_not_counted("committed", 2)


def test_who_counts_an_undone_start_as_a_restart_is_noticed(monkeypatch):
    undo = StepUndo.undo

    def counts_all(self):
        self._running = [*self._running, *self._scheduler.running]
        undo(self)

    monkeypatch.setattr(StepUndo, "undo", counts_all)
    with pytest.raises(AssertionError):
        test_a_step_that_is_undone_is_not_counted("planned", 1)


# --- the log --------------------------------------------------------------------------


def test_what_it_does_on_its_own_is_logged(caplog):
    with caplog.at_level(logging.INFO, logger="minipaged"):
        engine = make(24, observers=[Raises("planned", 5)])
        add_all(engine)
        engine.add([3] * 500, KINDS[0])
        with pytest.raises(KeyboardInterrupt):
            engine.run()
        engine.run()
    lines = [record.getMessage() for record in caplog.records]
    assert all(record.levelno == logging.INFO for record in caplog.records)
    assert sum("preempted a request" in line for line in lines) >= 1
    assert sum("refused a request" in line for line in lines) == 1
    assert sum("a step was undone" in line for line in lines) == 1
    assert engine.stats.num_preemptions > 0


def test_by_default_nothing_is_printed(capfd):
    engine = make(24)
    add_all(engine)
    engine.add([3] * 500, KINDS[0])
    engine.run()
    assert engine.stats.num_preemptions > 0
    assert capfd.readouterr() == ("", "")


# --- locks that Ctrl-C could leave taken ----------------------------------------------


class At:
    """Within this block, Ctrl-C where a function of this file is called or returns."""

    def __init__(self, file, function, event):
        self.place, self.event, self.fired = (file, function), event, False

    def __enter__(self):
        sys.settrace(self._call)
        return self

    def __exit__(self, *_error):
        sys.settrace(None)

    def _call(self, frame, event, _argument):
        code = frame.f_code
        if (os.path.basename(code.co_filename), code.co_name) == self.place:
            return self._local(frame, event, None)
        return None

    def _local(self, _frame, event, _argument):
        if event == self.event and not self.fired:
            self.fired = True
            raise KeyboardInterrupt
        return self._local


PLACES = [
    ("std.py", "__new__"),
    ("std.py", "__enter__"),
    ("std.py", "close"),
    ("std.py", "update"),
    ("bell.py", "ring"),
    ("bell.py", "wait"),
    ("alone.py", "__call__"),
    ("threading.py", "__enter__"),
    ("threading.py", "__exit__"),
]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("event", ["call", "return"])
@pytest.mark.parametrize("place", PLACES, ids=str)
def test_ctrl_c_leaves_no_lock_taken(place, event, monkeypatch):
    """tqdm's own lock was left taken so, and that of a threading.Condition."""
    monkeypatch.setenv("TQDM_DISABLE", "0")
    engine = make()
    engine.add(PROMPTS[0], KINDS[0])
    late = engine.add(PROMPTS[1], KINDS[0], arrival=0.3)
    with At(*place, event), contextlib.suppress(KeyboardInterrupt):
        engine.run()
    right = engine.run()
    answers = []

    def ask():
        answers.extend(mp.generate(engine.paged, PROMPTS[:1], KINDS[0]))
        engine.add(PROMPTS[1], KINDS[0])
        answers.extend(engine.run())

    other = threading.Thread(target=ask, daemon=True)
    other.start()
    other.join(30)
    assert not other.is_alive(), "it hangs"
    check(answers[:1], expected()[:1])
    assert answers[1].sequences == late.output.sequences
    assert len(right) <= 2
    check_idle(engine)


def interrupted_when_entered(mode, enter=torch.inference_mode.__enter__):
    enter(mode)
    raise KeyboardInterrupt


def interrupted_when_left(mode, *_error):
    raise KeyboardInterrupt


@pytest.mark.parametrize("method", ["__enter__", "__exit__"])
@pytest.mark.parametrize("way", ["generate", "run"])
def test_ctrl_c_leaves_no_mode_on(way, method, monkeypatch):
    """Also if the traceback is kept, as notebooks do: autograd goes on as before."""
    engine = make()
    engine.add(PROMPTS[0], KINDS[0]).result()
    stops = interrupted_when_entered if "enter" in method else interrupted_when_left
    with monkeypatch.context() as patch:
        patch.setattr(torch.inference_mode, method, stops)
        with pytest.raises(KeyboardInterrupt) as kept:
            if way == "run":
                engine.add(PROMPTS[0], KINDS[0])
                engine.run()
            else:
                mp.generate(engine.paged, PROMPTS[:1], KINDS[0])
    assert kept.tb is not None
    assert not torch.is_inference_mode_enabled() and torch.is_grad_enabled()
    (out,) = mp.generate(engine.paged, PROMPTS[:1], KINDS[0])
    check([out], expected()[:1])


# --- under fire; more of both by hand: see helpers/engine_soak.py ---------------------


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_real_signals_beside_readers():
    report = engine_soak.signals(often(200))
    assert report["signals"] >= often(200) and report["answers"] > 0
    check_report(report)


def test_threads_that_add_abort_iterate_run_and_close():
    report = engine_soak.threads(3)
    assert report["engines closed"] > 0 and report["answers"] > 0
    check_report(report)


def check_report(report):
    flaws = "wrong", "told wrongly", "hanging", "blocks lost", "swapped blocks lost"
    assert not any(report.get(flaw) for flaw in flaws), report
    assert not report["streams left"] and not report["inference mode left on"]
