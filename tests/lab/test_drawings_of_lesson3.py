"""Lesson 3's drawings: reused blocks, false keys, a fork of two texts, named bars."""

import pytest

import minipaged as mp
from helpers.drawn import texts
from helpers.readable import readable_in_all_themes
from minipaged.draw.palette import BAD, GOOD
from minipaged.draw.tones import free, held, others, soft, strong
from minipaged.lab import (
    plot_bars,
    plot_collisions,
    plot_fork,
    plot_free_list,
    plot_reuse,
    plot_searches,
)

LONG = "abcdefghijkl"
COMMON = "Answer in one short line of words . and so on now".split()  # 12 words
D, E = [*COMMON, *"Max has a rabbit".split()], [*COMMON, *"Ben has a parrot".split()]
BEFORE = {(None, (0,)): 0, (0, (1,)): 1, (1, (2,)): 2, (2, (3,)): 3, (3, (4,)): 4}
AFTER = {(None, (0,)): 0, (0, (7,)): 1, (1, (8,)): 2, (2, (3,)): 3, (3, (4,)): 4}
REST = {5: (3,), 6: (9,)}
SERIALS = {(0, (0,)): 0, (1, (7,)): 1, (5, (8,)): 2, (3, (3,)): 3, (4, (4,)): 4}
SERIALS |= {(6, (3,)): 5, (7, (9,)): 6}
PARENTS = {1: [0], 2: [0], 3: [1, 2]}
SERIAL_OF = {b"": 0, (0, (0,)): 1, (1, (7,)): 5, (5, (8,)): 6, (3, (3,)): 4}


def decode(tokens):
    return " ".join(f"<|user|>word of {token}" for token in tokens)


def long_words(tokens):
    return " ".join([LONG] * 9)


def reuse(found, decode=decode, **rest):
    return plot_reuse(BEFORE, AFTER, found, decode, "title", **rest)


def searches(decode=decode, **serials):
    """By ids from 2 to 3, by serial numbers to 5."""
    found = [0, 1, 2, 3, 4], [0, 1, 2, 5]
    owners = dict(enumerate("DFFDDFF"))
    return plot_searches(AFTER, SERIALS, found, decode, "title", owners, **serials)


def free_list(num_blocks, holders="G", parents=None):
    pool = mp.BlockPool(num_blocks, 4)
    owners = dict.fromkeys(range(num_blocks), holders)
    words = dict.fromkeys(owners, "a pengu")
    return plot_free_list(pool, "title", words, owners, parents)


def collisions(leads=(0, 1, 0, 1), word="", keys=()):
    asked = [f"{name} {word}" for name in ("one", "two", "three", "four")]
    held = asked[: max(leads) + 1]
    return plot_collisions(asked, held, leads, "title", keys=keys[: len(held)])


def bars(*marked):
    days = {"Monday": 402.1, "Thursday": 21.72, "Friday": 1367.0}
    return plot_bars(days, "title", "ms to the first token", marked)


DRAWINGS = {
    "reuse": lambda: reuse([0, 1, 2, 3, 4]),
    "reuse, nothing found": lambda: reuse([]),
    "reuse, with the rest": lambda: reuse([0, 1], rest=REST),
    "reuse, long words": lambda: reuse([0, 1], long_words),
    "searches": searches,
    "searches, long words": lambda: searches(long_words),
    "searches, with numbers": lambda: searches(serial_of=SERIAL_OF),
    "collisions": collisions,
    "collisions, with keys": lambda: collisions(keys=(1, 0)),
    "collisions, one key": lambda: collisions((0, 0, 0, 0)),
    "collisions, long words": lambda: collisions(word=LONG * 3),
    "few free blocks": lambda: free_list(6, "GH"),
    "one free block": lambda: free_list(1, "GH"),
    "free blocks in three rows": lambda: free_list(24, "GH"),
    "free blocks with parents": lambda: free_list(6, "GH", PARENTS),
    "two rows with parents": lambda: free_list(12, "GH", {9: [0], 11: [10]}),
    "fork": lambda: plot_fork(D, E, (4, 8, 16), "title"),
    "fork at once": lambda: plot_fork(D[12:], E[12:], (1, 2), "title"),
    "fork of long words": lambda: plot_fork([LONG] * 9, [LONG] * 3 + D, (2,), "t"),
    "bars": lambda: bars("Thursday"),
    "one bar": lambda: plot_bars({"a": 0.0}, "title", "ms"),
}


