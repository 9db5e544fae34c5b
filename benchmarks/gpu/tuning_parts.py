"""The measurements of benchmarks/gpu/tuning.py, a method for each part of it."""

import statistics
import time
from collections.abc import Hashable, Mapping
from functools import partial
from itertools import product
from typing import Any

import torch
from tqdm import tqdm

from benchmarks.gpu.ceilings import ceilings
from benchmarks.gpu.inputs import (
    BLOCK_SIZE,
    DEVICE,
    DTYPE,
    Lengths,
    Shape,
    blocks_of,
    make_batch,
    random_pool,
)
from benchmarks.gpu.launches import Calls, Clock, Row, measure
from benchmarks.gpu.measure import kv_bytes
from benchmarks.gpu.tuning_checks import TOLERANCE, Task, check_all
from benchmarks.gpu.tuning_plan import SMALL, Plan
from minipaged.attention.backend import Masking
from minipaged.attention.kernels.decode import launch_decode
from minipaged.attention.kernels.sizes import Sizes, decode_sizes, device_of, padded
from minipaged.lab.measure.gpu_timing import num_rotations, read_gb_per_s
from minipaged.lab.measure.measured import SIZES
from minipaged.lab.tour.ladder import RUNGS
from minipaged.lab.tour.paging import paged_or_not
from minipaged.memory.kv_cache import LayerCache

SECONDS = 275  # after which nothing more is begun
ON_EACH = (2, 3, 4, 6, 8, 16)  # programs on each multiprocessor, by splits


class Inputs:
    """What the kernel is called with: batches over different blocks of a pool."""

    def __init__(self, shape: Shape, lengths: Lengths, rotations: int) -> None:
        needed, num_seqs = blocks_of(lengths), len(lengths)
        self.shape, self.lengths = shape, lengths
        self.cache = LayerCache(*random_pool(rotations * needed, shape))
        ids = torch.randperm(rotations * needed).view(rotations, needed)
        self.batches = [make_batch(lengths, own) for own in ids]
        self.q = torch.randn(num_seqs, shape[0], shape[2], device=DEVICE, dtype=DTYPE)

    def decode(
        self, sizes: Sizes, num_splits: int, overlap: bool | None = None
    ) -> Calls:
        """The package's kernel with these sizes, over each of the batches.

        overlap: whether its merge is launched early; None: where that can be.
        """
        if overlap is None:
            overlap = device_of(0).can_overlap
        how = (self.shape[2] ** -0.5, None, None, sizes, num_splits, overlap)
        return [
            partial(
                launch_decode, torch.empty_like(self.q), self.q, *self._kv,
                b.block_tables, b.context_lengths, b.query_starts, *how,
            )
            for b in self.batches
        ]  # fmt: skip

    @property
    def _kv(self) -> tuple[torch.Tensor, torch.Tensor]:
        return self.cache.keys, self.cache.values


