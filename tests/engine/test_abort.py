"""Requests that end early: what they have said, who may ask, and when."""

import signal
import threading
import time

import pytest
from transformers import GenerationConfig

import minipaged as mp
from helpers.answers import huggingface_outputs
from helpers.serving import (
    KINDS,
    NEVER,
    PROMPTS,
    Simulated,
    add_all,
    check,
    check_idle,
    config,
    expected,
    make,
)


@pytest.mark.parametrize("num_steps", range(1, 7))
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"do_sample": True, "temperature": 1.3, "top_k": 0},
        {"do_sample": True, "temperature": 1.3, "top_k": 0, "num_return_sequences": 3},
        {"num_beams": 3, "num_return_sequences": 2},
        {"num_beams": 4, "num_return_sequences": 4, "length_penalty": 0.3},
    ],
    ids=str,
)
def test_what_it_has_said_is_what_a_shorter_answer_would_be(options, num_steps):
    """As HuggingFace's with so many new tokens; in beams, of the best ones so far."""
    engine = make()
    other = engine.add(PROMPTS[0], KINDS[0])
    stream = engine.add(PROMPTS[2], config(30, **options), seed=3)
    for _ in range(num_steps):
        engine.step()
    engine.abort(stream)
    (right,) = huggingface_outputs(
        engine.paged.model, [PROMPTS[2]], config(num_steps, **options), seed=3
    )
    assert stream.output.finish_reason == "aborted"
    check([stream.output], [right])
    check([other.result()], expected()[:1])
    check_idle(engine)


def test_beams_of_which_some_have_ended():
    """With several ways to end, what has ended competes with what goes on."""
    ends = [NEVER, *range(20, 60)]
    options = {"num_beams": 3, "num_return_sequences": 3, "early_stopping": False}
    engine = make()
    for num_steps in range(1, 6):
        own = GenerationConfig(max_new_tokens=30, eos_token_id=ends, **options)
        stream = engine.add(PROMPTS[1], own)
        for _ in range(num_steps):
            engine.step()
        if stream.finished:
            break
        engine.abort(stream)
        short = GenerationConfig(max_new_tokens=num_steps, eos_token_id=ends, **options)
        right = huggingface_outputs(engine.paged.model, [PROMPTS[1]], short)
        check([stream.output], right)
    assert num_steps > 2


@pytest.mark.parametrize("count, beams", [(1, 1), (3, 1), (2, 3)])
def test_before_it_has_said_anything(count, beams):
    options = {"num_return_sequences": count, "num_beams": beams}
    engine = make()
    stream = engine.add(PROMPTS[0], config(5, do_sample=beams == 1, **options))
    engine.abort(stream)
    assert stream.output.sequences == [[]] * count
    assert stream.output.finish_reason == "aborted"


def test_what_is_no_stream_of_this_engine_is_refused_and_nothing_breaks():
    engine, other = make(), make()
    stream = engine.add(PROMPTS[0], KINDS[0])
    theirs = other.add(PROMPTS[0], KINDS[0])
    for bad in (stream.request, None, 3, "stream", [stream]):
        with pytest.raises(TypeError, match="Stream that add has returned"):
            engine.abort(bad)
    with pytest.raises(ValueError, match="another engine"):
        engine.abort(theirs)
    check(engine.run(), expected()[:1])
    check(other.run(), expected()[:1])


def test_what_is_told_while_it_is_aborted_is_the_callers_own():
    """Nothing that was handed out is a list that the engine goes on with."""
    engine = make()
    stream = engine.add(PROMPTS[2], config(9, do_sample=True, num_return_sequences=2))
    engine.step()
    engine.abort(stream)
    first = stream.output.sequences[0]
    first.append(5)
    assert stream.output.sequences[1] != first


# --- in a signal handler --------------------------------------------------------------


def test_a_time_limit_by_a_signal_handler():
    """It may come at any line of add, step and run, and waits for nobody."""
    engine, aborted, current = make(64), 0, []

    def limit(_number, _frame):
        engine.abort(current[-1])
        signal.setitimer(signal.ITIMER_REAL, 3e-4)

    before = signal.signal(signal.SIGALRM, limit)
    try:
        current.append(engine.add(PROMPTS[0], KINDS[0]))
        signal.setitimer(signal.ITIMER_REAL, 1e-3)
        for _ in range(200):
            current.append(engine.add(PROMPTS[0], KINDS[0]))
            engine.run()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    for stream in current:
        right, ours = expected()[0].sequences[0], stream.output.sequences[0]
        assert ours == right[: len(ours)]
        aborted += stream.output.finish_reason == "aborted"
    assert aborted > 10
    check_idle(engine)


# --- while somebody sleeps ------------------------------------------------------------


def in_time(work, seconds=20.0):
    """Do it in another thread; how long it took. It must not take for ever."""
    thread, start = threading.Thread(target=work, daemon=True), time.perf_counter()
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), "it hangs"
    return time.perf_counter() - start


