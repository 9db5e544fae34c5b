"""Our server beside vLLM's on one GPU, asked by one client.

    python -m benchmarks.gpu.servers --out servers.json
    python -m benchmarks.gpu.servers --packages /tmp/site   vLLM, fastapi lie elsewhere
    python -m benchmarks.gpu.servers --dry                  ours, small, on the CPU

Both serve one folder: a model of Qwen3-0.6B's shape with random weights, in bfloat16,
and a tokenizer in which each id has a text. Requests are those of engine.py: 256, with
prompts and answers of 100 to 1,024 tokens, given as token ids, temperature 0.6, no eos,
streamed. They come all at once, from 256 clients, or from fewer, each of whom asks
again. vLLM has its defaults, but for what the model's folder and a shared GPU need, no
prefix cache, and as many blocks as ours; ours is compiled, without one, too.

Both start together, and are asked in turns once both are up. A server that fails is
left out from then on, and its failure is stored. The client is an asyncio process that
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
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from importlib.metadata import distributions
from math import inf
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

NUM_BLOCKS = 20_000  # of 16 tokens
_BYTES = NUM_BLOCKS * 16 * 28 * 2 * 8 * 128 * 2  # that K and V of so many take
COMMANDS = {
    "ours": "minipaged.serving {folder} --run compiled --no-enable-prefix-caching "
    f"--max-model-len 4096 --num-blocks {NUM_BLOCKS}",
    # Its own measure of free memory would count ours, which starts beside it.
    "vllm": "vllm.entrypoints.openai.api_server --model {folder} --dtype bfloat16 "
    "--no-enable-prefix-caching --max-model-len 4096 --max-num-seqs 256 "
    f"--gpu-memory-utilization 0.4 --kv-cache-memory-bytes {_BYTES}",
}
DRY = {
    "ours": "minipaged.serving {folder} --no-enable-prefix-caching "
    "--max-model-len 4096 --num-blocks 3000",
}
_ROUND = 90  # seconds, in which a round must be over
_LAST = 4000  # letters of a log that are shown
_SECONDS = "in which all must be over: no turn begins that would end later"


class Server(NamedTuple):
    """A server that starts, or runs."""

    name: str
    port: int
    process: psutil.Popen
    log: Path
    started: float

    def wait(self, seconds: float) -> float:
        """Until it answers; how long that has taken. RuntimeError if it does not."""
        while time.perf_counter() - self.started < seconds:
            if self.process.poll() is not None:
                raise RuntimeError(f"it has ended with status {self.process.poll()}")
            try:
                httpx.get(f"http://127.0.0.1:{self.port}/health").raise_for_status()
                return time.perf_counter() - self.started
            except httpx.HTTPError:
                time.sleep(0.2)
        raise RuntimeError(f"it does not answer after {seconds:.0f} s")

    def cpu_seconds(self) -> dict[int, float]:
        """Of each of its processes so far."""
        found = {}
        for one in [self.process, *self.process.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                found[one.pid] = sum(one.cpu_times()[:2])
        return found

    def end(self) -> None:
        """Ask it to end; kill what has not ended soon."""
        family = [self.process]
        with suppress(psutil.NoSuchProcess):
            family += self.process.children(recursive=True)
            self.process.terminate()
        _, alive = psutil.wait_procs(family, timeout=10)
        for one in alive:
            with suppress(psutil.NoSuchProcess):
                one.kill()
        self.process.wait()


def start(name: str, command: str, folder: Path, packages: str | None) -> Server:
    """A server in a process of its own. packages: where others of its modules lie."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = os.environ | ENVIRONMENT
    if packages:
        # What a machine has, ours takes from there; vLLM takes what it came with.
        paths = [environment.get("PYTHONPATH", os.getcwd()), packages]
        if name == "vllm":
            paths.reverse()
            environment["VLLM_USE_FLASHINFER_SAMPLER"] = "0"  # it may not be there
        environment["PYTHONPATH"] = os.pathsep.join(paths)
    log = folder / f"{name}.log"
    arguments = command.format(folder=folder).split()
    with log.open("w") as out:
        process = psutil.Popen(
            [sys.executable, "-m", *arguments, "--port", str(port)],
            env=environment, stdout=out, stderr=subprocess.STDOUT,
        )  # fmt: skip
    return Server(name, port, process, log, time.perf_counter())


def write_model(folder: Path, model: Any) -> None:
    """The model, and a tokenizer that has a word for each of its ids."""
    model.save_pretrained(folder)
    words(model.config.vocab_size).save_pretrained(folder)


