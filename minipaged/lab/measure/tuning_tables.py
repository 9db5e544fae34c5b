"""Lab: sweeps of lesson 6's kernel, as appendix C's pictures and tables want them."""

from collections.abc import Iterable, Mapping
from itertools import pairwise, product
from typing import Any

from minipaged.draw.letters import counted
from minipaged.lab.measure.launches import (
    FAULTS,
    Launch,
    launches_of,
    near_best,
    with_work,
)
from minipaged.lab.measure.measured import Tuning
from minipaged.lab.measure.rule_evidence import LLAMA, times_by_splits
from minipaged.lab.measure.rung_tables import KV_HEADS, num_pieces, share_of_ceiling
from minipaged.lab.measure.table import table

Row = Mapping[str, Any]
Cell = tuple[int, int]  # tile and stages
Map = dict[Cell, float]
KINDS = {"small": 32, "medium": 64, "large": 128}  # programs, by their tile


def rows_of(rows: Iterable[Row], **sizes: int) -> list[Row]:
    """Those launched with these sizes, by their number of stages."""
    same = sizes.items()
    found = [row for row in rows if same <= row.items()]
    return sorted(found, key=lambda row: row["num_stages"])


def points_under_way(
    tuning: Tuning, batches: Iterable[str]
) -> dict[str, list[tuple[float, float, list[str]]]]:
    """Of each launch of the sweeps: megabytes under way, GB/s, and its other faults.

    Those of FAULTS are meant that say nothing of how much is under way.
    """
    ceiling = tuning["ceilings"]["read_gb_per_s"]
    return {
        batch: [
            (
                launch.under_way,
                launch.percent * ceiling / 100,
                [name for name in launch.faults if name in FAULTS[1:]],
            )
            for _, launch in launches_of(tuning, batch)
        ]
        for batch in batches
    }


def sweep_maps(
    tuning: Tuning,
    batches: Iterable[str],
    warps: Iterable[int] = (1, 2, 4, 8),
) -> tuple[dict[str, Map], dict[str, dict[str, list[Cell]]]]:
    """Launches without splits, as `plot_sweep` wants them.

    There is a map for each batch and number of warps, as "64x4k, 2 warps"; its cells
    are (tile, stages).

    Returns, both by map: shares of the ceiling in percent, by cell; and which cells
    have the faults that slow some down, by fault.
    """
    maps: dict[str, Map] = {}
    signs: dict[str, dict[str, list[Cell]]] = {fault: {} for fault in FAULTS}
    for batch, num_warps in product(batches, warps):
        name = f"{batch}, {counted(num_warps, 'warp')}"
        found = launches_of(tuning, batch, num_warps=num_warps, num_splits=1)
        at = {(row["tile"], row["num_stages"]): launch for row, launch in found}
        maps[name] = {cell: launch.percent for cell, launch in at.items()}
        for fault, cells in signs.items():
            cells[name] = [n for n, launch in at.items() if fault in launch.faults]
    return maps, signs


def launch_lines(launches: Mapping[str, Launch], *also: str) -> list[str]:
    """A table of launches by name: what each has under way, and its time.

    also: more columns, of "fit" (programs on a multiprocessor at a time), "waves",
    "spilled" (bytes of a thread), and "tile µs" (for so long a tile is under way).
    """
    rows = []
    for name, one in launches.items():
        told = {"fit": one.fit, "waves": len(one.waves), "spilled": one.spilled}
        told["tile µs"] = f"{one.tile_us:.1f}"
        first = name, f"{one.under_way:.1f} MB", *(told[name] for name in also)
        rows.append((*first, f"{one.us:.1f}", f"{one.percent:.0f} %   "))
    more = (f"{name:>7}" for name in also)
    return table(("", "under way", *more, "    µs", "of the ceiling"), rows)


def near_lines(
    tuning: Tuning, batches: list[str], limits: tuple[float, ...]
) -> list[str]:
    """By MB under way, launches near the best of their batch: of each, and of all."""
    heads = (f"{low:.1f} to {high:.1f}" for low, high in pairwise(limits))
    rows = []
    for name, own in [*((name, [name]) for name in batches), ("all", batches)]:
        near = near_best(tuning, own, limits).values()
        rows.append((name, *(f"{some} of {count}" for some, count in near)))
    return table(("MB     ", *(f"{head:>12}" for head in heads)), rows)


def slow_lines(tuning: Tuning, batches: list[str]) -> list[str]:
    """Launches without a fault that are slower than 80 % of their batch's best.

    How many of them have less than twice what the ceiling needs under way, how many of
    the others have eight warps, and how many of the rest need several waves.
    """
    twice = 2 * tuning["ceilings"]["read_gb_per_s"] / 1e3
    every = (pair for batch in batches for pair in launches_of(tuning, batch))
    slow = [(r, o) for r, o in every if not o.faults and o.percent < 0.8 * o.best]
    more = [(row, one) for row, one in slow if one.under_way >= twice]
    rest = [one for row, one in more if row["num_warps"] != 8]
    waves = sum(len(one.waves) > 1 for one in rest)
    return [
        f"{len(slow)} without a fault are slower than 80% of the best:",
        f"  {len(slow) - len(more)} have less than {twice:.1f} MB under way;",
        f"  of the other {len(more)}, {len(more) - len(rest)} have 8 warps,",
        f"  and of those left, {waves} of {len(rest)} need several waves",
    ]


