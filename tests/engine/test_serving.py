"""Streams deliver: each token soon after it is chosen, whoever else waits."""

import asyncio
import gc
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing

import pytest

import minipaged as mp
from helpers.answers import huggingface_outputs
from helpers.apart import in_a_thread, run_in_a_thread
from helpers.engine_soak import coroutines
from helpers.serving import CONFIGS, KINDS, PROMPTS, check, check_idle, config, make
from minipaged.engine.serving import Listeners, wake
from minipaged.errors import OutOfBlocks


def servers():
    """Threads that serve now."""
    return [one for one in threading.enumerate() if one.name == "minipaged engine"]


def wait_until(holds, seconds=60):
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(1e-3)


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    gc.collect()
    for thread in servers():
        thread.join(10)
    assert not servers()


class Steps(mp.Observer):
    """Counts steps, and takes a few milliseconds for each, as a real model does."""

    def __init__(self, seconds=0.004):
        self.number, self.seconds, self.chosen_in = 0, seconds, {}

    def committed(self, plan):
        self.number += 1
        for work in plan.works:
            for answer in work.request.answers:
                key = work.request, answer.num_new
                self.chosen_in.setdefault(key, self.number)
        time.sleep(self.seconds)


async def delays(engine, steps, num_waiting, num_tokens, start=lambda: None):
    """After how many steps each token of a running stream comes; others wait."""
    running = engine.add(PROMPTS[0], config(num_tokens))
    waiting = [engine.add(PROMPTS[1], config(2)) for _ in range(num_waiting)]

    async def read(stream):
        return [token async for token in stream]

    others = [asyncio.create_task(read(stream)) for stream in waiting]
    await asyncio.sleep(0)
    start()
    found = []
    async for _ in running:
        chosen = steps.chosen_in[running.request, len(found) + 1]
        found.append(steps.number - chosen)
    assert all(task.done() is False for task in others[1:])
    told = await asyncio.gather(*others)
    assert all(len(tokens) == 2 for tokens in told)
    return found


@pytest.mark.parametrize("serves", [False, True])
def test_tokens_come_within_two_steps_whoever_waits(serves):
    """200 coroutines wait for their turn while one is served; no pool of threads."""
    steps = Steps()
    engine = make(64, max_sequences=1, observers=[steps])
    threads = threading.active_count()
    start = engine.serve if serves else lambda: None
    found = run_in_a_thread(delays, engine, steps, 200, 20, start)
    assert len(found) == 20 and max(found) <= 2, found
    assert threading.active_count() <= threads + 1
    if serves:
        engine.stop()
    check_idle(engine)


def test_a_coroutine_that_holds_a_pooled_thread_starves_the_others(monkeypatch):
    """Wrong: waits in a thread of the loop's pool, as many servers do."""

    async def in_the_pool(self, number):
        await asyncio.to_thread(self._has_more, number)

    monkeypatch.setattr(mp.Stream, "_listen", in_the_pool)
    steps = Steps()
    engine = make(64, max_sequences=1, observers=[steps])
    server = threading.Thread(target=engine.run)

    async def all_of_them():
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(6))
        return await delays(engine, steps, 20, 20, server.start)

    found = run_in_a_thread(all_of_them)
    assert max(found) > 2, "it must be seen to be late"
    server.join(60)


def test_every_kind_is_answered_in_coroutines():
    engine = make(24)
    right = huggingface_outputs(
        engine.paged.model, PROMPTS, CONFIGS, seed=range(len(PROMPTS))
    )

    async def ask(number):
        return await engine.add(PROMPTS[number], CONFIGS[number], seed=number)

    async def all_of_them():
        return await asyncio.gather(*map(ask, range(len(PROMPTS))))

    check(run_in_a_thread(all_of_them), right)
    check_idle(engine)


def test_several_event_loops_at_once():
    engine = make(40)
    theirs = huggingface_outputs(engine.paged.model, PROMPTS[:4], config(9))

    async def read(number):
        return [token async for token in engine.add(PROMPTS[number], config(9))]

    with ThreadPoolExecutor(4) as pool:
        told = list(pool.map(lambda number: asyncio.run(read(number)), range(4)))
    assert told == [output.sequences[0] for output in theirs]
    check_idle(engine)


def leaves(engine, stream):
    async def leave():
        async with aclosing(aiter(stream)) as tokens:
            async for _ in tokens:
                break

    return leave


def is_cancelled(engine, stream):
    async def cancel():
        async def read():
            return [token async for token in stream]

        task = asyncio.create_task(read())
        while not stream.tokens:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    return cancel


