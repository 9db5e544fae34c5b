"""The server beside the bare engine: tokens a second, and time to the first token.

    python -m benchmarks.cpu.server              prints; a minute on 2 cores
    python -m benchmarks.cpu.server --save       writes cpu-server.json, too

32 clients ask, each again as soon as its answer is complete. Bare: the same requests,
as many at a time, in a loop of `Engine.step`. Coroutines: `async for` over streams of
`Engine.serve`, without HTTP; their requests come in the middle of a step, as the
server's do. The server is a process of its own; the clients read its events from plain
sockets. Rounds alternate, and medians count. Run it on an idle machine.
"""

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
import torch
from tqdm import tqdm
from transformers import GenerationConfig

import minipaged as mp
from benchmarks.random_prompts import random_prompts
from minipaged.lab.measure.machine import describe_machine

OUT = Path(__file__).parents[2] / "figures" / "data" / "cpu-server.json"
NUM_BLOCKS, NEVER = 1024, 1024  # the second: no token of the pocket model
Found = tuple[float, list[float]]  # seconds of all; to each first token


class Asked(NamedTuple):
    """A request: greedy, always of the same length."""

    prompt: list[int]
    config: GenerationConfig


def make_requests(count: int, vocabulary: int) -> list[Asked]:
    """Prompts of 20 to 100 tokens, answers of 32 to 96."""
    lengths = [32 + 37 * number % 65 for number in range(count)]
    prompts = random_prompts(count, 20, 100, vocabulary)
    options = {"eos_token_id": NEVER, "do_sample": False}
    return [
        Asked(prompt, GenerationConfig(max_new_tokens=length, **options))
        for prompt, length in zip(prompts, lengths, strict=True)
    ]


def bare(engine: mp.Engine, requests: list[Asked], clients: int) -> Found:
    """Step, and add a request for each that has ended."""
    waiting = iter(requests)
    start = time.perf_counter()
    streams = [engine.add(*next(waiting)) for _ in range(clients)]
    first = []
    while streams:
        engine.step()
        for stream in [stream for stream in streams if stream.finished]:
            first.append(stream.time_to_first_token)
            streams.remove(stream)
            if (asked := next(waiting, None)) is not None:
                streams.append(engine.add(*asked))
    return time.perf_counter() - start, first


def at_once(
    ask: Callable[[Asked], Awaitable[float]], requests: list[Asked], clients: int
) -> Found:
    """So many coroutines, each of which asks again and again."""
    waiting = iter(requests)
    first: list[float] = []

    async def client() -> None:
        for asked in waiting:
            first.append(await ask(asked))

    async def all_of_them() -> None:
        await asyncio.gather(*[client() for _ in range(clients)])

    start = time.perf_counter()
    asyncio.run(all_of_them())
    return time.perf_counter() - start, first


def of_engine(engine: mp.Engine) -> Callable[[Asked], Awaitable[float]]:
    """Ask an engine that serves."""

    async def ask(asked: Asked) -> float:
        start, first = time.perf_counter(), 0.0
        async for _ in engine.add(*asked):
            first = first or time.perf_counter() - start
        return first

    return ask


def of_server(port: int) -> Callable[[Asked], Awaitable[float]]:
    """Ask over HTTP, and read all events."""
    fields = {"ignore_eos": True, "temperature": 0, "stream": True}

    async def ask(asked: Asked) -> float:
        fields["max_tokens"] = asked.config.max_new_tokens
        body = json.dumps({"prompt": asked.prompt, **fields}).encode()
        start, first = time.perf_counter(), 0.0
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = (
            "POST /v1/completions HTTP/1.1\r\nHost: me\r\nConnection: close\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        said = b""
        while data := await reader.read(1 << 16):
            said += data
            if not first and b"data: {" in said:
                first = time.perf_counter() - start
        writer.close()
        assert said.startswith(b"HTTP/1.1 200") and b"data: [DONE]" in said
        assert b'"finish_reason":"length"' in said
        return first

    return ask


@contextmanager
def running_server(threads: int):
    """Its port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "minipaged.serving", "pocket", "--port", str(port)]
    command += ["--num-blocks", str(NUM_BLOCKS), "--no-enable-prefix-caching"]
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            time.sleep(0.1)
            try:
                httpx.get(f"http://127.0.0.1:{port}/health")
                break
            except httpx.TransportError:
                assert process.poll() is None, "the server did not start"
        yield port
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    """Measure, print, and store if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--requests", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    parser.add_argument("--save", action="store_true", help=f"write {OUT.name}")
    given = parser.parse_args()

    load = round(os.getloadavg()[0], 1)
    torch.set_num_threads(given.threads)
    model, _ = mp.load("pocket", device="cpu")
    requests = make_requests(given.requests, model.config.vocab_size)
    clients = given.clients
    found: dict[str, list[Found]] = {"bare": [], "coroutines": [], "server": []}
    with running_server(given.threads) as port:
        paged = mp.PagedModel(model, NUM_BLOCKS)
        for round_ in tqdm(range(given.rounds + 1), desc="rounds"):
            some = requests if round_ else requests[:clients]  # the first warms up
            with mp.Engine(paged) as engine:
                of_bare = bare(engine, some, clients)
            with mp.Engine(paged) as engine:
                engine.serve()
                of_coroutines = at_once(of_engine(engine), some, clients)
            of_http = at_once(of_server(port), some, clients)
            if round_:
                found["bare"].append(of_bare)
                found["coroutines"].append(of_coroutines)
                found["server"].append(of_http)
    tokens = sum(asked.config.max_new_tokens for asked in requests)
    median = statistics.median
    speeds = {
        name: round(median(tokens / seconds for seconds, _ in rounds), 1)
        for name, rounds in found.items()
    }
    first = {
        name: round(median(median(times) for _, times in rounds) * 1e3, 2)
        for name, rounds in found.items()
    }
    ratios = [
        of_bare[0] / of_http[0]
        for of_bare, of_http in zip(found["bare"], found["server"], strict=True)
    ]
    result = {
        "machine": describe_machine() | {"threads": given.threads},
        "load_before": load,  # processes that ran in the last minute; idle: near 0
        "clients": clients,
        "requests": given.requests,
        "new_tokens": tokens,
        "tokens_per_second": speeds,
        "served_over_bare": round(median(ratios), 3),
        "served_over_bare_of_rounds": [round(ratio, 3) for ratio in ratios],
        "time_to_first_token_ms_p50": first,
        "added_ms_p50": {
            name: round(first["server"] - first[name], 2)
            for name in ("bare", "coroutines")
        },
    }
    print(json.dumps(result, indent=1))
    if given.save:
        OUT.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
