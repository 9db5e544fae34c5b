"""The server beside the bare engine: tokens a second, and time to the first token.

    python -m benchmarks.cpu.server              prints; a minute on 2 cores
    python -m benchmarks.cpu.server --save       writes cpu-server.json, too

32 clients ask, each again as soon as its answer is complete. Bare: the same requests,
as many at a time, in a loop of `Engine.step`. Coroutines: `async for` over streams of
`Engine.serve`, without HTTP; their requests come in the middle of a step, as the
server's do. The server's engine and its front are processes of their own, and so the
clients take a part of the same cores: `cpu_seconds` says how much. Rounds alternate,
and medians count. Run it on an idle machine.
"""

import argparse
import asyncio
import gc
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
import psutil
import torch
from tqdm import tqdm
from transformers import GenerationConfig

import minipaged as mp
from benchmarks.random_prompts import random_prompts
from benchmarks.sse_client import Asked, ask_all
from minipaged.lab.measure.machine import describe_machine

OUT = Path(__file__).parents[2] / "figures" / "data" / "cpu-server.json"
NUM_BLOCKS, NEVER = 1024, 1024  # the second: no token of the pocket model


class Found(NamedTuple):
    """A round: seconds of all, and to each first token; processor seconds of parts."""

    seconds: float
    first: list[float]
    cpu: dict[str, float]


def make_requests(count: int, vocabulary: int) -> list[Asked]:
    """Prompts of 20 to 100 tokens, answers of 32 to 96."""
    lengths = [32 + 37 * number % 65 for number in range(count)]
    prompts = random_prompts(count, 20, 100, vocabulary)
    return [Asked(*pair) for pair in zip(prompts, lengths, strict=True)]


def add(engine: mp.Engine, asked: Asked) -> mp.Stream:
    """Greedy, always of the same length."""
    config = GenerationConfig(
        max_new_tokens=asked.num_new, eos_token_id=NEVER, do_sample=False
    )
    return engine.add(asked.prompt, config)


def bare(engine: mp.Engine, requests: list[Asked], clients: int) -> Found:
    """Step, and add a request for each that has ended."""
    waiting = iter(requests)
    start, before = time.perf_counter(), time.process_time()
    streams = [add(engine, next(waiting)) for _ in range(clients)]
    first = []
    while streams:
        engine.step()
        for stream in [stream for stream in streams if stream.finished]:
            first.append(stream.time_to_first_token)
            streams.remove(stream)
            if (asked := next(waiting, None)) is not None:
                streams.append(add(engine, asked))
    return Found(
        time.perf_counter() - start, first, {"all": time.process_time() - before}
    )


def coroutines(engine: mp.Engine, requests: list[Asked], clients: int) -> Found:
    """As many coroutines, each of which asks again and again."""
    waiting = iter(requests)
    first = []

    async def client() -> None:
        for asked in waiting:
            stream = add(engine, asked)
            async for _ in stream:
                pass
            first.append(stream.time_to_first_token)

    async def all_of_them() -> None:
        await asyncio.gather(*[client() for _ in range(clients)])

    engine.serve()
    start, before = time.perf_counter(), time.process_time()
    asyncio.run(all_of_them())
    return Found(
        time.perf_counter() - start, first, {"all": time.process_time() - before}
    )


def over_http(server: "Server", requests: list[Asked], clients: int) -> Found:
    """The same over HTTP."""
    before, before_us = server.cpu_seconds(), time.process_time()
    seconds, answers = ask_all(server.port, requests, clients, temperature=0)
    cpu = {name: now - before[name] for name, now in server.cpu_seconds().items()}
    cpu["clients"] = time.process_time() - before_us
    return Found(seconds, [answer.first for answer in answers], cpu)


class Server(NamedTuple):
    """A server that runs."""

    port: int
    process: psutil.Process

    def cpu_seconds(self) -> dict[str, float]:
        """That its processes have used so far."""
        engine = self.process.children()
        return {"front": _cpu([self.process]), "engine": _cpu(engine)}


def _cpu(processes: list[psutil.Process]) -> float:
    return sum(sum(one.cpu_times()[:2]) for one in processes)


@contextmanager
def running_server(threads: int) -> Iterator[Server]:
    """`minipaged serve pocket`, until the end of the `with`."""
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
        yield Server(port, psutil.Process(process.pid))
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
    gc.freeze()  # as the server does
    with running_server(given.threads) as server:
        paged = mp.PagedModel(model, NUM_BLOCKS)
        for round_ in tqdm(range(given.rounds + 1), desc="rounds"):
            some = requests if round_ else requests[:clients]  # the first warms up
            with mp.Engine(paged) as engine:
                of_bare = bare(engine, some, clients)
            with mp.Engine(paged) as engine:
                of_coroutines = coroutines(engine, some, clients)
            of_http = over_http(server, some, clients)
            if round_:
                found["bare"].append(of_bare)
                found["coroutines"].append(of_coroutines)
                found["server"].append(of_http)
    tokens = sum(asked.num_new for asked in requests)
    median = statistics.median
    speeds = {
        name: round(median(tokens / one.seconds for one in rounds), 1)
        for name, rounds in found.items()
    }
    first = {
        name: round(median(median(one.first) for one in rounds) * 1e3, 2)
        for name, rounds in found.items()
    }
    cpu = {
        name: {
            part: round(median(one.cpu[part] for one in rounds), 2)
            for part in rounds[0].cpu
        }
        for name, rounds in found.items()
    }
    ratios = [
        of_bare.seconds / of_http.seconds
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
        "cpu_seconds": cpu,
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
