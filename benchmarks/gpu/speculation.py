"""Speculation on a GPU: how many times as many tokens a second as plain decoding.

    python -m benchmarks.gpu.speculation --out figures/data/gpu-speculation.json

A model of Qwen3-0.6B's shape, random weights, bfloat16, greedy; prompts of 200 tokens,
answers of 256, for one user and for 64 at once. The engine is compiled. Each guess is
right with probability 0.6, by construction: whoever guesses knows the text of the plain
run, and replaces each of its tokens by another one with probability 0.4. So a step that
checks k guesses brings 1 + 0.6 + ... + 0.6^k tokens in the mean.

Free guesses cost nothing. Behind a draft model, a second model, with 4 of the 28 layers
and the same head, computes all that it would compute to guess. It finds the same tokens
likeliest as the large model, and each of its guesses is replaced with probability 0.4.

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
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

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
MOST_GUESSES = 7
NUM_BLOCKS = 4000
LAYERS = 4  # of the draft model
GUESSES = {  # at a time, by the number of users
    "plain": {1: (0,), 64: (0,)},
    "draft model": {1: (2, 3), 64: (2,)},
    "free": {1: (5, 7), 64: (2,)},
}

Guess = Callable[[list[int], int], list[int]]


class Spoiled:
    """Knows texts, prompts included; each token that it tells is right with 0.6."""

    def __init__(self, texts: list[list[int]]):
        """Each text must begin with another token."""
        self._texts = {text[0]: text for text in texts}
        self._draw = Random(0)

    def __call__(self, tokens: list[int], count: int) -> list[int]:
        """How these tokens go on."""
        size = len(tokens)
        right = self._texts[tokens[0]][size : size + count]
        return [t if self._draw.random() < RIGHT else t + 1 for t in right]


class Free(Speculation):
    """Guesses that cost nothing."""

    least_right = 0.0  # it never pauses

    def __init__(self, knows: Guess):
        super().__init__(MOST_GUESSES)
        self.guess = lambda tokens, count: [knows(tokens, count)]


class Behind(mp.DraftModel):
    """A draft model makes its guesses; then some of them are replaced, on the device.

    It has the large model's embeddings, so it finds the same tokens likeliest.
    """

    least_right = 0.0

    def __init__(self, paged: mp.PagedModel):
        super().__init__(paged, MOST_GUESSES)
        drawn = torch.rand(2**20, device=paged.device)
        self._is_wrong = (drawn >= RIGHT).long()
        self._place = 0

    def likeliest(self, logits: torch.Tensor) -> torch.Tensor:
        """Its likeliest tokens, each right with 0.6."""
        tokens = super().likeliest(logits)
        count = tokens.shape[0]
        if self._place + count > 2**20:
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


def serve(
    engine: mp.Engine, count: int, rounds: int, **options: Any
) -> tuple[list[list[int]], dict[str, Any]]:
    """The new tokens; and tokens a second from the first to the last, over all users.

    The first round is warm-up.
    """
    config = GenerationConfig(max_new_tokens=NEW, pad_token_id=0)
    speeds = []
    for number in range(1 + rounds):
        if number < 2:  # the first round is not counted
            before = vars(engine.stats).copy()
            gc.collect()
            gc.freeze()  # as Engine.serve advises
        streams = [engine.add(prompt, config, **options) for prompt in prompts(count)]
        while any(not stream.tokens for stream in streams):
            engine.step()
        told = sum(len(stream.tokens) for stream in streams)
        torch.cuda.synchronize()
        start = time.perf_counter()
        engine.run()
        seconds = time.perf_counter() - start
        if number:
            speeds.append((count * NEW - told) / seconds)
    row = {
        "tokens_per_s": round(statistics.median(speeds), 1),
        "rounds": [round(speed, 1) for speed in speeds],
    }
    stats = engine.stats
    if stats.num_drafts > before["num_drafts"]:
        steps = stats.num_drafts - before["num_drafts"]
        all_steps = stats.num_steps - before["num_steps"]
        row["part_with_guesses"] = round(steps / count / all_steps, 3)
        right = stats.num_accepted_tokens - before["num_accepted_tokens"]
        row["tokens_of_a_step"] = round(1 + right / steps, 3)
    return [stream.output.sequences[0] for stream in streams], row


class Always(Pace):
    """Never pauses."""

    allows = True


STEPS = 30  # of a time line


def start(
    engine: mp.Engine, speculation: Speculation | None, count: int, **options: Any
) -> None:
    """Let all users decode, with guesses in each step."""
    if speculation is not None:
        speculation.pace = Always()
    config = GenerationConfig(max_new_tokens=NEW, pad_token_id=0)
    for prompt in prompts(count):
        engine.add(prompt, config, **options)
    for _ in range(12):
        engine.step()
    torch.cuda.synchronize()


def end(engine: mp.Engine) -> None:
    """Abort all."""
    for stream in list(engine.streams.values()):
        engine.abort(stream)


def time_line(engine: mp.Engine, *users: Any, **options: Any) -> dict[str, float]:
    """Milliseconds of a step, and for how long of it the CPU waits for the GPU."""
    read, waited = PendingChoices.read, 0.0

    def timed(choices: PendingChoices, turns: list[Any]) -> list[Any]:
        nonlocal waited
        begin = time.perf_counter()
        found = read(choices, turns)
        waited += time.perf_counter() - begin
        return found

    start(engine, *users, **options)
    PendingChoices.read = timed
    try:
        begin = time.perf_counter()
        for _ in range(STEPS):
            engine.step()
        torch.cuda.synchronize()
        wall = time.perf_counter() - begin
    finally:
        PendingChoices.read = read
    end(engine)
    return {
        "wall_ms": round(wall * 1e3 / STEPS, 3),
        "waited_ms": round(waited * 1e3 / STEPS, 3),
    }


def gpu_time(engine: mp.Engine, *users: Any, **options: Any) -> dict[str, float]:
    """Milliseconds of a step for which the GPU computes.

    It comes last: a profiler that has run may make later launches slower.
    """
    start(engine, *users, **options)
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        for _ in range(STEPS):
            engine.step()
        torch.cuda.synchronize()
    end(engine)
    busy, last = 0.0, 0.0
    for begin, stop in sorted(
        (event.time_range.start, event.time_range.end)
        for event in seen.events()
        if event.device_type == torch.autograd.DeviceType.CUDA
    ):
        busy += max(0.0, stop - max(begin, last))
        last = max(last, stop)
    return {"gpu_ms": round(busy / 1e3 / STEPS, 3)}


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


def measure(
    model: Any, small: Any, run: str, rounds: int, note: Callable[[str, Any], None]
) -> None:
    """Plain decoding, then both kinds of guesses, each with an engine of its own."""
    wrap = partial(mp.PagedModel, num_blocks=NUM_BLOCKS)
    paged = wrap(model, attention="triton")
    limits: dict[str, Any] = {"max_sequences": 64, "max_tokens": 2048, "run": run}
    right: dict[int, list[list[int]]] = {}
    rows: dict[str, dict[str, Any]] = {}

    def speculation_of(kind: str) -> Speculation | None:
        if kind == "plain":
            return None
        if kind == "draft model":
            return Behind(wrap(small, attention="triton"))
        texts = zip(prompts(max(right)), right[max(right)], strict=True)
        return Free(Spoiled([prompt + new for prompt, new in texts]))

    def cases(kind: str) -> Iterator[tuple[str, int, dict[str, int]]]:
        """What is measured with guesses of this kind: its name, users, and options."""
        for count, wanted in GUESSES[kind].items():
            for number in wanted:
                options = {"num_guesses": number} if number else {}
                of = f", {number} guesses" if number else ""
                yield f"{kind}, {count}{of}", count, options

    with ExitStack() as stack:
        engines = {}
        for kind in GUESSES:
            speculation = speculation_of(kind)
            begin = time.perf_counter()
            engine = mp.Engine(paged, speculation=speculation, **limits)
            engines[kind] = stack.enter_context(engine), speculation
            note(f"{kind}, ready after", round(time.perf_counter() - begin, 2))
            for name, count, options in cases(kind):
                found, row = serve(engine, count, rounds, **options)
                assert found == right.setdefault(count, found), f"{name}: other tokens"
                if options:
                    plain = rows[f"plain, {count}"]["tokens_per_s"]
                    row["times_plain"] = round(row["tokens_per_s"] / plain, 3)
                rows[name] = row
                note(name, row)
            for name, count, options in cases(kind):
                rows[name] |= time_line(engine, speculation, count, **options)
                note(name, rows[name])
        for kind, users in engines.items():
            for name, count, options in cases(kind):
                rows[name] |= gpu_time(*users, count, **options)
                note(name, rows[name])


def main() -> None:
    """Measure, and print or store it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--run", default="compiled")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    model = random_model()
    with torch.no_grad():
        model.model.embed_tokens.weight *= 200
    small = small_model(model)
    found: dict[str, Any] = {"machine": describe_machine(), "run": arguments.run}
    found |= {"right": RIGHT, "draft_layers": LAYERS}

    def note(name: str, row: Any) -> None:
        found[name] = row
        print(name, json.dumps(row), flush=True)
        if arguments.out:
            arguments.out.write_text(json.dumps(found, indent=1) + "\n")

    measure(model, small, arguments.run, arguments.rounds, note)


if __name__ == "__main__":
    main()