def fifth_stage_lines(tunings: Mapping[str, Tuning]) -> list[str]:
    """What five stages in place of four cost medium programs: in two waves, in one."""
    lines = ["five stages in place of four, by two warps, measured again:"]
    for name, tuning in tunings.items():
        for batch, waves in {"64x4k": "two waves", "40x4k": "one wave"}.items():
            cells = tuning["cells"][LLAMA][batch]
            rows = rows_of(cells, tile=64, num_warps=2, num_splits=1)
            us = {row["num_stages"]: row["us"] for row in rows}
            more = us[5] / us[4] - 1
            lines.append(f"{name}, {batch}, {waves}: {more:+.0%} time")
    return lines


def splits_on_each(
    tuning: Tuning,
) -> tuple[dict[str, dict[float, float]], dict[str, dict[int, float]]]:
    """Small programs in many splits.

    Returns, by batch: the share of the ceiling, by programs on each multiprocessor that
    have work; and microseconds, by the number of splits.
    """
    lines, times = {}, {}
    for batch, found in tuning["splits"].items():
        rows = rows_of([*found, *tuning["cells"][LLAMA][batch]], tile=32)
        times[batch] = us = {row["num_splits"]: row["us"] for row in rows}
        lines[batch] = {}
        for splits in sorted(us, key=us.get, reverse=True):  # of as many, the quickest
            share = share_of_ceiling(tuning, batch, {"us": us[splits]})
            lines[batch][_on_each(tuning, batch, splits)] = share
        lines[batch] = dict(sorted(lines[batch].items()))
    return lines, times


def _on_each(tuning: Tuning, batch: str, splits: int) -> float:
    """Small programs with work on each multiprocessor."""
    longest = tuning["batches"][batch]["longest"]
    programs = num_pieces(tuning, batch) * with_work(
        longest, {"tile": KINDS["small"], "num_splits": splits}
    )
    return programs / tuning["gpu"]["multiprocessors"]


def splits_lines(tuning: Tuning, times: Mapping[str, Mapping[int, float]]) -> list[str]:
    """The best number of splits, half as many, and as many as six on each are."""
    lines = []
    for batch, us in times.items():
        each = {splits: _on_each(tuning, batch, splits) for splits in us}
        best, six = min(us, key=us.get), max(n for n in us if each[n] < 6.1)
        line = f"{batch:6} splits: {best:2}, {each[best]:.1f} on each: {us[best]} µs"
        line += f"; half as many: {us.get(best // 2)}" * (best > 1)
        line += f"; {each[six]:.1f} on each: {us[six]}" * (six > best)
        lines.append(line)
    return lines


def beside_best(
    tunings: Mapping[str, Tuning], batches: Mapping[str, int]
) -> tuple[list[str], list[float]]:
    """What the rule chooses, and its time over that of the best sizes measured.

    tunings: by the name of the GPU; the sizes are those of the first. batches: the
    sequences of each.
    """
    lines = [
        f"{'':13} pieces  tile warps stages splits   time by the rule / best of all"
    ]
    ratios = []
    sizes = "{tile:6} {num_warps:5} {num_stages:6} {num_splits:6}   "
    first = next(iter(tunings.values()))
    for batch, num_seqs in batches.items():
        pieces = KV_HEADS * num_seqs / first["gpu"]["multiprocessors"]
        line = f"{batch:13} {pieces:6.2f} "
        for name, tuning in tunings.items():
            tried = tuning["sweep"].get(batch) or tuning["cells"][LLAMA][batch]
            rows = [*tried, *tuning["splits"].get(batch, [])]  # the rule's comes first
            ratios.append(tried[0]["us"] / min(row["us"] for row in rows if row["us"]))
            line += sizes.format(**tried[0]) if tuning is first else ""
            line += f"{name} {ratios[-1]:.2f}  "
        lines.append(line.rstrip())
    return lines, ratios


def uneven_lines(tuning: Tuning, batches: Iterable[str]) -> list[str]:
    """Uneven contexts: each kind of programs in its best splits, in microseconds."""
    rows = []
    for batch in batches:
        times = (times_by_splits(tuning, batch, n).values() for n in KINDS.values())
        rows.append((batch, *(f"{min(us):.1f}" for us in times)))
    return table(("uneven, µs", *(f"{kind:>6}" for kind in KINDS)), rows)


def paging_ratios(
    tuning: Tuning,
) -> tuple[dict[str, dict[str, dict[int, float]]], dict[str, float]]:
    """The time with a block table over the time without.

    By batch, then by the order of the blocks, then by their size; and, by batch, what a
    second run without a table took over the first.
    """
    ratios, doubt = {}, {}
    for batch, found in tuning["paging"].items():
        alone = found["contiguous"]["us"]
        ratios[batch] = {
            order.replace("_", " "): {
                row["block_size"]: row[order] / alone for row in found["by_block_size"]
            }
            for order in ("in_order", "shuffled")
        }
        doubt[batch] = found["contiguous_again"] / alone
    return ratios, doubt
