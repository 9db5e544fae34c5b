"""The drawings: they show the live objects, and every word can be read."""

from contextlib import nullcontext

import pytest

import minipaged as mp
from helpers.drawn import crosses, texts
from helpers.readable import (
    check_that_no_words_overlap,
    check_that_words_stand_out,
    contrast,
    readable_in_all_themes,
    written,
)
from minipaged.draw import palette
from minipaged.draw.letters import LEAST, fit, width_of
from minipaged.draw.marks import Box, Words
from minipaged.draw.palette import BAD
from minipaged.draw.tones import KEPT, held, kind_of_slot, others, soft, strong
from minipaged.lab import (
    plot_address,
    plot_buddies,
    plot_free_list,
    plot_hash_chain,
    plot_kv_growth,
    plot_memory_map,
    plot_pool,
    plot_ragged_batch,
    plot_reservations,
    plot_reservations_and_pool,
    plot_shared_tables,
)
from minipaged.memory.cached_blocks import CachedBlocks
from minipaged.memory.contiguous import BuddyAllocator
from minipaged.model.inputs import Chunk, RaggedBatch

USED = {"A": 21, "B": 7, "C": 13}
LONG = "abcdefghijkl"
WORDS = "Four score and seven years ago our fathers brought forth on".split()


def tables_of(used, num_blocks=27, block_size=4):
    """Sequences that have grown side by side, so that their blocks alternate."""
    pool = mp.BlockPool(num_blocks, block_size)
    tables = {name: mp.BlockTable(pool) for name in used}
    for _ in range(max(used.values())):
        for name, table in tables.items():
            table.append(int(table.num_tokens < used[name]))
    return pool, tables


def batch_of(tables, new):
    chunks = [Chunk(list(range(n)), tables[name], 1) for name, n in new.items()]
    return RaggedBatch.build(chunks)


def growth(words, stored, num_prompt):
    return plot_kv_growth(words, stored, "title", num_prompt)


def address(used, position, **pool):
    _, tables = tables_of({"A": used, "B": 5}, **pool)
    return plot_address(tables["A"], position, "title")


def ragged(used, new, words=None, **pool):
    _, tables = tables_of(used, **pool)
    return plot_ragged_batch(batch_of(tables, new), tables, "title", words)


def reservations_and_pool(used, reserved, **pool):
    return plot_reservations_and_pool(used, reserved, *tables_of(used, **pool), "title")


def drawn_pool(used, columns, **pool):
    pool, tables = tables_of(used, **pool)
    return plot_pool(pool, tables, "title", columns, cached=[pool.num_blocks - 1])


def grown_pool(used, before):
    """With a fork, so that old slots are hatched, too."""
    pool, tables = tables_of(used, num_blocks=16)
    tables["D"], before = tables["B"].fork(), before | {"D": used["B"]}
    return plot_pool(pool, tables, "title", 4, before=before)


class Found(set):
    """In place of a PrefixCache: these blocks can be found."""

    forget = set.discard


def pool_with_found(num_blocks, found):
    """A pool of blocks of 4, whose blocks `found` can be found once they are free."""
    pool = mp.BlockPool(num_blocks, 4)
    pool.attach(Found(found), CachedBlocks(pool))
    return pool


def free_list(num_blocks, num_held, word):
    pool = pool_with_found(num_blocks, range(0, num_blocks, 2))
    for block_id in [pool.allocate() for _ in range(num_blocks)]:
        pool.release(block_id)
    for _ in range(num_held):
        pool.allocate()
    blocks = range(num_blocks)
    holders = dict.fromkeys(blocks, "ABC")
    return plot_free_list(pool, "title", dict.fromkeys(blocks, word), holders)


def shared_tables(used):
    return plot_shared_tables(tables_of(used)[1], "title")


def grown_twice(words, stored, num_prompt):
    title = "title"
    return plot_kv_growth(words, stored, title, num_prompt, "C", without=stored)


def gap(asked=64, freed="BC"):
    """Four pieces in a memory of four times their size; some are freed."""
    size = BuddyAllocator(asked * 4).allocate(asked).size
    memory = BuddyAllocator(4 * size)
    held = {name: memory.allocate(asked) for name in "ABCD"}
    for name in freed:
        memory.free(held.pop(name))
    return memory, held


def buddies(asked=64, freed="BC", title="title"):
    return plot_buddies(*gap(asked, freed), title, dict.fromkeys("ABCD", asked))


