"""Lesson 2's pictures of a run: they show what happened, and can be read."""

from dataclasses import replace

import minipaged as mp
from helpers.drawn import crosses, lines, texts
from helpers.readable import readable_in_all_themes
from minipaged.draw.marks import Words
from minipaged.draw.palette import BAD
from minipaged.draw.rows import Cell
from minipaged.draw.tones import KEPT, Tone, free, others, soft, strong
from minipaged.lab import (
    plot_gather,
    plot_lanes,
    plot_miscounted,
    plot_overwritten,
    plot_stations,
)
from minipaged.lab.measure.watch import Moment
from minipaged.model.inputs import Chunk, RaggedBatch
from minipaged.scheduling.plan import Work
from minipaged.scheduling.request import Request


def overwritten(owned=40, length=17, num_blocks=8, is_late=True, names="AB"):
    """B's last token has no block if its table is late."""
    pool = mp.BlockPool(num_blocks, block_size=16)
    a, b = mp.BlockTable(pool), mp.BlockTable(pool)
    a.append(owned)
    b.append(length - is_late)
    b.num_tokens = length
    batch = RaggedBatch.build([Chunk([7], a), Chunk([7], b)])
    return plot_overwritten(batch, dict(zip(names, (a, b), strict=True)), "title")


class OneHolder(mp.BlockPool):
    """Wrong: believes that nobody ever shares."""

    def refcount(self, block_id):
        return min(1, super().refcount(block_id))


def miscounted(num_before=0):
    """C's block is also in B's table, behind other blocks or first."""
    pool = OneHolder(8, block_size=4)
    b, c = mp.BlockTable(pool), mp.BlockTable(pool)
    b.append(4 * num_before + 4)
    c.block_ids = [pool.share(b.block_ids[-1])]
    tables, memory = {"B": b, "C": c}, {c.block_ids[0]: "My PIN is 4711"}
    return plot_miscounted(pool, tables, memory, "title", lost="You are very polite")


def lanes(numbers, num_tokens, num_blocks=12):
    pool = mp.BlockPool(num_blocks, block_size=16)
    return plot_lanes(moments(numbers, num_tokens), "title", pool)


