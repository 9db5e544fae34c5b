"""A server under fire: clients that ask, leave, and send what is no request.

PYTHONPATH=tests python -m helpers.server_soak 20000            requests
PYTHONPATH=tests python -m helpers.server_soak 20000 --clients 64 --blocks 24
PYTHONPATH=tests python -m helpers.server_soak 20000 --process     the engine's own

The pool is tiny, so requests are preempted. Every complete answer is compared with
HuggingFace's. Ends in a table of what was counted; a watchdog says so, and where every
thread is, if nothing moves for half a minute.
"""

import argparse
import asyncio
import json
import random
import threading
import time
from collections import Counter
from functools import cache, partial
from multiprocessing import active_children
from typing import Any

import httpx
import psutil
import torch

from helpers.apart import run_in_a_thread
from helpers.engine_soak import WATCHDOG
from helpers.http_serving import Served, huggingface_texts, make_engine, served
from minipaged.serving.hosts import EngineInProcess

PROMPTS = [
    "The capital of France is",
    "Once upon a time",
    "The fox and the penguin. " * 9,  # some blocks, which others share
    "The fox and the penguin. " * 9 + "The hat",
    [5, 6, 7],
]
# Fields of a request, and the same in HuggingFace's words.
KINDS = [
    ({"temperature": 0}, {"do_sample": False}),
    ({"temperature": 1.3, "seed": 4}, {"do_sample": True, "temperature": 1.3}),
    ({"top_k": 5, "seed": 4}, {"do_sample": True, "top_k": 5}),
    ({"temperature": 0, "repetition_penalty": 1.3}, {"repetition_penalty": 1.3}),
    ({"n": 3, "seed": 4}, {"do_sample": True}),
    ({"use_beam_search": True, "n": 2, "best_of": 3}, {"num_beams": 3}),
]
MOST = 24  # tokens of an answer
BAD = [
    (b"{", 400),
    (b'{"prompt": "a", "warmth": 1}', 400),
    (b'{"prompt": "a", "temperature": -1}', 400),
    (b'{"prompt": ' + b"[" * 5000, 400),
    (b'{"prompt": "a", "tools": [1]}', 400),
    (b'{"prompt": "a", "model": "no such"}', 404),
    (b'{"prompt": [99999]}', 400),
    (b'{"prompt": "' + b"a" * 2_000_000 + b'"}', 413),
]


@cache
def right(prompt: int, kind: int) -> list[str]:
    """HuggingFace's texts."""
    fields, options = KINDS[kind]
    options = {"max_new_tokens": MOST, "eos_token_id": 1024} | options
    seed, count = fields.get("seed"), fields.get("n", 1)
    if fields.get("use_beam_search"):
        return huggingface_texts(PROMPTS[prompt], num_return_sequences=count, **options)
    return [
        huggingface_texts(PROMPTS[prompt], seed and seed + sample, **options)[0]
        for sample in range(count)
    ]


def megabytes() -> int:
    """Of this process and its children."""
    own = psutil.Process()
    family = [own, *own.children(recursive=True)]
    return sum(one.memory_info().rss for one in family) >> 20


