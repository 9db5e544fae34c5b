"""An engine under fire: real signals in `run`, threads, or coroutines, all at once.

PYTHONPATH=tests python -m helpers.engine_soak signals 5000
PYTHONPATH=tests python -m helpers.engine_soak threads 600      seconds
PYTHONPATH=tests python -m helpers.engine_soak coroutines 10000   requests

Ends in a table of what was counted; a watchdog says so, and where every thread is, if
nothing moves for half a minute.
"""

import asyncio
import faulthandler
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from functools import cache

import torch

import minipaged as mp
from helpers.answers import huggingface_outputs
from helpers.serving import CONFIGS, PROMPTS, make
from helpers.tiny_models import tiny_model
from minipaged.engine.serving import ServingThread

CASES = list(range(len(PROMPTS)))
NUM_BLOCKS = 40


@cache
def right_answers() -> list[mp.Output]:
    """What HuggingFace answers each prompt alone, with its number as seed."""
    return huggingface_outputs(tiny_model("qwen3"), PROMPTS, CONFIGS, seed=CASES)


class Watchdog:
    """Ends the process, and prints where all threads are, if nothing moves any more.

    Only once it is let loose, as this program does: a test has a process of others.
    """

    def __init__(self, seconds: float = 30.0):
        self.seconds, self.moved, self.is_over = seconds, time.monotonic(), False

    def let_loose(self) -> None:
        """Watch from now on, in a thread."""
        self.pat()
        threading.Thread(target=self._watch, daemon=True).start()

    def pat(self) -> None:
        """Something has moved."""
        self.moved = time.monotonic()

    def _watch(self) -> None:
        while not self.is_over:
            time.sleep(1.0)
            if not self.is_over and time.monotonic() - self.moved > self.seconds:
                print("nothing moves any more", flush=True)
                faulthandler.dump_traceback()
                os._exit(1)


WATCHDOG = Watchdog()


def is_right(stream: mp.Stream, case: int) -> bool:
    """Is it HuggingFace's answer, or, if it was aborted, the beginning of one?"""
    theirs, ours = right_answers()[case], stream.output
    if ours.finish_reason != "aborted":
        return ours.sequences == theirs.sequences
    if stream.request.num_parallel > 1:
        return len(ours.sequences) == len(theirs.sequences)
    (said,) = ours.sequences
    return said == theirs.sequences[0][: len(said)]


class Soak:
    """The engine of a run, what was counted, and threads that use it."""

    def __init__(self, seed: int):
        self.draw, self.report = random.Random(seed), Counter()
        self.over, self.watchdog = threading.Event(), WATCHDOG
        self.may_interrupt = False
        self.options = {"max_tokens": 32, "max_sequences": 16, "preemption": "swap"}
        self.engine = make(NUM_BLOCKS, cache=True, **self.options)
        right_answers()

    def ask_and_read(self, number: int) -> None:
        """A thread: add a request, read its tokens or its result, compare; again."""
        draw = random.Random(number)
        while not self.over.is_set():
            case = draw.choice(CASES)
            try:
                stream = self.add(case)
            except ValueError as error:
                assert "closed" in str(error)  # meanwhile; another engine comes
                time.sleep(1e-3)
                continue
            if stream.request.num_parallel == 1 and draw.random() < 0.7:
                told = list(stream)
                if told != stream.output.sequences[0]:
                    self.report["told wrongly"] += 1
            else:
                stream.result()
            self.look_at(stream, case)

    def add(self, case: int) -> mp.Stream:
        return self.engine.add(PROMPTS[case], CONFIGS[case], seed=case)

    def look_at(self, stream: mp.Stream, case: int) -> None:
        self.watchdog.pat()
        self.report["answers"] += 1
        self.report[stream.output.finish_reason] += 1
        self.report["wrong"] += not is_right(stream, case)

    def end(self, threads: list[threading.Thread]) -> dict[str, int]:
        """Wait for all, then count what is left behind."""
        self.over.set()
        for thread in threads:
            thread.join(60)
            self.report["hanging"] += thread.is_alive()
            self.watchdog.pat()
        self.engine.run()
        pool, space = self.engine.paged.pool, self.engine.scheduler.swap_space
        self.engine.scheduler._tidy_swap_space()
        self.report["blocks lost"] = pool.num_blocks - pool.num_free
        self.report["swapped blocks lost"] = space.pool.num_blocks - space.pool.num_free
        self.report["streams left"] = len(self.engine.streams)
        self.report["inference mode left on"] += torch.is_inference_mode_enabled()
        return dict(self.report)


