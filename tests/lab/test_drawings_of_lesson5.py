"""Lesson 5's drawings: they show the live objects, and every word can be read."""

import math
import re

import pytest
import torch

import minipaged as mp
from helpers.drawn import boxes, lines, texts
from helpers.readable import readable_in_all_themes
from minipaged.attention import streamed
from minipaged.attention.rectangles import pad_to_rectangles
from minipaged.draw import palette
from minipaged.draw.marks import Box, Words
from minipaged.draw.tones import KEPT, free, soft, strong
from minipaged.lab import (
    plot_merges,
    plot_recurrence,
    plot_shares,
    plot_tiles,
    plot_two_ways,
)
from minipaged.model.inputs import Chunk, RaggedBatch

USED = {"A": 21, "B": 7, "C": 13}
WORDS = "Four score and seven years ago our fathers brought forth on this".split()


def tables_of(used, num_blocks=16, block_size=4):
    """Sequences that have grown side by side, so that their blocks alternate."""
    pool = mp.BlockPool(num_blocks, block_size)
    tables = {name: mp.BlockTable(pool) for name in used}
    for _ in range(max(used.values())):
        for name, table in tables.items():
            table.append(int(table.num_tokens < used[name]))
    return tables


# --- the recurrence -------------------------------------------------------------------


def states_of(logits, values, rescales=True):
    """(m, s, o) after each block, by the right rule or by the wrong one."""
    m, s, o = torch.tensor(-torch.inf), torch.zeros(()), torch.zeros(values.shape[1])
    for x, v in zip(logits, values.split(list(map(len, logits))), strict=True):
        highest = torch.maximum(m, x.max())
        factor = (m - highest).exp() if rescales else torch.tensor(1.0)
        weights = (x - highest).exp()
        m, s, o = highest, s * factor + weights.sum(), o * factor + weights @ v
        yield m, s, o


def recurrence(logits, sizes, rescales=True, lift=0.0, words=()):
    logits = torch.tensor(logits).split(sizes)
    values = torch.rand(sum(sizes), 4, generator=torch.Generator().manual_seed(0))
    states = list(states_of(logits, values - lift, rescales))
    return plot_recurrence(logits, states, "title", "C", words)


def by_hand():
    """As in the lesson: one number in a value, and numbers above ten."""
    logits = torch.tensor([0.0, 0.0, math.log(2), math.log(2)]).split(2)
    values = torch.tensor([10.0, 30.0, 60.0, 40.0])[:, None]
    states = list(states_of(logits, values))
    return plot_recurrence(logits, states, "title", "D", blocks=[1, 2], dims=[0])


RISING = [0.3, 1.2, 0.1, 0.8, 0.9, 2.4, 1.6, 0.3, 1.3, 0.5, 2.0, 1.0]


def tiles(used, new, num_positions, window=None):
    tables = tables_of(used)
    chunks = [Chunk([0] * new[name], tables[name]) for name in new]
    (rectangle,), _ = pad_to_rectangles(RaggedBatch.build(chunks))
    found = list(streamed._tiles(rectangle, num_positions, window))
    return plot_tiles(rectangle, found, {name: tables[name] for name in new}, "title")


def two_ways(name, at, **pool):
    return plot_two_ways(tables_of(USED, **pool)[name], at, "title", name=name)


SHARES = {"right": [2.0, 4.0, 2.0], "mean": [1, 1, 1], "no rescale": [6, 3, 1]}


def shares(**more):
    return plot_shares(SHARES, "title", "C", [2, 5, 17], WORDS[:3], **more)