test_it_can_be_read = readable_in_all_themes(DRAWINGS)


def test_a_step_from_a_reused_block_to_an_older_one_is_false():
    figure = reuse([0, 1, 2, 3, 4])
    steps = [(link.start, link.end, link.is_false) for link in figure.scene.links]
    assert steps == [(0, 1, False), (1, 2, False), (2, 3, True), (3, 4, False)]
    asked, handed, again = (row.tones for row in figure.scene.rows)
    assert asked == [strong("D")] * 5
    assert handed == [soft("D"), strong("F"), strong("F"), soft("D"), soft("D")]
    assert again == [soft("D"), soft("F"), soft("F"), soft("D"), soft("D")]
    inks = [[cell.ink for cell in row.cells] for row in figure.scene.rows]
    assert inks == [[""] * 5, [""] * 5, ["", "", "", BAD, ""]]
    assert "2. Blocks 1 and 2 are handed to F, who asks" in texts(figure)
    assert "3. F asks again. The search: 0 → 1 → 2 → 3 → 4" in texts(figure)
    assert not any(link.is_false for link in reuse([0, 1, 2]).scene.links)


def test_the_rest_of_the_second_users_blocks_say_what_their_keys_are():
    later = {**AFTER, (3, (9,)): 6}
    rows = plot_reuse(BEFORE, later, [0], decode, "title", rest=REST).scene.rows
    assert len(rows) == 4
    assert rows[2].above == ["", "", "", "block 5", "block 6"]  # below the old ones
    assert rows[2].below[3:] == ["not in the index", "key: after block 3"]
    keys = [
        f"key: after {past}" for past in ("nothing", *map("block {}".format, "0123"))
    ]
    assert [row.below for row in rows if row is not rows[2]] == [keys] * 3


def test_the_mended_search_stands_below_the_false_one():
    figure = searches()
    assert len(figure.scene.rows) == 3
    steps = [(link.start, link.end, link.is_false) for link in figure.scene.links]
    assert steps[:4] == [(0, 1, False), (1, 2, False), (2, 3, True), (3, 4, False)]
    assert steps[4:] == [(0, 1, False), (1, 2, False), (2, 3, False)]
    above, below = figure.scene.rows[1:]
    assert figure.scene.links[-1].colour == GOOD and below.above[3] == "block 5"
    assert below.below[3] == "key: after serial 6" and below.cells[3].ink == GOOD
    assert above.below[0] == "key: after serial 0"
    said = texts(figure)
    assert said.index("By block ids: 0 → 1 → 2 → 3 → 4") < said.index(
        "By serial numbers: 0 → 1 → 2 → 5"
    )


def test_a_search_by_serial_numbers_can_be_followed_from_block_to_block():
    _, above, below = searches(serial_of=SERIAL_OF).scene.rows
    assert above.above == [
        "block 0 · serial 1", "block 1 · serial 5", "block 2 · serial 6",
        "block 3 · serial 4", "block 4 · no serial",  # it is nobody's parent
    ]  # fmt: skip
    assert above.below == [
        "key: after nothing", "key: after serial 1", "key: after serial 5",
        "after serial 3, gone", "key: after serial 4",  # D's block 2 is F's now
    ]  # fmt: skip
    assert below.below[3:] == ["key: after serial 6", "key: after serial 7"]


