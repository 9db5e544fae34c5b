"""Drawings of lesson 6 and appendix C: they show what they are given, readably."""

import json
import random
import re
from collections import Counter
from itertools import accumulate, combinations, pairwise, product
from math import dist, exp, inf, log
from types import SimpleNamespace

import pytest
import torch

import minipaged as mp
from helpers.drawn import arrows, boxes, dots, lines, places_of, rims, texts
from helpers.readable import readable_in_all_themes
from minipaged.attention.kernels import sizes
from minipaged.draw import palette
from minipaged.draw.letters import PART, width_of
from minipaged.draw.marks import Box, Dots, Stroke, Words
from minipaged.draw.palette import line_colour
from minipaged.draw.scales import LEAST_ABOVE, LEAST_APART, scale_of
from minipaged.draw.tones import KEPT, behind_words, free, others, soft, strong
from minipaged.lab import (
    measured_tuning,
    near_best,
    pipeline,
    plot_coalescing,
    plot_gpu,
    plot_ladder,
    plot_launch,
    plot_multiprocessors,
    plot_neighbour,
    plot_on_each,
    plot_paging_cost,
    plot_pipeline,
    plot_pointer_tile,
    plot_programs,
    plot_size_rule,
    plot_split_and_merge,
    plot_step_shapes,
    plot_sweep,
    plot_tile_and_blocks,
    plot_under_way,
    points_under_way,
    splits_on_each,
)
from minipaged.lab.plots.roof import DASHED, DOTTED
from minipaged.lab.plots.size_rule import KINDS, chosen
from minipaged.lab.plots.under_way import MOVED
from minipaged.lab.plots.walk import split_shares

USED = {"A": 21, "B": 7, "C": 13}


def tables_of(used=None, num_blocks=16, block_size=4):
    """Sequences that have grown side by side, so that their blocks alternate."""
    used, pool = used or USED, mp.BlockPool(num_blocks, block_size)
    tables = {name: mp.BlockTable(pool) for name in used}
    for _ in range(max(used.values())):
        for name, table in tables.items():
            table.append(int(table.num_tokens < used[name]))
    return tables


def launch(size=10, room=16, tile=4, num_programs=3):
    x, out = torch.arange(float(size)), torch.full((room,), -1.0)
    reached = min(size, tile * num_programs)
    out[:reached] = 2 * x[:reached]
    return plot_launch(x, out, tile, num_programs, "title")


def pointers(positions=range(2, 10), num_kv_heads=2, dim=4, kv_head=0):
    shape = num_kv_heads, dim
    return plot_pointer_tile(tables_of()["A"], positions, *shape, "title", kv_head)


def walk(tile=8, now=1, **pool):
    return plot_tile_and_blocks(tables_of(**pool)["A"], tile, "title", now=now)


LONG = {"used": {"A": 430, "B": 200, "C": 20}, "num_blocks": 64, "block_size": 16}


def split_and_merge(logs, context=91, tile=32, dim=8, **options):
    draw = torch.Generator().manual_seed(0)
    means = torch.randn(len(logs), dim, generator=draw)
    means[torch.tensor(logs) == -torch.inf] = 0
    logs = torch.tensor(logs)
    return plot_split_and_merge(context, tile, means, logs, "title", **options)


THREE_AND_NOTHING = [5.89, 6.17, 5.73, -torch.inf]
RUNGS = {
    "one program per query head": (0.6, 4.7, 8.0),
    "one program per KV head": (0.9, 7.2, 49.0),
    "tiles wider than a block": (2.3, 17.0, 87.0),
    "reads under way while computing": (3.6, 27.0, 94.0),
    "contexts split among programs": (50.0, 74.0, 94.1),
}
BATCHES = "1 x 8k", "8 x 4k", "64 x 4k"
SHARES = {
    batch: {rung: values[at] for rung, values in RUNGS.items()}
    for at, batch in enumerate(BATCHES)
}


REMOVED = {3: "few bytes a turn", 4: "waiting", 5: "idle multiprocessors"}


def first_rungs(count):
    return {batch: dict(list(path.items())[:count]) for batch, path in SHARES.items()}


def sweep(num_maps=4, most=94.0, **options):
    draw, maps = random.Random(0), {}
    for at in range(num_maps):
        cells = {
            (tile, stages): draw.uniform(2, most)
            for tile in (16, 32, 64, 128)
            for stages in (1, 2, 3, 4, 5, 7)
            if tile * stages <= 512
        }
        maps[f"batch {at}"] = cells
    return plot_sweep(maps, "title", "tile", "num_stages", **options)


def paging(num_batches=4, **options):
    sizes = [2**n for n in range(8)]
    curves = {
        "in order": {size: 1 + 0.1 / size for size in sizes},
        "shuffled": {size: 1 + 0.7 / size for size in sizes},
    }
    names = [f"batch {at}" for at in range(num_batches)]
    return plot_paging_cost(dict.fromkeys(names, curves), "title", **options)


WAVE, SPILLS = "a last wave mostly empty", "registers that spill"


def under_way(faults=(WAVE, SPILLS), **options):
    draw, points = random.Random(0), {}
    for name in ("1 x 8k", "64 x 4k"):
        points[name] = [
            (x := draw.uniform(0.5, 50), min(4500, 800 * x), [*faults[: at % 3]])
            for at in range(40)
        ]
    return plot_under_way(points, 4584, "title", **options)


def on_each(**options):
    lines = {
        batch: {programs / 4: 100 / programs + at for programs in range(1, 300)}
        for at, batch in enumerate(BATCHES)
    }
    return plot_on_each(lines, "title", 6, "six run at a time", **options)


