"""What the front of a server can send: an engine that computes nothing is behind it.

    python -m benchmarks.cpu.front               prints; half a minute on 2 cores
    python -m benchmarks.cpu.front --save        writes cpu-front.json, too

256 clients stream answers of 400 tokens. Every 8 ms, a process in the engine's place
gives each answer a token: 32,000 a second, more than an H200 computes for a model of
0.6 billion parameters. Tokens are random ones of 151,936, so most of them are new to
the front. If it is behind, an event has several tokens: `events_per_token` says so.
Front, engine and clients share the machine. Run it on an idle one.
"""

import argparse
import json
import os
import random
import socket
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import httpx
import psutil
from tqdm import tqdm
from transformers import GenerationConfig

from benchmarks.gpu.servers import words
from benchmarks.sse_client import Asked, ask_all
from minipaged.decoding.strategy import Output
from minipaged.lab.measure.machine import describe_machine
from minipaged.serving.messages import About, Add, Begun, News, Unpacker, pack

OUT = Path(__file__).parents[2] / "figures" / "data" / "cpu-front.json"
VOCABULARY = 151_936
_SPAWN = get_context("spawn")


class Speaker:
    """In the engine's place: a Host whose process gives each answer a token a step."""

    def __init__(self, seconds: float):
        """seconds: of a step."""
        self.about = About(
            GenerationConfig(), VOCABULARY, 4096, 20_000, 16, 256, shares_prefixes=False
        )
        self._ours, theirs = socket.socketpair()
        self._process = _SPAWN.Process(target=speak, args=(theirs, seconds))
        self._process.start()
        theirs.close()

    def start(self) -> socket.socket:
        """The front's socket."""
        return self._ours

    def stop(self) -> None:
        """It ends when the front's socket is closed."""
        self._process.join()


def speak(connection: socket.socket, seconds: float) -> None:
    """Its process."""
    draw = random.Random(0).randrange
    unpacker = Unpacker()
    sizes: dict[int, int] = {}
    texts: dict[int, list[int]] = {}
    step_at = time.perf_counter()
    while True:
        news = News()
        rest = max(0.0, step_at - time.perf_counter()) if texts else None
        while wait([connection], rest):
            if not (data := connection.recv(1 << 20)):
                return
            for message in unpacker.feed(data):
                if isinstance(message, Add):
                    number, config = message.number, message.arguments
                    sizes[number] = config["generation_config"].max_new_tokens
                    texts[number] = []
                    news.accepted.append(number)
            rest = 0
        now = time.perf_counter()
        if texts and now >= step_at:
            step_at = max(step_at + seconds, now)
            for number, tokens in [*texts.items()]:
                if not tokens:
                    news.begun[number] = Begun(0.0, 0, None)
                news.tokens[number] = [draw(VOCABULARY)]
                tokens += news.tokens[number]
                if len(tokens) == sizes[number]:
                    news.ended[number] = Output([texts.pop(number)], "length")
        if any(vars(news).values()):
            connection.sendall(pack(news))


def serve(port: int, seconds: float) -> None:
    """The front's process."""
    import gc

    import uvicorn

    from minipaged.serving.app import make_app

    app = make_app(Speaker(seconds), words(VOCABULARY), ["words"], max_model_len=4096)
    gc.collect()
    gc.freeze()  # as the server does
    uvicorn.run(app, port=port, access_log=False, log_level="warning")


@contextmanager
def running(seconds: float) -> Iterator[tuple[int, psutil.Process]]:
    """The front's port and process, until the end of the `with`."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = _SPAWN.Process(target=serve, args=(port, seconds))
    process.start()
    try:
        while True:
            assert process.is_alive(), "the front did not start"
            try:
                httpx.get(f"http://127.0.0.1:{port}/health")
                break
            except httpx.TransportError:
                time.sleep(0.1)
        yield port, psutil.Process(process.pid)
    finally:
        process.terminate()
        process.join()


def a_round(
    port: int, front: psutil.Process, requests: list[Asked], clients: int
) -> dict[str, Any]:
    """All requests once."""
    before = sum(front.cpu_times()[:2])
    seconds, answers = ask_all(port, requests, clients, temperature=1.0)
    cpu = sum(front.cpu_times()[:2]) - before
    tokens = sum(asked.num_new for asked in requests)
    events = sum(answer.num_events for answer in answers)
    return {
        "tokens_per_second": round(tokens / seconds),
        "events_per_token": round(events / tokens, 3),
        "us_per_event": round(cpu / events * 1e6, 1),
        "first_ms_p50": round(statistics.median(a.first for a in answers) * 1e3, 1),
    }


def main() -> None:
    """Measure, print, and store if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=256)
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--step-ms", type=float, default=8.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--save", action="store_true", help=f"write {OUT.name}")
    given = parser.parse_args()
    load = round(os.getloadavg()[0], 1)
    draw = random.Random(1)
    requests = [
        Asked([draw.randrange(10_000) for _ in range(560)], given.tokens)
        for _ in range(given.clients)
    ]
    with running(given.step_ms / 1e3) as (port, front):
        short = [Asked(asked.prompt, 4) for asked in requests]
        a_round(port, front, short, given.clients)
        rounds = [
            a_round(port, front, requests, given.clients)
            for _ in tqdm(range(given.rounds), desc="rounds")
        ]
    result = {
        "machine": describe_machine(),
        "load_before": load,  # processes that ran in the last minute; idle: near 0
        "clients": given.clients,
        "tokens_per_second_at_most": round(given.clients / given.step_ms * 1e3),
        "median": {
            name: statistics.median(one[name] for one in rounds) for name in rounds[0]
        },
        "rounds": rounds,
    }
    print(json.dumps(result, indent=1))
    if given.save:
        OUT.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