def signals(count: int, seed: int = 0) -> dict[str, int]:
    """Real signals in `run`, beside four readers; the handler aborts, or raises too."""
    soak = Soak(seed)
    draw, report, engine = soak.draw, soak.report, soak.engine

    def handle(_number, _frame):
        report["signals"] += 1
        soak.watchdog.pat()
        streams = list(engine.streams.values())
        if streams and draw.random() < 0.5:
            engine.abort(draw.choice(streams))
        if report["signals"] < count:
            signal.setitimer(signal.ITIMER_REAL, draw.uniform(2e-4, 2e-2))
        if soak.may_interrupt and draw.random() < 0.5:
            soak.may_interrupt = False
            raise KeyboardInterrupt

    readers = [
        threading.Thread(target=soak.ask_and_read, args=[number], daemon=True)
        for number in range(4)
    ]
    before = signal.signal(signal.SIGALRM, handle)
    for thread in readers:
        thread.start()
    signal.setitimer(signal.ITIMER_REAL, 1e-3)
    kept = None
    while report["signals"] < count:
        try:
            case = draw.choice(CASES)
            stream = soak.add(case)
            soak.may_interrupt = True
            engine.run()
            soak.may_interrupt = False
            soak.look_at(stream, case)
        except KeyboardInterrupt as error:
            report["interrupted"] += 1
            kept = error  # as notebooks do
        report["inference mode left on"] += torch.is_inference_mode_enabled()
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)
    report["last interrupt kept"] = int(kept is not None)
    return soak.end(readers)


def threads(seconds: float, seed: int = 0) -> dict[str, int]:
    """Threads that add, abort, iterate, run, and close: each in its own time."""
    soak = Soak(seed)
    stop = time.monotonic() + seconds

    def abort_some() -> None:
        draw = random.Random(seed + 1)
        while not soak.over.is_set():
            time.sleep(draw.uniform(0, 0.1))
            streams = list(soak.engine.streams.values())
            if streams:
                soak.engine.abort(draw.choice(streams))
                soak.report["aborts"] += 1

    def run_at_times() -> None:
        draw = random.Random(seed + 2)
        while not soak.over.is_set():
            soak.engine.run()
            soak.report["runs"] += 1
            time.sleep(draw.uniform(0, 0.05))

    def come_late() -> None:
        """Requests that arrive later, some of which are aborted before."""
        draw = random.Random(seed + 3)
        while not soak.over.is_set():
            engine, case = soak.engine, draw.choice(CASES)
            at = engine.clock.now() + draw.uniform(0, 0.3)
            try:
                stream = engine.add(PROMPTS[case], CONFIGS[case], seed=case, arrival=at)
            except ValueError:  # it is closed
                time.sleep(1e-3)
                continue
            if draw.random() < 0.3:
                engine.abort(stream)
            stream.result()
            soak.look_at(stream, case)

    def close_and_open() -> None:
        """Another engine takes the place over the same pool; the old one ends."""
        draw = random.Random(seed + 4)
        while not soak.over.is_set():
            time.sleep(draw.uniform(0.2, 1.0))
            old = soak.engine
            if draw.random() < 0.8:
                old.close()
                soak.report["engines closed"] += 1
                prefix = old.scheduler.prefix_cache
                soak.engine = mp.Engine(old.paged, prefix, **soak.options)

    work = [abort_some, run_at_times, come_late, close_and_open]
    workers = [threading.Thread(target=each, daemon=True) for each in work]
    workers += [
        threading.Thread(target=soak.ask_and_read, args=[number], daemon=True)
        for number in range(3)
    ]
    for worker in workers:
        worker.start()
    while time.monotonic() < stop:
        time.sleep(0.1)
    return soak.end(workers)


def coroutines(count: int, together: int = 200, seed: int = 0) -> dict[str, int]:
    """So many requests of async streams, of which some are left; in one event loop."""
    soak = Soak(seed)
    number = iter(range(count))
    single = [case for case in CASES if CONFIGS[case].num_beams in (None, 1)]
    single = [c for c in single if (CONFIGS[c].num_return_sequences or 1) == 1]

    async def ask_and_read(own: int) -> None:
        draw = random.Random(own)
        for _ in number:
            case = draw.choice(single)
            stream, told, is_left = soak.add(case), [], False
            patience = draw.choice([None, None, draw.uniform(0, 0.2)])
            try:
                async with asyncio.timeout(patience):
                    async for token in stream:
                        told.append(token)
            except TimeoutError:
                soak.report["cancelled"] += 1
                is_left = True
            await stream
            right = stream.output.sequences[0]
            soak.report["told wrongly"] += (
                told != right[: len(told) if is_left else None]
            )
            soak.look_at(stream, case)

    async def ask_all() -> None:
        await asyncio.gather(*map(ask_and_read, range(together)))
        soak.report["tasks left"] = len(asyncio.all_tasks()) - 1

    asyncio.run(ask_all())
    serving = [one for one in threading.enumerate() if isinstance(one, ServingThread)]
    for thread in serving:
        thread.join(5)
    soak.report["threads left"] = sum(thread.is_alive() for thread in serving)
    return soak.end([])


WAYS = {"signals": signals, "threads": threads, "coroutines": coroutines}

if __name__ == "__main__":
    torch.set_num_threads(1)
    WATCHDOG.let_loose()
    what, much = WAYS[sys.argv[1]], sys.argv[2]
    for name, number in sorted(what(int(much)).items()):
        print(f"{name:24}{number:9,}")
