"""Replicas on Ray Serve, in processes of their own; and a random one that is killed.

PYTHONPATH=tests python -m helpers.live_replicas 20            kills
"""

import argparse
import asyncio
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from helpers.apart import run_in_a_thread
from helpers.http_serving import huggingface_texts
from helpers.server_soak import PROMPTS

IS_WANTED = bool(os.environ.get("MINIPAGED_RAY"))  # then nothing is skipped
needs_ray = pytest.mark.skipif(
    find_spec("ray") is None and not IS_WANTED, reason="is for make test-ray"
)
ROOT = Path(__file__).parents[2]
START = 240  # seconds: Ray starts a dozen processes
REPLICA = "ray::ServeReplica:minipaged:Replica"
LOST = "the replica has ended in the middle of this answer"


class Replicas:
    """A command that serves."""

    def __init__(self, port: int, process: subprocess.Popen, key: str):
        self.url, self.process = f"http://127.0.0.1:{port}", process
        self.headers = {"Authorization": f"Bearer {key}"} if key else {}

    def family(self) -> list[psutil.Process]:
        """All processes that the command has started, Ray's among them."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def pids(self) -> list[int]:
        """Of the replicas that are alive."""
        found = []
        for one in self.family():
            try:
                if (one.cmdline() or [""])[0].startswith(REPLICA):
                    found.append(one.pid)
            except psutil.Error:  # it has ended meanwhile
                continue
        return sorted(found)

    def figures(self, name: str) -> dict[str, float]:
        """Of /metrics, by the replica."""
        url = self.url + "/metrics"
        answer = httpx.get(url, timeout=60, headers=self.headers)
        assert answer.status_code == 200, answer.text
        pattern = f'^minipaged:{name}{{engine="(.*?)".*}} (.*)$'
        return {one: float(of) for one, of in re.findall(pattern, answer.text, re.M)}

    def wait(self, count: int, seconds: float = START) -> None:
        """Until so many replicas answer."""
        deadline = time.monotonic() + seconds
        while len(self.figures("num_requests_running")) != count:
            assert time.monotonic() < deadline, "replicas did not come in time"
            time.sleep(0.2)

    def wait_idle(self, seconds: float = 30) -> None:
        """Until no replica has a request; then all its blocks must be back."""
        deadline = time.monotonic() + seconds
        while any(
            sum(self.figures(name).values())
            for name in ("num_requests_running", "num_requests_waiting")
        ):
            assert time.monotonic() < deadline, "somebody is served still"
            time.sleep(0.05)
        assert not any(self.figures("kv_cache_usage_perc").values())

    def post(self, path: str, body: Any, key: str | None = None) -> httpx.Response:
        headers = self.headers if key is None else {"Authorization": f"Bearer {key}"}
        return httpx.post(self.url + path, json=body, timeout=60, headers=headers)


@contextmanager
def live_replicas(
    *flags: str, count: int = 2, keys: tuple[str, ...] = ("",)
) -> Iterator[Replicas]:
    """`python -m minipaged.serving.ray pocket`, until the end of the `with`.

    keys: that clients need; the first is ours.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "minipaged.serving.ray", "pocket"]
    command += ["--port", str(port), "--replicas", str(count), *flags]
    paths = [str(ROOT), str(ROOT / "tests")]
    own = {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(paths)}
    own["MINIPAGED_API_KEY"] = ",".join(keys)
    with tempfile.TemporaryFile("w+") as log:

        def start() -> subprocess.Popen:
            return subprocess.Popen(
                command, env=os.environ | own, stdout=log, stderr=subprocess.STDOUT
            )

        process = start()
        try:
            replicas = Replicas(port, process, keys[0])
            deadline = time.monotonic() + START
            while True:
                log.seek(0)
                if "minipaged: serving on" in (said := log.read()):
                    break
                assert time.monotonic() < deadline, said
                if process.poll() is not None:
                    # Ray gives its own processes 15 s, which a busy machine may miss.
                    assert "raylet" in said, said
                    replicas.process = process = start()
                time.sleep(0.2)
            replicas.wait(count)
            yield replicas
        finally:
            family = replicas.family() if process.poll() is None else []
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(60)
            finally:
                process.kill()
                _, alive = psutil.wait_procs(family, 20)
                for one in alive:
                    one.kill()
    assert process.returncode == 0, process.returncode
    assert not alive, alive


# Fields of a request, and the same in HuggingFace's words; None: it is drawn freely.
KINDS = [
    ({"temperature": 0}, {"do_sample": False}),
    ({"temperature": 1.3, "seed": 4}, {"do_sample": True, "temperature": 1.3}),
    ({"temperature": 0, "repetition_penalty": 1.3}, {"repetition_penalty": 1.3}),
    ({"n": 2, "seed": 4}, {"do_sample": True}),
    ({"use_beam_search": True, "n": 2, "best_of": 3}, {"num_beams": 3}),
    ({"temperature": 1.0}, None),
]
LENGTH = 160  # tokens of an answer; it takes long enough to be hit