SPANS = [(0, 22, "token_states", 0), (22, 66, "reserved", 0), (66, 72, "internal", 0)]
SPANS += [(72, 79, "token_states", 1), (79, 80, "reserved", 1)]
SPANS += [(80, 144, "external", 1), (144, 256, "external", None)]

DRAWINGS = {
    "growth": lambda: growth(WORDS, [7, 8, 9, 10], 7),
    "growth of one token": lambda: growth(["a"], [1], 1),
    "growth of long words": lambda: growth([LONG] * 7, [5, 6], 5),
    "growth of many": lambda: growth([LONG] * 26, range(13, 27), 13),
    "growth of very many": lambda: growth([LONG] * 67, range(21, 67), 21),
    "growth of none and many": lambda: grown_twice([LONG] * 27, range(13, 27), 13),
    "growth of none and few": lambda: grown_twice(WORDS, [7, 8], 7),
    "buddies": lambda: buddies(),
    "buddies, rounded up": lambda: buddies(40, "A"),
    "buddies, all free": lambda: buddies(64, "ABCD"),
    "buddies, none free": lambda: buddies(1, ""),
    "reservations": lambda: plot_reservations(USED, 36, "title"),
    "reservation of one": lambda: plot_reservations({"A": 1}, 1, "title"),
    "reservations, long": lambda: plot_reservations({"A": 1, "B": 2048}, 2048, "title"),
    "reservations and pool": lambda: reservations_and_pool(USED, 36),
    "and a pool of one": lambda: reservations_and_pool({"A": 1}, 4, num_blocks=1),
    "and large blocks": lambda: reservations_and_pool(
        {"A": 160, "B": 16}, 160, num_blocks=16, block_size=16
    ),
    "address": lambda: address(10, 9, num_blocks=8),
    "address of one token": lambda: address(1, 0, num_blocks=4),
    "address in a full block": lambda: address(4, 3, num_blocks=4),
    "address of 21": lambda: address(21, 9, num_blocks=16),
    "address in the middle": lambda: address(300, 130, num_blocks=64, block_size=16),
    "ragged": lambda: ragged(
        {"A": 5, "B": 7, "C": 10}, {"A": 5, "B": 1, "C": 1}, WORDS[:7], num_blocks=8
    ),
    "ragged, one token": lambda: ragged({"A": 1}, {"A": 1}, [LONG], num_blocks=1),
    "ragged, mixed": lambda: ragged(USED, {"A": 21, "B": 1, "C": 1}, num_blocks=16),
    "ragged, upright words": lambda: ragged(
        USED, {"A": 21, "B": 1, "C": 1}, [LONG, "a", "·"] * 7 + ["a b"] * 2
    ),
    "ragged, prefill": lambda: ragged(USED, USED, [LONG] * 41, num_blocks=16),
    "ragged, decode": lambda: ragged(USED, dict.fromkeys(USED, 1), [LONG] * 3),
    "ragged, long": lambda: ragged(
        {"A": 300, "B": 7}, {"A": 300, "B": 1}, num_blocks=64, block_size=16
    ),
    "chain": lambda: plot_hash_chain(WORDS * 4, WORDS * 3 + ["x"] * 11, 8, 2, "title"),
    "chain of one block": lambda: plot_hash_chain(WORDS, WORDS, 8, 1, "title"),
    "chain of none": lambda: plot_hash_chain(WORDS, WORDS, 16, 0, "title"),
    "chain of long words": lambda: plot_hash_chain([LONG] * 64, [LONG] * 50, 8, 4, "t"),
    "false hits": lambda: plot_hash_chain(
        ["x", *WORDS[1:]], WORDS, 2, 5, "title", names=("D", "E")
    ),
    "pool": lambda: drawn_pool({"A": 6, "B": 9}, 3, num_blocks=9),
    "pool of one block": lambda: drawn_pool({"A": 1}, 3, num_blocks=2),
    "pool of 16": lambda: drawn_pool(USED, 4, num_blocks=16),
    "what is new": lambda: grown_pool({"A": 9, "B": 6, "C": 2}, {"A": 5, "B": 6}),
    "pool of 64": lambda: drawn_pool({"A": 300}, 8, num_blocks=64, block_size=16),
    "pool of 256": lambda: drawn_pool({"A": 900}, 32, num_blocks=256, block_size=16),
    "free list": lambda: free_list(20, 0, "You are a kind helper"),
    "free list of long words": lambda: free_list(20, 3, LONG + " " + LONG),
    "no free block": lambda: free_list(4, 4, "a"),
    "memory map": lambda: plot_memory_map(SPANS, "title"),
    "shared tables": lambda: shared_tables({"short": 3, "A": 9, "B": 24}),
    "long shared tables": lambda: shared_tables({"A": 36, "B": 20, "C": 28}),
}


