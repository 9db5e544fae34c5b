"""Two live replicas: prefixes looked for, or requests in turns.

    python -m benchmarks.cpu.replicas              prints; 20 minutes on 2 cores
    python -m benchmarks.cpu.replicas --save       writes cpu-replicas.json, too

It needs the extra [ray]. Conversations under 24 system prompts come to two replicas on
Ray Serve. The pool of each holds half of the system prompts, and nothing besides: what
both replicas must hold drives other things out.
The trace is that of the simulator, `applications`, with real tokens in place of its
made-up ones: a next prompt has the model's own greedy answers in it, which are known
before, from HuggingFace's `generate`. So the same prompts come at the same moments with
each router, whatever the servers do meanwhile, and each answer is compared. A router's
replicas are started anew for each round, so that all caches are empty.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from prometheus_client.parser import text_string_to_metric_families
from tqdm import tqdm
from transformers import GenerationConfig, PreTrainedModel

import minipaged as mp
from minipaged.lab.measure.machine import describe_machine
from minipaged.lab.tour.reference import huggingface_outputs
from minipaged.scheduling.routing import FACTOR, SPARE
from minipaged.simulate.shared_prefixes import SAID, applications, repeated
from minipaged.simulate.traces import Asked

OUT = Path(__file__).parents[2] / "figures" / "data" / "cpu-replicas.json"
TRACE = {
    "count": 48,
    "rate": 0.5,
    "seed": 1,
    "systems": 24,
    "system_tokens": 512,
    "rounds": (2, 5),
    "question": 40.0,
    "answer": 24.0,
    "pause": 10.0,
    "max_length": 1800,
}
NUM_BLOCKS, BLOCK_SIZE = 384, 16
ROUTERS = "round-robin", "prefix"
NEVER = 1024  # no token of the pocket model
TURNS = ("prompt_tokens", "generation_tokens", "prefix_cache_hits", "request_success")


class Spoken(NamedTuple):
    """A request of the trace, in the model's tokens."""

    arrival: float
    prompt: list[int]
    answer: list[int]


class Round(NamedTuple):
    """What one router's replicas did."""

    first: list[float]  # seconds to the first token, of each request
    whole: list[float]
    figures: dict[str, list[float]]  # of TURNS, one for each replica
    wrong: int  # answers unlike generate's


def speak(trace: Sequence[Asked], model: PreTrainedModel) -> list[Spoken]:
    """Real tokens for made-up ones: random ones, and the model's answers for SAID."""
    vocabulary = model.config.vocab_size
    answers: dict[int, list[list[int]]] = {}  # of each conversation
    spoken = []
    for asked in tqdm(trace, desc="HuggingFace"):
        said = iter(answers.setdefault(asked.chat, []))
        prompt: list[int] = []
        for number, run in groupby(asked.prompt):
            if number == SAID:
                prompt += next(said)
            else:
                chance = random.Random(number)
                prompt += [chance.randrange(5, vocabulary) for _ in run]
        config = GenerationConfig(
            max_new_tokens=asked.lengths[0], eos_token_id=NEVER, do_sample=False
        )
        (out,) = huggingface_outputs(model, [prompt], config)
        answers[asked.chat].append(out.sequences[0])
        spoken.append(Spoken(asked.arrival, prompt, out.sequences[0]))
    return spoken


@contextmanager
def replicas(router: str) -> Iterator[str]:
    """Two of them behind this router; the address."""
    # Ray gives its own processes 15 s to start, which a busy machine may miss.
    for _ in range(3):
        process, url = start(router)
        if url:
            break
    try:
        assert url, "the replicas did not start"
        yield url
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate()


