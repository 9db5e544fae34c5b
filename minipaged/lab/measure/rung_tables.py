"""Lab: lesson 6's rungs as they were measured: shares of the ceiling, lines of text."""

from collections.abc import Mapping
from typing import Any

from minipaged.lab.measure.measured import Tuning

PARTS = ("shared_memory", "large_memory")
NUMBER = 2  # bytes, in bfloat16
KV_HEADS = 8  # of the layer that was measured


def share_of_ceiling(tuning: Tuning, batch: str, row: Mapping[str, Any]) -> float:
    """K and V that must be read, over the row's time: % of the GPU's read ceiling."""
    gb_per_s = tuning["batches"][batch]["kv_megabytes"] / row["us"] * 1e3
    return 100 * gb_per_s / tuning["ceilings"]["read_gb_per_s"]


def num_pieces(tuning: Tuning, batch: str) -> int:
    """Sequences x KV heads: as many as there are programs without splits."""
    return KV_HEADS * tuning["batches"][batch]["num_seqs"]


def rung_lines(tuning: Tuning, *numbers: int) -> list[str]:
    """These rungs (the lowest is 1) beside the ones before, in all batches."""
    lines = []
    for number in numbers:
        lines.append(f"rung {number}")
        for batch, rows in tuning["ladder"].items():
            two = list(rows.values())[number - 2 : number]
            before, after = (share_of_ceiling(tuning, batch, row) for row in two)
            times = f"x {after / before:.2f}"
            lines.append(f"{batch:13} {before:5.1f} % -> {after:5.1f} %, {times}")
    return lines


def busy_lines(profile: Mapping[str, Any], count: int) -> list[str]:
    """Of the first so many rungs, what they kept busy; as `measured_profile` says."""
    lines = ["           µs   shared, L1  large memory"]
    for number, row in enumerate([*profile["rungs"].values()][:count], 1):
        said = "{:10.0f} % {:11.0f} %".format(*(row[part] for part in PARTS))
        lines.append(f"rung {number} {row['us']:6,.0f} {said}")
    return lines


def shared_busy(profile: Mapping[str, Any]) -> list[float]:
    """For how many µs shared memory and L1, one unit, are busy in each rung."""
    rows = profile["rungs"].values()
    return [row["us"] * row["shared_memory"] / 100 for row in rows]


def turn_lines(
    tuning: Tuning, batches: tuple[str, ...], tiles: Mapping[int, int], dim: int = 128
) -> list[str]:
    """Little's law for rungs whose programs all run at a time.

    tiles: by rung, the positions that a program gets in a turn.
    """
    lines = []
    for batch in batches:
        facts = tuning["batches"][batch]
        programs = num_pieces(tuning, batch)
        for number, tile in tiles.items():
            row = list(tuning["ladder"][batch].values())[number - 1]
            us = row["us"] / -(-facts["longest"] // tile)
            law = _littles_law(programs, 2 * tile * dim * NUMBER, us)
            lines.append(f"rung {number}, {batch:6} {law}")
    return lines


def _littles_law(programs: int, nbytes: int, us: float) -> str:
    """Programs that get so many bytes in so many microseconds, and GB/s."""
    under_way = f"{programs:3} programs x {nbytes:6,} bytes"
    return f"{under_way} / {us:.2f} us = {programs * nbytes / us / 1e3:5,.0f} GB/s"