def test_a_key_that_leads_to_another_content_bears_a_cross():
    scene = collisions(keys=(7, 5)).scene
    ends = [(link.start, link.end, link.is_false) for link in scene.links]
    assert ends == [(0, 0, False), (1, 1, False), (2, 0, True), (3, 1, True)]
    assert {link.colour for link in scene.links[2:]} == {BAD}
    above, below = scene.rows[0].above, scene.rows[1].below
    assert above == [f"B's entry {n}: key {key}" for n, key in enumerate((7, 5, 7, 5))]
    assert below == ["A's entry 0: key 7", "A's entry 1: key 5"]
    assert collisions().scene.rows[1].below == ["A's entry 0", "A's entry 1"]
    same = plot_collisions(["one", "one"], ["one"], [0, 0], "title").scene.links
    assert not any(link.is_false for link in same)


def test_one_row_of_free_blocks_leads_to_the_next():
    for num_blocks, lengths in ((6, [6]), (20, [10, 10]), (24, [10, 10, 4])):
        scene = free_list(num_blocks).scene
        assert [len(row.words) for row in scene.rows] == lengths
        ends = [(link.start, link.end) for link in scene.links]
        assert ends == [(9, 0)] * (len(lengths) - 1)


def test_a_free_block_has_a_band_for_each_of_its_holders():
    pool = mp.BlockPool(4, 4)
    (row,) = plot_free_list(pool, "title", owners={0: "GHA", 1: "G"}).scene.rows
    assert row.tones == [held("GHA"), held("G"), free(), free()]
    assert row.above == ["0 · GHA", "1 · G", "2", "3"]


def test_an_arrow_leads_from_a_free_block_to_each_that_it_follows():
    """Not to blocks that are held; and the key says what it means."""
    links = free_list(6, parents=PARENTS).scene.links
    ends = [(link.start, link.end) for link in links]
    assert ends == [(1, 0), (2, 0), (3, 1), (3, 2)]
    told = "an arrow leads to the block before it in the text"
    assert told in texts(free_list(6, parents=PARENTS))
    assert told not in texts(free_list(6))
    pool = mp.BlockPool(6, 4)
    held_one = pool.allocate()
    parents = {3: [held_one], held_one: [4]}
    assert not plot_free_list(pool, "title", parents=parents).scene.links


def test_the_key_says_what_is_hatched():
    for holders in ("G", "GH"):
        said = texts(free_list(6, holders))
        assert ("several held it" in said) == (len(holders) > 1)


def test_a_fork_counts_what_blocks_find():
    """Of whom the tokens are, and where an arrow leads from the last common one."""
    scene = plot_fork(D, E, (4, 8, 16), "title").scene
    *blocks, of_d, trunk, of_f = scene.rows
    assert [row.values for row in (*blocks, trunk)] == [
        [f"{n} found"] for n in (12, 8, 0, 12)
    ]
    assert [row.tones for row in blocks] == [
        [held("DF")] * 3, [held("DF"), free()], [free()],
    ]  # fmt: skip
    assert trunk.words == COMMON and trunk.tones == [held("DF")] * 12
    assert of_d.words[1:] == D[12:] and of_d.tones[1:] == [held("D")] * 4
    assert of_f.words[1:] == E[12:] and of_f.tones[1:] == [held("F")] * 4
    assert [link[:4] for link in scene.links] == [
        ("a tree", 11, f"{name} goes on", 1) for name in "DF"
    ]


def test_a_branch_that_goes_on_has_dots():
    def num_dots(first, second):
        rows = plot_fork(first, second, (4,), "title").scene.rows
        return [row.words.count("…") for row in (rows[-3], rows[-1])]

    more = ["word"] * 40
    assert num_dots(D, E) == [0, 0]
    assert num_dots(D + more, E) == [1, 0]  # E ends there
    assert num_dots(D + more, E + more) == [1, 1]


def test_bars_are_as_long_as_their_values():
    rows = bars("Thursday").scene.rows
    (monday,), (thursday,), (friday,) = (row.widths for row in rows)
    assert monday / friday == pytest.approx(402.1 / 1367)
    assert thursday / friday == pytest.approx(21.72 / 1367)
    assert [row.aside for row in rows] == ["402", "21.7", "1,367"]
    assert [row.tones for row in rows] == [[others()], [strong(0)], [others()]]
