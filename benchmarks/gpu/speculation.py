"""Speculation on a GPU: how many times as many tokens a second as plain decoding.

    python -m benchmarks.gpu.speculation --out gpu-speculation.json

A model of Qwen3-0.6B's shape, random weights, bfloat16, greedy; prompts of 200 tokens,
answers of 256, for one user and for 64 at once. The engine is compiled. Each guess is
right with probability 0.6, by construction: whoever guesses knows the text of the plain
run, and of every 1,000 tokens, in random order, 400 are replaced by other ones. So a
step that checks k guesses brings 1 + 0.6 + ... + 0.6^k tokens in the mean.

Free guesses cost nothing. Behind a draft model, a second model, with 4 of the 28 layers
and the same head, computes all that it would compute to guess. It finds the same tokens
likeliest as the large model, and its guesses are replaced in the same way.

Each way has an engine. They are measured in turns: a round of plain decoding, a round
of each kind of guesses, and again. So if something disturbs the machine for a while, it
disturbs all of them. A round's luck with its guesses moves its speed by some percent,
and medians over rounds are compared.

An engine measures whether guessing pays, and pauses where it does not:
"part_with_guesses" says in which part of the steps there were guesses. The milliseconds
of a step are those of steps with guesses, whether they pay or not.

The embeddings are 200 times as large as usual. So each token is likeliest after itself,
by far, and no rounding changes a text: all answers are compared with the plain run's.
"""

import argparse
import gc
import json
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile
from transformers import AutoModelForCausalLM, GenerationConfig

import minipaged as mp
from benchmarks.gpu.shapes import qwen3_06b, random_model
from minipaged.decoding.pace import Pace
from minipaged.decoding.speculation import Speculation
from minipaged.engine.ahead import PendingChoices
from minipaged.lab.measure.machine import describe_machine

RIGHT = 0.6
PROMPT, NEW = 200, 256
MOST_GUESSES = {"draft model": 2, "free": 7}
NUM_BLOCKS = 4000
LAYERS = 4  # of the draft model
# For how long rounds are measured, by the number of users, who come in this order.
SECONDS = {1: 15.0, 64: 10.0}
LEAST = 3  # rounds


class Case(NamedTuple):
    """What is measured: who guesses, and so many tokens at a time; 0: nobody does."""

    users: int
    kind: str
    num_guesses: int = 0

    @property
    def name(self) -> str:
        """For people."""
        guesses = f", {self.num_guesses} guesses" if self.num_guesses else ""
        return f"{self.kind}, {self.users}{guesses}"

    @property
    def options(self) -> dict[str, int]:
        """Of each request."""
        return {"num_guesses": self.num_guesses} if self.num_guesses else {}


CASES = [
    Case(1, "plain"),
    Case(1, "draft model", 2),
    Case(1, "free", 7),
    Case(64, "plain"),
    Case(64, "draft model", 2),
    Case(64, "free", 2),
]

Guess = Callable[[list[int], int], list[int]]


def deck(size: int = 1000, decks: int = 50) -> list[bool]:
    """Which guesses are right: in each of the decks, which are shuffled, as many."""
    draw = Random(0)
    right = [number < RIGHT * size for number in range(size)]
    return [is_right for _ in range(decks) for is_right in draw.sample(right, size)]


class Spoiled:
    """Knows texts, prompts included; each token that it tells is right with 0.6."""

    def __init__(self, texts: list[list[int]]):
        """Each text must begin with another token."""
        self._texts = {text[0]: text for text in texts}
        self._right = cycle(deck())

    def __call__(self, tokens: list[int], count: int) -> list[int]:
        """How these tokens go on."""
        size = len(tokens)
        right = self._texts[tokens[0]][size : size + count]
        return [t if next(self._right) else t + 1 for t in right]


class Free(Speculation):
    """Guesses that cost nothing."""

    least_right = 0.0  # it never pauses

    def __init__(self, knows: Guess):
        super().__init__(MOST_GUESSES["free"])
        self.guess = lambda tokens, count: [knows(tokens, count)]


class Behind(mp.DraftModel):
    """A draft model makes its guesses; then some of them are replaced, on the device.

    It has the large model's embeddings, so it finds the same tokens likeliest.
    """

    least_right = 0.0

    def __init__(self, paged: mp.PagedModel):
        super().__init__(paged, MOST_GUESSES["draft model"])
        self._is_wrong = torch.tensor(deck(), device=paged.device).logical_not().long()
        self._place = 0

    def likeliest(self, logits: torch.Tensor) -> torch.Tensor:
        """Its likeliest tokens, each right with 0.6."""
        tokens = super().likeliest(logits)
        count = tokens.shape[0]
        if self._place + count > len(self._is_wrong):
            self._place = 0
        self._place += count
        return tokens + self._is_wrong[self._place - count : self._place]