def neighbour(size=10, tile=4, behind=6, is_hit=True):
    before = [float(n) for n in range(size)] + [50.0 + n for n in range(behind)]
    reached = -(-size // tile) * tile if is_hit else size
    after = [2 * n for n in before[:reached]] + before[reached:]
    return plot_neighbour(before, after, size, tile, "title")


EXAMPLES = {"32x2k": 32 * 8 / 132, "100x1k": 100 * 8 / 132}


def size_rule(batches=None, **options):
    return plot_size_rule(batches or {}, "title", **options)


READS = {"side by side": 4, "16 bytes apart": 16, "64 bytes apart": 64}


AHEAD = pipeline(6, 8, 4, tiles_ahead=1, ids=3)
RUNS = {
    "num_stages=1: nothing is ahead": pipeline(6, 8, 4, ids=3),
    "num_stages=4: a tile is ahead": AHEAD,
}
MANY_PROGRAMS = {"alone": 8, "33 splits": 264, "64 sequences": 512}
DRAWINGS = {
    "launch": launch,
    "launch without a mask": lambda: launch(8, 8, 4, 2),
    "launch that is too small": lambda: launch(10, 16, 4, 2),
    "launch with an idle program": lambda: launch(10, 16, 4, 4),
    "launch of many": lambda: launch(60, 64, 16, 4),
    "programs": lambda: plot_programs(USED, 32, 8, "title"),
    "programs of tables": lambda: plot_programs(tables_of(), 14, 2, "title"),
    "programs without groups": lambda: plot_programs({"A": 9}, 32, 32, "title"),
    "programs of a KV head": lambda: plot_programs(tables_of(), 4, 1, "title"),
    "programs of many": lambda: plot_programs(
        {f"user {n}": 4096 for n in range(1234)}, 128, 4, "title"
    ),
    "pointers": pointers,
    "pointers of another head": lambda: pointers(kv_head=1),
    "pointers of a position": lambda: pointers([20], 1, 8),
    "pointers, wide heads": lambda: pointers(range(8), 4, 8, 2),
    "shapes": lambda: plot_step_shapes(4, 16, 64, 128, "title"),
    "shapes, one head": lambda: plot_step_shapes(1, 16, 16, 64, "title"),
    "shapes, all rows used": lambda: plot_step_shapes(16, 16, 128, 256, "title"),
    "walk": walk,
    "walk, tiles in a block": lambda: walk(2, now=3),
    "walk, large": lambda: walk(64, 2, **LONG),
    "walk, larger": lambda: walk(64, 2, **(LONG | {"num_blocks": 500})),
    "pipelines": lambda: plot_pipeline(RUNS, "title"),
    "a pipeline": lambda: plot_pipeline({"one": AHEAD}, "title"),
    "pipelines with more ahead": lambda: plot_pipeline(
        {f"{n} ahead": pipeline(9, 8, 2, n, ids=3) for n in range(5)}, "title"
    ),
    "a tile": lambda: plot_pipeline({"one": pipeline(1, 0.5, 0.25)}, "title"),
    "multiprocessors": lambda: plot_multiprocessors(MANY_PROGRAMS, "title"),
    "multiprocessors of a small GPU": lambda: plot_multiprocessors(
        {"a": 3}, "title", 40
    ),
    "multiprocessors, crowded": lambda: plot_multiprocessors({"a": 132_000}, "title"),
    "split and merge": lambda: split_and_merge(THREE_AND_NOTHING),
    "split and merge, three numbers": lambda: split_and_merge(
        THREE_AND_NOTHING, dims=(0, 1, 2)
    ),
    "split and merge, large sums": lambda: split_and_merge([12.3, 9.7, 20.1], 9_000),
    "one split": lambda: split_and_merge([3.0], 20),
    "many splits": lambda: split_and_merge([4.0] * 8, 256),
    "ladder": lambda: plot_ladder(SHARES, "title"),
    "ladder, first rungs": lambda: plot_ladder(first_rungs(2), "title"),
    "ladder, one rung": lambda: plot_ladder(first_rungs(1), "title"),
    "ladder, what was removed": lambda: plot_ladder(SHARES, "title", removed=REMOVED),
    "ladder, words of a batch": lambda: plot_ladder(
        SHARES, "title", removed=REMOVED | {("64 x 4k", 3): "few bytes, second wave"}
    ),
    "ladder, at its end": lambda: plot_ladder(
        SHARES, "title", removed={2: "few", 5: "many idle multiprocessors"}
    ),
    "ladder, everything removed": lambda: plot_ladder(
        SHARES, "title", removed=dict.fromkeys(range(2, 6), "a few bytes in a turn")
    ),
    "ladder, hardly faster beside a long word": lambda: plot_ladder(
        {"x": dict(zip("abcdefgh", [0.5] * 5 + [1.0, 1.01, 1.02], strict=True))},
        "title",
        removed={6: "idle multiprocessors"},
    ),
    "ladder, a long name": lambda: plot_ladder(
        {"x": dict.fromkeys([*"abcdefg", "package kernel, early merge"], 1.0)}, "title"
    ),
    "ladder, low": lambda: plot_ladder(
        {"a": {"a": 90, "b": 95, "c": 99}}, "title", removed={2: "one", 3: "two"}
    ),
    "ladder, one batch": lambda: plot_ladder({"a": SHARES["8 x 4k"]}, "title"),
    "ladder, many batches": lambda: plot_ladder(
        SHARES | {f"{n} more": SHARES["8 x 4k"] for n in range(3)}, "title"
    ),
    "sweep": sweep,
    "sweep of one batch": lambda: sweep(1),
    "sweep of many": lambda: sweep(8),
    "sweep, four in a row": lambda: sweep(4, in_row=4),
    "sweep with signs": lambda: sweep(
        2,
        signs={
            f"a sign of something {n}": {f"batch {at}": [(16, 1)] for at in (0, 1)}
            for n in "abc"
        },
    ),
    "neighbour": neighbour,
    "neighbour, many": lambda: neighbour(30, 8, 10),
    "coalescing": lambda: plot_coalescing(READS, "title"),
    "coalescing, side by side": lambda: plot_coalescing({"a": 4}, "title"),
    "coalescing, far apart": lambda: plot_coalescing({"a": 128}, "title"),
    "paging": lambda: paging(doubt={f"batch {at}": 1.02 for at in range(4)}),
    "paging, one batch": lambda: paging(1),
    "paging beside others": lambda: paging(
        3, doubt={f"batch {at}": 0.99 for at in range(3)}, band=(2.2, 2.26, "others")
    ),
    "under way": under_way,
    "under way, no faults": lambda: under_way(()),
    "under way, the best": lambda: under_way(best=("128 KiB on each of them", 17.3)),
    "on each": on_each,
    "on each, megabytes": lambda: on_each(megabytes=4.325),
    "on each, an aim": lambda: on_each(megabytes=4.325, aim=(4, "128 KiB on each")),
    "size rule": lambda: size_rule({"1x8k": 0.06, "8x4k": 0.48, "64x4k": 3.9}),
    "size rule without batches": size_rule,
    "size rule, examples": lambda: size_rule(EXAMPLES, examples=EXAMPLES),
    "size rule, many waves": lambda: size_rule(
        {"a": 3.5, "many": 7.9}, examples=("a", "many")
    ),
    "gpu": lambda: gpu(),
    "gpu, an older one": lambda: gpu(40),
    "gpu of one multiprocessor": lambda: gpu(1),
}


def gpu(multiprocessors=132):
    facts = {"multiprocessors": multiprocessors, "registers": 2**16}
    facts |= {"shared_bytes": 228 * 1024, "l2_megabytes": 62.9}
    return plot_gpu(facts, 4591, "title")


test_it_can_be_read = readable_in_all_themes(DRAWINGS)


# --- programs and their places --------------------------------------------------------


def test_a_launch_stores_what_exists_and_nothing_else():
    numbers, places, out = launch().scene.rows
    assert places.tones == [soft(at // 4) for at in range(10)] + [KEPT] * 2
    assert out.words == [str(2 * n) for n in range(10)] + ["-1"] * 6
    assert out.tones == [strong(at // 4) for at in range(10)] + [free()] * 6
    assert numbers.words == [str(n) for n in range(10)]
    ways = ("x", "place"), ("place", "out")
    links = [(one, 4 * n, two, 4 * n) for n in range(3) for one, two in ways]
    assert [link[:4] for link in launch().scene.links] == links
    assert launch(10, 16, 4, 2).scene.rows[2].words[8:] == ["-1"] * 8


def test_a_gpu_is_drawn_from_its_facts():
    figure = gpu()
    said = texts(figure)
    assert {
        "132 multiprocessors",
        "65,536 registers",
        "228 KiB shared memory",
        "at most 4,591 GB/s, for all together",
        "what was read lately, 63 MB at most",
    } <= set(said)
    assert said.count("warp") == 3 * 4 and said.count("program") == 3
    assert "with 3 of the programs" in said
    assert said.count("its threads' registers") == 3
    # The multiprocessor that is drawn large, four warps that compute, the legend's.
    assert len(boxes(figure, palette.sequence_colour(0))) == 1 + 4 + 1


def test_all_that_is_read_passes_the_unit_of_shared_memory():
    """Two arrows lead up to it; others from it to programs that wait, and to units.

    What threads hand each other goes down to it: the matrix units hand nothing on.
    """
    scene = gpu().scene
    words = "what programs read, and what threads hand each other, passes here"
    (gate,) = (said.y for said in scene.of(Words) if said.text == words)
    arrows = [stroke.points for stroke in scene.of(Stroke) if stroke.head]
    ways = [(points[0][1] - gate, points[-1][1] - gate) for points in arrows]
    assert all(start * end > 0 for start, end in ways)  # none goes past it
    below = [way for way in ways if way[0] > 0]
    leaving = [way for way in ways if way[1] < way[0] < 0]
    handed = [way for way in ways if way[0] < way[1] < 0]
    assert len(below) == 2 and all(end < start for start, end in below)
    assert len(leaving) == 2 + 1 == len(handed) + 1


def test_a_gpu_says_nothing_that_lesson_6_tells_later():
    """Exchanges, and which programs share a multiprocessor."""
    said = " ".join(texts(gpu()))
    assert "exchange" not in said
    assert not any(f"program {number}" in said for number in range(10))


@pytest.mark.parametrize("num_kv_heads", [1, 8])
def test_each_program_asks_for_k_and_v(num_kv_heads):
    """Those of the first sequence's KV head 0: four programs, then one."""
    scene = plot_programs(tables_of(), 4 * num_kv_heads, num_kv_heads, "title").scene
    kept, heads = scene.rows[0::2], scene.rows[1::2]
    said = f"A, KV head 0: K and V of {USED['A']} tokens"
    assert [row.words for row in kept] == [[said]] * 2
    assert [row.words for row in heads] == [[f"head {head}" for head in range(4)]] * 2
    assert [link.end for link in scene.links] == [0, 1, 2, 3, 0]
    frames = [box for box in scene.of(Box) if box.linewidth == 2]
    assert len(frames) == 4 + 1 and frames[4].width > 4 * frames[0].width
    said = [words.text for words in scene.of(Words)]
    assert said.index("4 programs") < said.index("1 program")
    colours = {words.text: words.color for words in scene.of(Words)}
    assert colours["K and V are asked for 4 times"] == palette.BAD
    assert colours["K and V are asked for once"] == palette.GOOD


def test_a_group_of_one_is_asked_for_once_on_both_sides():
    said = texts(plot_programs({"A": 9}, 32, 32, "title"))
    assert said.count("K and V are asked for once") == 2
    assert said.count("1 program") == 2


def test_what_a_store_without_a_mask_destroys_is_counted():
    figure = neighbour()
    assert "2 of B's 6 numbers are lost" in texts(figure)
    assert {"A: 10 numbers", "B: 6"} <= set(texts(figure))
    # Brackets of A and B; a program has a frame.
    assert sum(line.linewidth == 2.0 for line in lines(figure)) == 2
    # A's ten, two of B's, the legend's.
    assert len(boxes(figure, palette.sequence_colour("A"))) == 10 + 2 + 1
    assert "0 of B's 6 numbers are lost" in texts(neighbour(is_hit=False))


def test_a_memory_does_not_change_its_size():
    with pytest.raises(ValueError, match="4 places before, but 3 after"):
        plot_neighbour([1.0] * 4, [1.0] * 3, 2, 2, "title")


def test_stretches_are_counted_that_threads_read():
    said = texts(plot_coalescing(READS, "title"))
    for words in (
        "2 stretches: 128 of 128 bytes are used",
        "8 stretches: 128 of 512 bytes are used",
        "32 stretches: 128 of 2,048 bytes are used",
    ):
        assert words in said
    assert said.count("32 threads") == said.count("64 bytes each") == 3


@pytest.mark.parametrize(("apart", "threads"), [(4, 16), (16, 4), (64, 1), (128, 1)])
def test_an_arrow_leads_from_the_threads_of_a_stretch_to_it(apart, threads):
    """The first thread of each, and the stretch: of 64 bytes, and of every second."""
    scene = plot_coalescing({"a": apart}, "title").scene
    _, memory = scene.rows
    ends = [round(end, 6) for end in accumulate(memory.widths, initial=0.0)]
    found = [(link.start, ends[link.end]) for link in scene.links]
    firsts = range(0, 32, threads)
    assert found == [(thread, thread * apart // 64) for thread in firsts]
    assert len(lines(plot_coalescing({"a": apart}, "title"))) == 3 * len(firsts)


@pytest.mark.parametrize("apart", [4, 16, 64, 128])
def test_what_a_thread_has_asked_for_lies_where_it_reads(apart):
    (_, memory) = plot_coalescing({"a": apart}, "title").scene.rows
    starts = accumulate(memory.widths, initial=0.0)
    pairs = zip(memory.tones, starts, strict=False)
    strong_ones = [start for tone, start in pairs if tone == strong(0)]
    assert strong_ones == pytest.approx([thread * apart / 64 for thread in range(32)])
    assert memory.tones.count(soft(0)) == 32 * (apart > 4)  # behind each number
    assert memory.tones.count(free()) == 32 * (apart > 64)  # every second stretch


def test_a_number_that_lies_alone_is_hardly_wider_than_to_scale():
    """4 of 64 bytes are a sixteenth."""
    (_, memory) = plot_coalescing({"a": 64}, "title").scene.rows
    assert 1 / 16 <= memory.widths[0] < 1 / 8


# --- pointers and shapes --------------------------------------------------------------


@pytest.mark.parametrize("head", [0, 1])
def test_pointers_are_the_places_of_the_numbers_and_lead_there(head):
    """Beside a tensor of the pool's shape that is counted through."""
    table, positions = tables_of()["A"], range(4, 12)
    counted = torch.arange(16 * 4 * 2 * 4).view(16 * 4, 2, 4)
    scene = pointers(positions, kv_head=head).scene
    rows = {row.label: row for row in scene.rows}
    assert scene.rows[0].words == [str(4 * head), "+", "0", "1", "2", "3"]
    ends = [(f"position {n}", f"slot {table.slot(n)}") for n in positions]
    assert [(link.source, link.target) for link in scene.links] == ends
    for position, slot in ends:
        number = int(slot.removeprefix("slot "))
        places = list(map(str, counted[number, head].tolist()))
        assert rows[position].words == [str(8 * number), "→", *places]
        assert rows[slot].words == [""] * 4 * head + places + [""] * 4 * (1 - head)
        assert rows[slot].tones[4 * head] == strong("A")
    last = counted[table.slot(11), head, 3]
    rule = f"{4 * head} + {table.slot(11)} * 8 + 3 = {last}"
    assert any(words.text.endswith(rule) for words in scene.of(Words))


def test_all_slots_of_a_block_stand_below_its_name():
    scene = pointers(range(4, 12)).scene
    names = re.compile(r"(block|slot) \d+")
    found = [w for w in scene.of(Words) if names.fullmatch(w.text)]
    said = [w.text for w in found]
    wanted = []
    for block in tables_of()["A"].block_ids[1:3]:
        wanted.append(f"block {block}")
        wanted += [f"slot {4 * block + offset}" for offset in range(4)]
    assert said == wanted
    above, block, below = (w.y for w in found[4:7])  # nearer to its slots
    assert below - block < 0.7 * (block - above)


@pytest.mark.parametrize(
    ("positions", "num_kv_heads", "head", "others"),
    [
        (range(4, 12), 2, 1, "KV head 0"),
        (range(4, 12), 2, 0, "KV head 1"),
        (range(4, 12), 4, 1, "other KV heads"),
        (range(4, 11), 2, 1, "KV head 0 and other positions"),
        (range(4, 11), 1, 0, "other positions"),
        (range(4, 12), 1, 0, None),
        ([20], 1, 0, None),  # its block's other slots are nobody's
    ],
)
def test_a_legend_says_which_boxes_are_not_read(positions, num_kv_heads, head, others):
    figure = pointers(positions, num_kv_heads, kv_head=head)
    said = [words for words in texts(figure) if "read" in words]
    assert said[0] == f"A, KV head {head}: read by this tile"
    assert said[1:] == ([f"A, {others}: not read"] if others else [])
    tones = {tone for row in figure.scene.rows if "slot" in row.label
             for tone in row.tones}  # fmt: skip
    assert (behind_words(soft("A")) in tones) == bool(others)


def matrices(figure):
    """Of each matrix, by its name: its shape, and its frame. An old one says so."""
    written, found = figure.scene.of(Words), {}
    old = [(w.x, w.y) for w in written if w.text == "of the tiles before"]
    frames = [box for box in rims(figure) if box.linewidth == 0.8]
    for words in written:
        if not words.text.startswith("["):
            continue
        x, y = words.x, words.y - 16  # the name's
        above = [w for w in written if w.y == y and not w.text.isdigit()]
        name = min(above, key=lambda w: abs(w.x - x)).text
        if (x, words.y + 17) in old:
            name = f"old {name}"
        around = [box for box in frames if abs(box.x + box.width / 2 - x) < 0.1]
        frame = min(around, key=lambda b: min(abs(b.y - y), abs(b.y + b.height - y)))
        found[name] = (json.loads(words.text), frame)
    return found


def test_an_axis_is_equally_long_wherever_it_occurs():
    figure = plot_step_shapes(4, 16, 64, 128, "title")
    found, lengths = matrices(figure), {}
    assert {name: shape for name, (shape, _) in found.items()} == {
        "k": [64, 128],
        "tl.trans(k)": [128, 64],
        "v": [64, 128],
        "q": [16, 128],
        "logits": [16, 64],
        "new_maximum": [16],
        "weights": [16, 64],
        "weighted": [16, 128],
        "old maximum": [16],
        "rescale": [16],
        "old weighted": [16, 128],
    }
    for shape, frame in found.values():
        sides = frame.height, frame.width
        for axis, side in zip(shape, sides, strict=False):  # a vector has a row only
            lengths.setdefault(axis, set()).add(round(side, 3))
    assert all(len(sides) == 1 for sides in lengths.values()) and len(lengths) == 3
    assert "12 rows that no head needs" in texts(figure)
    tops = {}
    for name, (_, frame) in found.items():
        tops.setdefault(frame.y, []).append(name)
    *_, now, before = sorted(tops)
    assert tops[now] == ["q", "logits", "new_maximum", "weights", "weighted"]
    assert tops[before] == ["old maximum", "rescale", "old weighted"]


def formulas(figure):
    return [words for words in texts(figure) if " = " in words]


def test_the_formulas_are_those_of_a_step():
    """Run for two tiles, with torch in place of Triton, the second one's logits larger.

    Lesson 5: the weighted sum of all, with weights that the last maximum has lowered.
    """
    torch_as_tl = SimpleNamespace(
        dot=torch.matmul,
        trans=torch.t,
        maximum=torch.maximum,
        max=torch.amax,
        sum=torch.sum,
        exp2=torch.exp2,
    )
    draw = torch.Generator().manual_seed(0)
    q, *tiles = torch.randn(5, 8, 4, dtype=torch.float64, generator=draw)
    state = {"maximum": torch.full((8,), -torch.inf), "weighted": torch.zeros(8, 4)}
    state["total"] = torch.zeros(8, dtype=torch.float64)
    code = "\n".join(formulas(plot_step_shapes(4, 16, 16, 128, "title")))
    for k, v, scale in ((*tiles[:2], 0.3), (*tiles[2:], 0.9)):
        state |= {"q": q, "k": k, "v": v, "scale": scale}
        exec(code, {"tl": torch_as_tl}, state)
        state["maximum"] = state["new_maximum"]
    logits = torch.cat([0.3 * q @ tiles[0].T, 0.9 * q @ tiles[2].T], 1)
    weights = (logits - logits.amax(1, keepdim=True)).exp2()
    assert torch.allclose(state["weighted"], weights @ torch.cat(tiles[1::2]))
    assert torch.allclose(state["total"], weights.sum(1))


def ways(figure):
    """Of each arrow: the matrix where it begins, and where it ends; or None."""
    found = matrices(figure)

    def at(x, y):
        for name, (_, frame) in found.items():
            right, low = frame.x + frame.width, frame.y + frame.height
            aside = max(frame.x - x, x - right, frame.y - y, y - low)
            if 0 < aside < 5:
                return name
        return None

    ends = [arrow.points for arrow in arrows(figure)]
    return {(at(*way[0]), at(*way[-1])) for way in ends}


def test_arrows_lead_from_each_matrix_to_what_is_made_of_it():
    figure = plot_step_shapes(4, 16, 64, 128, "title")
    assert ways(figure) == {
        ("k", "tl.trans(k)"),
        ("tl.trans(k)", "logits"),
        ("q", "logits"),
        ("logits", "new_maximum"),
        ("old maximum", "new_maximum"),
        ("new_maximum", "weights"),
        ("new_maximum", "rescale"),
        ("old maximum", "rescale"),
        ("weights", "weighted"),
        ("v", "weighted"),
        ("old weighted", "weighted"),
        ("rescale", None),  # to the sign before what was weighted
    }


# --- pipelines -----------------------------------------------------------------------


def test_without_a_tile_ahead_a_turn_does_one_thing_after_the_other():
    assert pipeline(2, latency=8, compute=2, ids=3) == [
        ((0, 3), (3, 11), (11, 13), (0, 13)),
        ((13, 16), (16, 24), (24, 26), (13, 26)),
    ]


def test_with_a_tile_ahead_a_turn_asks_before_it_computes():
    assert pipeline(4, latency=8, compute=4, tiles_ahead=1, ids=3) == [
        ((0, 3), (3, 11), (11, 15), (11, 19)),
        ((3, 6), (11, 19), (19, 23), (19, 27)),
        ((11, 14), (19, 27), (27, 31), (27, 35)),
        ((19, 22), (27, 35), (35, 39), (35, 39)),
    ]


@pytest.mark.parametrize("tiles_ahead", [0, 1, 2, 3, 9])
@pytest.mark.parametrize("ids", [0, 3, 30])
@pytest.mark.parametrize("latency", [1, 8])
def test_a_schedule_is_possible(tiles_ahead, ids, latency):
    tiles = pipeline(7, latency, 2, tiles_ahead, ids)
    for tile in tiles:
        assert tile.ids[0] >= 0 and tile.ids[1] - tile.ids[0] == ids
        assert tile.reads[0] >= tile.ids[1]
        assert tile.reads[1] - tile.reads[0] == latency
        assert tile.computes[0] >= tile.reads[1]
        assert tile.computes[1] - tile.computes[0] == 2
        assert tile.turn[0] <= tile.computes[0] and tile.computes[1] <= tile.turn[1]
    assert tiles[0].ids[0] == 0
    assert all(a.turn[1] == b.turn[0] for a, b in pairwise(tiles))
    for one, other in zip(tiles, tiles[tiles_ahead:], strict=False):
        assert other.reads[0] == (one.turn[0] if tiles_ahead else one.ids[1])
    for one, other in zip(tiles, tiles[tiles_ahead + 1 :], strict=False):
        assert other.ids[0] == one.turn[0 if tiles_ahead else 1]


def bars(row):
    """From when to when each box of a lane is, and its tile; those that are strong."""
    ends = [*accumulate(row.widths)]
    every = zip([0, *ends], ends, row.words, row.tones, strict=False)
    every = [(start, end, int(word), tone) for start, end, word, tone in every if word]
    return every, [bar[:3] for bar in every if bar[3] == strong(0)]


def test_what_a_turn_does_is_strong_and_overlaps_with_a_tile_ahead():
    rows = plot_pipeline(RUNS, "title").scene.rows
    assert [row.label for row in rows] == ["block ids", "K and V", "computes"] * 2
    begun = [bars(row)[1] for row in rows]
    assert begun[:3] == [[(0, 3, 0)], [(3, 11, 0)], [(11, 15, 0)]]
    assert begun[3:] == [[(11, 14, 2)], [(11, 19, 1)], [(11, 15, 0)]]
    moments = [sorted(moment for moment, _ in row.signs) for row in rows]
    assert moments == [[0, 15, 30, 45, 60, 75, 90]] * 3 + [AHEAD_TURNS] * 3


AHEAD_TURNS = [11, 19, 27, 35, 43, 51, 55]


@pytest.mark.parametrize("ids", [0, 3])
def test_every_tile_is_in_each_row_once_and_boxes_of_a_lane_are_apart(ids):
    tiles, found = pipeline(9, 8, 2, tiles_ahead=3, ids=ids), {}
    label = None
    for row in plot_pipeline({"a": tiles}, "title").scene.rows:
        label = row.label or label
        found.setdefault(label, []).extend(bars(row)[0])
    parts = {"block ids": "ids", "K and V": "reads", "computes": "computes"}
    assert [*found] == [*parts][not ids :]
    for label, every in found.items():
        spans = {tile: (start, end) for start, end, tile, _ in every}
        assert len(spans) == len(every) == 9
        assert [spans[n] for n in range(9)] == [getattr(t, parts[label]) for t in tiles]


def test_a_pipeline_says_how_long_it_takes():
    figure = plot_pipeline(RUNS, "title")
    said = {words.text: words.color for words in figure.scene.of(Words)}
    assert said["6 tiles in 90 units"] == palette.BAD
    assert said["6 tiles in 55 units"] == palette.GOOD
    assert {"a turn: 15 units", "a turn: 8 units", "before the loop"} <= {*said}
    does = "in turn i:", "block ids of tile i + 2", "K and V of tile i + 1"
    places = [places_of(figure, words) for words in (*does, "computes tile i")]
    assert {x for ((x, _),) in places} == {places[0][0][0]}  # one below the other
    assert places == sorted(places, key=lambda found: found[0][1])
    uneven = {"uneven": pipeline(6, 8, 2, tiles_ahead=2, ids=3)}
    said = texts(plot_pipeline(uneven, "title"))
    assert any(words.startswith("the first turn: 3 units") for words in said)


def test_a_legend_names_only_what_is_drawn():
    assert "not A's" in texts(pointers(range(14, 21)))
    assert "not A's" not in texts(pointers(range(2, 10)))


# --- sizes ----------------------------------------------------------------------------


def test_the_drawn_rule_is_the_package_s(monkeypatch):
    device = sizes.Device(132, 2**20, (torch.float16,), can_overlap=True)
    monkeypatch.setattr(sizes, "device_of", lambda _: device)
    q, values = torch.zeros(1, 32, 128), torch.zeros(1, 16, 8, 128)
    for num_seqs in range(1, 250):
        found, num_splits = sizes.decode_sizes(
            q.half(), values.half(), num_seqs, 4096, 4096
        )
        pieces = num_seqs * 8 / 132
        name = chosen(pieces)
        assert found[1:4] == KINDS[name][:3], num_seqs  # tile, warps, stages
        room = KINDS["small"].room
        assert num_splits == (max(1, int(room / pieces)) if name == "small" else 1)


def test_the_strip_says_what_is_taken_from_where_to_where_and_why():
    """While all run at once, what has more under way; then, whose waves are fuller."""
    taken, why = size_rule().scene.rows
    assert taken.words == ["small", "large", "medium", "large", "medium"]
    assert taken.widths == pytest.approx([1.5, 1.5, 1, 2, 2], abs=0.02)
    assert dict(zip(why.words, why.widths, strict=True)) == {
        "few: split, until up to 4 are on each": 1.5,
        "all run at once: large ones have more under way": 1.5,
        "large ones need two waves": 1,
        "both run in several waves: the emptier waves lose": 4,
    }
    rooms = [KINDS[name].room for name in ("large", "medium")]
    for pieces, waves in ((3, [1, 1]), (3.01, [2, 1]), (4, [2, 1]), (4.01, [2, 2])):
        assert [-(-pieces // room) for room in rooms] == waves
    assert chosen(3.01) == chosen(4) == "medium"
    kib = {name: kind.kib for name, kind in KINDS.items()}
    assert kib == {"small": 32, "medium": 32, "large": 64}
    assert chosen(1.5) == chosen(3) == max(kib, key=kib.get)


def test_batches_have_signs_where_they_lie():
    batches = {"a batch": 3.0, "another": 3.1, "third": 7.0}
    (taken, *_) = size_rule(batches).scene.rows
    assert taken.signs == [(pieces, name) for name, pieces in batches.items()]


def parts_of(batches):
    """Of all examples, for both kinds: what of each wave is used, and what is not."""
    rows = size_rule(batches, examples=batches).scene.rows[2:]
    parts = [[*zip(row.tones, row.widths, strict=True)] for row in rows]
    return [
        ([wide for tone, wide in row if tone != KEPT], sum(wide for _, wide in row))
        for row in parts
    ]


@pytest.mark.parametrize(
    "pieces", [*EXAMPLES.values(), 1.5, 3.0, 3.5, 4.0, 5.01, 6.0, 7.9]
)
def test_waves_are_as_wide_as_their_places_and_filled_as_far_as_they_are_used(pieces):
    for room, (used, whole) in zip((3, 4), parts_of({"a": pieces}), strict=True):
        assert whole == pytest.approx(-(-pieces // room) * room)
        *full, last = used
        assert full == [room] * len(full)
        assert last == pytest.approx(pieces - room * len(full))


def test_waves_say_how_many_run_in_how_many_places():
    """In what is used, if the words have room there; else in what is not."""
    rows = size_rule(EXAMPLES, examples=EXAMPLES).scene.rows[2:]
    assert [row.words for row in rows] == [
        ["1.94 of 3", ""], ["1.94 of 4", ""],
        ["3 of 3", "3 of 3", "", "0.06 of 3"], ["4 of 4", "2.06 of 4", ""],
    ]  # fmt: skip
    assert rows[2].tones[3] == KEPT


def verdicts(figure):
    """What is said at the right of waves, from above."""
    return [row.aside for row in figure.scene.rows[2:]]


def test_an_example_says_what_decides_and_what_is_taken():
    """In one wave, what is under way; else how full the waves are."""
    figure = size_rule({"a": 0.5, **EXAMPLES}, examples=EXAMPLES)
    assert verdicts(figure) == [
        "124 KiB under way: taken", "62 KiB under way",
        "3 waves, 67 % full", "2 waves, 76 % full: taken",
    ]  # fmt: skip
    said, start = texts(figure), "pieces on each multiprocessor"
    assert f"1.94 {start}, all at once: which kind has more under way?" in said
    assert f"6.06 {start}: whose waves are fuller?" in said


@pytest.mark.parametrize(
    "pieces, said",
    [
        (3.0, ["192 KiB under way: taken", "96 KiB under way"]),
        (3.5, ["2 waves, 58 % full", "1 wave, 88 % full: taken"]),
        (5.0, ["2 waves, 83 % full: taken", "2 waves, 62 % full"]),
    ],
)
def test_how_full_they_are_decides_where_a_kind_needs_two_waves(pieces, said):
    assert verdicts(size_rule({"a": pieces}, examples="a")) == said


def test_in_one_wave_what_has_more_under_way_is_taken():
    for pieces in (n / 100 for n in range(150, 301)):
        under_way = {name: pieces * KINDS[name].kib for name in ("large", "medium")}
        assert chosen(pieces) == max(under_way, key=under_way.get), pieces


def test_whose_waves_are_emptier_is_not_taken():
    """Where both run in several, as the words below the picture say; up to its end."""
    for pieces in (n / 100 for n in range(401, 800)):
        filled = {
            name: pieces / (room * -(-pieces // room))
            for name, room in (("large", 3), ("medium", 4))
        }
        assert chosen(pieces) == max(filled, key=filled.get), pieces


# --- tiles, blocks, splits ------------------------------------------------------------


def test_a_tile_is_drawn_with_the_blocks_that_it_reads():
    """Tile 1 has positions 8 to 15: A's blocks 6 and 8, wherever they lie."""
    table, scene = tables_of()["A"], walk(8, now=1).scene
    assert table.block_ids[2:4] == [6, 8]
    tiles, held, blocks, pool = scene.rows
    assert held.widths == [4] * 5 + [1]  # of block 11, its left end
    assert tiles.words == ["tile 0", "tile 1", "tile 2", "masked"]
    assert tiles.tones == [soft("A"), strong("A"), soft("A"), KEPT]
    assert blocks.words == [f"block {block}" for block in table.block_ids]
    assert [at for at in range(16) if pool.tones[at] == strong("A")] == [6, 8]
    assert [link[:4] for link in scene.links] == [
        ("blocks of 4", 2, "the pool", 6), ("blocks of 4", 3, "the pool", 8),
    ]  # fmt: skip
    assert pool.tones.count(free()) == 4


def test_blocks_that_are_left_out_of_a_pool_are_hinted_at():
    scene = walk(64, 2, **(LONG | {"num_blocks": 500})).scene
    blocks, pool = scene.rows[2:]
    assert "…" in pool.words and others() not in pool.tones
    marked = [pool.tones[link.end] for link in scene.links]
    assert marked == [strong("A")] * blocks.tones.count(strong("A")) == marked[:4]


@pytest.mark.parametrize("context", [1, 15, 16, 91, 430])
@pytest.mark.parametrize("num_splits", [1, 2, 7, 40])
def test_splits_share_all_positions_in_whole_tiles(context, num_splits):
    shares = split_shares(context, num_splits, 16)
    assert len(shares) == num_splits
    assert [p for share in shares for p in share] == list(range(context))
    assert all(share.start % 16 == 0 or not share for share in shares)


def test_splits_are_those_of_the_kernel():
    """It leaves a logarithm of -inf exactly where a split has no positions."""
    from unittest.mock import patch

    from minipaged.attention.kernels import decode
    from minipaged.lab import random_layer
    from minipaged.lab.tour import ladder

    left, merge = [], decode.merge_splits

    def recording(out, parts, log_totals, *rest):
        left.append(log_totals.clone())
        merge(out, parts, log_totals, *rest)

    layer = random_layer([(90, 1)], num_heads=2, num_kv_heads=1, head_dim=16)
    with patch.object(decode, "merge_splits", recording):
        layer.attend(lambda *given: ladder.shipped(*given, num_splits=4))
    tile = next(t for t in (16, 32, 64, 128) if _empty(91, 4, t) == _infinite(left[0]))
    assert tile


def _empty(context, num_splits, tile):
    return [not share for share in split_shares(context, num_splits, tile)]


def _infinite(log_totals):
    return log_totals[0, 0].isinf().tolist()


@pytest.mark.parametrize("dims", [(0,), (0, 1, 2)])
def test_the_merged_result_is_that_of_all_weights(dims):
    figure = split_and_merge(THREE_AND_NOTHING, dims=dims)
    draw = torch.Generator().manual_seed(0)
    means = torch.randn(4, 8, generator=draw)[:3].double()
    weights = torch.tensor(THREE_AND_NOTHING[:3]).double().exp2()
    merged = (weights @ means / weights.sum())[list(dims)].tolist()
    said = texts(figure)
    at = said.index("not weighted yet")
    found = [words.replace("−", "-") for words in said[at - len(dims) : at]]
    assert found == [f"{n:.2f}" for n in merged]
    assert "−∞" in said and said.count("nothing") == 1


def test_a_split_is_as_wide_as_its_length_and_below_as_its_weights():
    figure = split_and_merge(THREE_AND_NOTHING)
    sums = torch.tensor(THREE_AND_NOTHING[:3]).exp2()
    above = [box for box in rims(figure) if box.height > 20]
    below = [b for b in boxes(figure, palette.sequence_colour("A")) if b.height > 20]
    for band, wanted in ((above, (32, 32, 27)), (below, sums.tolist())):
        widths = [box.width for box in band]
        assert widths == pytest.approx(
            [part * sum(widths) / sum(wanted) for part in wanted], abs=1.3
        )
        assert [box.x for box in band] == sorted(box.x for box in band)
    assert all(box.y > above[0].y + 26 for box in below)


def test_a_share_is_a_sum_of_weights_divided_by_all():
    """59.3 + 72 + 53.1 = 184.4: 2 ** 5.89, 2 ** 6.17 and 2 ** 5.73."""
    figure = split_and_merge(THREE_AND_NOTHING)
    rows = {}
    for words in figure.scene.of(Words):
        rows.setdefault(words.y, []).append((words.x, words.text))
    said = [" ".join(words for _, words in sorted(row)) for row in rows.values()]
    draw = torch.Generator().manual_seed(0)
    means = torch.randn(4, 8, generator=draw)[:, 0].tolist()
    shares = ("59.3", 0.322), ("72.0", 0.391), ("53.1", 0.288)
    logs = "5.890", "6.170", "5.730"
    for log2, (total, share), mean in zip(logs, shares, means, strict=False):
        line = f"{log2} {total} {total} / 184.4 = {share:.2f} × {mean:.2f} = "
        line = (line + f"{share * mean:.2f}").replace("-", "−")
        assert said.count(line) == 1, line
    assert said.count("−∞ 0.0 0.0 / 184.4 = 0.00") == 1
    assert sum(words.startswith("merged 184.4 1 ") for words in said) == 1
    ((_, last),), ((_, merged),) = (places_of(figure, w) for w in ("nothing", "merged"))
    (rule,) = [line for line in lines(figure) if line.alpha == 0.5]
    assert last + 8 < rule.points[0][1] < merged - 8


def test_bars_of_a_split_stand_in_its_row():
    """Hollow, then filled and shorter by its share; on the side of its sign."""
    figure = split_and_merge([1.0, 1.0], 64)
    draw = torch.Generator().manual_seed(0)
    means = torch.randn(2, 8, generator=draw)[:, 0].tolist()
    filled = [b for b in boxes(figure, palette.sequence_colour("A")) if b.height == 13]
    hollow = [b for b in rims(figure) if 11 < b.height < 13 and b.x > 300]
    assert len(hollow) == 2 and len(filled) == 3  # the last one is the result's
    zero = lines(figure)[-1].points[0][0]
    for number, mean in enumerate(means):
        ((_, y),) = places_of(figure, f"split {number}")
        for bar, share in ((hollow[number], 1.0), (filled[number], 0.5)):
            assert bar.y < y + 8 < bar.y + bar.height
            wide = 54 * share * abs(mean) / max(map(abs, means))
            assert bar.width == pytest.approx(wide, abs=1.3)
        assert (filled[number].x < zero - 0.1) == (mean < 0)


def test_busy_multiprocessors_are_counted():
    scene = plot_multiprocessors({"few": 8, "many": 512}, "title").scene
    few, many = ([w for row in rows for w in row.words] for rows in halves(scene.rows))
    assert few == ["1"] * 8 + [""] * 124
    assert many == ["4"] * (512 - 3 * 132) + ["3"] * (132 - (512 - 3 * 132))
    colours = {words.text: words.color for words in scene.of(Words)}
    assert colours["8 of 132 busy"] == palette.BAD
    assert colours["132 of 132 busy"] == palette.GOOD


def halves(rows):
    return rows[: len(rows) // 2], rows[len(rows) // 2 :]


# --- measurements ---------------------------------------------------------------------


def test_a_ladder_says_what_each_rung_gains():
    said = plot_ladder(SHARES, "title").scene.of(Words)
    bold = [words.text for words in said if words.weight == "bold"]
    best = [f"× {50 / 3.6:.1f}", f"× {74 / 27:.1f}", f"× {49 / 8:.1f}"]
    ends = ["50 %", "74 %", "94 %"]
    assert sorted(bold) == sorted([*BATCHES, *best, *ends, *map(str, range(1, 6))])
    said = [words.text for words in said]
    assert {"0.6 %", "4.7 %", "8.0 %"} <= {*said}
    assert said.count("rung 5 reaches") == 3
    ticks = ["0.3 %", "1 %", "3 %", "10 %", "30 %", "100 %"]  # from 0.6 % on
    assert {*ticks} <= {*said} and not {"0.1 %", "0.03 %"} & {*said}


def test_every_step_says_its_factor():
    path = {"a": 20.0, "b": 24.0, "c": 24.5, "d": 24.0, "e": 31.5, "f": 30.0, "g": 31.0}
    said = texts(plot_ladder({"batch": path}, "title"))
    factors = [words for words in said if words.startswith("× ")]
    assert factors == ["× 1.20", "× 1.02", "× 0.98", "× 1.3", "× 1.0", "× 1.03"]


def test_a_step_of_the_ladder_is_as_high_as_its_factor():
    """In all panels; rungs stand below each other; the scale is logarithmic."""
    paths = {"x": {"a": 1.0, "b": 50.0, "c": 20.0}, "y": {"a": 20, "b": 60, "c": 80}}
    stairs = line_colour(0), palette.BAD
    lines = plot_ladder(paths, "title").scene.of(Stroke)
    lines = [line.points for line in lines if line.color in stairs]
    steps = [(x, low - high) for (x, low), (other, high) in lines if x == other]
    unit = steps[0][1] / log(50)
    factors = [unit * log(n) for n in (50, 20 / 50, 3, 80 / 60)]
    assert unit > 10 and [step for _, step in steps] == pytest.approx(factors)
    assert [x for x, _ in steps[:2]] == [x for x, _ in steps[2:]]


def test_the_largest_step_of_a_batch_is_heavy_and_a_loss_is_orange():
    scene = plot_ladder({"batch": {"a": 20.0, "b": 10.0, "c": 40.0}}, "title").scene
    colours = {words.text: words.color for words in scene.of(Words)}
    assert colours["× 0.5"] == palette.BAD != colours["× 4.0"]
    (loss,) = (line for line in scene.of(Stroke) if line.color == palette.BAD)
    (heavy,) = (line for line in scene.of(Stroke) if line.linewidth > 3)
    assert heavy.points[0][0] > loss.points[0][0]  # the third rung's, not the second's


def test_each_large_step_says_what_it_removes_in_every_batch():
    """From 1.3 times as fast on; a batch may have its own words, or words alone."""
    alone, _, many = BATCHES
    removed = {2: "loads", 3: "exchanges", (many, 3): "a wave", (alone, 4): "idle"}
    removed |= {(many, 9): "no rung"}
    said, expected = texts(plot_ladder(SHARES, "title", removed=removed)), Counter()
    for batch, path in SHARES.items():
        for rung, (before, after) in enumerate(pairwise(path.values()), start=2):
            words = removed.get((batch, rung), removed.get(rung))
            if words and after / before >= 1.3:
                expected[f"removes {words}"] += 1
    assert Counter(words for words in said if words.startswith("removes")) == expected
    assert expected["removes a wave"] == 1 <= expected["removes exchanges"]
    for share, is_said in ((64.0, False), (65.0, True)):
        path = {"a": 50.0, "b": share}
        said = texts(plot_ladder({"x": path}, "t", removed={2: "none"}))
        assert ("removes none" in said) == is_said


def test_what_lies_outside_the_axis_is_left_out():
    line = {0.1: 5.0, 1.0: 20.0, 2.0: 40.0, 4.0: 80.0, 100.0: 50.0}
    figure = plot_on_each({"a": line}, "title", 4, "four fit")
    (curve,) = figure.scene.curves
    assert curve.points == ((1.0, 20.0), (2.0, 40.0), (4.0, 80.0))
    said = texts(figure)
    assert {"four fit", "64", "0.25"} <= {*said} and "0.125" not in said


def test_it_says_how_much_is_under_way_and_how_many_are_best():
    curves, _ = splits_on_each(measured_tuning())
    options = {"megabytes": 4.325, "aim": (4, "128 KiB on each")}
    said = texts(plot_on_each(curves, "title", 6, "six run at a time", **options))
    assert "six run at a time: 26 MB; the others wait" in said
    assert "128 KiB on each: 17 MB" in said
    assert any(words.endswith("4.3 MB under way for one on each") for words in said)
    alone = texts(plot_on_each(curves, "title", 6, "six run at a time"))
    assert "six run at a time" in alone and not any("MB" in words for words in alone)


def test_signs_stand_in_the_cells_that_have_them():
    """One more of each is in the legend."""
    cells = {(16, stages): 10.0 * stages for stages in (1, 2, 3)}
    signs = {"little": {"a": [(16, 2), (16, 3)]}, "empty": {"a": [(16, 1), (16, 3)]}}
    signs["spills"] = {"a": [(16, 3)]}
    figure = plot_sweep({"a": cells}, "title", "tile", "num_stages", signs)
    assert {"little", "empty", "spills", "num_stages →"} <= set(texts(figure))
    number = {n: places_of(figure, str(10 * n))[0] for n in (1, 2, 3)}
    for marker, of_map in zip("ovs", signs.values(), strict=True):
        *found, _ = dots(figure, marker)
        wanted = [number[stages] for _, stages in of_map["a"]]
        assert len(found) == len(wanted)
        for (x, y), (middle, level) in zip(found, wanted, strict=True):
            assert abs(x - middle) < 30 and abs(y - level) < 14  # half of a cell


@pytest.mark.parametrize(("in_row", "least"), [(2, 9), (4, 5)])
def test_signs_are_large_and_clear_of_the_numbers(in_row, least):
    """Beside them; in narrow cells above or below. All three may be in one cell."""
    cells = {(tile, n): 10.0 + n for tile in (16, 32) for n in range(1, 7)}
    maps = {name: cells for name in "abcd"}
    signs = {said: {name: [*cells] for name in maps} for said in "xyz"}
    scene = plot_sweep(maps, "title", "tile", "n", signs, in_row=in_row).scene
    for sign in scene.of(Dots):
        assert (sign.size + sign.linewidth) / 0.72 == pytest.approx(least)
    numbers = [words for words in scene.of(Words) if words.text in ("11", "13", "16")]
    for words, sign in product(numbers, scene.of(Dots)):
        half = width_of(words.text, PART, words.weight == "bold") / 2
        for x, y in sign.places:
            beside = abs(x - words.x) > half + least / 2
            assert beside or abs(y - words.y) > 5 + least / 2 - 1


def test_a_ring_is_no_square_even_in_a_small_cell():
    signs = {"little": {"a": [(16, 1)]}, "x": {"a": []}, "spills": {"a": [(16, 1)]}}
    scene = plot_sweep({"a": {(16, 1): 10.0}}, "title", "tile", "n", signs).scene
    faces = {sign.marker: sign.color for sign in scene.of(Dots)}
    assert faces["o"] == "none" != faces["s"]


def test_a_sign_that_no_cell_has_is_not_explained():
    cells = {(16, stages): 10.0 * stages for stages in (1, 2, 3)}
    signs = {"empty": {"a": []}, "spills": {"a": [(16, 3)], "another": [(16, 1)]}}
    figure = plot_sweep({"a": cells}, "title", "tile", "num_stages", signs)
    assert not dots(figure, "o") and len(dots(figure, "v")) == 1 + 1
    assert "empty" not in texts(figure)


def test_a_sweep_marks_the_best_and_leaves_out_what_did_not_run():
    cells = {(16, 1): 20.0, (16, 2): 31.0, (32, 1): 94.0}
    figure = plot_sweep({"a": cells}, "title", "tile", "num_stages")
    said = texts(figure)
    assert {"20", "31", "94", "the best"} <= set(said)
    bold = [w.text for w in figure.scene.of(Words) if w.weight == "bold"]
    assert bold == ["a", "94", "94"]  # one in the legend
    faces = {(box.x, box.y) for box in figure.scene.of(Box) if box.width > 2}
    assert len(faces) == 3 + 1 + 2  # cells, the legend's, and two frames


def test_the_best_of_each_map_has_a_frame_and_the_legend_shows_it():
    """Of two that say 94 the better one; between its number and its edge."""
    maps = {"a": {(16, 1): 94.2, (16, 2): 94.3}, "b": {(16, 1): 20.0, (16, 2): 10.0}}
    figure = plot_sweep(maps, "title", "tile", "n")
    said = [w for w in figure.scene.of(Words) if w.weight == "bold" and w.text != "a"]
    best = [words for words in said if words.text != "b"]
    assert [words.text for words in best] == ["94", "20", "94"]  # one in the legend
    assert (best[0].x, best[0].y) == places_of(figure, "94")[1]
    for words, frame in zip(best, rims(figure, 1.6), strict=True):
        middle = frame.x + frame.width / 2, frame.y + frame.height / 2
        assert middle == pytest.approx((words.x, words.y))
        assert width_of("94", PART, bold=True) < frame.width < 60 and frame.height > 12
        assert frame.rim == words.color


def test_in_a_narrow_cell_the_frame_does_not_run_through_the_number():
    cells = {(16, n): 20.0 + n for n in range(6)}
    maps = {name: cells for name in "abcd"}
    figure = plot_sweep(maps, "title", "tile", "n", in_row=4)
    for frame in rims(figure, 1.6)[:-1]:
        assert frame.width - 1.6 / 0.72 > width_of("25", PART, bold=True)


def test_all_maps_and_the_bar_share_one_scale():
    maps = {"a": {(16, 1): 30.0, (16, 2): 80.0}, "b": {(16, 1): 80.0, (16, 2): 90.0}}
    figure = plot_sweep(maps, "title", "tile", "n")
    faces = [box for box in figure.scene.of(Box) if box.face != "none"]
    slowest, fast, same, fastest = (box.face for box in faces[:4])
    assert fast == same and len({slowest, fast, fastest}) == 3
    bar = [box for box in faces if box.width <= 2]
    assert (bar[0].face, bar[-1].face) == (slowest, fastest)
    x, _ = places_of(figure, "80")[2]  # where the bar says 80, it has the colour of 80
    assert fast in [box.face for box in bar if abs(box.x - x) < 2]


def test_a_map_has_only_the_columns_that_were_measured():
    maps = {"a": {(16, 1): 30.0, (16, 8): 40.0}, "b": {(16, 128): 50.0}}
    said = texts(plot_sweep(maps, "title", "tile", "num_splits"))
    assert [said.count(words) for words in ("1", "8", "128", "16")] == [1, 1, 1, 2]


@pytest.mark.parametrize("name", palette.THEMES)
def test_faster_cells_are_stronger(monkeypatch, name):
    monkeypatch.setenv("MINIPAGED_THEME", name)
    cells = {(16, n): 10.0 * n for n in range(1, 10)}
    figure = plot_sweep({"a": cells}, "title", "tile", "n")
    faces = [box.face for box in figure.scene.of(Box) if box.face != "none"]
    light = [palette.relative_luminance(face) for face in faces[:9]]
    assert light == sorted(light, reverse=True) and len(set(light)) == 9


def test_cells_with_the_same_number_look_the_same_and_white_begins_at_one():
    cells = {(tile, n): 20 + 0.37 * (tile + n) for tile in (0, 100) for n in range(99)}
    figure = plot_sweep({"a": cells}, "title", "tile", "n")
    inks = {}
    for text in figure.scene.of(Words):
        if text.color in ("#FFFFFF", "#000000"):
            inks.setdefault(int(text.text), set()).add(text.color)
    assert all(len(colours) == 1 for colours in inks.values()) and len(inks) > 60
    order = [colours.pop() for _, colours in sorted(inks.items())]
    assert order == sorted(order)  # black ones first


def lines_of(figure, width, style):
    """The ends of all lines so wide, in this style."""
    found = [line for line in lines(figure) if line.linewidth == width]
    return [line.points for line in found if line.linestyle == style]


def law(figure):
    """The rising lines."""
    return lines_of(figure, 1.6, DASHED)


FEW = {
    "a": [(1.0, 800.0, []), (4.0, 3000.0, []), (6.0, 1900.0, [WAVE])],
    "b": [(4.5, 1500.0, []), (40.0, 3900.0, []), (40.0, 3000.0, []), (9.0, 3700.0, [])],
}


def few_under_way(ceiling=4600, points=FEW, **options):
    return plot_under_way(points, ceiling, "title", **options)


@pytest.mark.parametrize("enough", [2.3, 4, 6])
def test_enough_and_twice_as_much_are_marked_where_they_are(enough):
    """Through both fields; what they say stands above the first."""
    figure = few_under_way(1000 * enough)
    dotted = lines_of(figure, 1.6, DOTTED)
    assert len(dotted) == 2 * (1 + 2)
    places = sorted({start[0] for start, _ in dotted})
    ticks = {n: places_of(figure, n)[0][0] for n in ("1", "2", "5", "10")}
    each = (ticks["10"] - ticks["1"]) / log(10)
    assert places == pytest.approx(
        [ticks["1"] + each * log(n * enough) for n in (1, 2)]
    )
    written = [f"{n:.1f}" if n < 10 else f"{n:.0f}" for n in (enough, 2 * enough)]
    left, right = f"{written[0]} MB: with less,", f"{written[1]} MB:"
    ((left, _),), ((right, _),) = (places_of(figure, words) for words in (left, right))
    assert 0 < places[0] - left < 10 and 0 < right - places[1] < 10
    assert "under way / 1 µs" in texts(figure)


def test_the_best_place_is_marked_above_each_field_and_nowhere_else():
    figure = few_under_way(best=("128 KiB on each", 20.0))
    ticks = {n: places_of(figure, n)[0][0] for n in ("1", "10")}
    x = ticks["1"] + (ticks["10"] - ticks["1"]) * log(20) / log(10)
    levels = [ends[0][1] for ends in lines_of(figure, 1.6, "-")]
    found = dots(figure, "v")
    assert [at for at, _ in found] == pytest.approx([x, x])
    assert all(0 < a - b < 10 for a, (_, b) in zip(levels, found, strict=True))
    for words in ("20 MB:", "128 KiB on each"):
        ((left, _),) = places_of(figure, words)
        assert 0 < left - x < 10
    assert not dots(few_under_way(), "v")


def test_all_launches_are_drawn_by_their_faults_and_lie_where_they_should():
    figure = few_under_way()
    right, faulty = dots(figure, "o"), dots(figure, "x")
    # The legend's two, and six launches.
    assert len(right) == 2 + 6 and len(faulty) == 1 + 1
    assert "has another fault" in texts(figure)
    ticks = {n: places_of(figure, n)[0][0] for n in ("1", "10")}
    high = {n: places_of(figure, n)[0][1] for n in ("2,000", "1,000")}
    each = (ticks["10"] - ticks["1"]) / log(10), high["2,000"] - high["1,000"]
    for megabytes, rate, faults in FEW["a"]:
        x = ticks["1"] + each[0] * log(megabytes)
        y = high["1,000"] + each[1] * log(rate / 1000) / log(2)
        near = [
            place
            for place in (faulty if faults else right)
            if place == pytest.approx((x, y), abs=0.01)
        ]
        assert near


# Batches "a" and "b": below 4.6 MB, between, above 9.2 MB; by GB/s of b's at 9 MB.
NEAR = {
    3700.0: ("1 of 2", "0 of 1", "0 of 0", "0 of 1", "0 of 1", "1 of 2"),
    3750.0: ("1 of 2", "0 of 1", "0 of 0", "0 of 1", "1 of 1", "1 of 2"),
}


def near_signs(figure):
    """The signs of launches near the best, the legend's first."""
    return [one for one in figure.scene.of(Dots) if one.color == line_colour(2)]


def near_places(figure):
    """Where they are, without the legend's."""
    return [place for one in near_signs(figure)[1:] for place in one.places]


@pytest.mark.parametrize("faults", [[], [WAVE]])
@pytest.mark.parametrize("rate", NEAR)
def test_those_near_the_best_are_counted_and_seen_with_or_without_a_fault(rate, faults):
    """From above, and from left to right; in the widest region it is said what counts.

    The least time is the highest rate: 3,000 and 3,900 GB/s.
    """
    figure = few_under_way(points=FEW | {"b": [*FEW["b"][:3], (9.0, rate, faults)]})
    counts = [words for words in texts(figure) if re.match(r"\d+ of \d+", words)]
    which = [at for at, words in enumerate(counts) if words.endswith(" near the best")]
    assert tuple(words.split(" are")[0] for words in counts) == NEAR[rate]
    assert which == [0, 3]
    lefts = [places_of(figure, words)[0][0] for words in counts[:3]]
    assert lefts == sorted(lefts)
    total = sum(int(words.split()[0]) for words in NEAR[rate])
    assert len(near_places(figure)) == total
    assert "near the best: at most 5 % more time" in texts(figure)


def test_the_sign_of_a_launch_near_the_best_lies_where_it_should():
    figure = few_under_way()
    ticks = {n: places_of(figure, n)[0][0] for n in ("1", "10")}
    each = (ticks["10"] - ticks["1"]) / log(10)
    wanted = [ticks["1"] + each * log(megabytes) for megabytes in (4.0, 40.0)]
    assert [x for x, _ in near_places(figure)] == pytest.approx(wanted, abs=0.01)
    plain = [one for one in figure.scene.of(Dots) if one.color == line_colour(0)]
    for sign in near_signs(figure):
        assert sign.layer > plain[0].layer and sign.size > plain[0].size
        assert sign.rim == palette.theme().ink


def test_near_the_best_is_what_the_notebook_counts():
    h200 = measured_tuning("nvidia-h200")
    ceiling, batch = h200["ceilings"]["read_gb_per_s"], "8x4k"
    limits = 0, ceiling / 1e3, 2 * ceiling / 1e3, inf
    wanted = near_best(h200, [batch], limits).values()
    figure = plot_under_way(points_under_way(h200, (batch,)), ceiling, "title")
    counts = [words for words in texts(figure) if re.match(r"\d+ of \d+", words)]
    found = [words.split(" are")[0] for words in counts]
    assert found == [f"{near} of {count}" for near, count in wanted]
    green = near_places(figure)
    assert len(green) == sum(near for near, _ in wanted)
    assert all(dist(one, other) > 3 for one, other in combinations(green, 2))


def test_those_with_a_fault_lie_behind_and_are_smaller():
    signs = few_under_way().scene.of(Dots)
    faulty, right = ([one for one in signs if one.marker == sign] for sign in "xo")
    assert max(one.layer for one in faulty) < min(one.layer for one in right)
    assert max(one.size for one in faulty) < min(one.size for one in right)
    assert {one.color for one in faulty} == {palette.theme().rim}


def test_launches_that_would_hide_each_other_stand_side_by_side():
    point = 10.0, 1000.0, []
    figure = plot_under_way({"a": [point] * 3}, 4600, "title")
    found = sorted(dots(figure, "o")[-3:])
    assert len({y for _, y in found}) == 1
    apart = [b[0] - a[0] for a, b in pairwise(found)]
    assert apart == [5.0, 5.0]  # nearer than a number's error matters, and seen
    slow = [(10.0, 100.0, [])] * 3
    figure = plot_under_way({"a": [point, *slow]}, 4600, "title")
    found = sorted(dots(figure, "o")[-3:])
    assert len({y for _, y in found}) == 1
    assert [b[0] - a[0] for a, b in pairwise(found)] == [5.0, 5.0]


@pytest.mark.parametrize("faults", [(), (WAVE,)])
def test_that_launches_are_moved_aside_is_said_above_what_the_signs_mean(faults):
    figure = plot_under_way({"a": [(10.0, 1000.0, faults)]}, 4600, "title")
    ((_, height),) = places_of(figure, MOVED)
    ((left, level),) = places_of(figure, "near the best: at most 5 % more time")
    assert 10 < level - height < 30
    later = ["has no other fault", "has another fault"]
    assert [words in texts(figure) for words in later] == [bool(faults)] * 2
    for words in later * bool(faults):
        ((right, same),) = places_of(figure, words)
        assert same == level and right > left + 50
        left = right


def test_paging_has_a_point_for_each_size_and_series():
    in_order, shuffled = paging(1).scene.curves
    (named,) = places_of(paging(4), "in order")
    assert places_of(paging(4), "shuffled")[0][1] == named[1]  # side by side
    sizes = [2**n for n in range(8)]
    assert in_order.points == tuple((size, 1 + 0.1 / size) for size in sizes)
    assert shuffled.points[0] == (1, 1.7)


def test_the_law_is_what_is_under_way_over_a_microsecond():
    """In all fields; it ends at the ceiling, which has 4,600 GB/s."""
    figure = few_under_way()
    level = lines_of(figure, 1.6, "-")
    rising = law(figure)
    assert len(level) == len(rising) == 2
    ticks = {n: places_of(figure, n)[0][0] for n in ("1", "10")}
    for (start, end), (ceiling, _) in zip(rising, level, strict=True):
        assert end[1] == pytest.approx(ceiling[1]) and start[1] > end[1]
        each = (ticks["10"] - ticks["1"]) / log(10)
        assert end[0] == pytest.approx(ticks["1"] + each * log(4.6))
    high = {n: places_of(figure, n)[0][1] for n in ("2,000", "1,000")}
    (start, _), *_ = rising
    megabytes = exp((start[0] - ticks["1"]) / each)
    doublings = (start[1] - high["1,000"]) / (high["2,000"] - high["1,000"])
    assert 1000 * 2**doublings == pytest.approx(1000 * megabytes)


# --- scales ---------------------------------------------------------------------------


@pytest.mark.parametrize("width", [300.0, 640.0, -150.0])
@pytest.mark.parametrize("is_logarithmic", [True, False])
@pytest.mark.parametrize(
    "ends", [(0.2, 1.1), (0.97, 1.06), (3, 94), (1.0, 1.0), (5, 9000)]
)
def test_ticks_are_round_and_apart(ends, is_logarithmic, width):
    scale = scale_of(ends, 0.0, width, is_logarithmic)
    assert scale.lowest <= min(ends) and max(ends) <= scale.highest
    assert all(scale.lowest <= tick <= scale.highest for tick in scale.ticks)
    assert scale.ticks and all(len(f"{tick:g}") <= 6 for tick in scale.ticks)
    places = [scale.x(tick) for tick in scale.ticks]
    near = LEAST_APART if width > 0 else LEAST_ABOVE
    assert all(abs(b - a) > 0.99 * near for a, b in pairwise(places))
