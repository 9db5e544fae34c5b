"""The engine on two GPUs, beside one: tokens a second, and a lone user's time a token.

    python -m benchmarks.gpu.ranks --out ranks.json
    python -m benchmarks.gpu.ranks --parts sums two one --peers

A model of Llama-3.1-8B's shape with random weights, in bfloat16, which each rank makes
on its GPU, so nothing is read from a disk. The 256 requests are those of engine.py: all
there at once, prompts and answers of 100 to 1,024 tokens, drawn at temperature 0.6,
without eos. All is computed in the engine's last way, compiled.

The parts, each in processes of its own:

- two: two ranks; one: one GPU, the first;
- nccl: two ranks, but all sums by NCCL;
- graphs: two ranks, with graphs, but not compiled;
- sums: a sum of two ranks alone, for tensors of several sizes, in a CUDA graph;
- vllm, vllm_one (by --peers, where it is installed): vLLM on two GPUs, and on one.
"""

import argparse
import faulthandler
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from transformers import AutoModelForCausalLM, PreTrainedModel

import minipaged as mp
from benchmarks.gpu import apart, vllm_engine, workloads
from benchmarks.gpu.engine import lone_of, measure, time_line
from benchmarks.gpu.peers import installed
from benchmarks.gpu.shapes import SHAPES
from minipaged.lab.measure.machine import describe_machine
from minipaged.model.parallel import connect, sharding
from minipaged.model.ranks_memory import RanksMemory, ranks_memory

NUM_BLOCKS = 20_000
MAX_TOKENS = 8192
PARTS = ("two", "one", "nccl", "sums")
PEERS = {"vllm": 2, "vllm_one": 1}  # so many GPUs
WITHOUT_MULTICAST = {"VLLM_ALLREDUCE_USE_SYMM_MEM": "0"}  # where it is not allowed
SIZES_KB = (8, 64, 256, 1024, 2048, 4096, 8192, 16_384)
IN_A_GRAPH = 64  # sums


def random_share(shape: str, dtype: torch.dtype) -> PreTrainedModel:
    """This rank's share of a model, or the whole, with the same weights in both cases.

    Each rank makes the whole on its GPU, and transformers takes the share from there.
    """
    config = SHAPES[shape](eos_token_id=None)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with torch.device("meta"):
        like = AutoModelForCausalLM.from_config(config, dtype=dtype)
    draw = torch.Generator(device).manual_seed(0)
    weights = {}
    for name, weight in like.state_dict().items():
        made = torch.empty(weight.shape, dtype=dtype, device=device)
        of_norm = weight.dim() == 1
        weights[name] = made.fill_(1.0) if of_norm else made.normal_(
            0.0, config.initializer_range, generator=draw
        )  # fmt: skip
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        with device:
            model = AutoModelForCausalLM.from_config(config, dtype=dtype)
        model.load_state_dict(weights, assign=True)
        return model.eval()
    share = sharding(config, connect().count)
    model = type(like).from_pretrained(
        None, config=config, state_dict=weights, dtype=dtype, **share
    )
    return model.eval()


def serve(
    run: str, shape: str, requests: int, rounds: int, with_time_line: bool
) -> dict[str, Any]:
    """What engine.py measures of one way to run; on each rank, and rank 0 tells it."""
    found: dict[str, Any] = {}

    def note(**row: Any) -> None:
        found.update(row)
        if int(os.environ.get("RANK", "0")) == 0:
            print(json.dumps(row), flush=True)

    start = time.perf_counter()
    model = random_share(shape, torch.bfloat16)
    note(load_s=round(time.perf_counter() - start, 2))
    paged = mp.PagedModel(model, NUM_BLOCKS, attention="triton")
    note(wrap_s=round(time.perf_counter() - start, 2))
    engine = mp.Engine(paged, max_tokens=MAX_TOKENS, run=run)
    note(engine_s=round(time.perf_counter() - start, 2))
    note(lone=lone_of(engine))
    trace = workloads.uniform(requests)
    note(**measure(engine, trace, rounds, lambda row: note(round=row)))
    del found["round"]  # it stands in `rounds`
    note(peak_gb=round(torch.cuda.max_memory_allocated() / 1e9, 3))
    note(same_on_all_ranks=same_on_all_ranks(engine, trace[:64]))
    if with_time_line:
        note(time_line=[time_line(engine, count) for count in (1, requests)])
    engine.close()
    return found


def same_on_all_ranks(engine: mp.Engine, trace: list[workloads.Asked]) -> bool:
    """Do all ranks end with the same tokens?"""
    streams = [engine.add(asked.prompt, workloads.sampled(32)) for asked in trace]
    engine.run()
    answers: list[Any] = [[stream.tokens for stream in streams]]
    if engine.paged.ranks is not None:
        answers = answers * engine.paged.ranks.count
        dist.all_gather_object(answers, answers[0])
    return all(answer == answers[0] for answer in answers)


def sums() -> dict[str, Any]:
    """Microseconds of a sum over the ranks, of bfloat16, in a graph of many."""
    connect()
    device = torch.device("cuda", torch.cuda.current_device())
    memory = ranks_memory(device)
    if memory is None:
        return {"error": "the GPUs do not share memory"}
    ways: dict[str, Callable[[torch.Tensor], Any]] = {
        "NCCL": dist.all_reduce,
        "one shot": memory.sum,
        "one shot of torch": torchs_one_shot(device),
    }
    rows = []
    for size in SIZES_KB:
        x = torch.randn(size * 512, device=device).to(torch.bfloat16)
        right = x.clone()
        dist.all_reduce(right)
        row: dict[str, Any] = {"kb": size, "equal": torch.equal(right, memory.sum(x))}
        for name, way in ways.items():
            row[name] = microseconds_in_graph(partial(way, torch.zeros_like(x)))
        rows.append(row)
        if dist.get_rank() == 0:
            print(json.dumps(row), flush=True)
    return {"rows": rows}