# --- every picture can be read --------------------------------------------------------


test_it_can_be_read = readable_in_all_themes(DRAWINGS)


@pytest.mark.parametrize(
    ("x", "y", "words", "colour"),
    [
        (0, 8, "over the heading", "#767676"),
        (740, 60, "over the edge of the picture", "#767676"),
        (0, 60, "pale", "#DDDDDD"),
        (0, 60, "dark", "#222222"),
        (0, 60, "neither", None),
    ],
)
def test_words_that_cannot_be_read_are_noticed(x, y, words, colour):
    """The test above is not just silent."""
    scene = plot_reservations(USED, 36, "title").scene
    if colour:
        scene.marks.append(Words(x, y, words, 9.0, colour))
    noticed = pytest.raises(AssertionError, match=words) if colour else nullcontext()
    with noticed:
        check_that_words_stand_out(scene)
        check_that_no_words_overlap(scene)


@pytest.mark.parametrize("name", ["false hits", "chain", "free list"])
def test_hatching_does_not_run_through_words(name):
    """Either it ends beside the word, or a plate lies over it, wider than the word."""
    boxes = DRAWINGS[name]().scene.of(Box)
    assert any(box.pattern for box in boxes)
    for words, (left, top, right, bottom) in written(DRAWINGS[name]().scene):
        middle = (top + bottom) / 2
        under = [
            box
            for box in boxes
            if box.x < right and left < box.x + box.width
            if box.y < middle < box.y + box.height
        ]
        hatched = [at for at, box in enumerate(under) if box.pattern]
        if hatched:
            plate = under[hatched[-1] + 1]
            assert plate.x <= left and right <= plate.x + plate.width, words.text


# --- they show the live objects -------------------------------------------------------


def test_each_step_has_its_columns():
    words, first, second, third = growth(WORDS, [7, 8, 10], 7).scene.rows
    assert [cell.above for cell in words.cells] == WORDS[:7]
    new, old = strong("A"), soft("A")
    assert first.tones == [new] * 7 and second.tones == [old] * 7 + [new]
    assert third.tones == [old] * 8 + [new] * 2
    rows = [(row.label, row.values) for row in (first, second, third)]
    assert rows == [
        ("prefill", ["7", "7"]), ("decode 1", ["1", "8"]), ("decode 2", ["2", "10"]),
    ]  # fmt: skip
    assert first.aside.startswith(WORDS[7]) and second.aside == WORDS[8]


def test_without_a_cache_every_step_computes_all():
    scene = grown_twice(WORDS, [7, 8, 10], 7).scene
    new = strong("C")
    words, *rows = scene.rows[:4]
    assert [cell.above for cell in words.cells] == WORDS[:10]
    assert [row.tones for row in rows] == [[new] * 7, [new] * 8, [new] * 10]
    said = {words.text for words in scene.of(Words)}
    assert "Without a cache: 25 tokens computed in all" in said
    assert "With a cache: 10 tokens computed in all" in said


def test_free_neighbours_that_are_no_buddies_bear_a_cross():
    figure = buddies()
    assert crosses(figure) == 1 and texts(figure).count("free, 64") == 2
    assert texts(figure).count("128, split") == 2
    figure = buddies(freed="CD")
    assert crosses(figure) == 0 and "free, 128" in texts(figure)
    assert texts(figure).count("128, split") == 1


def test_buddies_are_those_that_are_held():
    memory, held = gap()
    memory.free(held["A"])
    with pytest.raises(ValueError, match="not held"):
        plot_buddies(memory, held, "title")


def test_empty_slots_are_counted_and_hatched():
    scene = plot_reservations(USED, 36, "title").scene
    assert "67 of 108 slots empty" in [words.text for words in scene.of(Words)]
    for row, (name, used) in zip(scene.rows, USED.items(), strict=True):
        assert row.tones == [strong(name)] * used + [KEPT]
        assert row.words[-1] == f"{36 - used} empty"


def test_a_pool_beside_the_reservations_follows_its_tables():
    pool, tables = tables_of(USED)

    def said():
        figure = plot_reservations_and_pool(USED, 36, pool, tables, "title")
        return {words.text for words in figure.scene.of(Words)}

    places = {f"{block_id}: A{n}" for n, block_id in enumerate(tables["A"].block_ids)}
    new = {"7 of 48 slots empty, 15 blocks free", "A1: A's second block"}
    assert places | new <= said()
    tables.pop("A").free()
    assert "4 of 24 slots empty, 21 blocks free" in said() and not places & said()