def start(router: str) -> tuple[subprocess.Popen, str | None]:
    """A process that serves, and its address once it does; None if it has ended."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "minipaged.serving.ray", "pocket"]
    command += ["--port", str(port), "--replicas", "2", "--router", router]
    command += ["--num-blocks", str(NUM_BLOCKS), "--block-size", str(BLOCK_SIZE)]
    process = subprocess.Popen(
        command, env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    for line in process.stdout:
        if line.startswith("minipaged: serving on "):
            return process, line.split()[-1]
    return process, None


async def ask(
    client: httpx.AsyncClient, one: Spoken, text: str, start: float
) -> tuple[float, float, bool]:
    """Seconds to the first token and to the end; is the answer right?"""
    await asyncio.sleep(start + one.arrival - time.perf_counter())
    body = {
        "prompt": one.prompt,
        "max_tokens": len(one.answer),
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
    }
    said, first, begin = "", None, time.perf_counter()
    async with client.stream("POST", "/v1/completions", json=body) as answer:
        async for line in answer.aiter_lines():
            if line.startswith("data: {"):
                first = first or time.perf_counter() - begin
                said += json.loads(line[6:])["choices"][0]["text"]
    return first, time.perf_counter() - begin, said == text


async def ask_all(url: str, spoken: list[Spoken], texts: list[str]) -> Round:
    """Send each request at its moment."""
    async with httpx.AsyncClient(base_url=url, timeout=120) as client:
        for _ in range(8):  # shorter than a block: no prefix
            await client.post("/v1/completions", json={"prompt": [5, 6, 7]})
        before = await figures(client)
        start = time.perf_counter()
        asked = zip(spoken, texts, strict=True)
        found = await asyncio.gather(*[ask(client, *one, start) for one in asked])
        after = await figures(client)
    first, whole, right = zip(*found, strict=True)
    figures_ = {
        name: [after[name][one] - before[name][one] for one in sorted(after[name])]
        for name in TURNS
    }
    return Round([*first], [*whole], figures_, right.count(False))


async def figures(client: httpx.AsyncClient) -> dict[str, dict[str, float]]:
    """Of TURNS: each replica's."""
    page = (await client.get("/metrics")).text
    found: dict[str, dict[str, float]] = {name: {} for name in TURNS}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            name = sample.name.removeprefix("minipaged:").removesuffix("_total")
            if name in found:
                of_all, engine = found[name], sample.labels["engine"]
                of_all[engine] = of_all.get(engine, 0) + sample.value
    return found


def summary(rounds: list[Round]) -> dict[str, Any]:
    """Medians of rounds."""

    def median(of: Any, digits: int = 4) -> float:
        return round(statistics.median(of(one) for one in rounds), digits)

    def computed(one: Round) -> list[float]:
        prompt, new, hits, _ = (one.figures[name] for name in TURNS)
        return [a + b - c for a, b, c in zip(prompt, new, hits, strict=True)]

    def most_over_mean(values: list[float]) -> float:
        return max(values) / statistics.mean(values)

    return {
        "hit_rate": median(hit_rate),
        "ttft_ms": {
            "mean": median(lambda one: statistics.mean(one.first) * 1e3, 2),
            "p50": median(lambda one: statistics.median(one.first) * 1e3, 2),
            "p99": median(lambda one: _quantile(one.first, 0.99) * 1e3, 2),
        },
        "whole_ms_mean": median(lambda one: statistics.mean(one.whole) * 1e3, 2),
        "balance_of_requests": median(
            lambda one: most_over_mean(one.figures["request_success"])
        ),
        "balance_of_computed_tokens": median(lambda one: most_over_mean(computed(one))),
        "wrong": sum(one.wrong for one in rounds),
        "rounds": [
            {
                "hit_rate": round(hit_rate(one), 4),
                "ttft_ms_mean": round(statistics.mean(one.first) * 1e3, 2),
                "requests": one.figures["request_success"],
                "computed_tokens": computed(one),
            }
            for one in rounds
        ],
    }


def hit_rate(one: Round) -> float:
    """Of the prompts' tokens, those that were found."""
    return sum(one.figures["prefix_cache_hits"]) / sum(one.figures["prompt_tokens"])


def _quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def main() -> None:
    """Measure, print, and store if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--save", action="store_true", help=f"write {OUT.name}")
    given = parser.parse_args()

    load = round(os.getloadavg()[0], 1)
    model, tokenizer = mp.load("pocket", device="cpu")
    trace = applications(**TRACE)
    spoken = speak(trace, model)
    texts = tokenizer.batch_decode([one.answer for one in spoken], True)
    found: dict[str, list[Round]] = {router: [] for router in ROUTERS}
    for _ in tqdm(range(given.rounds), desc="rounds"):
        for router in ROUTERS:
            with replicas(router) as url:
                one = asyncio.run(ask_all(url, spoken, texts))
            found[router].append(one)
            tqdm.write(f"{router} {hit_rate(one):.3f} {statistics.mean(one.first):.4f}")
    of = {router: summary(rounds) for router, rounds in found.items()}
    turns, prefix = (of[router] for router in ROUTERS)
    result = {
        "machine": describe_machine() | {"threads": 1},
        "load_before": load,  # processes that ran in the last minute; idle: near 0
        "trace": TRACE,
        "requests": len(trace),
        "seconds": round(trace[-1].arrival, 1),
        "prompt_tokens_mean": round(statistics.mean(len(one.prompt) for one in spoken)),
        "repeated": round(repeated(trace, BLOCK_SIZE), 4),  # no cache finds more
        "replicas": 2,
        "num_blocks": NUM_BLOCKS,
        "block_size": BLOCK_SIZE,
        "factor": FACTOR,
        "spare": SPARE,
        "routers": of,
        "hit_rate_ratio": round(prefix["hit_rate"] / turns["hit_rate"], 3),
        "ttft_mean_ratio": round(
            prefix["ttft_ms"]["mean"] / turns["ttft_ms"]["mean"], 3
        ),
    }
    print(json.dumps(result, indent=1))
    if given.save:
        OUT.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
