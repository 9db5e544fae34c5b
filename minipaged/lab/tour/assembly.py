"""Lab: what stands in the assembly code of lesson 6's rungs, as counts."""

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from minipaged.lab.measure.table import table
from minipaged.lab.tour.compiler import ask_compiler

LOOP = "Loop Header"  # the compiler's remark at its first line
TENSORS = {"out": "*bf16", "q": "*bf16", "keys": "*bf16", "values": "*bf16"}
TABLES = {"block_tables": "*i64", "context_lengths": "*i64"}
NUMBERS = {"table_width": "i32", "scale": "fp32"}
COPIED = 16 * 128  # bytes of K and V by one copy: 16 to each thread of four warps
SHUFFLE = re.compile(r"shfl\.sync.*, (\d+), 31, -1;")  # between threads so far apart
LLAMA = {"BLOCK_SIZE": 16, "NUM_KV_HEADS": 8, "GROUP": 4, "DIM": 128}


class Copies(NamedTuple):
    """Asynchronous copies into shared memory: those before the loop, and all."""

    before: int  # of K and V
    all: int
    ids_before: int  # of block ids
    all_ids: int


class Shuffles(NamedTuple):
    """In the code of a warp for one tile; one: all threads of the warp at once."""

    whole: int  # of sums over all threads of the warp
    others: int  # of sums over some of them; how many, depends on Triton's release


def assembly_of(kernel: Any, *, num_stages: int = 1, **sizes: Any) -> str:
    """A rung's assembly code for Llama-3-8B: bfloat16, blocks of 16, four warps.

    sizes: what is a tl.constexpr and does not follow from the model, such as `TILE`.
    """
    given = TENSORS | TABLES | NUMBERS | LLAMA | sizes
    return ask_compiler(kernel, num_stages=num_stages, **given)


def count_copies(text: str) -> Copies:
    """Of K and V a copy brings 16 bytes to each thread, of block ids 8 or fewer."""
    found = []
    for part in (text.split(LOOP)[0], text):
        copies = [line for line in part.splitlines() if ".shared.global" in line]
        num_ids = sum("], 0x10" not in line for line in copies)
        found.append((len(copies) - num_ids, num_ids))
    (before, ids_before), (in_all, all_ids) = found
    return Copies(before, in_all, ids_before, all_ids)


def count_shuffles(kernel: Any, **sizes: Any) -> Shuffles:
    """How often the threads of a warp of a rung hand each other numbers, for one tile.

    A sum over all 32 threads takes five shuffles: between threads that are 16 apart, 8,
    and so on.
    """
    apart = SHUFFLE.findall(assembly_of(kernel, **sizes))
    starts = range(len(apart))
    whole = 5 * sum(apart[at : at + 5] == ["16", "8", "4", "2", "1"] for at in starts)
    return Shuffles(whole, len(apart) - whole)


def stage_lines(
    kernel: Any, stages: Iterable[int], **sizes: Any
) -> tuple[list[str], dict[int, int]]:
    """A pipeline's stages, and what the compiler makes of them: lines of a table.

    kernel and sizes: as for `assembly_of`, four warps. stages: numbers of them.

    Returns the tiles ahead, too, by the number of stages.
    """
    tile_bytes = 2 * sizes["TILE"] * LLAMA["DIM"] * 2  # of K and V, in bfloat16
    heads = "stages", "copies before the loop", "tiles ahead", "counted"
    rows, ahead = [], {}
    for count in stages:
        before = count_copies(assembly_of(kernel, num_stages=count, **sizes)).before
        ahead[count] = before * COPIED // tile_bytes
        counted = max(1, ahead[count])  # one is waited for
        rows.append((count, before, ahead[count], counted))
    return table(heads, rows, left=0), ahead
