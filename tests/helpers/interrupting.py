"""A run that is interrupted: at lines, or by real signals, as many as one likes.

PYTHONPATH=tests python -m helpers.interrupting 2000          so many signals
PYTHONPATH=tests python -m helpers.interrupting 2000 twice    each followed by another
"""

import linecache
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import torch
from transformers import GenerationConfig

import minipaged as mp
from helpers.answers import huggingface_generate
from helpers.free_blocks import free_blocks
from helpers.tiny_models import tiny_model
from minipaged.engine.arguments import make_requests
from minipaged.engine.loop import step
from minipaged.model.inputs import Chunk, RaggedBatch
from minipaged.scheduling.interruption import all_or_nothing

_PACKAGE = Path(mp.__file__).parent
_FOLDERS = tuple(
    str(_PACKAGE / name) for name in ("memory", "scheduling", "decoding", "engine")
)
STEM = [5, 6, 7, 8, 9, 10, 11, 12, 13]
PROMPTS = [STEM, [*STEM, 20, 21, 22, 23], [30, 31, 32], [*STEM[:8], 40]]


def _config(**options) -> GenerationConfig:
    return GenerationConfig(max_new_tokens=6, pad_token_id=0, **options)


_SAMPLES = _config(do_sample=True, num_return_sequences=4, temperature=1.5, top_k=0)
_BEAMS = _config(num_beams=4, num_return_sequences=2)
CONFIGS = {
    "greedy": [_config()] * 4,
    "samples": [_SAMPLES] * 4,
    "beams": [_BEAMS] * 4,
    "mixed": [_config(), _SAMPLES, _BEAMS, _config(do_sample=True)],
}


@cache
def expected(kind: str) -> list[list[list[int]]]:
    """What HuggingFace answers, to each prompt alone."""
    seeds = range(len(PROMPTS))
    return huggingface_generate(tiny_model("qwen3"), PROMPTS, CONFIGS[kind], seed=seeds)


class World:
    """A small pool with a prefix cache, in which a table of the user's lives too."""

    def __init__(self, num_blocks: int = 18, **options):
        """18 blocks: few enough that cached ones are evicted all the time."""
        self.paged = mp.PagedModel(tiny_model("qwen3"), num_blocks, 4, **options)
        self.pool = self.paged.pool
        for tensor in self._tensors:
            tensor.fill_(torch.nan)
        self.prefix = mp.PrefixCache(self.pool)
        self.table = mp.BlockTable(self.pool)
        self.table.append(6)
        self._ids = self.table.block_ids.copy()
        for tensor in self._tensors:
            tensor[self._ids] = 0.5
        self.num_free = self.pool.num_free

    @property
    def _tensors(self) -> list[torch.Tensor]:
        return [*self.paged.cache.keys, *self.paged.cache.values]

    def generate(self, kind: str) -> list[mp.Output]:
        """What is interrupted."""
        return mp.generate(
            self.paged,
            PROMPTS,
            CONFIGS[kind],
            seed=range(len(PROMPTS)),
            prefix_cache=self.prefix,
        )

    def scheduler(self, kind: str, **options) -> mp.Scheduler:
        """With the requests of such a run, as `generate` makes them."""
        scheduler = mp.Scheduler(self.pool, self.prefix, **options)
        scheduler.observers = self.paged.observers
        seeds = range(len(PROMPTS))
        for request in make_requests(self.paged, PROMPTS, CONFIGS[kind], seeds, b""):
            scheduler.add(request)
        return scheduler

    def flaws(self) -> list[str]:
        """What is wrong with the pool and the cache while no run holds a block."""
        pool, held = self.pool, set(self._ids)
        holders = [int(block in held) for block in range(pool.num_blocks)]
        plain, findable = free_blocks(pool)
        found = [b for b in range(pool.num_blocks) if self.prefix.content(b)]
        facts = {
            "blocks are lost": pool.num_free == self.num_free,
            "holders are wrong": pool.holders() == holders,
            "the free lists are wrong": sorted([*plain, *findable, *held])
            == list(range(pool.num_blocks)),
            "cached is not what can be found": sorted(findable) == found,
            "the user's table has changed": self.table.block_ids == self._ids
            and all(bool((each[self._ids] == 0.5).all()) for each in self._tensors),
            "the pool is still reserved": pool.reserved_for is None,
        }
        return [flaw for flaw, is_right in facts.items() if not is_right]

    def stale(self) -> list[int]:
        """Blocks that are found by tokens whose K and V they do not hold."""
        known = {b: self.prefix.content(b) for b in range(self.pool.num_blocks)}
        known = {block: content for block, content in known.items() if content}
        of_serial = {content.serial: content for content in known.values()}
        return [
            block
            for block, content in known.items()
            if (tokens := _whole_path(content, of_serial))
            and not self._holds(block, tokens)
        ]

    def _holds(self, block: int, tokens: tuple[int, ...]) -> bool:
        right = keys_and_values(tokens)
        ours = (tensor[block] for tensor in self._tensors)
        # float32 of both sides, summed in another order
        return all(
            torch.allclose(a, b, atol=1e-4) for a, b in zip(ours, right, strict=True)
        )


def _whole_path(content, of_serial: dict) -> tuple[int, ...]:
    """All tokens up to the end of this block; none if nobody can find it."""
    tokens = content.tokens
    while not isinstance(content.parent, bytes):
        content = of_serial.get(content.parent)
        if content is None:
            return ()
        tokens = content.tokens + tokens
    return tokens