ORDERS = [((0, 1), 2), (0, (1, 2)), ((2, 0), 1)]
DECODE = dict.fromkeys(USED, 1)
DRAWINGS = {
    "recurrence": lambda: recurrence(RISING, [4, 4, 4], words=WORDS),
    "forgotten": lambda: recurrence(RISING, [4, 4, 4], rescales=False, words=WORDS),
    "negative": lambda: recurrence([-3.0, -900.0, 2.0, 1.0], [2, 2], lift=0.5),
    "by hand": by_hand,
    "one block": lambda: recurrence([1.0], [1]),
    "equal logits": lambda: recurrence([1.0] * 5, [4, 1]),
    "many": lambda: recurrence([float(x) for x in range(30)], [10] * 3, words="a" * 30),
    "decode": lambda: tiles(USED, DECODE, 8),
    "decode, one block a tile": lambda: tiles(USED, DECODE, 4),
    "prefill": lambda: tiles(USED, {"C": 13}, 4),
    "two prefills": lambda: tiles({"A": 21, "C": 13}, {"A": 5, "C": 6}, 4),
    "a window": lambda: tiles({"A": 21, "C": 13}, {"A": 5, "C": 6}, 4, window=5),
    "one token": lambda: tiles({"A": 1}, {"A": 1}, 8),
    "merges": lambda: plot_merges([5.6, 6.6, 5.8], ORDERS, "title", "C", [2, 5, 17]),
    "merge of two": lambda: plot_merges([-900.0, 0.0], [(0, 1), (1, 0)], "title"),
    "shares": shares,
    "shares, one tiny": lambda: plot_shares({"right": [1, 999], "wrong": [1, 1]}, "t"),
    "shares, one block": lambda: plot_shares({"right": [1.0]}, "title"),
    "two ways": lambda: two_ways("C", 1),
    "two ways, all of a small pool": lambda: two_ways("B", 0, num_blocks=12),
    "two ways, a large pool": lambda: two_ways("A", 5, num_blocks=64),
}


test_it_can_be_read = readable_in_all_themes(DRAWINGS)


def test_each_row_says_its_maximum_and_its_factor():
    said = texts(recurrence(RISING, [4, 4, 4]))
    assert {"1.2", "2.4"} <= set(said) and said.count("2.4") == 3  # twice m, one logit
    factors = [words for words in said if words.startswith("×")]  # block 1 has no past
    assert factors == [f"× {math.exp(1.2 - 2.4):.2f}", "× 1.00"]
    assert "its size before" in said and not any("should be" in words for words in said)


def test_the_sum_by_hand_shows_round_numbers():
    said = texts(by_hand())
    assert {"× 0.50", "2.00", "3.00", "40", "120", "weighted values"} <= set(said)
    assert said.count("40") == 2  # o after block 1, and the result


def test_a_forgotten_rescale_is_marked():
    said = texts(recurrence(RISING, [4, 4, 4], rescales=False))
    factors = [words for words in said if words.startswith("×")]
    assert factors == ["× 1.00", "× 1.00"]  # the first block had nothing to rescale
    assert f"should be × {math.exp(1.2 - 2.4):.2f}" in said
    assert {"the correct size", "the correct end"} <= set(said)
    assert "its size before" not in said


def test_a_wrong_result_stands_beside_the_right_one():
    right, wrong = (
        recurrence(RISING, [4, 4, 4], rescales=rescales) for rescales in (True, False)
    )
    results = re.compile(r"^0\.\d{3}, 0\.\d{3}, 0\.\d{3}$")
    (only,) = filter(results.match, texts(right))
    found, wanted = filter(results.match, texts(wrong))
    assert found != wanted == only
    assert "should be:" in texts(wrong) and "should be:" not in texts(right)


def upright(figure):
    """Where lines stand, their upper ends, and how long they are."""
    ends = [line.points for line in lines(figure)]
    return [(x, y, end - y) for (x, y), (other, end) in ends if x == other]


def test_right_and_wrong_sums_have_one_scale():
    """A line across the wrong picture's bar is where the right one's ends."""
    right, wrong = (
        recurrence(RISING, [4, 4, 4], rescales=rescales) for rescales in (True, False)
    )
    sums = [
        [b for b in boxes(figure, palette.sequence_colour("C")) if b.height == 24]
        for figure in (right, wrong)
    ]
    ends = [[b.x + b.width for b in found] for found in sums]
    assert ends[0][0] == pytest.approx(ends[1][0])  # after a block nothing is wrong
    assert ends[1][1] > ends[0][1] and ends[1][2] > ends[0][2]
    assert max(ends[1]) == pytest.approx(506 + 72)  # never rescaled: the whole column
    aims = [x for x, y, length in upright(wrong) if length == 24 + 8]
    assert aims == pytest.approx(ends[0][1:], rel=1e-3)


