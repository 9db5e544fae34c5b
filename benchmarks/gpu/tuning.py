"""What each rung, each size and paging itself are worth in lesson 6's decode kernel.

First compiles every kernel, in many processes, and checks it against float64. Then
measures in one run: the ladder, tiles x warps x stages, splits, the same kernel with a
block table and without, reads that lie apart, and ceilings. Writes
tuning-<device>.json to minipaged/lab/measure/data, where lesson 6 finds it;
`measured_tuning` says what it holds.

    python -m benchmarks.gpu.tuning
"""

import argparse
import json
import re
import time
import traceback
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from benchmarks.gpu.ceilings import ceilings
from benchmarks.gpu.inputs import (
    BLOCK_SIZE,
    DEVICE,
    DTYPE,
    blocks_of,
    make_batch,
    random_pool,
)
from benchmarks.gpu.launches import Clock, Row, gpu_facts, measure
from benchmarks.gpu.measure import kv_bytes
from benchmarks.gpu.tuning_checks import TOLERANCE, Task, check_all
from benchmarks.gpu.tuning_plan import PLAN, SMALL, Plan
from minipaged.attention.backend import Masking
from minipaged.attention.kernels.decode import launch_decode
from minipaged.attention.kernels.sizes import Sizes, decode_sizes, device_of
from minipaged.lab.measure.gpu_timing import (
    microseconds,
    num_rotations,
    read_gb_per_s,
)
from minipaged.lab.measure.machine import describe_machine
from minipaged.lab.measure.measured import COMPILED, DATA, SIZES
from minipaged.lab.tour.ladder import RUNGS
from minipaged.lab.tour.paging import paged_or_not
from minipaged.memory.kv_cache import LayerCache

SECONDS = 320  # after which nothing more is begun
HOW = (
    "bfloat16, blocks of 16, microseconds; median of 11 CUDA-graph replays (sweep and "
    "splits: of 5, and the eight quickest of 21); inputs rotate over 256 MiB or more; "
    "tables shuffled"
)


def each_at_once(calls: list[Callable[[], object]], **_: Any) -> float:
    """The small plan's clock: microseconds of one run through all calls."""
    start = time.perf_counter()
    for call in calls:
        call()
    return 1e6 * (time.perf_counter() - start) / len(calls)