@cache
def _reference() -> mp.PagedModel:
    return mp.PagedModel(tiny_model("qwen3"), 16, 4)


@cache
def keys_and_values(tokens: tuple[int, ...]) -> list[torch.Tensor]:
    """K and V of the last block of these tokens, from a pool where nothing happens."""
    paged, table = _reference(), mp.BlockTable(_reference().pool)
    table.append(len(tokens))
    paged.forward(RaggedBatch.build([Chunk(tokens, table)], [], paged.device))
    last = table.block_ids[-1]
    table.free()
    return [x[last].clone() for x in (*paged.cache.keys, *paged.cache.values)]


class Lines:
    """Within this block KeyboardInterrupt is raised at these lines, each once.

    Counted are the lines of the package's memory, scheduling, decoding and engine that
    are run. Python ends its tracing with every interrupt: `resume` begins it again.
    """

    def __init__(self, numbers: Iterable[int] = ()):
        """Without numbers the lines are only counted."""
        self.count, self.places, self._numbers = 0, [], set(numbers)

    def __enter__(self) -> "Lines":
        self._before = sys.gettrace()
        self.resume()
        return self

    def __exit__(self, *_error) -> None:
        sys.settrace(self._before)

    def resume(self) -> None:
        """To be called after an interrupt was caught."""
        sys.settrace(self._call)

    def _call(self, frame, _event, _argument):
        is_ours = frame.f_code.co_filename.startswith(_FOLDERS)
        return self._line if is_ours else None

    def _line(self, frame, event, _argument):
        if event == "line" and not _ends_reservation(frame):
            self.count += 1
            if self.count in self._numbers:
                self.places.append(f"{frame.f_code.co_qualname}:{frame.f_lineno}")
                raise KeyboardInterrupt(self.places[-1])
        return self._line


def _ends_reservation(frame) -> bool:
    code = frame.f_code
    line = linecache.getline(code.co_filename, frame.f_lineno)
    # A signal is looked at where a call returns, not as a `with` ends, nor at a `try:`,
    # where nothing is done.
    return line.lstrip().startswith(("with ", "try:")) or (
        code is all_or_nothing.__code__ and "reserved_for" in line
    )


def drive(paged: mp.PagedModel, scheduler: mp.Scheduler, lines: Lines) -> list:
    """Step until all have ended, going on after every interrupt; the answers."""
    requests = list(scheduler.waiting)
    with lines:
        while scheduler.waiting or scheduler.running:
            try:
                step(paged, scheduler)
            except KeyboardInterrupt:
                lines.resume()
    return [request.strategy.output(request) for request in requests]


def run_interrupted(engine: mp.Engine, lines: Lines) -> int:
    """Run until all are answered, going on after every interrupt; how many came."""
    interrupted = 0
    with lines:
        while engine.streams:
            try:
                engine.run()
            except KeyboardInterrupt:
                interrupted += 1
                lines.resume()
    return interrupted


def signals(count: int, *, twice: bool = False, seed: int = 0) -> dict[str, int]:
    """Real signals at random moments of runs; what is wrong afterwards, counted.

    `swallowed`: Python may land in a callback that cannot raise; such a run goes on.
    `twice`: less than half a millisecond after the first another signal comes.
    """
    draw, world, report = random.Random(seed), World(), Counter()
    left = 0

    def interrupt(_number, _frame):
        nonlocal left
        report["signals"] += 1
        left -= 1
        signal.setitimer(signal.ITIMER_REAL, left and draw.uniform(5e-6, 5e-4))
        raise KeyboardInterrupt

    def interrupted_run(kind: str) -> None:
        nonlocal left
        left = 1 + twice
        try:  # before the timer starts: a busy machine may come to the next line late
            signal.setitimer(signal.ITIMER_REAL, draw.uniform(1e-4, usual[kind]))
            report["wrong_runs"] += sequences(world, kind) != expected(kind)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            report["interrupted"] += 1
            if left:
                time.sleep(1e-3)

    usual = {kind: _seconds(world, kind) for kind in CONFIGS}
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        while report["signals"] < count:
            num_before = report["interrupted"], report["signals"]
            try:
                interrupted_run(draw.choice(list(CONFIGS)))
            except KeyboardInterrupt:
                report["second_while_caught"] += 1
            landed = report["signals"] > num_before[1]
            report["swallowed"] += landed and report["interrupted"] == num_before[0]
            flaws = world.flaws()
            report["blocks_lost"] += world.num_free - world.pool.num_free
            report["flaws"] += bool(flaws)
            report["stale"] += bool(world.stale())
            if flaws:
                world = World()
            kind = draw.choice(list(CONFIGS))
            report["wrong_next"] += sequences(world, kind) != expected(kind)
            report["next_calls"] += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return dict(report)


def sequences(world: World, kind: str) -> list[list[list[int]]]:
    """What `generate` answers."""
    return [out.sequences for out in world.generate(kind)]


def _seconds(world: World, kind: str) -> float:
    """That a run takes at least: so nearly every signal comes in time."""
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        assert sequences(world, kind) == expected(kind)
        seconds.append(time.perf_counter() - start)
    return min(seconds)


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(signals(int(sys.argv[1]), twice="twice" in sys.argv))