def test_an_address_is_that_of_the_table():
    _, tables = tables_of({"A": 10, "B": 6})
    table = tables["A"]
    for position in range(10):
        scene = plot_address(table, position, "title").scene
        (index, offset), slot = divmod(position, 4), table.slot(position)
        said = [words.text for words in scene.of(Words)]
        assert f"slot {slot}" in said
        assert any(w.startswith("slot = ") and w.endswith(f" = {slot}") for w in said)
        # Each entry, and where it leads to.
        ids = list(map(str, table.block_ids))
        assert [link.target for link in scene.links[1::2]] == ids
        rows = {row.label: row for row in scene.rows[: len(ids)]}
        on_path = rows[f"logical {index}"]
        assert on_path.tones.index(strong("A")) == offset
        assert on_path.words[offset] == str(offset)
        assert sum(strong("A") in row.tones for row in rows.values()) == 1


class Pool:
    """A reader's pool: what the pictures may ask of it."""

    num_blocks, block_size, num_free = 8, 4, 5

    def refcount(self, block_id):
        return int(block_id in (6, 2, 3))


class Table:
    """A reader's table."""

    pool, block_ids, num_tokens = Pool(), [6, 2, 3], 9


def test_a_readers_pool_and_table_can_be_drawn():
    pool, table = Table.pool, Table()
    assert "slot 12" in texts(plot_address(table, 8, "title"))
    blocks = plot_pool(pool, {"A": table}, "title").scene.rows[:-1]
    assert sum(row.tones.count(strong("A")) for row in blocks) == 9
    said = texts(plot_reservations_and_pool({"A": 9}, 16, pool, {"A": table}, "title"))
    assert "3 of 12 slots empty, 5 blocks free" in said


def test_a_ragged_batch_writes_where_the_batch_says():
    _, tables = tables_of({"A": 5, "B": 7, "C": 10}, num_blocks=8)
    batch = batch_of(tables, {"A": 5, "B": 1, "C": 1})
    scene = plot_ragged_batch(batch, tables, "title", WORDS[:7]).scene
    *padded, row, position, slot, memory = scene.rows
    assert [each.remark for each in padded] == [
        "prefill, 5 tokens", "decode, 1 token", "decode, 1 token",
    ]  # fmt: skip
    assert padded[1].tones == [strong("B")] + [others()] * 4
    assert row.tones == [strong(name) for name in "AAAAABC"]
    assert row.above == WORDS[:7]
    assert position.below == [str(n) for n in batch.positions.tolist()]
    assert slot.below == [str(n) for n in batch.slots.tolist()]
    # All blocks of the tables have four cells each, and there is no other before them.
    assert [(link.start, link.end) for link in scene.links] == list(
        enumerate(batch.slots.tolist())
    )
    assert {memory.tones[link.end] for link in scene.links} == set(row.tones)
    assert memory.tones.count(soft("C")) == 9
    said = {words.text for words in scene.of(Words)}
    assert {"8 of 15 are padding", "0 of 7 are padding", "0: A", "7"} <= said


def test_a_long_batch_has_an_arrow_for_each_block():
    _, tables = tables_of(USED, num_blocks=16)
    scene = plot_ragged_batch(batch_of(tables, USED), tables, "title").scene
    assert len(scene.links) == 6 + 2 + 4


def answers(figure):
    """Of each block of the second prompt: what it has to do with the first one's."""
    links = [link for link in figure.scene.links if link.words]
    assert all((link.source, link.target) == ("B", "A") for link in links)
    said = {link.end: " ".join(link.words.split()) for link in links}
    return {link.end: (said[link.end], link.is_false) for link in links}


def test_false_hits_bear_a_cross():
    """Blocks 0, 2 and 3 are equal, block 1 is not."""
    same, past = ("same block", False), ("equal tokens, another past", True)
    not_taken = ("equal tokens, not taken", False)
    for found, expected in (
        (4, {0: same, 2: past, 3: past}),
        (3, {0: same, 2: past, 3: not_taken}),
        (1, {0: same, 2: not_taken, 3: not_taken}),
    ):
        figure = plot_hash_chain(*map(list, ("aabbccdd", "aaxxccdd")), 2, found, "t")
        assert answers(figure) == expected
        wrong = [held("AB", BAD) if expected[n] == past else None for n in (2, 3)]
        assert figure.scene.rows[1].tones[1] == held("B", is_new=found < 2)
        for row in figure.scene.rows:
            assert row.tones[0] == held("AB")
            assert [tone if tone in wrong else None for tone in row.tones[2:]] == wrong