@pytest.mark.parametrize("sleeper", ["run", "result"])
def test_who_sleeps_until_an_arrival_is_woken(sleeper):
    """By what others add, abort, and close; an hour is never waited for."""
    engine = make()
    late = engine.add(PROMPTS[0], KINDS[0], arrival=3600.0)
    target = engine.run if sleeper == "run" else late.result
    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    while engine.clock.now() == 0.0:  # until it steps
        time.sleep(0.01)
    time.sleep(0.2)
    now = engine.add(PROMPTS[1], KINDS[0])
    assert in_time(now.result) < 10
    also = engine.add(PROMPTS[2], KINDS[0], arrival=3600.0)
    reader = threading.Thread(target=also.result, daemon=True)
    reader.start()
    time.sleep(0.1)
    engine.abort(also)
    reader.join(20)
    assert not reader.is_alive() and also.output.finish_reason == "aborted"
    engine.close()
    thread.join(20)
    assert not thread.is_alive() and late.output.finish_reason == "aborted"
    check([now.output], huggingface_outputs(engine.paged.model, PROMPTS[1:2], KINDS[0]))
    check_idle(engine)


@pytest.mark.parametrize("arrival", [float("nan"), float("inf"), "soon", None, True])
def test_a_moment_that_never_comes_is_refused(arrival):
    engine = make()
    with pytest.raises((TypeError, ValueError), match="arrival"):
        engine.add(PROMPTS[0], KINDS[0], arrival=arrival)
    assert not engine.streams


def test_a_very_late_arrival_is_waited_for_in_pieces():
    engine = make(clock=Simulated())
    engine.add(PROMPTS[0], KINDS[0], arrival=1e15)
    check(engine.run(), expected()[:1])
    engine = make()  # with a real clock
    stream = engine.add(PROMPTS[0], KINDS[0], arrival=1e15)
    thread = threading.Thread(target=engine.run, daemon=True)
    thread.start()
    time.sleep(0.2)
    engine.abort(stream)
    thread.join(20)
    assert not thread.is_alive()


# --- the end of an engine -------------------------------------------------------------


def test_what_is_added_while_it_closes_is_not_left_behind():
    """Another thread adds all the time: refused, or served, or aborted."""
    for round_ in range(20):
        engine, streams = make(), []

        def add(engine=engine, streams=streams):
            try:
                while True:
                    streams.append(engine.add(PROMPTS[4], config(3)))
            except ValueError as error:
                assert "closed" in str(error)

        thread = threading.Thread(target=add)
        thread.start()
        time.sleep(0.002 * (round_ % 5))
        engine.close()
        thread.join(20)
        assert not thread.is_alive()
        engine.step()
        assert all(stream.finished for stream in streams)
        check_idle(engine)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_what_was_let_in_before_add_was_over_is_taken_back(error, monkeypatch):
    """Another thread steps while add is interrupted: nobody else notices."""
    engine = make()
    others = [engine.add(prompt, KINDS[0]) for prompt in PROMPTS[:2]]
    refuse, calls = engine._refuse_if_closed, []

    def steps_and_raises():
        calls.append(refuse())
        if len(calls) == 2:
            thread = threading.Thread(target=engine.step)
            thread.start()
            thread.join()
            raise error

    monkeypatch.setattr(engine, "_refuse_if_closed", steps_and_raises)
    with pytest.raises(error):
        engine.add(PROMPTS[2], KINDS[0])
    assert engine.scheduler.running  # the third among them
    engine.run()
    theirs = huggingface_outputs(engine.paged.model, PROMPTS[:2], KINDS[0])
    check([stream.output for stream in others], theirs)
    check_idle(engine)


def test_aborted_in_a_step_it_ends_with_this_step():
    engine = make()
    stream, other = engine.add(PROMPTS[0], KINDS[0]), engine.add(PROMPTS[1], KINDS[0])
    observer = mp.Observer()
    observer.chosen = lambda plan: engine.abort(stream)
    engine.paged.observers.append(observer)
    engine.step()
    assert stream.output.finish_reason == "aborted"
    assert stream.output.sequences == [expected()[0].sequences[0][:1]]
    engine.paged.observers.clear()
    other.result()
    check_idle(engine)


def test_an_engine_in_a_with_block():
    with make() as engine:
        opened = add_all(engine)
        for _ in range(4):
            engine.step()
    assert all(stream.finished for stream in opened)
    check_idle(engine)
    engine.close()  # changes nothing
    with pytest.raises(ValueError, match="closed"):
        engine.add(PROMPTS[0])


@pytest.mark.parametrize("event", ["planned", "chosen", "committed"])
def test_closed_in_the_middle_of_a_step(event):
    """As by a signal handler: it ends with this step, and run with it."""
    engine = make(24)
    opened = add_all(engine)
    observer, told = mp.Observer(), []

    def close(_plan):
        told.append(event)
        if len(told) == 3:
            engine.close()

    setattr(observer, event, close)
    engine.paged.observers.append(observer)
    engine.run()
    assert len(told) == 3 and all(stream.finished for stream in opened)
    check_idle(engine)


def test_leaving_a_with_block_by_an_exception():
    with pytest.raises(KeyboardInterrupt), make() as engine:
        add_all(engine)
        engine.step()
        raise KeyboardInterrupt
    check_idle(engine)