def test_bars_are_as_long_as_the_numbers():
    """The sum: what is kept is soft and first, what is new is strong."""
    figure = recurrence(RISING, [4, 4, 4])
    new = [b for b in boxes(figure, palette.sequence_colour("C")) if b.x == 506]
    assert len(new) == 1  # of the first block: nothing lies before it
    whole = sum(math.exp(x - 1.2) for x in RISING[:4])
    parts = [RISING[:4], RISING[4:8], RISING[8:]]
    maxima = 1.2, 2.4, 2.4
    unscaled = sum(
        math.exp(x - m) for part, m in zip(parts, maxima, strict=True) for x in part
    )
    assert new[0].width == pytest.approx(72 * whole / unscaled, rel=1e-3)


def bars(figure, row):
    """Of the weights of a row: the heights of the frames, and of the bars."""
    ground, heights = 58 + 122 * row + 68, ({}, {})
    for box in figure.scene.of(
        Box
    ):  # of an old bar, the face and the rim are two, at one place
        low = box.y + box.height
        if box.x < 104 + 252 and low == pytest.approx(ground):
            is_frame = box.linestyle == "--" or box.linewidth == 1.8
            kind = heights[not is_frame]
            kind[round(box.x, 3)] = box.height / 68
    return tuple(list(kind.values()) for kind in heights)


def test_bars_are_as_high_as_the_weights():
    """The past shrinks when the maximum rises; a frame shows how high it was."""
    figure = recurrence(RISING, [4, 4, 4])
    was, now = bars(figure, 1)
    assert was == pytest.approx([math.exp(x - 1.2) for x in RISING[:4]])
    assert now == pytest.approx([math.exp(x - 2.4) for x in RISING[:8]], rel=1e-3)
    was, now = bars(figure, 2)
    assert not was and max(now) == pytest.approx(1)
    assert now == pytest.approx([math.exp(x - 2.4) for x in RISING], rel=1e-3)


def test_weights_that_nobody_rescales_are_too_high():
    right, now = bars(recurrence(RISING, [4, 4, 4], rescales=False), 2)
    assert now[:4] == pytest.approx([math.exp(x - 1.2) for x in RISING[:4]])
    assert right == pytest.approx([math.exp(x - 2.4) for x in RISING[:4]])


def facts(scene):
    """The rows of tokens: of each, its label, words and tones."""
    return {row.label: row for row in scene.rows[1:-1]}


def test_tiles_name_the_blocks_of_the_tables_and_count_what_is_read():
    tables, scene = tables_of(USED), DRAWINGS["decode"]().scene
    head, rows = scene.rows[0], facts(scene)
    assert head.words[1:] == ["3 × 8", "2 × 8", "1 × 5"]
    assert list(rows) == ["A's token 20", "C's token 12", "B's token 6"]
    for name, row in zip("ACB", rows.values(), strict=True):
        blocks = [f"block {block}" for block in tables[name].block_ids]
        assert [word for word in row.words if word] == blocks
    assert rows["B's token 6"].tones == [strong("B"), strong("B"), KEPT, free()]
    assert rows["A's token 20"].tones == [strong("A")] * 6
    said = texts(DRAWINGS["decode"]())
    assert "41 positions are seen, 45 are computed" in said
    assert "a padded rectangle has 63" in said


def test_a_prefill_counts_pairs_and_shows_them():
    scene = DRAWINGS["prefill"]().scene
    pairs, computed = 13 * 14 // 2, 13 * 4 + 9 * 4 + 5 * 4 + 1
    said = f"{pairs} pairs (new token, position) are seen, {computed} are computed"
    assert said in [words.text for words in scene.of(Words)]
    for token, row in enumerate(facts(scene).values()):
        assert row.tones.count(strong("C")) == token + 1
    assert "padding" not in facts(scene)
    assert "padding" in facts(DRAWINGS["two prefills"]().scene)


