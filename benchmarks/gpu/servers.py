"""Our server beside vLLM's on one GPU, asked by one client.

    python -m benchmarks.gpu.servers --out servers.json
    python -m benchmarks.gpu.servers --vllm-path /tmp/site     vLLM lies elsewhere

Both serve one folder: a model of Qwen3-0.6B's shape with random weights, in bfloat16,
and a tokenizer in which each id has a text. Requests are those of engine.py: 256, with
prompts and answers of 100 to 1,024 tokens, given as token ids, temperature 0.6, no eos,
streamed. They come all at once, from 256 clients, or from fewer, each of whom asks
again. vLLM has its defaults, but for what the model's folder and a shared GPU need, and
no prefix cache; ours is compiled, without one, too.

Both run the whole time, and are asked in turns. The client is an asyncio process that
reads raw bytes: see sse_client.py. `cpu_seconds` are those of each of a server's
processes: of ours, they are the engine's and the front's.
"""

import argparse
import json
import os
import socket
import statistics
import string
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import httpx
import psutil
from tokenizers import Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from benchmarks.gpu import workloads
from benchmarks.gpu.vllm_engine import ENVIRONMENT
from benchmarks.sse_client import Asked, ask_all
from minipaged.lab.measure.machine import describe_machine

COMMANDS = {
    "ours": "minipaged.serving {folder} --run compiled --num-blocks 20000 "
    "--no-enable-prefix-caching --max-model-len 4096",
    "vllm": "vllm.entrypoints.openai.api_server --model {folder} --dtype bfloat16 "
    "--no-enable-prefix-caching --max-model-len 4096 --max-num-seqs 256 "
    "--gpu-memory-utilization 0.4",
}


class Server(NamedTuple):
    """A server that starts, or runs."""

    name: str
    port: int
    process: psutil.Process
    log: Path
    started: float

    def wait(self, seconds: float = 300) -> float:
        """Until it answers; how long that has taken. RuntimeError if it has ended."""
        while time.perf_counter() - self.started < seconds:
            if self.process.status() == psutil.STATUS_ZOMBIE:
                break
            try:
                httpx.get(f"http://127.0.0.1:{self.port}/health").raise_for_status()
                return time.perf_counter() - self.started
            except httpx.HTTPError:
                time.sleep(0.2)
        raise RuntimeError(f"{self.name} has not started:\n{self.log.read_text()}")

    def cpu_seconds(self) -> dict[int, float]:
        """Of each of its processes so far."""
        family = [self.process, *self.process.children(recursive=True)]
        return {one.pid: sum(one.cpu_times()[:2]) for one in family}


@contextmanager
def starting(name: str, folder: Path, path: str | None) -> Iterator[Server]:
    """A server, until the end of the `with`. path: where else its packages lie."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = COMMANDS[name].format(folder=folder).split()
    environment = os.environ | ENVIRONMENT
    if path:
        paths = [path, environment.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(paths)
    log = folder / f"{name}.log"
    with log.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", *words, "--port", str(port)],
            env=environment, stdout=out, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        found = psutil.Process(process.pid)
        yield Server(name, port, found, log, time.perf_counter())
    finally:
        process.terminate()
        process.wait(60)


def write_model(folder: Path, model: Any) -> None:
    """The model, and a tokenizer that has a word for each of its ids."""
    model.save_pretrained(folder)
    words = {f"Ġ{_word(n)}": n for n in range(model.config.vocab_size)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="Ġa"))
    tokenizer.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)


def _word(number: int) -> str:
    letters = string.ascii_lowercase
    return ("" if number < 26 else _word(number // 26 - 1)) + letters[number % 26]


def ask(
    server: Server, trace: Sequence[Asked], clients: int, shift: int
) -> dict[str, Any]:
    """A round, with ids that are so much higher."""
    shifted = [Asked([t + shift for t in a.prompt], a.num_new) for a in trace]
    before = server.cpu_seconds(), time.process_time()
    seconds, answers = ask_all(server.port, shifted, clients, temperature=0.6)
    cpu = [now - before[0].get(pid, 0) for pid, now in server.cpu_seconds().items()]
    of_client = time.process_time() - before[1]
    first = statistics.quantiles([answer.first for answer in answers], n=100)
    each = statistics.median(
        (answer.last - answer.first) / (asked.num_new - 1)
        for answer, asked in zip(answers, trace, strict=True)
    )
    return {
        "tokens_per_s": round(sum(asked.num_new for asked in trace) / seconds),
        "seconds": round(seconds, 3),
        "first_token_ms": [round(first[49] * 1e3, 1), round(first[98] * 1e3, 1)],
        "next_token_ms": round(each * 1e3, 2),
        "events": sum(answer.num_events for answer in answers),
        "cpu_seconds": {
            "server": [round(one, 2) for one in sorted(cpu, reverse=True) if one > 0.1],
            "client": round(of_client, 2),
        },
    }


def main() -> None:
    """Measure, print, and store."""
    from benchmarks.gpu.shapes import random_model

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=256)
    parser.add_argument("--clients", type=int, nargs="+", default=[256, 64])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--servers", nargs="+", choices=COMMANDS, default=[*COMMANDS])
    parser.add_argument("--vllm-path", help="where vLLM is installed, if not here")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    trace = [
        Asked(asked.prompt, asked.num_new)
        for asked in workloads.uniform(given.requests)
    ]
    result: dict[str, Any] = {"machine": describe_machine(), "requests": given.requests}
    with TemporaryDirectory() as name, ExitStack() as running:
        folder = Path(name)
        write_model(folder, random_model())
        paths = {"vllm": given.vllm_path}
        servers = []
        for one in given.servers:  # one after the other: a start takes all cores
            server = running.enter_context(starting(one, folder, paths.get(one)))
            try:
                result[one] = {"start_s": round(server.wait(), 1)}
                ask(server, [Asked(a.prompt, 4) for a in trace], max(given.clients), 0)
                servers.append(server)
            except RuntimeError as error:
                print(error, file=sys.stderr, flush=True)
                result[one] = {"error": "it has not started"}
                server.process.terminate()
        shift = 0
        for clients in given.clients:
            for _ in range(given.rounds):
                shift += 1
                for server in servers:
                    found = ask(server, trace, clients, shift)
                    print(server.name, clients, json.dumps(found), flush=True)
                    rounds = result[server.name].setdefault(f"{clients} clients", [])
                    rounds.append(found)
                    if given.out:
                        given.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