def moments(numbers, num_tokens):
    """Prompts of these many tokens, one running at a time, each this many steps."""
    found = []
    for number in numbers:
        request = Request([0] * number, num_tokens)
        (sequence,) = request.sequences
        spans = [
            (0, number),
            *((number + n, number + n + 1) for n in range(num_tokens)),
        ]
        for start, stop in spans:
            works = (Work(request, sequence, start, stop, 1),)
            found.append(Moment(stop - start, 1, -(-stop // 16), 1, 0, works))
    return found


def grown(num_tokens=18, num_blocks=16, size=4, held=2):
    """A table whose last block lies before its first, and that of somebody else."""
    pool = mp.BlockPool(num_blocks, size)
    other, table = mp.BlockTable(pool), mp.BlockTable(pool)
    gone = pool.allocate()
    other.append(held * size)
    table.append((num_tokens - 1) // size * size)
    pool.release(gone)
    table.append(num_tokens - table.num_tokens)
    return table


def gathered(*sizes):
    return plot_gather(grown(*sizes), "title", name="C")


def stations(count=6, text="who computes what;\ntables grow", **more):
    """Each of them is done by the same function."""
    named = {f"Station {n}": (mp.Scheduler.schedule, text) for n in range(count)}
    return plot_stations(named, "title", "again, until nobody waits", **more)


DRAWINGS = {
    "stations": stations,
    "two stations": lambda: stations(2),
    "stations with long words": lambda: stations(
        8, "whatever there is to be said " * 3
    ),
    "gather": gathered,
    "gather one token": lambda: gathered(1),
    "gather full blocks": lambda: gathered(16),
    "gather a block of one token more": lambda: gathered(17),
    "gather a long table": lambda: gathered(300, 64, 16),
    "gather from many blocks": lambda: gathered(70, 256, 16),
    "overwritten": overwritten,
    "overwritten in a long table": lambda: overwritten(300, 177, 64),
    "not overwritten": lambda: overwritten(is_late=False),
    "overwritten, with long names": lambda: overwritten(names=("owner", "late")),
    "miscounted": miscounted,
    "miscounted behind three blocks": lambda: miscounted(3),
    "lanes": lambda: lanes([21, 7, 13], 9),
    "lanes of one prompt": lambda: lanes([1], 1),
    "many steps": lambda: lanes([100, 2, 50, 16, 1, 9], 60),
}


test_it_can_be_read = readable_in_all_themes(DRAWINGS)


def test_what_is_gathered_stands_in_the_tables_order_and_ends_with_the_last_token():
    table = grown()
    assert table.block_ids == [3, 4, 5, 6, 0]
    scene = plot_gather(table, "title", name="C").scene
    pool, whole, cut = scene.rows
    positions = [str(position) for position in range(18)]
    assert whole.words == [*positions, "", ""] and cut.words == positions
    assert cut.tones == [strong("C")] * 18
    assert whole.tones == [*cut.tones, KEPT, KEPT]
    # Block 0 has two tokens, blocks 1 and 2 are others', each in one cell.
    assert pool.tones[:6] == [strong("C")] * 2 + [KEPT] * 2 + [others()] * 2
    assert [pool.remark, whole.remark, cut.remark] == [
        "blocks 3, 4, 5, 6, 0", "in this order: 20 slots", "18 slots hold tokens",
    ]  # fmt: skip
    # Four slots of each block before, of two one cell; then to its first position.
    led = [(link.start, link.end) for link in scene.links]
    assert led == [(6, 0), (10, 4), (14, 8), (18, 12), (0, 16)]


def test_nothing_is_cut_from_blocks_that_are_full():
    for num_tokens, is_cut in ((16, False), (17, True)):
        assert (KEPT in gathered(num_tokens).scene.rows[1].tones) == is_cut


def test_the_lost_slot_is_crossed_out():
    """B has no block for position 16: its row says 0, and A's position 0 is there."""
    figure = overwritten()
    a, pool, b = figure.scene.rows
    own, false = figure.scene.links
    assert (own.source, own.target, own.colour) == ("A", "the pool", None)
    assert pool.tones[own.end] == strong("A") == a.tones[own.start]
    assert (false.source, false.start, false.end, false.colour) == ("B", 1, 0, BAD)
    assert false.words == "K and V of A's position 0 are gone"
    assert pool.tones[0] == Tone(BAD) and crosses(figure, 2.2) == 1
    assert pool.cells.count(Cell("", free(), 8)) == 1  # A's last block: one empty place
    assert [cell.rim for cell in b.cells] == ["none", BAD, BAD]
    assert b.aside == "no blocks: the row is filled up with zeros"


def test_a_lane_says_when_its_prompt_ends_and_what_is_promised_to_it():
    """At most 29, 15 and 21 tokens are computed: 2, 1 and 2 blocks of 16."""
    figure = lanes([21, 7, 13], 9)
    _, *rows, blocks = figure.scene.rows
    assert [(row.label, row.remark, row.aside) for row in rows] == [
        ("A", "21 tokens, 2 promised", "ends, step 10"),
        ("B", "7 tokens, 1 promised", "ends, step 20"),
        ("C", "13 tokens, 2 promised", "ends, step 30"),
    ]
    for (name, row), waits in zip(
        zip("ABC", rows, strict=True), (0, 10, 20), strict=True
    ):
        assert row.tones[-2:] == [strong(name), soft(name)]
        assert row.widths == [waits, 1, 9][not waits :]
    assert blocks.remark == "2 held at most" and "pool: 12" in texts(figure)
    named = [words for words in texts(figure) if words[1:2] == ":"]
    assert named == ["A: 2", "B: 1", "C: 2"]  # on the line of all promises


def test_a_promise_to_somebody_else_is_told_apart_though_it_is_as_large():
    """A sign on the outline parts them, and both are named; but not where C goes on."""
    named, ticks = {}, {}
    for numbers in ([21, 21], [21, 7]):
        figure = lanes(numbers, 9)
        ends = [line.points for line in lines(figure) if line.linestyle == "-"]
        named[*numbers] = [text for text in texts(figure) if text[1:2] == ":"]
        ticks[*numbers] = [x for (x, _), (other, _) in ends if x == other]
    assert named == {(21, 21): ["A: 2", "B: 2"], (21, 7): ["A: 2", "B: 1"]}
    (one,), none = ticks.values()
    starts = [x for (x, _), text in placed(lanes([21, 21], 9)) if text[1:2] == ":"]
    assert starts[0] < one < starts[1] and none == []


def test_a_promise_to_two_names_both():
    first, second = moments([21], 3), moments([7], 3)
    both = [
        replace(one, works=one.works + two.works)
        for one, two in zip(first, second, strict=True)
    ]
    figure = plot_lanes(both, "title", mp.BlockPool(12, block_size=16))
    assert "A+B: 3" in texts(figure)


def test_the_line_of_what_is_promised_has_the_height_of_the_worst_case():
    """At most 29, 15 and 21 tokens are computed: 2, 1 and 2 blocks, of 4."""
    figure = lanes([21, 7, 13], 9, num_blocks=4)
    outline = list(levels_of(figure, "--"))
    pool_line, ground = sorted({y for (_, y), _ in levels_of(figure, "-")})
    block = (ground - pool_line) / 4
    assert [round((ground - y) / block, 6) for (_, y), _ in outline] == [2, 1, 2]


def test_a_table_in_time_harms_nobody():
    scene = overwritten(is_late=False).scene
    assert not any("gone" in words.text for words in scene.of(Words))
    assert all(Tone(BAD) not in row.tones for row in scene.rows)


def test_the_wrong_count_is_said_beside_the_right_one():
    scene = miscounted(3).scene
    above, block, below = scene.rows
    assert block.aside == "tables that name it: 2, the pool counts: 1"
    assert above.aside == "reads: My PIN is 4711" and "polite" in above.remark
    assert block.words == "My PIN is 4711".split()
    assert above.words == ["0", "1", "2", "3"] and below.words == ["3"]
    assert [(link.source, link.start) for link in scene.links] == [
        ("B's table", 3), ("C's table", 0),
    ]  # fmt: skip


def test_each_station_says_what_it_does_and_which_function_does_it():
    names, first, second, functions = stations().scene.rows
    assert names.words == [f"{n} · Station {n - 1}" for n in range(1, 7)]
    assert first.below == ["who computes what;"] * 6
    assert second.below == ["tables grow"] * 6
    assert functions.below == ["schedule()"] * 6


def test_what_stations_do_is_written_in_one_size():
    said = "what; tables grow", "all", "in", "a", "row", "there"
    named = {str(n): (mp.Scheduler.schedule, text) for n, text in enumerate(said)}
    scene = plot_stations(named, "title", "again").scene
    assert len({words.size for words in scene.of(Words) if words.text in said}) == 1


def test_the_way_leads_on_and_from_the_last_station_back_to_the_first_of_a_step():
    for before in (0, 1, 3):
        *on, back = stations(before=before).scene.links
        assert [(link.start, link.end) for link in on] == [(n, n + 1) for n in range(5)]
        assert (back.start, back.end) == (5, before)
        assert back.words == "again, until nobody waits"


def placed(figure):
    return [((words.x, words.y), words.text) for words in figure.scene.of(Words)]


def levels_of(figure, style):
    """The ends of level lines in this style."""
    for line in lines(figure):
        start, end = line.points
        if line.linestyle == style and start[1] == end[1] and start != end:
            yield start, end
