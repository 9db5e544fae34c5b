"""Lab: lesson 6's rungs as they were measured: shares of the ceiling, lines of text."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from minipaged.lab.measure.measured import Tuning
from minipaged.lab.measure.table import table

PARTS = ("shared_memory", "large_memory")
NUMBER = 2  # bytes, in bfloat16
KV_HEADS = 8  # of the layer that was measured


class Turn(NamedTuple):
    """What programs do again and again: each asks for a tile, waits, and computes."""

    batch: str
    rung: int
    tile: int  # positions
    programs: int  # that run at a time
    nbytes: int  # of K and V in a tile
    us: float  # from the beginning of a turn to that of the next
    reading: float  # µs that reading the tiles of all programs takes at the ceiling


def share_of_ceiling(tuning: Tuning, batch: str, row: Mapping[str, Any]) -> float:
    """K and V that must be read, over the row's time: % of the GPU's read ceiling."""
    gb_per_s = tuning["batches"][batch]["kv_megabytes"] / row["us"] * 1e3
    return 100 * gb_per_s / tuning["ceilings"]["read_gb_per_s"]


def num_pieces(tuning: Tuning, batch: str) -> int:
    """Sequences x KV heads: as many as there are programs without splits."""
    return KV_HEADS * tuning["batches"][batch]["num_seqs"]


def busy_lines(profile: Mapping[str, Any], count: int) -> list[str]:
    """Of the first so many rungs, what they kept busy; as `measured_profile` says."""
    rows = [
        (
            f"rung {number}",
            f"{row['us']:,.0f}",
            *(f"{row[part]:.0f} %" for part in PARTS),
        )
        for number, row in enumerate([*profile["rungs"].values()][:count], 1)
    ]
    return table(("", "   µs", "    L1 unit", "large memory"), rows)


def shared_busy(profile: Mapping[str, Any]) -> list[float]:
    """For how many µs shared memory and L1, one unit, are busy in each rung."""
    rows = profile["rungs"].values()
    return [row["us"] * row["shared_memory"] / 100 for row in rows]


def turns_of(
    tuning: Tuning, batches: Sequence[str], tiles: Mapping[int, int], dim: int = 128
) -> list[Turn]:
    """By batch and rung; the programs of these rungs must all run at a time.

    tiles: by rung, the positions that a program gets in a turn.
    """
    turns = []
    for batch in batches:
        facts, rows = tuning["batches"][batch], [*tuning["ladder"][batch].values()]
        programs = num_pieces(tuning, batch)
        for rung, tile in tiles.items():
            nbytes = 2 * tile * dim * NUMBER
            us = rows[rung - 1]["us"] / -(-facts["longest"] // tile)
            reading = programs * nbytes / tuning["ceilings"]["read_gb_per_s"] / 1e3
            turns.append(Turn(batch, rung, tile, programs, nbytes, us, reading))
    return turns
