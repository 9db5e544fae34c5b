"""The engine beside HuggingFace's static and continuous batching, and what it costs.

    python -m benchmarks.cpu.engine                     prints; minutes on 16 cores
    python -m benchmarks.cpu.engine --save              writes cpu-engine.json, too
    python -m benchmarks.cpu.engine --parts scheduler   one part of it

Parts: throughput (64 requests, all there at once), latency (they arrive at random),
overhead (a step without its forward), waiting (a step while 10,000 wait), scheduler
(100,000 requests, without a model), scarce (a quarter of the blocks). The requests have
lengths like ShareGPT's chats times `--scale`; eos is off, so each runs to its length.
Run it on an idle machine.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm
from transformers import GenerationConfig

import minipaged as mp
from benchmarks.cpu.servers import (
    BLOCK_SIZE,
    Answered,
    blocks_of,
    continuous,
    make_trace,
    ours,
    poisson,
    static,
)
from minipaged.decoding.strategy import Strategy
from minipaged.lab.measure.machine import describe_machine
from minipaged.scheduling.preemption import PreemptingScheduler

OUT = Path(__file__).parents[2] / "figures" / "data" / "cpu-engine.json"
BATCH_SIZES = (8, 16, 32, 64)
STATIC = 32  # the batches of the static server that requests arrive at
LOAD = 0.8  # of what a server can do


class Bench:
    """The models, the trace, and what was found so far."""

    def __init__(self, arguments: argparse.Namespace):
        """Load the model three times: for us, and for both ways of HuggingFace."""
        self.rounds = arguments.rounds
        self.num_scheduled = arguments.scheduled
        self.num_waiting = arguments.waiting
        self.model, self.other, self.third = (
            mp.load(arguments.model, device="cpu")[0] for _ in range(3)
        )
        for model in (self.model, self.other, self.third):
            model.generation_config.eos_token_id = None
        self.vocabulary = self.model.config.vocab_size
        count = arguments.requests
        self.trace = make_trace(count, arguments.scale, self.vocabulary)
        self.useful = sum(asked.num_new for asked in self.trace)
        self.paged = mp.PagedModel(self.model, sum(blocks_of(self.trace)), BLOCK_SIZE)
        self.seconds: dict[str, float] = {}

    def ours(self, trace: list, **options: Any) -> Answered:
        """By our engine."""
        return ours(self.paged, trace, **options)[0]

    def throughput(self) -> dict[str, Any]:
        """Tokens a second of each way to serve them all."""
        ways: dict[str, Callable[[list], Answered]] = {
            "minipaged": self.ours,
            "continuous": lambda trace: continuous(self.third, trace),
        }
        for size in BATCH_SIZES:
            ways[f"static {size}"] = lambda trace, size=size: static(
                self.other, trace, size
            )
        found: dict[str, list[float]] = {name: [] for name in ways}
        bar = tqdm(total=len(ways) * (self.rounds + 1), desc="throughput")
        for round_ in range(self.rounds + 1):
            for name, serve in ways.items():
                answered = serve(self.trace if round_ else self.trace[:4])
                bar.update()
                if round_:  # the first is short, to be warm
                    found[name].append(answered.seconds)
        bar.close()
        self.seconds = {name: statistics.median(own) for name, own in found.items()}
        best = max(self.useful / s for n, s in self.seconds.items() if "static" in n)
        speeds = {n: round(self.useful / s, 1) for n, s in self.seconds.items()}
        rate = self.useful / self.seconds["minipaged"]
        return {
            "tokens": self.useful,
            "tokens_per_second": speeds,
            "seconds": {n: [round(s, 3) for s in own] for n, own in found.items()},
            "ratio_to_best_static": round(rate / best, 3),
            "ratio_to_continuous": round(rate / speeds["continuous"], 3),
        }

    def latency(self) -> dict[str, Any]:
        """Mean normalised latency, in milliseconds a token, where requests arrive."""
        if not self.seconds:
            self.seconds = {
                "minipaged": self.ours(self.trace).seconds,
                f"static {STATIC}": static(self.other, self.trace, STATIC).seconds,
            }
        count = len(self.trace)
        rates = {
            name: LOAD * count / self.seconds[name]
            for name in (f"static {STATIC}", "minipaged")
        }
        few = slice(None, None, 4)  # alone each takes long
        alone = [
            self.ours([asked]).normalised_latency[0]
            for asked in tqdm(self.trace[few], desc="alone")
        ]
        slower, faster = (poisson(self.trace, rate) for rate in rates.values())
        at_static = self.ours(slower).normalised_latency
        theirs = static(self.other, slower, STATIC).normalised_latency
        at_ours = self.ours(faster).normalised_latency
        mean = statistics.mean
        found = {
            "requests_per_second": {n: round(r, 3) for n, r in rates.items()},
            "unloaded_ms": mean(alone) * 1e3,
            "at_static_capacity": {
                "minipaged_ms": mean(at_static) * 1e3,
                "static_ms": mean(theirs) * 1e3,
                "ratio": mean(theirs) / mean(at_static),
            },
            "at_our_capacity": {
                "minipaged_ms": mean(at_ours) * 1e3,
                "times_unloaded": mean(at_ours[few]) / mean(alone),
            },
        }
        return rounded(found)

    def overhead(self, num_sequences: int = 64, num_steps: int = 100) -> dict[str, Any]:
        """The share of a step that is not the forward, while all decode."""
        engine = self.decoding(num_sequences, num_steps + 10)
        steps, forwards = [], []
        for _ in range(num_steps):
            before = engine.paged.seconds
            start = time.perf_counter()
            engine.step()
            steps.append(time.perf_counter() - start)
            forwards.append(engine.paged.seconds - before)
        shares = [1 - f / s for f, s in zip(forwards, steps, strict=True)]
        return rounded(
            {
                "sequences": num_sequences,
                "step_ms": statistics.median(steps) * 1e3,
                "forward_ms": statistics.median(forwards) * 1e3,
                "share_of_the_rest": statistics.median(shares),
            }
        )

    def waiting(self, num_steps: int = 40) -> dict[str, Any]:
        """Milliseconds of a step with 10 and with 10,000 requests that wait."""
        found = {}
        for num_waiting in (10, self.num_waiting):
            engine = self.decoding(64, num_steps + 10, max_sequences=64)
            config = GenerationConfig(max_new_tokens=8)
            start = time.perf_counter()
            for _ in tqdm(range(num_waiting), desc="add"):
                engine.add([5] * 8, config)
            added = (time.perf_counter() - start) / num_waiting
            engine.step()  # it lets them in
            assert len(engine.scheduler.waiting) == num_waiting
            steps = []
            for _ in range(num_steps):
                before, start = engine.paged.seconds, time.perf_counter()
                engine.step()
                seconds = time.perf_counter() - start
                steps.append((seconds, seconds - engine.paged.seconds + before))
            whole, rest = (statistics.median(each) for each in zip(*steps, strict=True))
            found[str(num_waiting)] = {
                "step_ms": whole * 1e3,
                "without_forward_ms": rest * 1e3,
                "add_ms": added * 1e3,
            }
        return rounded(found)

    def decoding(self, count: int, num_new: int, **options: Any) -> mp.Engine:
        """An engine in which so many sequences decode."""
        prompts = [
            asked.prompt[:200] for asked in make_trace(count, 1, self.vocabulary)
        ]
        blocks = count * -(-(200 + num_new) // BLOCK_SIZE)
        engine = mp.Engine(TimedModel(self.model, blocks, BLOCK_SIZE), **options)
        config = GenerationConfig(max_new_tokens=num_new)
        streams = [engine.add(prompt, config) for prompt in prompts]
        while not all(stream.tokens for stream in streams):
            engine.step()
        return engine

    def scheduler(self, num_prompt: int = 128, num_new: int = 64) -> dict[str, Any]:
        """Seconds to schedule 100,000 requests, without a model."""
        num_blocks = 256 * -(-(num_prompt + num_new) // BLOCK_SIZE)
        scheduler = PreemptingScheduler(
            mp.BlockPool(num_blocks, BLOCK_SIZE), max_tokens=2048, max_sequences=256
        )
        prompt, strategy = [5] * num_prompt, Ones()
        for _ in range(self.num_scheduled):
            scheduler.add(mp.Request(prompt, num_new, strategy))
        num_steps = num_tokens = 0
        bar = tqdm(total=self.num_scheduled, desc="scheduler")
        start = time.perf_counter()
        while scheduler.waiting or scheduler.running:
            plan = scheduler.schedule()
            for work in plan.works:
                if work.num_logits:
                    work.sequence.append(5)
                    if work.sequence.num_new == num_new:
                        work.sequence.end("length")
                        bar.update()
            scheduler.commit(plan)
            num_steps += 1
            num_tokens += plan.num_tokens
        seconds = time.perf_counter() - start
        bar.close()
        return rounded(
            {
                "requests": self.num_scheduled,
                "seconds": seconds,
                "steps": num_steps,
                "tokens": num_tokens,
                "microseconds_per_token": seconds / num_tokens * 1e6,
            }
        )

    def scarce(self) -> dict[str, Any]:
        """A quarter of the blocks: are all tokens the same, and what does it cost?"""
        needed = blocks_of(self.trace)
        num_blocks = max(max(needed), sum(needed) // 4)
        roomy = self.ours(self.trace)
        small = mp.PagedModel(self.model, num_blocks, BLOCK_SIZE)
        found = {"blocks": num_blocks, "of": sum(needed)}
        for preemption in ("recompute", "swap"):
            answered, engine = ours(small, self.trace, preemption=preemption)
            pairs = zip(answered.tokens, roomy.tokens, strict=True)
            found[preemption] = {
                "equal": sum(a == b for a, b in pairs),
                "requests": len(self.trace),
                "times_as_long": answered.seconds / roomy.seconds,
                "preemptions": engine.stats.num_preemptions,
                "swapped_out": engine.stats.num_swapped_out,
                "recomputed_tokens": engine.stats.recomputed_tokens,
                "blocks_free_at_the_end": small.pool.num_free,
            }
        return rounded(found)


class TimedModel(mp.PagedModel):
    """Adds up what its forwards take."""

    seconds = 0.0

    def forward(self, *arguments: Any) -> torch.Tensor:
        """As always."""
        start = time.perf_counter()
        logits = super().forward(*arguments)
        self.seconds += time.perf_counter() - start
        return logits


class Ones(Strategy):
    """The scheduler's measurement chooses the tokens itself."""


def rounded(value: Any) -> Any:
    """Four digits are enough."""
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    return float(f"{value:.4g}") if isinstance(value, float) else value


PARTS = ("throughput", "latency", "overhead", "waiting", "scheduler", "scarce")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="pocket", help="pocket, a folder or an id")
    parser.add_argument("--scale", type=float, default=0.5, help="of the lengths")
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--waiting", type=int, default=10_000)
    parser.add_argument("--scheduled", type=int, default=100_000)
    parser.add_argument("--threads", type=int, help="torch's own choice without")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--save", action="store_true", help=f"write {OUT.name}")
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    bench, results = Bench(arguments), {}
    for part in PARTS:
        if part in arguments.parts:
            start = time.perf_counter()
            results[part] = getattr(bench, part)()
            seconds = time.perf_counter() - start
            print(f"\n{part} ({seconds:.0f} s)\n{json.dumps(results[part], indent=2)}")
    report = {"machine": describe_machine(), "threads": torch.get_num_threads()}
    report |= {"model": arguments.model, "dtype": "float32", "scale": arguments.scale}
    if arguments.save:
        OUT.write_text(json.dumps(report | results, indent=2) + "\n")


if __name__ == "__main__":
    main()