def runs_out_of_time(engine, stream):
    async def wait():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(stream, 0.05)

    return wait


@pytest.mark.parametrize("way", [leaves, is_cancelled, runs_out_of_time])
def test_whoever_leaves_aborts_the_request(way):
    engine = make(64, observers=[Steps()])
    stream = engine.add(PROMPTS[0], config(200))
    other = engine.add(PROMPTS[1], config(6))
    run_in_a_thread(way(engine, stream))
    assert other.result().finish_reason == "length"
    assert stream.result().finish_reason == "aborted" and len(stream.tokens) < 200
    check_idle(engine)


def test_a_with_block_aborts_what_is_not_finished():
    engine = make()
    with engine.add(PROMPTS[0], config(50)) as stream:
        next(iter(stream))
    assert stream.output.finish_reason == "aborted"
    with engine.add(PROMPTS[0], config(5)) as stream:
        stream.result()
    assert stream.output.finish_reason == "length"
    check_idle(engine)


def test_it_serves_idle_or_not_until_it_is_told_to_stop():
    engine = make()
    engine.serve()
    engine.serve()  # nothing changes
    assert len(servers()) == 1
    for _ in range(3):
        stream = engine.add(PROMPTS[0], KINDS[0])
        wait_until(lambda one=stream: one.finished)  # nobody asks it to go on
        time.sleep(0.01)
    assert engine.is_served
    engine.stop()
    assert not servers() and not engine.is_served
    stream = engine.add(PROMPTS[0], KINDS[0])
    time.sleep(0.05)
    assert not stream.tokens
    assert stream.result().finish_reason in ("stop", "length")
    engine.stop()
    check_idle(engine)


def test_run_beside_a_thread_that_serves():
    engine = make(40)
    engine.serve()
    outputs = []
    for _ in range(4):
        streams = [engine.add(prompt, KINDS[0]) for prompt in PROMPTS[:3]]
        engine.run()
        outputs += [stream.output for stream in streams]
    engine.stop()
    check(outputs, 4 * huggingface_outputs(engine.paged.model, PROMPTS[:3], KINDS[0]))


def test_close_ends_it_and_an_engine_that_is_dropped_ends_it():
    with make() as engine:
        engine.serve()
        stream = engine.add(PROMPTS[0], config(500))
    assert stream.output is not None and not servers()
    engine = make()
    engine.serve()
    engine.add(PROMPTS[0], KINDS[0]).result()
    del engine, stream
    deadline = time.monotonic() + 20
    while servers() and time.monotonic() < deadline:
        gc.collect()  # it may be in its last step when the engine is dropped
        time.sleep(0.01)
    assert not servers()


def test_an_error_of_a_step_reaches_who_waits_and_who_stops():
    engine = make(24)
    held = [engine.paged.pool.allocate() for _ in range(24)]

    async def read():
        return [token async for token in engine.add(PROMPTS[0], KINDS[0])]

    with pytest.raises(OutOfBlocks):
        run_in_a_thread(read)
    check_idle_but(engine, held)
    engine.serve()
    stream = engine.add(PROMPTS[0], KINDS[0])
    wait_until(lambda: not servers())
    with pytest.raises(OutOfBlocks):
        engine.stop()
    for block_id in held:
        engine.paged.pool.release(block_id)
    assert stream.result().finish_reason in ("stop", "length")  # it was not lost
    check_idle(engine)


def check_idle_but(engine, held):
    assert not engine.streams and engine.paged.pool.num_free == 24 - len(held)


def test_a_loop_that_is_closed_meanwhile_disturbs_nobody():
    listeners = Listeners()

    async def wait_shortly():
        task = asyncio.create_task(listeners.wait(lambda: False))
        await asyncio.sleep(0)
        return task, asyncio.get_running_loop()

    loop = asyncio.new_event_loop()
    task, _ = in_a_thread(lambda: loop.run_until_complete(wait_shortly()))
    loop.close()
    wake([listeners])
    assert not task.done()
    task._log_destroy_pending = False


def test_many_streams_are_told_every_token_once_and_in_order():
    """Some are left at random; the others get what HuggingFace answers."""

    report = in_a_thread(coroutines, count=120, together=30)
    assert report["answers"] == 120
    zeros = ["wrong", "told wrongly", "blocks lost", "threads left", "tasks left"]
    assert not any(report[what] for what in [*zeros, "streams left"])
    assert report["cancelled"] > 5