def prompts(count: int) -> list[list[int]]:
    """Random tokens; each prompt begins with another one."""
    draw = Random(0)
    return [
        [1000 + n, *(draw.randrange(10_000) for _ in range(PROMPT - 1))]
        for n in range(count)
    ]


def serve(engine: mp.Engine, case: Case) -> tuple[list[list[int]], float]:
    """A round: the new tokens; and tokens a second, over all users.

    Time begins when each user has the first token.
    """
    config = GenerationConfig(max_new_tokens=NEW, pad_token_id=0)
    streams = [
        engine.add(prompt, config, **case.options) for prompt in prompts(case.users)
    ]
    while any(not stream.tokens for stream in streams):
        engine.step()
    told = sum(len(stream.tokens) for stream in streams)
    torch.cuda.synchronize()
    start = time.perf_counter()
    while engine.step():  # `engine.run` would first read all weights
        pass
    torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    texts = [stream.output.sequences[0] for stream in streams]
    return texts, (case.users * NEW - told) / seconds


class Row:
    """What the rounds of a case have come to."""

    def __init__(self, case: Case, engine: mp.Engine):
        self.case, self.engine = case, engine
        self.speeds: list[float] = []
        # Of all rounds: steps, times that a text's guesses were checked, right guesses.
        self.counts = [0, 0, 0]

    def add_round(self) -> list[list[int]]:
        """Measure a round; these are its new tokens."""
        before = self._stats()
        texts, speed = serve(self.engine, self.case)
        self.speeds.append(speed)
        pairs = zip(self._stats(), before, strict=True)
        self.counts = [
            count + now - then
            for count, (now, then) in zip(self.counts, pairs, strict=True)
        ]
        return texts

    def _stats(self) -> tuple[int, int, int]:
        stats = self.engine.stats
        return stats.num_steps, stats.num_drafts, stats.num_accepted_tokens

    def found(self, plain: "Row") -> dict[str, Any]:
        """Tokens a second, beside plain decoding's of the same rounds."""
        speed = statistics.median(self.speeds)
        row: dict[str, Any] = {
            "tokens_per_s": round(speed, 1),
            "rounds": [round(speed, 1) for speed in self.speeds],
        }
        if self.case.num_guesses:
            row["times_plain"] = round(speed / statistics.median(plain.speeds), 3)
        num_steps, num_checked, num_right = self.counts
        if num_checked:
            part = num_checked / self.case.users / num_steps
            row["part_with_guesses"] = round(part, 3)
            row["tokens_of_a_step"] = round(1 + num_right / num_checked, 3)
        return row


class Always(Pace):
    """Never pauses."""

    allows = True


STEPS = 30  # of a time line


def start(
    engine: mp.Engine, speculation: Speculation | None, case: Case
) -> Pace | None:
    """Let all users decode, with guesses in each step; returns the clock so far."""
    pace = None
    if speculation is not None:
        pace, speculation.pace = speculation.pace, Always()
    config = GenerationConfig(max_new_tokens=NEW, pad_token_id=0)
    for prompt in prompts(case.users):
        engine.add(prompt, config, **case.options)
    for _ in range(12):
        engine.step()
    torch.cuda.synchronize()
    return pace


def end(engine: mp.Engine, speculation: Speculation | None, pace: Pace | None) -> None:
    """Abort all, and let this clock decide again."""
    for stream in list(engine.streams.values()):
        engine.abort(stream)
    if speculation is not None:
        speculation.pace = pace


def time_line(
    engine: mp.Engine, speculation: Speculation | None, case: Case
) -> dict[str, float]:
    """Milliseconds of a step, and for how long of it the CPU waits for the GPU."""
    read, waited = PendingChoices.read, 0.0

    def timed(choices: PendingChoices, turns: list[Any]) -> list[Any]:
        nonlocal waited
        begin = time.perf_counter()
        found = read(choices, turns)
        waited += time.perf_counter() - begin
        return found

    pace = start(engine, speculation, case)
    PendingChoices.read = timed
    try:
        begin = time.perf_counter()
        for _ in range(STEPS):
            engine.step()
        torch.cuda.synchronize()
        wall = time.perf_counter() - begin
    finally:
        PendingChoices.read = read
    end(engine, speculation, pace)
    return {
        "wall_ms": round(wall * 1e3 / STEPS, 3),
        "waited_ms": round(waited * 1e3 / STEPS, 3),
    }


