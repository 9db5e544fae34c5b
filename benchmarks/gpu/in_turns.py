"""The engine and vLLM in turns, each with K and V in 16 bits, and in 8.

    python -m benchmarks.gpu.in_turns --out engines-in-turns.json

For where vLLM is installed. Four engines start at the same time on one GPU, each in a
process of its own. Then each answers the same requests while the others are idle; then
each does so again. So a GPU or a host that becomes slower changes no comparison. All
have the first workload of engine.py, and room for all of its tokens.

In 8 bits, weights are random: so the engine insists on its scales, and vLLM has none.
A round takes all of the requests from ids to ids. At the end, users are alone with a
prompt of 6,000 tokens: that shows what 8 bits cost where prompts are computed.
"""

import argparse
import gc
import json
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.gpu import apart, workloads
from benchmarks.gpu.apart import SecondsFor
from benchmarks.gpu.peers import installed
from benchmarks.gpu.workloads import Asked, num_answered
from minipaged.lab.measure.machine import describe_machine

NUM_BLOCKS = 20_000  # of 16 tokens
VLLM_BYTES = 36 * 2**30  # of K and V in 16 bits: about as many tokens
SHARE = 0.2  # of the GPU's memory; vLLM only asks whether so much is free
Make = Callable[[], SecondsFor]


def ours(kind: str | None) -> SecondsFor:
    """The compiled engine; kind: "fp8", or None for 16 bits."""
    import minipaged as mp
    from benchmarks.gpu.engine import add_all
    from benchmarks.gpu.shapes import random_model

    stored = kind and mp.EightBits(kind, insist=True)
    paged = mp.PagedModel(
        random_model(), NUM_BLOCKS, attention="triton", kv_dtype=stored
    )
    engine = mp.Engine(paged, max_tokens=8192, run="compiled")

    def seconds_for(trace: Sequence[Asked]) -> float:
        def generate() -> list[Any]:
            streams = add_all(engine, trace)
            engine.run()
            return streams

        streams, seconds = apart.timed(generate)
        apart.check_lengths(trace, [stream.tokens for stream in streams])
        return seconds

    return seconds_for


def vllm(kind: str | None) -> SecondsFor:
    """vLLM as vllm_engine.py has it, but for its share of the memory."""
    from benchmarks.gpu import vllm_engine

    vllm_engine.set_environment()
    from vllm import LLM

    room = VLLM_BYTES // 2 if kind else VLLM_BYTES
    own = {"gpu_memory_utilization": SHARE, "kv_cache_memory_bytes": room}
    if kind:
        own["kv_cache_dtype"] = kind
    with TemporaryDirectory() as folder:
        vllm_engine.write_config(Path(folder))
        llm = LLM(model=folder, **vllm_engine.SETTINGS | own)
    return partial(vllm_engine.seconds_for, llm)


ENGINES: dict[str, Make] = {
    "compiled": partial(ours, None),
    "vllm": partial(vllm, None),
    "compiled_fp8": partial(ours, "fp8"),
    "vllm_fp8": partial(vllm, "fp8"),
}


def _serve(make: Make, parent: Connection) -> None:
    """In a process of its own: start, then answer traces until there is None."""
    try:
        seconds_for, start_s = apart.timed(make)
        parent.send(round(start_s, 2))
        while (trace := parent.recv()) is not None:
            gc.collect()
            gc.freeze()  # as Engine.serve advises
            parent.send(seconds_for(trace))
    except Exception as error:
        parent.send(f"{type(error).__name__}: {error}")
        raise


class EngineFailed(RuntimeError):
    """What an engine in its process has said instead of a time."""


class Apart:
    """An engine in a process of its own."""

    def __init__(self, make: Make):
        """Begin to start it."""
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(make, theirs))
        self._process.start()
        theirs.close()  # so that its end is seen here

    def answer(self) -> float:
        """What it says next: a number of seconds. Raises EngineFailed."""
        try:
            said = self._ours.recv()
        except EOFError:
            said = "the process has ended"
        if isinstance(said, str):
            raise EngineFailed(said)
        return said

    def seconds_for(self, trace: Sequence[Asked]) -> float:
        """How long it takes to answer all of these."""
        self._ours.send(trace)
        return self.answer()

    def close(self) -> None:
        """End the process, at last by force."""
        if self._process.is_alive():
            self._ours.send(None)
            self._process.join(30)
        self._process.kill()
        self._process.join()


@contextmanager
def started(engines: Mapping[str, Make], found: dict[str, Any]) -> Iterator[dict]:
    """Those that could start, all at the same time; `found` has the others' errors."""
    with ExitStack() as closing:
        begun = {name: Apart(make) for name, make in engines.items()}
        for each in begun.values():
            closing.callback(each.close)
        there = {}
        for name, each in begun.items():
            try:
                found[name] = {"start_s": each.answer(), "rounds": []}
                there[name] = each
            except EngineFailed as error:
                found[name] = {"error": str(error)}
        yield there


def measure(
    engines: Mapping[str, Make],
    trace: Sequence[Asked],
    rounds: int,
    note: Callable[[dict[str, Any]], None],
) -> dict[str, Any]:
    """Rounds of each engine in turns, then a user alone; `note` gets all, as it grows.

    As in `apart.measure`: four tokens of each answer warm up, and ids are one higher in
    each round than in the one before.
    """
    found: dict[str, Any] = {}
    with started(engines, found) as there:
        for each in there.values():
            each.seconds_for([Asked(asked.prompt, 4) for asked in trace])
        for shift in range(1, rounds + 1):
            raised = [apart.raised(asked, shift) for asked in trace]
            for name, each in there.items():
                seconds = each.seconds_for(raised)
                speed = round(num_answered(trace) / seconds)
                row = {"tokens_per_s": speed, "seconds": round(seconds, 3)}
                found[name]["rounds"].append(row)
                speeds = [own["tokens_per_s"] for own in found[name]["rounds"]]
                found[name]["tokens_per_s"] = statistics.median(speeds)
                note(found)
        for name, each in there.items():
            found[name]["lone_long"] = apart.lone(each.seconds_for, 6000)
            note(found)
    return found


def main() -> None:
    """Measure, and print or store it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engines", nargs="+", default=ENGINES, choices=ENGINES)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    start = time.perf_counter()
    about = {"machine": describe_machine(), "vllm_version": installed("vllm")}

    def note(found: dict[str, Any]) -> None:
        print(f"{time.perf_counter() - start:.0f} s", json.dumps(found), flush=True)
        if arguments.out:
            arguments.out.write_text(json.dumps(about | found, indent=1) + "\n")

    engines = {name: ENGINES[name] for name in arguments.engines}
    trace = workloads.uniform(arguments.requests)
    note(measure(engines, trace, arguments.rounds, note))


if __name__ == "__main__":
    main()