def torchs_one_shot(device: torch.device) -> Callable[[torch.Tensor], torch.Tensor]:
    """PyTorch's own operator, after a copy into memory that the ranks share."""
    import torch.distributed._symmetric_memory as symmetric

    group = dist.group.WORLD.group_name
    size = max(SIZES_KB) * 512
    shared = symmetric.empty(size, dtype=torch.bfloat16, device=device)
    symmetric.rendezvous(shared, group)

    def call(x: torch.Tensor) -> torch.Tensor:
        part = shared[: x.numel()]
        part.copy_(x)
        return torch.ops.symm_mem.one_shot_all_reduce(part, "sum", group)

    return call


def microseconds_in_graph(call: Callable[[], Any], replays: int = 20) -> float:
    """Of one call, in a CUDA graph of many; the median of some replays."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        graph.capture_begin(capture_error_mode="thread_local")
        for _ in range(IN_A_GRAPH):
            call()
        graph.capture_end()
        found = []
        for _ in range(replays):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            found.append(begin.elapsed_time(end) * 1e3 / IN_A_GRAPH)
    return round(statistics.median(found), 2)


def vllm(count: int, shape: str, requests: int, rounds: int) -> dict[str, Any]:
    """The same measures of vLLM on so many GPUs, as vllm_engine.py takes them."""
    vllm_engine.set_environment()
    os.environ |= WITHOUT_MULTICAST
    from vllm import LLM

    with tempfile.TemporaryDirectory() as folder:
        vllm_engine.write_config(Path(folder), shape)
        settings = vllm_engine.SETTINGS | {"tensor_parallel_size": count}
        llm, start_s = apart.timed(partial(LLM, model=folder, **settings))
    plain = partial(vllm_engine.seconds_for, llm)
    found = {"version": installed("vllm"), "start_s": round(start_s, 2)}
    found["lone"] = apart.lone(plain)
    print(json.dumps(found), flush=True)
    return found | apart.measure(plain, workloads.uniform(requests), rounds)


def part_here(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """What this part measures, in this process."""
    if name == "sums":
        return sums()
    if name in PEERS:
        limits = arguments.shape, arguments.requests, arguments.rounds
        return vllm(PEERS[name], *limits)
    limits = (
        arguments.shape, arguments.requests, arguments.rounds, arguments.time_lines
    )  # fmt: skip
    if name == "nccl":
        with mock.patch.object(RanksMemory, "has_room_for", return_value=False):
            return serve("compiled", *limits)
    return serve("graphs" if name == "graphs" else "compiled", *limits)


def run_part(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Start the part's processes; what rank 0 has found, or how it has failed."""
    count = 1 if name == "one" or name in PEERS else 2
    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "found.json")
        command = [sys.executable, "-m", "benchmarks.gpu.ranks", "--part", name]
        command += ["--out", str(out), "--requests", str(arguments.requests)]
        command += ["--rounds", str(arguments.rounds), "--shape", arguments.shape]
        command += ["--seconds", str(arguments.seconds)]
        command += ["--time-lines"] * arguments.time_lines
        started = []
        for rank in range(count):
            own = {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            own |= {"WORLD_SIZE": str(count), "MASTER_PORT": str(port)}
            own |= {"MASTER_ADDR": "localhost"}
            own = {} if name in PEERS else own  # vLLM starts its ranks itself
            started.append(subprocess.Popen(command, env=os.environ | own))
        try:
            deadline = time.monotonic() + arguments.seconds
            for process in started:
                process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            print(f"{name} takes longer than {arguments.seconds} s", flush=True)
        finally:
            for process in started:
                process.kill()
                process.wait()
        if out.exists():
            return json.loads(out.read_text())
        return {"error": f"exit status {[each.returncode for each in started]}"}


def main() -> None:
    """Measure, and print or store it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", nargs="*", default=PARTS)
    parser.add_argument("--part", help="measured in this process, as run_part asks")
    parser.add_argument("--shape", default="llama-8b", choices=SHAPES)
    parser.add_argument("--requests", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=120.0, help="of a part")
    parser.add_argument("--time-lines", action="store_true", help="kernels, too")
    parser.add_argument("--peers", action="store_true", help="vLLM, too")
    parser.add_argument("--out", type=Path, help="what is there already stays")
    arguments = parser.parse_args()
    if arguments.part:
        faulthandler.dump_traceback_later(0.8 * arguments.seconds)  # if it hangs
        found = part_here(arguments.part, arguments)
        if int(os.environ.get("RANK", "0")) == 0:
            arguments.out.write_text(json.dumps(found))
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the ranks end, too
    found = {"machine": describe_machine(), "shape": arguments.shape}
    if arguments.out and arguments.out.exists():
        found |= json.loads(arguments.out.read_text())
    there = arguments.peers and installed("vllm")
    for name in [*arguments.parts, *(PEERS if there else ())]:
        found[name] = run_part(name, arguments)
        print(name, json.dumps(found[name]), flush=True)
        if arguments.out:
            arguments.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