def test_frames_reach_over_all_who_have_a_tile():
    """One for each tile; of unequal windows, one for each of the two."""
    frames = [[b for b in DRAWINGS[name]().scene.of(Box) if b.linewidth == 2]
              for name in ("decode", "a window")]  # fmt: skip
    heights = [box.height for box in frames[0]]
    assert heights == sorted(heights, reverse=True) and len({*heights}) == 3
    assert len({box.x for box in frames[1]}) == len(frames[1]) == 6


def test_all_blocks_are_copied_on_the_left_and_one_is_read_on_the_right():
    """Strong is what moves: the copy of four blocks, and the block that is read."""
    scene, ids = two_ways("C", 1).scene, tables_of(USED)["C"].block_ids
    gathered, copied, _, streamed, attention = scene.rows
    assert copied.words == [str(block) for block in ids]
    assert copied.tones == [strong("C")] * 4 and strong("C") not in gathered.tones
    assert [gathered.tones[block] for block in ids] == [soft("C")] * 4
    assert [at for at in range(16) if streamed.tones[at] == strong("C")] == [ids[1]]
    *copies, again, read = [link[:4] for link in scene.links]
    assert copies == [("pool", block, "copy", at) for at, block in enumerate(ids)]
    assert again == ("copy", 0, "", 1) and read == ("pool", ids[1], "", 2)
    assert attention.words == ["summary", "→", "attention", "→", "new summary"]
    said = [words.text for words in scene.of(Words)]
    rest = f"to come: {ids[2]}, {ids[3]}"
    assert f"read before: {ids[0]}; kept: a summary; {rest}" in said
    assert "summary" not in two_ways("B", 0).scene.rows[-1].words


def test_each_part_ends_with_the_same_factor_in_any_order():
    scene = DRAWINGS["merges"]().scene
    said = [words.text for words in scene.of(Words)]
    for block, maximum in (2, 5.6), (5, 6.6), (17, 5.8):
        found = [words for words in said if words.startswith(f"block {block}: ")]
        factor = f"{math.exp(maximum - 6.6):.2f}"
        assert len(found) == 3 and all(words.endswith(factor) for words in found)
    assert f"block 2: {math.exp(-0.2):.2f} × {math.exp(-0.8):.2f} = 0.37" in said


def test_a_merged_part_has_the_largest_maximum():
    """And an arrow from each of its two parts."""
    scene = plot_merges([5.6, 6.6, 5.8], [((2, 0), 1)], "title").scene
    said = [[word for word in row.words if word] for row in scene.rows]
    assert said == [["m = 5.8", "m = 5.6", "m = 6.6"], ["m = 5.8"], ["m = 6.6"]]
    assert len(scene.links) == 4
    tones = [tone for row in scene.rows[1:] for tone in row.tones]
    assert tones.count(strong("A")) == 2 and strong("A") not in scene.rows[0].tones


def test_shares_are_as_wide_as_their_weight():
    """The heaviest block of the right rule is strong in every row."""
    scene = shares().scene
    assert [row.label for row in scene.rows] == list(SHARES)
    assert all(row.tones == [soft("C"), strong("C"), soft("C")] for row in scene.rows)
    wide = [box.width + 1 for box in scene.of(Box) if box.face == strong("C").face]
    assert [share / wide[0] for share in wide] == pytest.approx([1, 2 / 3, 0.6])
    said = [words.text for words in scene.of(Words)]
    assert [words for words in said if words.endswith("%")] == [
        *("25 %", "50 %", "25 %"),
        *("33 %", "33 %", "33 %"),
        *("60 %", "30 %", "10 %"),
    ]
    assert {"block 2", "block 5", "block 17", *WORDS[:3]} <= {*said}