class Soak:
    """What the clients of a run share."""

    def __init__(self, server: Served, count: int, seed: int):
        self.server, self.report = server, Counter()
        self.numbers = iter(range(count))
        self.seed = seed

    async def client(self, client: httpx.AsyncClient, own: int) -> None:
        """Ask until all numbers are used up."""
        draw = random.Random(self.seed + own)
        for _ in self.numbers:
            WATCHDOG.pat()
            self.report["requests"] += 1
            if draw.random() < 0.05:
                await self.send_what_is_bad(client, draw)
                continue
            prompt, kind = draw.randrange(len(PROMPTS)), draw.randrange(len(KINDS))
            fields = KINDS[kind][0]
            streams = not fields.get("use_beam_search") and draw.random() < 0.6
            body = {"prompt": PROMPTS[prompt], "ignore_eos": True, "max_tokens": MOST}
            body |= fields | {"stream": streams}
            patience = draw.uniform(0, 0.4) if draw.random() < 0.25 else None
            try:
                async with asyncio.timeout(patience):
                    texts = await self.ask(client, body, streams)
            except TimeoutError:
                self.report["left"] += 1
                continue
            if texts is not None:
                self.report["answers"] += 1
                self.report["wrong"] += texts != right(prompt, kind)

    async def ask(
        self, client: httpx.AsyncClient, body: dict[str, Any], streams: bool
    ) -> list[str] | None:
        """The texts; None if the queue was full."""
        async with client.stream("POST", "/v1/completions", json=body) as answer:
            if answer.status_code == 429:
                self.report["refused: queue"] += 1
                await answer.aread()
                return None
            assert answer.status_code == 200, await answer.aread()
            if not streams:
                choices = json.loads(await answer.aread())["choices"]
                return [choice["text"] for choice in choices]
            texts = [""] * body.get("n", 1)
            is_complete = False
            async for line in answer.aiter_lines():
                is_complete = line == "data: [DONE]"
                if line and not is_complete:
                    (choice,) = json.loads(line.removeprefix("data: "))["choices"]
                    texts[choice["index"]] += choice["text"]
                if is_complete:
                    break
            assert is_complete
            return texts

    async def send_what_is_bad(
        self, client: httpx.AsyncClient, draw: random.Random
    ) -> None:
        content, status = draw.choice(BAD)
        headers = {"Content-Type": "application/json"}
        try:
            answer = await client.post(
                "/v1/completions", content=content, headers=headers
            )
        except httpx.TransportError:  # a body that is too large may not be read
            self.report["bad bodies cut off"] += status == 413
            self.report["wrong status"] += status != 413
            return
        self.report["bad bodies refused"] += 1
        self.report["wrong status"] += answer.status_code != status


def soak(
    count: int,
    clients: int = 64,
    num_blocks: int = 24,
    seed: int = 0,
    in_process: bool = False,
) -> dict[str, Any]:
    """So many requests; what was counted, with memory at a quarter and at the end.

    in_process: the engine has a process of its own.
    """
    for prompt in range(len(PROMPTS)):
        for kind in range(len(KINDS)):
            right(prompt, kind)
            WATCHDOG.pat()
    threads = threading.active_count()
    make = partial(make_engine, num_blocks, max_sequences=16)
    engine = EngineInProcess(make) if in_process else make()
    memory = []
    with served(engine, max_model_len=num_blocks * 16 // 3) as server:
        run = Soak(server, count, seed)

        async def all_of_them() -> None:
            limits = httpx.Limits(max_connections=None)
            async with httpx.AsyncClient(
                base_url=server.url, timeout=120, limits=limits
            ) as client:
                tasks = [
                    asyncio.create_task(run.client(client, own))
                    for own in range(clients)
                ]
                while not all(task.done() for task in tasks):
                    if run.report["requests"] >= count // 4 * (len(memory) + 1):
                        memory.append(megabytes())
                    await asyncio.sleep(0.1)
                await asyncio.gather(*tasks)
            run.report["tasks left"] = len(asyncio.all_tasks()) - 1

        start = time.monotonic()
        run_in_a_thread(all_of_them)
        run.report["seconds"] = round(time.monotonic() - start)
        server.wait_idle()
        memory.append(megabytes())
        report = dict(run.report)
        report["preemptions"] = int(server.figure("num_preemptions_total"))
        report["blocks lost"] = server.figure("kv_cache_usage_perc") * num_blocks
        report["streams left"] = server.figure("num_requests_waiting")
    report["processes left"] = len(active_children())
    report["threads left"] = threading.active_count() - threads
    report["memory (MB)"] = memory
    return report


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("count", type=int)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--blocks", type=int, default=24)
    parser.add_argument("--process", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    WATCHDOG.let_loose()
    found = soak(given.count, given.clients, given.blocks, in_process=given.process)
    for name, number in sorted(found.items()):
        print(f"{name:24}{number!s:>12}")
