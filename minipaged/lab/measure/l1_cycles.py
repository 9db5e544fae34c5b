"""Lab: in which cycles the L1 unit is busy in lesson 6's first rungs, and with what."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from minipaged.lab.measure.table import table

WARP = 32  # threads


class L1Cycles(NamedTuple):
    """For a tile of 16 positions and all query heads of its KV head."""

    in_all: int
    loads: int  # from the large memory or the caches
    shuffles: int  # numbers that threads of a warp hand each other
    shared: int  # to shared memory, and from there; conflicts are among these
    conflicts: int  # threads wait for a bank that serves another one


def l1_cycles(profile: Mapping[str, Any]) -> list[L1Cycles]:
    """Of each rung, from what `measured_profile` says of it.

    A shuffle is counted in each thread, and takes a cycle for all 32 of a warp.
    """
    found, tiles = [], profile["tiles"]
    for row in profile["rungs"].values():
        shuffles = row["shuffles"] / WARP
        loads = row["l1_cycles"] - row["shared_cycles"]
        parts = row["l1_cycles"], loads, shuffles, row["shared_cycles"] - shuffles
        found.append(
            L1Cycles(*(round(n / tiles) for n in (*parts, row["conflict_cycles"])))
        )
    return found


def cycle_lines(profile: Mapping[str, Any], count: int) -> list[str]:
    """Of the first so many rungs, what the L1 unit's cycles are for: a table."""
    gpu = profile["machine"]["device"].split()[1]
    title = "cycles of the L1 unit for 16 positions, all heads of a KV head"
    rows = [
        (f"rung {number}", *(f"{n:,}" for n in (loads, shuffles, shared, in_all)))
        for number, (in_all, loads, shuffles, shared, _) in enumerate(
            l1_cycles(profile)[:count], 1
        )
    ]
    heads = "", "loads", "shuffles", "shared memory", " in all"
    return [f"{title}, on an {gpu}:", *table(heads, rows)]
