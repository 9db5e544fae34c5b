"""A server on a free port of 127.0.0.1, in this process; and what it must leave."""

import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import httpx
import uvicorn
from transformers import GenerationConfig

import minipaged as mp
from helpers.answers import huggingface_outputs
from minipaged.lab.tour.served import serving
from minipaged.serving.app import make_app
from minipaged.serving.hosts import Host
from minipaged.serving.limits import Door, Limits
from minipaged.serving.link import Link

FRANCE = "The capital of France is"


@cache
def pocket() -> tuple[Any, Any]:
    """The pocket model on the CPU, and its tokenizer."""
    return mp.load("pocket", device="cpu")


def make_engine(num_blocks: int = 160, cache: bool = True, **options: Any) -> mp.Engine:
    model, tokenizer = pocket()
    paged = mp.PagedModel(model, num_blocks, 16)
    prefix = mp.PrefixCache(paged.pool) if cache else None
    options = {"max_tokens": 256, "max_sequences": 32} | options
    return mp.Engine(paged, prefix, tokenizer=tokenizer, **options)


@dataclass
class Served:
    """A server that runs."""

    url: str
    engine: mp.Engine | Host
    link: Link
    server: uvicorn.Server
    door: Door

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def post(self, path: str, body: Any, **options: Any) -> httpx.Response:
        return httpx.post(self.url + path, json=body, timeout=60, **options)

    def send(
        self, path: str, body: bytes, kind: str = "application/json"
    ) -> httpx.Response:
        """These very bytes."""
        headers = {"Content-Type": kind}
        return httpx.post(self.url + path, content=body, headers=headers, timeout=60)

    def complete(self, prompt: Any = FRANCE, **fields: Any) -> dict[str, Any]:
        """The body of an answer."""
        answer = self.post("/v1/completions", {"prompt": prompt, **fields})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def chat(self, text: str = FRANCE, **fields: Any) -> dict[str, Any]:
        messages = [{"role": "user", "content": text}]
        answer = self.post("/v1/chat/completions", {"messages": messages, **fields})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def error(self, path: str, body: Any, **options: Any) -> tuple[int, dict[str, Any]]:
        """The status and the error object of a refusal."""
        answer = self.post(path, body, **options)
        return answer.status_code, answer.json()["error"]

    def events(self, path: str, **body: Any) -> list[dict[str, Any]]:
        """The events of a stream, without the last, which must be [DONE]."""
        answer = self.post(path, {"stream": True, **body})
        assert answer.status_code == 200, answer.text
        lines = [line for line in answer.text.split("\n\n") if line]
        assert lines.pop() == "data: [DONE]"
        return [json.loads(line.removeprefix("data: ")) for line in lines]

    def figure(self, name: str) -> float:
        """Of /metrics."""
        said = httpx.get(self.url + "/metrics", timeout=60).text
        return float(re.search(f"^minipaged:{name}{{.*}} (.*)$", said, re.M)[1])

    def wait_idle(self, seconds: float = 20) -> None:
        """Until no request is left; then all blocks must be back."""
        wait_until(lambda: not self.link.replies and not self.door.inside, seconds)
        if not isinstance(self.engine, mp.Engine):
            assert self.figure("kv_cache_usage_perc") == 0
            return
        wait_until(lambda: not self.engine.streams)
        pool, prefix = self.engine.paged.pool, self.engine.scheduler.prefix_cache
        assert pool.num_free == pool.num_blocks
        assert prefix is None or pool.reserved_for is None


def wait_until(holds: Any, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(1e-3)


@contextmanager
def served(
    engine: mp.Engine | Host | None = None,
    *,
    max_model_len: int = 2048,
    names: tuple[str, ...] = ("pocket",),
    api_keys: tuple[str, ...] = (),
    limits: Limits | None = None,
    pool_page: bool = True,
) -> Iterator[Served]:
    """A server, which is shut down at the end, and leaves no thread and no block."""
    engine = engine or make_engine()
    before = set(threading.enumerate())
    app = make_app(
        engine,
        pocket()[1],
        names,
        max_model_len=max_model_len,
        api_keys=api_keys,
        limits=limits,
        pool_page=pool_page,
    )
    with serving(app) as thread:
        if pool_page:
            app.state.pool_watch.is_over = lambda: thread.server.should_exit
        link, door = app.state.link, app.state.door
        yield Served(thread.url, engine, link, thread.server, door)
    assert not thread.is_alive() and not thread.tasks_left
    if isinstance(engine, mp.Engine):
        pool = engine.paged.pool
        assert pool.num_free == pool.num_blocks and not engine.streams
    left = [one for one in threading.enumerate() if one not in before]
    assert not [one for one in left if one.name.startswith(("minipaged", "asyncio"))]


def huggingface_texts(
    prompt: Any, seed: int | None = None, **options: Any
) -> list[str]:
    """What HuggingFace's `generate` answers: a text for each sequence."""
    model, tokenizer = pocket()
    tokens = prompt if isinstance(prompt, list) else tokenizer(prompt).input_ids
    config = GenerationConfig(**{"top_k": 0, **options})
    (out,) = huggingface_outputs(model, [tokens], config, seed=seed)
    return tokenizer.batch_decode(out.sequences, skip_special_tokens=True)


def chat_tokens(text: str) -> list[int]:
    """The prompt that the pocket model's template makes of a message."""
    messages = [{"role": "user", "content": text}]
    said = pocket()[1].apply_chat_template(
        messages, tokenize=False, add_generation_prompt=True
    )
    return pocket()[1](said, add_special_tokens=False).input_ids
