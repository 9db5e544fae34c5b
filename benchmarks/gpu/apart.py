"""Engines of others, each in a process of its own: how they are run and timed.

What vllm_engine.py and nano_vllm_engine.py have in common. Each brings `seconds_for`:
how long one `generate` takes for a trace, after it has checked the answers.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from benchmarks.gpu import workloads
from benchmarks.gpu.peers import installed
from benchmarks.gpu.workloads import Asked, num_answered

Found = TypeVar("Found")
SecondsFor = Callable[[Sequence[Asked]], float]
FAREWELL = "destroy_process_group() was not called"  # torch's, after any failure


def timed(call: Callable[[], Found]) -> tuple[Found, float]:
    """What the call gives, and how many seconds it took."""
    start = time.perf_counter()
    found = call()
    return found, time.perf_counter() - start


def check_lengths(trace: Sequence[Asked], answers: Iterable[Sequence[int]]) -> None:
    """Is each answer there, and as long as it was asked for?

    Raises RuntimeError if one is of another length, ValueError if one is missing.
    """
    for asked, answer in zip(trace, answers, strict=True):
        if len(answer) != asked.num_new:
            raise RuntimeError(f"{len(answer)} tokens, not {asked.num_new}")


def measure(
    seconds_for: SecondsFor, trace: Sequence[Asked], rounds: int
) -> dict[str, Any]:
    """Tokens a second, as engine.py's function of this name has them.

    Four tokens of each answer warm up. Then each round asks for all of them, with other
    prompts: their ids are one higher than those of the round before.
    """
    seconds_for([Asked(asked.prompt, 4) for asked in trace])
    found = []
    for shift in range(1, rounds + 1):
        seconds = seconds_for([raised(asked, shift) for asked in trace])
        speed = round(num_answered(trace) / seconds)
        found.append({"tokens_per_s": speed, "seconds": round(seconds, 3)})
    speeds = [each["tokens_per_s"] for each in found]
    return {"tokens_per_s": statistics.median(speeds), "rounds": found}


def lone(
    seconds_for: SecondsFor, num_prompt: int = 1000, step: int = 0
) -> dict[str, float]:
    """One user alone: milliseconds to her first token, and for each next one.

    An answer of one token takes as long as the first token. What an answer of 128
    takes longer is shared out among the 127 others.

    step: by so much the ids of a prompt are higher than those of the one before. With
    0, all twelve are the same: for an engine that does not cache prefixes.
    """
    prompt, shifts = workloads.lone_prompt(num_prompt), count(step, step)
    found = [
        [
            seconds_for([raised(Asked(prompt, num_new), next(shifts))])
            for num_new in (1, 128)
        ]
        for _ in range(6)
    ]
    first, whole = map(statistics.median, zip(*found[1:], strict=True))
    return {
        "prompt": num_prompt,
        "first_token_ms": round(first * 1e3, 2),
        "next_token_ms": round((whole - first) * 1e3 / 127, 3),
    }


def raised(asked: Asked, shift: int) -> Asked:
    """The same with other ids."""
    return asked._replace(prompt=[token + shift for token in asked.prompt])


def run_apart(name: str, requests: int, rounds: int) -> dict[str, Any]:
    """What the script of this engine measures, in a process of its own.

    name: "vllm" or "nano_vllm". Of a failure, the last line that it wrote.
    """
    command = [sys.executable, "-m", f"benchmarks.gpu.{name}_engine"]
    command += ["--requests", str(requests), "--rounds", str(rounds)]
    with TemporaryDirectory() as folder:
        out, errors = Path(folder, "found.json"), Path(folder, "stderr.txt")
        with errors.open("w") as stderr:  # no pipe: a process left behind holds it open
            done = subprocess.run([*command, "--out", str(out)], stderr=stderr)
        if done.returncode == 0:
            return json.loads(out.read_text())
        said = errors.read_text(errors="replace")
    print(said, file=sys.stderr, flush=True)
    lines = [line for line in said.splitlines() if line.strip()]
    lines = [line for line in lines if FAREWELL not in line]
    return {"error": lines[-1] if lines else f"exit status {done.returncode}"}


def main(
    about: str, name: str, package: str, run: Callable[[int, int], dict[str, Any]]
) -> None:
    """Such a script: measure, and print or store it.

    name: what people call the engine; package: what Python imports.
    run: of requests and rounds, all that is measured.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--requests", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if not installed(package):
        parser.error(f"{name} is not installed here")
    found = json.dumps(run(arguments.requests, arguments.rounds), indent=1)
    print(found, flush=True)
    if arguments.out:
        arguments.out.write_text(found + "\n")