def test_a_chain_leads_from_parent_to_child_and_a_tail_is_no_block():
    figure = plot_hash_chain(list("aabbccd"), list("aaxxy"), 2, 1, "title")
    assert [row.words for row in figure.scene.rows] == [
        ["a a", "b b", "c c"],
        ["a a", "x x"],
    ]
    steps = [link[:4] for link in figure.scene.links if not link.words]
    assert steps == [("A", 0, "A", 1), ("A", 1, "A", 2), ("B", 0, "B", 1)]


def test_a_chain_names_its_entries():
    words = list("aabbcc"), list("aaxxcc")
    first, second = plot_hash_chain(*words, 2, 1, "title").scene.rows
    assert first.above == second.below == ["entry 0", "entry 1", "entry 2"]


def test_the_legend_of_a_chain_has_all_tones():
    """The first's own, shared ones, the second's that were found, computed ones."""
    first, second = list("aabbccddee"), list("aaxxccddff")
    figure = plot_hash_chain(first, second, 2, 3, "title")
    right, wrong = (f"A's block, {how} taken for B" for how in ("rightly", "wrongly"))
    legend = {"A's block", right, wrong, "B's block, found"}
    assert {*legend, "computed for B now"} <= set(texts(figure))
    same = texts(plot_hash_chain(first, first, 2, 5, "title"))
    assert legend & set(same) == {right}


def test_free_blocks_stand_in_the_order_in_which_they_are_handed_out():
    pool = pool_with_found(8, {1, 5})
    held = [pool.allocate() for _ in range(6)]
    for block_id in (5, 3, 1, 0):
        pool.release(block_id)
    assert held == [0, 1, 2, 3, 4, 5]
    (row,) = plot_free_list(pool, "title").scene.rows
    assert list(map(int, row.above)) == [pool.allocate() for _ in range(6)]


def test_a_memory_map_counts_its_slots_and_tells_what_is_rounded_up_apart():
    rows = plot_memory_map(SPANS, "title").scene.rows
    kinds = [kind_of_slot(kind) for kind in ("token_states", "reserved")]
    rounded_up, outside = map(kind_of_slot, ("rounded_up", "external"))
    assert [row.words for row in rows] == [["22", "44", "6"], ["7", "", "64"], ["112"]]
    assert rows[1].tones == [*kinds, rounded_up] and rows[2].tones == [outside]
    assert [(row.label, row.remark) for row in rows] == [
        ("A", "0–71"), ("B", "72–143"), ("free", "144–255"),
    ]  # fmt: skip


# --- letters and tones ----------------------------------------------------------------


def test_a_word_is_made_smaller_and_then_cut():
    assert fit("word", 100) == ("word", 9.0)
    shorter, size = fit("abcdefghijkl", 40)
    assert LEAST <= size < 9 and width_of(shorter, size) <= 40
    assert shorter.endswith("…") or shorter == "abcdefghijkl"
    assert fit("abcdefghijkl", 20)[0].endswith("…")


@pytest.mark.parametrize("name", "ABCDEFGH")
def test_lines_of_a_sequence_are_seen_on_any_page(name):
    for ground in ("#FFFFFF", "#0D1117"):
        assert contrast(palette.line_colour(name), ground) > 2.9


GROUNDS = {"both": ["#FFFFFF", "#0D1117"]}
GROUNDS |= {name: [palette.THEMES[name].ground] for name in ("light", "dark")}


@pytest.mark.parametrize("theme", GROUNDS)
@pytest.mark.parametrize("name", "ABCDEFGH")
def test_strong_stands_out_more_than_soft_on_every_page(monkeypatch, name, theme):
    """Else, what was there before would shine, and what is new recede."""
    monkeypatch.setenv("MINIPAGED_THEME", theme)
    strong, soft = palette.sequence_colour(name), palette.soft_colour(name)
    alpha = int(soft[7:], 16) / 255
    for ground in GROUNDS[theme]:
        seen = palette.mix(soft[:7], ground, alpha)
        page, *distances = map(palette.relative_luminance, (ground, strong, seen))
        far, near = (abs(distance - page) for distance in distances)
        assert far > 2 * near > 0, (ground, far, near)
        # The distances differ enough for the eye too, if the colour lets them.
        assert contrast(strong, seen) > (1.5 if contrast(strong, ground) > 2 else 1.1)
