"""Lab: times behind the numbers in the rule of `decode_sizes`, as lines of text."""

from collections.abc import Mapping

from minipaged.lab.measure.measured import Tuning

LLAMA = "32 query heads, 8 KV heads, 128"
STAGES = {32: 5, 64: 4, 128: 2}  # of small, medium and large programs, by tile
UNEVEN = "16x128..4096"
AROUND = {"24x4k": 24, "32x2k": 32, "40x4k": 40}  # batches: sequences


def times_by_splits(tuning: Tuning, batch: str, tile: int) -> dict[int, float]:
    """Microseconds of the small, medium or large programs: those with this tile."""
    size = tile, STAGES[tile]
    rows = tuning["cells"][LLAMA][batch]
    rows = [row for row in rows if (row["tile"], row["num_stages"]) == size]
    return {row["num_splits"]: row["us"] for row in rows if row["num_warps"] < 8}


def rule_evidence(tunings: Mapping[str, Tuning]) -> list[str]:
    """Why 1.5, sixteen and four stages; and what medium programs alone would take.

    tunings: by the name of the GPU; the first is that of the first lines.
    """
    first = next(iter(tunings.values()))
    lines = ["1.5 is between the first two (µs: small in its best splits;"]
    lines += ["medium and large, without splits):"]
    for batch, num_seqs in AROUND.items():
        small = min(times_by_splits(first, batch, 32).values())
        us = small, *(times_by_splits(first, batch, tile)[1] for tile in (64, 128))
        pieces = 8 * num_seqs / first["gpu"]["multiprocessors"]
        lines.append(f"  {batch}, {pieces:.2f} pieces on each: {us}")
    us = dict(sorted(times_by_splits(first, UNEVEN, 128).items()))
    lines.append(f"16 on each: {UNEVEN}, large, µs by splits: {us}")
    rows = [row for row in first["sweep"]["64x4k"] if row["num_splits"] == 1]
    medium = [row for row in rows if (row["tile"], row["num_warps"]) == (64, 2)]
    us = {row["num_stages"]: row["us"] for row in medium}
    us = {stages: us[stages] for stages in (2, 3, 4)}
    lines.append(f"4 stages are as good as 3: 64x4k, medium, µs by stages: {us}")
    return lines + [_medium_alone(name, tuning) for name, tuning in tunings.items()]


def _medium_alone(name: str, tuning: Tuning) -> str:
    """In which batches medium programs take 3 % less or more than the rule's."""
    only = {}
    for batch, rows in tuning["cells"][LLAMA].items():
        medium = [row["us"] for row in rows if row["num_warps"] == 2]
        ratio = min(medium) / rows[0]["us"]
        if abs(ratio - 1) > 0.03:
            only[batch] = round(ratio, 2)
    said = "medium programs for all, in their best splits and stages / the rule"
    return f"{name}, {said}: {only}, others 0.97 to 1.03"