@cache
def right(prompt: int, kind: int) -> list[str] | None:
    """HuggingFace's texts."""
    fields, options = KINDS[kind]
    if options is None:
        return None
    options = {"max_new_tokens": LENGTH, "eos_token_id": 1024} | options
    seed, count = fields.get("seed"), fields.get("n", 1)
    if fields.get("use_beam_search"):
        return huggingface_texts(PROMPTS[prompt], num_return_sequences=count, **options)
    return [
        huggingface_texts(PROMPTS[prompt], seed and seed + sample, **options)[0]
        for sample in range(count)
    ]


class Fire:
    """Clients that ask all the time, and a hand that kills.

    report counts: answers; compared, all but those that are drawn freely; wrong, those
    unlike HuggingFace's; streams drawn freely that had begun, which cannot be sent
    again, and were told so; LOST, anything else that was not answered. errors: of LOST.
    """

    def __init__(self, replicas: Replicas, kills: int, seed: int):
        self.replicas, self.kills, self.chance = replicas, kills, random.Random(seed)
        self.report: Counter[str] = Counter()
        self.errors: list[str] = []
        self.is_over = False
        self.inside = 0

    async def client(self, client: httpx.AsyncClient, own: int) -> None:
        """Ask until the last kill is over."""
        chance = random.Random(own)
        while not self.is_over:
            prompt, kind = chance.randrange(len(PROMPTS)), chance.randrange(len(KINDS))
            fields = KINDS[kind][0]
            streams = not fields.get("use_beam_search") and chance.random() < 0.6
            body = {"prompt": PROMPTS[prompt], "ignore_eos": True, "max_tokens": LENGTH}
            body |= fields | {"stream": streams}
            self.inside += 1
            try:
                texts, error = await self.ask(client, body)
            except httpx.HTTPError as failure:
                texts, error = [], repr(failure)
            self.inside -= 1
            may_be_lost = streams and right(prompt, kind) is None
            if error is None:
                self.report["answers"] += 1
                wanted = right(prompt, kind)
                self.report["compared"] += wanted is not None
                self.report["wrong"] += wanted is not None and texts != wanted
            elif may_be_lost and LOST in error and any(texts):
                self.report["begun, drawn freely, told so"] += 1
            else:
                self.report["LOST"] += 1
                self.errors.append(f"{body} {error}")

    async def ask(
        self, client: httpx.AsyncClient, body: dict[str, Any]
    ) -> tuple[list[str], str | None]:
        """The texts, and the error if there was one."""
        texts = [""] * body.get("n", 1)
        async with client.stream("POST", "/v1/completions", json=body) as answer:
            if answer.status_code != 200:
                return texts, f"{answer.status_code}: {(await answer.aread()).decode()}"
            if not body["stream"]:
                choices = json.loads(await answer.aread())["choices"]
                return [choice["text"] for choice in choices], None
            async for line in answer.aiter_lines():
                if line == "data: [DONE]":
                    return texts, None
                if not line:
                    continue
                event = json.loads(line.removeprefix("data: "))
                if "error" in event:
                    return texts, event["error"]["message"]
                for choice in event["choices"]:
                    texts[choice["index"]] += choice["text"]
        return texts, "the stream ended before its end"

    async def kill(self) -> None:
        """A random replica, while requests run; wait for the next one to be there."""
        for number in range(self.kills):
            await asyncio.sleep(self.chance.uniform(1, 3))
            victim = self.chance.choice(self.replicas.pids())
            self.report["requests open at a kill"] += self.inside
            os.kill(victim, signal.SIGKILL)
            self.report["kills"] += 1
            await asyncio.sleep(1)
            await asyncio.to_thread(self.replicas.wait, 2)
            print(number + 1, dict(self.report), flush=True)
        self.is_over = True


def under_fire(kills: int, clients: int = 8, seed: int = 0) -> Fire:
    """Two replicas under load, of which a random one is killed again and again."""
    for prompt in range(len(PROMPTS)):
        for kind in range(len(KINDS)):
            right(prompt, kind)
    with live_replicas("--num-blocks", "512") as replicas:
        fire = Fire(replicas, kills, seed)

        async def all_of_them() -> None:
            async with httpx.AsyncClient(base_url=replicas.url, timeout=300) as client:
                asking = [fire.client(client, own) for own in range(clients)]
                await asyncio.gather(fire.kill(), *asking)

        run_in_a_thread(all_of_them)
        replicas.wait_idle()
    return fire


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("kills", type=int)
    parser.add_argument("--clients", type=int, default=8)
    given = parser.parse_args()
    found = under_fire(given.kills, given.clients)
    for name, number in sorted(found.report.items()):
        print(f"{name:40}{number:>8}")
    print(*found.errors[:20], sep="\n")
