"""Every kernel that tuning measures, compiled and checked against float64 beforehand.

Many processes compile at a time; Triton's cache on the disk is theirs in common, so the
process that measures later finds all kernels compiled.
"""

import functools
import os
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import NamedTuple

import torch
from tqdm import tqdm

from benchmarks.gpu.inputs import (
    BLOCK_SIZE,
    DEVICE,
    DTYPE,
    Shape,
    make_batch,
    reference,
)
from minipaged.attention.backend import Masking
from minipaged.attention.kernels.decode import launch_decode
from minipaged.attention.kernels.setup import INTERPRETED, triton
from minipaged.attention.kernels.sizes import Sizes, device_of
from minipaged.lab.tour.ladder import RUNGS, split
from minipaged.lab.tour.paging import paged_or_not
from minipaged.memory.kv_cache import LayerCache

TOLERANCE = 0.01  # of the whole result, in 16 bits
CONTEXTS = [1, 15, 16, 17, 300, 1000] if not INTERPRETED else [1, 20]
SPLITS = 3  # in checks; how many does not change what is compiled


class Task(NamedTuple):
    """One kernel to compile and check."""

    kind: str  # "rung", "split", "decode", "paged" or "contiguous"
    shape: Shape
    rung: str = ""
    block_size: int = BLOCK_SIZE
    sizes: Sizes | None = None
    is_split: bool = False


@functools.cache
def case(shape: Shape, block_size: int):
    """(q, K and V in blocks, the same in one piece, batch, expected), poisoned.

    The sequences lie in slots of their own, and NaN everywhere else.
    """
    torch.manual_seed(0)
    heads, kv_heads, dim = shape
    num_seqs, room = len(CONTEXTS), -(-max(CONTEXTS) // 128) * 128
    options = {"device": DEVICE, "dtype": DTYPE}
    q = torch.randn(num_seqs, heads, dim, **options)
    pieces = [torch.randn(num_seqs, room, kv_heads, dim, **options) for _ in range(2)]
    expected = torch.cat([
        reference(
            q[seq : seq + 1], *(piece[seq, :context] for piece in pieces),
            torch.tensor([context - 1], device=DEVICE), scale=dim**-0.5,
        )
        for seq, context in enumerate(CONTEXTS)
    ])  # fmt: skip
    for piece in pieces:
        for seq, context in enumerate(CONTEXTS):
            piece[seq, context:] = float("nan")
    per_seq = room // block_size
    ids = torch.randperm(num_seqs * per_seq)
    pool = [torch.empty_like(piece).view(-1, block_size, kv_heads, dim)
            for piece in pieces]  # fmt: skip
    for blocks, piece in zip(pool, pieces, strict=True):
        blocks[ids.to(DEVICE)] = piece.view(blocks.shape)
    batch = make_batch([(room - 1, 1)] * num_seqs, ids, block_size)
    batch.context_lengths = torch.tensor(CONTEXTS, device=DEVICE)
    batch.min_context_length, batch.max_context_length = min(CONTEXTS), max(CONTEXTS)
    return q, pool, pieces, batch, expected


def run_task(task: Task) -> torch.Tensor:
    """Compile the task's kernel, where that is not done yet, and run it."""
    q, pool, pieces, batch, _ = case(task.shape, task.block_size)
    scale, cache = task.shape[2] ** -0.5, LayerCache(*pool)
    num_splits = SPLITS if task.is_split else 1
    table, lengths, starts = (
        batch.block_tables, batch.context_lengths, batch.query_starts
    )  # fmt: skip
    if task.kind == "rung":
        return RUNGS[task.rung](q, cache, batch, Masking(scale))
    sizes = task.sizes
    if task.kind == "split":
        return split(
            q, cache, batch, Masking(scale), num_splits=num_splits, tile=sizes.tile,
            num_warps=sizes.num_warps, num_stages=sizes.num_stages,
        )  # fmt: skip
    if task.kind == "decode":
        out, overlap = torch.empty_like(q), device_of(0).can_overlap
        launch_decode(
            out, q, *pool, table, lengths, starts, scale, None, None,
            sizes, num_splits, overlap,
        )  # fmt: skip
        return out
    where = pool if task.kind == "paged" else pieces
    table = table if task.kind == "paged" else None
    return paged_or_not(q, *where, table, lengths, starts, scale, sizes, num_splits)


def check_task(task: Task) -> float | str:
    """The error relative to float64; or why the kernel cannot run."""
    try:
        out = run_task(task)
    except triton.OutOfResources as error:
        return f"{error.name}: {error.required} wanted, {error.limit} there are"
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:300]
    expected = case(task.shape, task.block_size)[-1]
    error = (out.double() - expected).norm() / expected.norm()
    return error.item()


def check_all(tasks: list[Task], seconds: float) -> dict:
    """Compile and check all tasks, as many at a time as there are cores.

    Returns the report's part: the largest error of each kind, how many were checked,
    which cannot run, are wrong, or were not ready after so many seconds.
    """
    found: dict[Task, float | str] = {}
    if INTERPRETED:
        found = {task: check_task(task) for task in tasks}
    else:
        found = _in_processes(tasks, seconds)
    errors: dict[str, float] = {}
    report = {"errors": errors, "checked": 0, "wrong": [], "cannot_run": []}
    for task, error in found.items():
        name = task.rung or task.kind
        if isinstance(error, str):
            report["cannot_run"].append(f"{_words(task)}: {error}")
        elif error <= TOLERANCE:  # NaN is not
            report["checked"] += 1
            errors[name] = max(errors.get(name, 0.0), error)
        else:
            report["wrong"].append(f"{_words(task)}: {error}")
    report["not_ready"] = [_words(task) for task in tasks if task not in found]
    return report


def _in_processes(tasks: list[Task], seconds: float) -> dict:
    found, until = {}, time.monotonic() + seconds
    cores = len(os.sched_getaffinity(0))
    pool = ProcessPoolExecutor(min(16, cores), mp_context=get_context("spawn"))
    futures = {pool.submit(check_task, task): task for task in tasks}
    try:
        bar = tqdm(as_completed(futures, timeout=seconds), "compile", len(futures))
        for future in bar:
            found[futures[future]] = future.result()
    except Exception as error:  # out of time, or a process has died
        print(f"after {len(found)} of {len(tasks)}: {type(error).__name__}: {error}")
    processes = list((pool._processes or {}).values())
    pool.shutdown(wait=time.monotonic() < until, cancel_futures=True)
    for process in processes:
        if process.is_alive():
            process.kill()
    return found


def _words(task: Task) -> str:
    """The task in a line of the report."""
    parts = [task.rung or task.kind, str(task.shape), f"blocks of {task.block_size}"]
    if task.sizes:
        parts.append(", ".join(f"{k} {v}" for k, v in task.sizes._asdict().items()))
    return "; ".join(parts) + ("; split" if task.is_split else "")