class Tuning:
    """One run: a method for each part of the report."""

    def __init__(self, plan: Plan, clock: Clock) -> None:
        self.plan, self.clock = plan, clock
        self.until = time.monotonic() + SECONDS
        self.rows = plan.shape[0] // plan.shape[1]
        self.scale = plan.shape[2] ** -0.5

    def sizes(self, tile: int, num_warps: int, num_stages: int) -> Sizes:
        return Sizes(max(16, self.rows), tile, num_warps, num_stages)

    def rule(self, batch: str) -> tuple[Sizes, int]:
        """What the package chooses for a batch."""
        lengths = [before + new for before, new in self.plan.batches[batch]]
        heads, kv_heads, dim = self.plan.shape
        q = torch.empty(len(lengths), heads, dim, device=DEVICE, dtype=DTYPE)
        values = torch.empty(1, 1, kv_heads, dim, device=DEVICE, dtype=DTYPE)
        return decode_sizes(q, values, len(lengths), min(lengths), max(lengths))

    def quickly(self, calls: list) -> float:
        return self.clock(calls, replays=5, warm_up_seconds=0.02)

    def carefully(self, calls: list) -> float:
        return self.clock(calls, replays=21)

    def grid(self) -> list[Sizes]:
        """All sizes of the sweep."""
        plan = self.plan
        return [self.sizes(*s) for s in product(plan.tiles, plan.warps, plan.stages)]

    # Checks

    def tasks(self) -> list[Task]:
        """Every kernel that will be launched; those that take long to compile first."""
        plan, tasks = self.plan, [Task("rung", rung=name) for name in RUNGS]
        rules = {self.rule(batch) for batch in plan.batches}
        wanted = {*self.grid(), *(self.sizes(*s) for s in plan.split_sizes)}
        wanted |= {sizes for sizes, _ in rules}
        for sizes in sorted(wanted, key=lambda s: -s.tile * s.num_stages / s.num_warps):
            tasks += [Task("decode", sizes=sizes, is_split=s) for s in (False, True)]
        tiles_of_64 = self.sizes(64, 4, 4)
        for sizes, num_splits in {*rules, (tiles_of_64, 1), (tiles_of_64, 2)}:
            tasks.append(Task("split", sizes=sizes, is_split=num_splits > 1))
        for sizes, num_splits in {self.rule(batch) for batch in plan.paging}:
            options = {"sizes": sizes, "is_split": num_splits > 1}
            for size in plan.block_sizes:
                tasks.append(Task("paged", block_size=size, **options))
            for stages in plan.stages:
                options["sizes"] = sizes._replace(num_stages=stages)
                tasks += [Task(kind, **options) for kind in ("paged", "contiguous")]
            options["sizes"] = sizes
            tasks.append(Task("contiguous", **options))
        return list(dict.fromkeys(tasks))

    def checks(self) -> dict:
        return check_all(self.tasks(), self.plan.shape, seconds=150)

    # Measurements

    def inputs(self, batch: str) -> tuple[torch.Tensor, LayerCache, list]:
        """q, a pool, and batches over different blocks of it, shuffled."""
        lengths, shape = self.plan.batches[batch], self.plan.shape
        needed, rotations = blocks_of(lengths), self.rotations(batch)
        cache = LayerCache(*random_pool(rotations * needed, shape))
        ids = torch.randperm(rotations * needed).view(rotations, needed)
        q = torch.randn(len(lengths), shape[0], shape[2], device=DEVICE, dtype=DTYPE)
        return q, cache, [make_batch(lengths, own) for own in ids]

    def rotations(self, batch: str) -> int:
        if self.plan is SMALL:
            return 2
        return num_rotations(kv_bytes(self.plan.shape, self.plan.batches[batch]))

    def ladder(self) -> dict[str, dict[str, Row]]:
        """All rungs; each agrees with the shipped kernel, on these very batches."""
        report = {}
        for name in tqdm(self.plan.ladder, desc="ladder"):
            q, cache, batches = self.inputs(name)
            masking, report[name], shipped = Masking(self.scale), {}, None
            for rung, attend in reversed(RUNGS.items()):
                calls = [partial(attend, q, cache, b, masking) for b in batches]
                row = report[name][rung] = measure(calls, self.clock)
                if row["us"] is None:
                    continue
                out = calls[0]().float()
                shipped = out if shipped is None else shipped
                off = (out - shipped).norm() / shipped.norm()
                if not off < TOLERANCE:
                    row |= {"us": None, "why": f"off by {off:.1e}"}
            report[name] = {rung: report[name][rung] for rung in RUNGS}
        return report

    def decode_calls(self, inputs: tuple, sizes: Sizes, num_splits: int) -> list:
        """The package's kernel with these sizes, over each of the batches."""
        q, cache, batches = inputs
        out, overlap = torch.empty_like(q), device_of(0).can_overlap
        how = (self.scale, None, None, sizes, num_splits, overlap)
        return [
            partial(
                launch_decode, out, q, cache.keys, cache.values,
                b.block_tables, b.context_lengths, b.query_starts, *how,
            )
            for b in batches
        ]  # fmt: skip

    def rows_of(self, batch: str, wanted: list[tuple[Sizes, int]]) -> list[Row]:
        """A row for all sizes and splits; the quickest are measured again."""
        inputs = self.inputs(batch)
        rows = []
        for sizes, num_splits in tqdm(wanted, desc=batch):
            if time.monotonic() > self.until:
                break
            calls = self.decode_calls(inputs, sizes, num_splits)
            row = {name: getattr(sizes, name, num_splits) for name in SIZES}
            rows.append(row | measure(calls, self.quickly))
        known = [row for row in rows if row["us"] is not None]
        for row in sorted(known, key=lambda row: row["us"])[:8]:
            sizes = self.sizes(row["tile"], row["num_warps"], row["num_stages"])
            calls = self.decode_calls(inputs, sizes, row["num_splits"])
            row["us"] = self.carefully(calls)
        return rows

    def sweep(self) -> dict[str, list[Row]]:
        return {
            batch: self.rows_of(batch, list(product(self.grid(), splits)))
            for batch, splits in self.plan.sweep.items()
        }

    def splits(self) -> dict[str, list[Row]]:
        sizes = [self.sizes(*each) for each in self.plan.split_sizes]
        wanted = list(product(sizes, self.plan.splits))
        return {batch: self.rows_of(batch, wanted) for batch in self.plan.split_batches}

    def chosen(self) -> dict[str, Row]:
        report = {}
        for batch in self.plan.batches:
            calls = self.decode_calls(self.inputs(batch), *self.rule(batch))
            report[batch] = measure(calls, self.carefully)
        return report

    def paging(self) -> dict[str, dict]:
        return {batch: self.paging_of(batch) for batch in self.plan.paging}

    def paging_of(self, name: str) -> dict:
        """The same kernel, the same bytes: with a table in order, shuffled, without."""
        lengths, (heads, kv_heads, dim) = self.plan.batches[name], self.plan.shape
        room = -(-max(before + 1 for before, _ in lengths) // 128) * 128
        options, num_seqs = {"device": DEVICE, "dtype": DTYPE}, len(lengths)
        size = (self.rotations(name), num_seqs, room, kv_heads, dim)
        keys, values = torch.randn(size, **options), torch.randn(size, **options)
        q = torch.randn(num_seqs, heads, dim, **options)
        batch = make_batch(lengths, torch.arange(blocks_of(lengths)))
        where = batch.context_lengths, batch.query_starts, self.scale
        rule, num_splits = self.rule(name)

        def time_it(sizes: Sizes, block_size: int = 0, shuffled: bool = False) -> Row:
            calls = []
            for k, v in zip(keys, values, strict=True):
                table = None
                if block_size:
                    count = num_seqs * room // block_size
                    order = torch.randperm if shuffled else torch.arange
                    table = order(count, device=DEVICE).view(num_seqs, -1)
                    k, v = (x.view(count, block_size, kv_heads, dim) for x in (k, v))
                calls.append(
                    lambda k=k, v=v, table=table: paged_or_not(
                        q, k, v, table, *where, sizes, num_splits
                    )
                )
            return measure(calls, self.clock)

        report: dict[str, Any] = {"contiguous": time_it(rule), "by_block_size": []}
        for block_size in tqdm(self.plan.block_sizes, desc=name):
            row = {"block_size": block_size}
            row["in_order"] = time_it(rule, block_size)["us"]
            row["shuffled"] = time_it(rule, block_size, shuffled=True)["us"]
            report["by_block_size"].append(row)
        report["by_num_stages"] = []
        for num_stages in self.plan.stages:
            sizes = rule._replace(num_stages=num_stages)
            without, order = time_it(sizes), time_it(sizes, BLOCK_SIZE)
            shuffled = time_it(sizes, BLOCK_SIZE, shuffled=True)
            row = {"num_stages": num_stages, "contiguous": without["us"]}
            row |= {"in_order": order["us"], "shuffled": shuffled["us"]}
            row["contiguous_shared_bytes"] = without.get("shared_bytes")
            row["paged_shared_bytes"] = order.get("shared_bytes")
            report["by_num_stages"].append(row)
        return report | {"contiguous_again": time_it(rule)["us"]}

    def coalescing(self) -> list[dict]:
        """Reads whose neighbours lie apart; a tile is as many numbers each time."""
        return [
            {
                "apart": apart,
                "useful_gb_per_s": read_gb_per_s(
                    self.plan.num_numbers, apart, tile=1024, clock=self.clock
                ),
            }
            for apart in self.plan.apart
        ]

    def ceilings(self) -> dict:
        return {} if self.plan is SMALL else ceilings()

    def batches(self) -> dict[str, dict]:
        report = {}
        for name, lengths in self.plan.batches.items():
            contexts = [before + new for before, new in lengths]
            report[name] = {
                "num_seqs": len(contexts),
                "shortest": min(contexts),
                "longest": max(contexts),
                "tokens": sum(contexts),
                "kv_megabytes": kv_bytes(self.plan.shape, lengths) / 1e6,
            }
        return report


PARTS = "checks ceilings coalescing ladder chosen paging splits sweep".split()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=DATA)
    parser.add_argument("--small", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    plan, clock = PLAN, microseconds
    if arguments.small:
        plan, clock = SMALL, each_at_once
    torch.manual_seed(0)
    tuning = Tuning(plan, clock)
    report: dict[str, Any] = {
        "machine": describe_machine(),
        "how": HOW,
        "gpu": gpu_facts(),
        "batches": tuning.batches(),
    }
    device = re.sub(r"[^a-z0-9]+", "-", report["machine"]["device"].lower()).strip("-")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    path = arguments.folder / f"tuning-{device}.json"
    seconds = report["seconds"] = {}
    for part in PARTS:
        start = time.monotonic()
        if start > tuning.until:
            report.setdefault("failed", {})[part] = "out of time"
            continue
        try:
            report[part] = getattr(tuning, part)()
        except Exception:  # what else there is to measure is measured
            report.setdefault("failed", {})[part] = traceback.format_exc()
        if DEVICE == "cuda":
            torch.cuda.empty_cache()
        seconds[part] = round(time.monotonic() - start, 1)
        print(part, seconds[part], report.get("failed", {}).get(part, ""), flush=True)
        path.write_text(as_text(packed(report)))
    print(path, json.dumps(report.get("checks", {}), indent=1))
    if report.get("failed") or report["checks"]["wrong"]:
        raise SystemExit("not all of it could be measured, or something is wrong")


def packed(report: dict[str, Any]) -> dict[str, Any]:
    """The report with its many rows as lists, as `measured_tuning` unpacks them."""
    report, compiled = dict(report), {}
    for part in {"splits", "sweep"} & set(report):
        tables = {}
        for batch, rows in report[part].items():
            tables[batch] = [[row[name] for name in (*SIZES, "us")] for row in rows]
            for row in rows:
                key = *(row[name] for name in SIZES[:3]), row["num_splits"] > 1
                facts = {name: row.get(name) for name in (*COMPILED, "why")}
                compiled[key] = [*key, *facts.values()]
        report[part] = tables
    return report | {"compiled": list(compiled.values())}


def as_text(value: Any) -> str:
    """JSON with a line for each row, and numbers to a tenth of a percent."""

    def rounded(inner: Any) -> Any:
        if isinstance(inner, dict):
            return {key: rounded(each) for key, each in inner.items()}
        if isinstance(inner, list):
            return [rounded(each) for each in inner]
        return float(f"{inner:.4g}") if isinstance(inner, float) else inner

    text = json.dumps(rounded(value), indent=1)
    flat = re.compile(r"\{[^{}\[\]]*\}|\[[^{}\[\]]*\]")
    return flat.sub(lambda found: " ".join(found[0].split()), text) + "\n"


if __name__ == "__main__":
    main()