def words(count: int) -> PreTrainedTokenizerFast:
    """A tokenizer with so many words: a, b, ... z, aa, ab, ..."""
    ids = {f"Ġ{_word(number)}": number for number in range(count)}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token="Ġa"))
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def _word(number: int) -> str:
    letters = string.ascii_lowercase
    return ("" if number < 26 else _word(number // 26 - 1)) + letters[number % 26]


def ask(
    server: Server, trace: Sequence[Asked], clients: int, shift: int
) -> dict[str, Any]:
    """A round, with ids that are so much higher."""
    shifted = [Asked([t + shift for t in a.prompt], a.num_new) for a in trace]
    before = server.cpu_seconds(), time.process_time()
    seconds, answers = ask_all(
        server.port, shifted, clients, seconds=_ROUND, temperature=0.6
    )
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


def small_model() -> Any:
    """For --dry: so small that a CPU serves it."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=20_000, hidden_size=32, intermediate_size=64, eos_token_id=None,
            num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
            head_dim=16,
        )
    )  # fmt: skip


class Report:
    """What is found, stored as soon as it is known."""

    def __init__(self, out: Path | None, **about: Any):
        """about: that stands first."""
        self._out = out
        self._found: dict[str, Any] = {"machine": describe_machine(), **about}

    def add(self, name: str, **found: Any) -> None:
        """Of a server; rounds become a list."""
        print(f"{time.strftime('%X')} {name}", json.dumps(found), flush=True)
        mine = self._found.setdefault(name, {})
        for key, value in found.items():
            if isinstance(value, dict):
                mine.setdefault(key, []).append(value)
            else:
                mine[key] = value
        if self._out:
            self._out.write_text(json.dumps(self._found, indent=1) + "\n")


def main() -> None:
    """Measure, print, and store."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=256)
    parser.add_argument("--clients", type=int, nargs="+", default=[256, 64])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--servers", nargs="+", choices=COMMANDS, default=[*COMMANDS])
    parser.add_argument("--packages", help="a folder of more modules for the servers")
    parser.add_argument("--start-s", type=float, default=240, help="at most")
    parser.add_argument("--seconds", type=float, default=inf, help=_SECONDS)
    parser.add_argument("--dry", action="store_true", help="ours, small, on the CPU")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    trace = [
        Asked(asked.prompt, asked.num_new)
        for asked in workloads.uniform(given.requests)
    ]
    begun = psutil.Process().create_time()
    commands = {name: COMMANDS[name] for name in given.servers}
    if given.dry:
        commands = DRY
        trace = [Asked(a.prompt[::10], a.num_new // 10) for a in trace]
        model = small_model()
    else:
        from benchmarks.gpu.shapes import random_model

        model = random_model()
    with TemporaryDirectory() as name, ExitStack() as running:
        folder = Path(name)
        write_model(folder, model)
        del model
        servers = []
        for one, command in commands.items():
            servers.append(start(one, command, folder, given.packages))
            running.callback(servers[-1].end)
        versions = {one.name: one.version for one in distributions(
            name="vllm", path=[*sys.path, *filter(None, [given.packages])]
        )}  # fmt: skip
        report = Report(given.out, versions=versions, requests=given.requests)

        def asked(server: Server, *arguments: Any) -> dict[str, Any] | None:
            """A round, or None: it has failed, and the server is not asked again."""
            try:
                return ask(server, *arguments)
            except (AssertionError, OSError, EOFError) as error:
                fail(server, error)
                return None

        def fail(server: Server, error: Exception) -> None:
            server.end()
            servers.remove(server)
            report.add(server.name, error=f"{type(error).__name__}: {error}"[-_LAST:])
            print(server.log.read_text(errors="replace")[-_LAST:], flush=True)

        for server in servers.copy():
            try:
                report.add(server.name, start_s=round(server.wait(given.start_s), 1))
            except RuntimeError as error:
                fail(server, error)
        short = [Asked(each.prompt, 4) for each in trace]
        for server in servers.copy():  # it warms up
            asked(server, short, max(given.clients), 0)
        turns = [clients for _ in range(given.rounds) for clients in given.clients]
        took = dict.fromkeys(turns, 0.0)  # seconds of the longest so far
        for shift, clients in enumerate(turns, 1):
            now = time.time()
            if now + (took[clients] or 2 * max(took.values())) > begun + given.seconds:
                continue
            for server in servers.copy():
                if found := asked(server, trace, clients, shift):
                    report.add(server.name, **{f"{clients} clients": found})
            took[clients] = max(took[clients], time.time() - now)


if __name__ == "__main__":
    main()