def gpu_time(
    engine: mp.Engine, speculation: Speculation | None, case: Case
) -> dict[str, float]:
    """Milliseconds of a step for which the GPU computes.

    It comes last: a profiler that has run may make later launches slower.
    """
    pace = start(engine, speculation, case)
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        for _ in range(STEPS):
            engine.step()
        torch.cuda.synchronize()
    end(engine, speculation, pace)
    busy, last = 0.0, 0.0
    for begin, stop in sorted(
        (event.time_range.start, event.time_range.end)
        for event in seen.events()
        if event.device_type == torch.autograd.DeviceType.CUDA
    ):
        busy += max(0.0, stop - max(begin, last))
        last = max(last, stop)
    return {"gpu_ms": round(busy / 1e3 / STEPS, 3)}


def large_model() -> Any:
    """Random weights, and embeddings of which each token finds itself likeliest."""
    model = random_model()
    with torch.no_grad():
        model.model.embed_tokens.weight *= 200
    return model


def small_model(model: Any, layers: int = LAYERS) -> Any:
    """The same shape, with so few layers, and the large model's embeddings."""
    config = qwen3_06b(eos_token_id=None)
    config.num_hidden_layers = layers
    config.layer_types = config.layer_types[:layers]
    device = model.device
    with torch.device(device):
        small = AutoModelForCausalLM.from_config(config, dtype=model.dtype)
    small.model.embed_tokens.load_state_dict(model.model.embed_tokens.state_dict())
    return small.eval()


Note = Callable[[str, Any], None]
Engines = dict[str, tuple[mp.Engine, Speculation | None]]


def make_engines(model: Any, run: str, note: Note, stack: ExitStack) -> Engines:
    """An engine of each kind. Those who guess freely learn the plain texts."""
    wrap = partial(mp.PagedModel, num_blocks=NUM_BLOCKS)
    paged = wrap(model, attention="triton")
    limits: dict[str, Any] = {"max_sequences": 64, "max_tokens": 2048, "run": run}
    engines: Engines = {}

    def add(kind: str, speculation: Speculation | None) -> None:
        begin = time.perf_counter()
        engine = mp.Engine(paged, speculation=speculation, **limits)
        engines[kind] = stack.enter_context(engine), speculation
        note(f"{kind}, ready after", round(time.perf_counter() - begin, 2))

    add("plain", None)
    most = max(SECONDS)
    texts, _ = serve(engines["plain"][0], Case(most, "plain"))
    pairs = zip(prompts(most), texts, strict=True)
    add("draft model", Behind(wrap(small_model(model), attention="triton")))
    add("free", Free(Spoiled([prompt + new for prompt, new in pairs])))
    return engines


def measure(engines: Engines, seconds: dict[int, float], note: Note) -> None:
    """All cases of one user, in turns, and then those of many; noted as they come."""
    rows: dict[str, dict[str, Any]] = {}
    for users, limit in seconds.items():
        group = [Row(case, engines[case.kind][0]) for case in CASES]
        group = [row for row in group if row.case.users == users]
        plain = group[0]
        right, _ = serve(plain.engine, plain.case)
        for row in group[1:]:  # these rounds are not counted
            found, _ = serve(row.engine, row.case)
            assert found == right, f"{row.case.name}: other tokens"
        gc.collect()
        gc.freeze()  # as Engine.serve advises
        end_at = time.perf_counter() + limit
        while len(plain.speeds) < LEAST or time.perf_counter() < end_at:
            for row in group:
                assert row.add_round() == right, f"{row.case.name}: other tokens"
            if len(plain.speeds) % LEAST == 0:
                for row in group:
                    rows[row.case.name] = row.found(plain)
                    note(row.case.name, rows[row.case.name])
        for row in group:
            _, speculation = engines[row.case.kind]
            times = time_line(row.engine, speculation, row.case)
            rows[row.case.name] = row.found(plain) | times
            note(row.case.name, rows[row.case.name])
    for case in CASES:
        rows[case.name] |= gpu_time(*engines[case.kind], case)
        note(case.name, rows[case.name])


def main() -> None:
    """Measure, and print or store it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--run", default="compiled")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    found: dict[str, Any] = {"machine": describe_machine(), "run": arguments.run}
    found |= {"right": RIGHT, "draft_layers": LAYERS}

    def note(name: str, row: Any) -> None:
        found[name] = row
        print(name, json.dumps(row), flush=True)
        if arguments.out:
            arguments.out.write_text(json.dumps(found, indent=1) + "\n")

    with ExitStack() as stack:
        engines = make_engines(large_model(), arguments.run, note, stack)
        measure(engines, SECONDS, note)


if __name__ == "__main__":
    main()