class Tuning:
    """One run."""

    def __init__(self, plan: Plan, clock: Clock) -> None:
        self.plan, self.clock = plan, clock
        self.until = time.monotonic() + SECONDS
        self.scale = plan.shape[2] ** -0.5

    def sizes(self, each: tuple[int, int, int], shape: Shape | None = None) -> Sizes:
        """Of a tile, warps and stages."""
        heads, kv_heads, _ = shape or self.plan.shape
        return Sizes(padded(heads // kv_heads), *each)

    def rule(self, shape: Shape, lengths: Lengths) -> tuple[Sizes, int]:
        """What the package chooses."""
        contexts = [before + new for before, new in lengths]
        heads, kv_heads, dim = shape
        q = torch.empty(len(lengths), heads, dim, device=DEVICE, dtype=DTYPE)
        values = torch.empty(1, 1, kv_heads, dim, device=DEVICE, dtype=DTYPE)
        return decode_sizes(q, values, len(lengths), min(contexts), max(contexts))

    def rule_of(self, batch: str) -> tuple[Sizes, int]:
        return self.rule(self.plan.shape, self.plan.batches[batch])

    def grid(self) -> list[Sizes]:
        """All sizes of the sweep."""
        plan = self.plan
        return list(map(self.sizes, product(plan.tiles, plan.warps, plan.stages)))

    def rotations(self, shape: Shape, lengths: Lengths) -> int:
        nbytes = kv_bytes(shape, lengths)
        if self.plan is SMALL:
            return 1
        return 2 if nbytes > 2**31 else num_rotations(nbytes)

    def inputs(self, batch: str) -> Inputs:
        shape, lengths = self.plan.shape, self.plan.batches[batch]
        return Inputs(shape, lengths, self.rotations(shape, lengths))

    # How long it takes

    def quickly(self, calls: Calls) -> float:
        return self.clock(calls, replays=5, warm_up_seconds=0.02)

    def in_rounds(self, calls: Mapping[Hashable, Calls]) -> dict[Any, Row]:
        """Each three times, the others between: what disturbs one seldom lasts."""
        clock = partial(self.clock, warm_up_seconds=0.03)
        rows = {name: measure(each, clock) for name, each in calls.items()}
        times = {name: [row["us"]] for name, row in rows.items() if row["us"]}
        for _ in range(self.plan.rounds - 1):
            for name, known in times.items():
                known.append(clock(calls[name]))
        for name, known in times.items():
            rows[name]["us"] = statistics.median(known)
        return rows

    def rows_of(
        self, inputs: Inputs, wanted: list[tuple[Sizes, int]], careful: int = 8
    ) -> list[Row]:
        """A row for each; those that are quickest are measured again, in rounds."""
        rows = []
        for sizes, num_splits in wanted:
            if time.monotonic() > self.until:
                break
            row = {name: getattr(sizes, name, num_splits) for name in SIZES}
            row |= measure(inputs.decode(sizes, num_splits), self.quickly)
            rows.append(row)
        known = [row for row in rows if row["us"] is not None]
        best = sorted(known, key=lambda row: row["us"])[:careful]
        best += [row for row in known[:1] if row not in best]  # the rule's
        again = {}
        for row in best:
            tile, num_warps, num_stages, num_splits = (row[name] for name in SIZES)
            sizes = self.sizes((tile, num_warps, num_stages), inputs.shape)
            again[rows.index(row)] = inputs.decode(sizes, num_splits)
        for place, row in self.in_rounds(again).items():
            rows[place]["us"] = row["us"]
        return rows

    # The parts

    def checks(self) -> dict:
        return check_all(self.tasks(), seconds=150)

    def tasks(self) -> list[Task]:
        """Every kernel that will be launched; those that take long to compile first."""
        plan = self.plan
        rules = {self.rule_of(batch) for batch in plan.batches}
        rules |= {(self.sizes((64, 4, 4)), 2)}  # the ladder's
        wanted = {*self.grid(), *map(self.sizes, plan.split_sizes)}
        wanted |= {sizes for sizes, _ in rules}
        heavy = sorted(wanted, key=lambda s: -s.tile * s.num_stages / s.num_warps)
        tasks = [
            Task("decode", plan.shape, sizes=sizes, is_split=is_split)
            for sizes, is_split in product(heavy, (False, True))
        ]
        tasks += [
            Task("decode", shape, sizes=sizes, is_split=num_splits > 1)
            for shape, lengths in product(plan.shapes, plan.cells.values())
            for sizes, num_splits in self.wanted_of(shape, lengths)
        ]
        tasks += [Task("rung", plan.shape, rung=name) for name in RUNGS]
        for sizes, num_splits in rules:
            options = {"sizes": sizes, "is_split": num_splits > 1}
            tasks.append(Task("split", plan.shape, **options))
        for batch in plan.paging:
            options = {"is_split": self.rule_of(batch)[1] > 1}
            for num_stages, block_size, _ in self.ways_to_page():
                kind = "paged" if block_size else "contiguous"
                options["sizes"] = self.paging_sizes(num_stages)
                options["block_size"] = block_size or BLOCK_SIZE
                tasks.append(Task(kind, plan.shape, **options))
        return list(dict.fromkeys(tasks))

    def ceilings(self) -> dict:
        return {} if self.plan is SMALL else ceilings()

    def coalescing(self) -> list[dict]:
        """Reads whose neighbours lie apart; a tile is as many numbers each time."""
        report = []
        for apart in self.plan.apart:
            options = {"tile": 1024, "clock": self.clock}
            rate = read_gb_per_s(self.plan.num_numbers, apart, **options)
            report.append({"apart": apart, "useful_gb_per_s": rate})
        return report

    def ladder(self) -> dict[str, dict[str, Row]]:
        """All rungs; each agrees with the shipped kernel, on these very batches."""
        report = {}
        for name in tqdm(self.plan.ladder, desc="ladder"):
            inputs, masking = self.inputs(name), Masking(self.scale)
            calls = {
                rung: [
                    partial(attend, inputs.q, inputs.cache, batch, masking)
                    for batch in inputs.batches
                ]
                for rung, attend in RUNGS.items()
            }
            report[name] = self.in_rounds(calls)
            shipped = list(calls.values())[-1][0]().float()
            for rung, row in report[name].items():
                if row["us"] is None:
                    continue
                off = (calls[rung][0]().float() - shipped).norm() / shipped.norm()
                if not off < TOLERANCE:
                    row |= {"us": None, "why": f"off by {off:.1e}"}
        return report

    def paging_sizes(self, num_stages: int) -> Sizes:
        return self.sizes((min(64, max(self.plan.tiles)), 2, num_stages))

    def ways_to_page(self) -> list[tuple[int, int, bool]]:
        """(stages, block size or 0 for no table, whether shuffled)."""
        sizes = (0, BLOCK_SIZE)
        ways = [*product((2,), (0, *self.plan.block_sizes), (False, True))]
        ways += product(self.plan.stages, sizes, (False, True))
        return list(dict.fromkeys(way for way in ways if way[1] or not way[2]))

    def paging(self) -> dict[str, dict]:
        return {batch: self.paging_of(batch) for batch in self.plan.paging}

    def paging_of(self, name: str) -> dict:
        """The same kernel, the same bytes: with a table in order, shuffled, without."""
        lengths, shape = self.plan.batches[name], self.plan.shape
        heads, kv_heads, dim = shape
        room = -(-max(before + 1 for before, _ in lengths) // 128) * 128
        options, num_seqs = {"device": DEVICE, "dtype": DTYPE}, len(lengths)
        size = (self.rotations(shape, lengths), num_seqs, room, kv_heads, dim)
        keys, values = torch.randn(size, **options), torch.randn(size, **options)
        q = torch.randn(num_seqs, heads, dim, **options)
        batch = make_batch(lengths, torch.arange(blocks_of(lengths)))
        where = batch.context_lengths, batch.query_starts, self.scale
        _, num_splits = self.rule_of(name)

        def call(k, v, block_size: int, shuffled: bool, sizes: Sizes) -> partial:
            table = None
            if block_size:
                order = torch.randperm if shuffled else torch.arange
                count = num_seqs * room // block_size
                table = order(count, device=DEVICE).view(num_seqs, -1)
                k, v = (x.view(count, block_size, kv_heads, dim) for x in (k, v))
            return partial(paged_or_not, q, k, v, table, *where, sizes, num_splits)

        calls = {
            way: [
                call(k, v, *way[1:], self.paging_sizes(way[0]))
                for k, v in zip(keys, values, strict=True)
            ]
            for way in self.ways_to_page()
        }
        calls["again"] = calls[2, 0, False]
        rows = self.in_rounds(calls)
        us = {way: row["us"] for way, row in rows.items()}
        shared = {way: row.get("shared_bytes") for way, row in rows.items()}
        return {
            "contiguous": rows[2, 0, False],
            "contiguous_again": us["again"],
            "by_block_size": [
                {
                    "block_size": block_size,
                    "in_order": us[2, block_size, False],
                    "shuffled": us[2, block_size, True],
                }
                for block_size in self.plan.block_sizes
            ],
            "by_num_stages": [
                {
                    "num_stages": stages,
                    "contiguous": us[stages, 0, False],
                    "in_order": us[stages, BLOCK_SIZE, False],
                    "shuffled": us[stages, BLOCK_SIZE, True],
                    "contiguous_shared_bytes": shared[stages, 0, False],
                    "paged_shared_bytes": shared[stages, BLOCK_SIZE, False],
                }
                for stages in self.plan.stages
            ],
        }

    def splits(self) -> dict[str, list[Row]]:
        sizes = map(self.sizes, self.plan.split_sizes)
        wanted = list(product(sizes, self.plan.splits))
        return {
            batch: self.rows_of(self.inputs(batch), wanted)
            for batch in tqdm(self.plan.split_batches, desc="splits")
        }

    def sweep(self) -> dict[str, list[Row]]:
        report = {}
        for batch, splits in tqdm(self.plan.sweep.items(), desc="sweep"):
            wanted = [self.rule_of(batch), *product(self.grid(), splits)]
            report[batch] = self.rows_of(
                self.inputs(batch), list(dict.fromkeys(wanted))
            )
        return report

    def wanted_of(self, shape: Shape, lengths: Lengths) -> list[tuple[Sizes, int]]:
        """Of a cell: the rule's choice, then some sizes in some splits."""
        tiles = 128 // shape[2] if shape[2] >= 64 else 1
        wanted = [self.rule(shape, lengths)]
        on_each = len(lengths) * shape[1] / device_of(0).multiprocessors
        longest = max(before + new for before, new in lengths)
        for tile, num_warps, num_stages in self.plan.cell_sizes:
            for scale in {1, tiles}:
                sizes = self.sizes((scale * tile, num_warps, num_stages), shape)
                most = min(longest // (scale * tile), 256)
                splits = {min(int(target / on_each), most) for target in ON_EACH}
                splits.add(min(int(16 / on_each), longest // 256))
                wanted += [(sizes, n) for n in sorted({1, *splits}) if n > 0]
        return list(dict.fromkeys(wanted))

    def cells(self) -> dict[str, dict[str, list[Row]]]:
        report: dict[str, dict[str, list[Row]]] = {}
        for shape in self.plan.shapes:
            name = "{} query heads, {} KV heads, {}".format(*shape)
            report[name] = {}
            for cell, lengths in tqdm(self.plan.cells.items(), desc=name):
                if time.monotonic() < self.until:
                    inputs = Inputs(shape, lengths, self.rotations(shape, lengths))
                    wanted = self.wanted_of(shape, lengths)
                    report[name][cell] = self.rows_of(inputs, wanted, careful=3)
        return report

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
