"""Appendix B's drawings: preempted, swapped, and what is missing in each step."""

import pytest
from transformers import GenerationConfig

import minipaged as mp
from helpers.drawn import boxes, lines, places_of, rims, texts
from helpers.readable import readable_in_all_themes
from helpers.tiny_models import VOCABULARY, tiny_model
from minipaged.draw import palette
from minipaged.draw.marks import Box
from minipaged.draw.tones import Tone, free, others, soft, strong
from minipaged.lab.measure.serving import serve_lengths
from minipaged.lab.measure.step_clock import StepClock
from minipaged.lab.measure.step_log import StepLog
from minipaged.lab.plots.bars import plot_bars
from minipaged.lab.plots.evictions import plot_evictions
from minipaged.lab.plots.pool import plot_pool
from minipaged.lab.plots.preempted import plot_preemptions
from minipaged.lab.plots.swapped import plot_swap
from minipaged.memory.contiguous import RequestLengths


def run(preemption="recompute", num_blocks=12, **options):
    """The log of four requests that share too few blocks."""
    log, paged = StepLog(), mp.PagedModel(tiny_model("qwen3"), num_blocks, 4)
    engine = mp.Engine(paged, preemption=preemption, observers=[log])
    never = VOCABULARY - 1
    config = GenerationConfig(
        max_new_tokens=12, eos_token_id=never, pad_token_id=0, **options
    )
    for name, length in zip("ABCD", (9, 5, 14, 7), strict=True):
        request = engine.add(list(range(3, 3 + length)), config).request
        log.names[request] = name
    engine.run()
    return log.steps, engine.stats


RECOMPUTED = [{"A": (5, 2), "B": (3, 1)}, {"A": (1, 2), "B": (1, 1)}]
RECOMPUTED += [{"A": (1, 3)}] * 8 + [{"B": (5, 2)}] + [{"B": (1, 2)}] * 6
SWAPPED = [{**step, "B": (1, 2)} if "B" in step else step for step in RECOMPUTED[2:]]
SWAPPED = RECOMPUTED[:2] + SWAPPED
GONE = [True] * 5, [False] * 5, [None] * 5


def old_places():
    """D's K and V come back to where they lay, and one block is A's now."""
    before, after = {"A": [0, 1], "D": [4, 6]}, {"A": [0, 4], "D": [9, 2]}
    return plot_swap(16, before, [0, 1], after, "D", "title", arrive=[4, 6])


def taken():
    """D's first block was taken, and is A's."""
    pool = mp.BlockPool(6, 4)
    a, d = mp.BlockTable(pool), mp.BlockTable(pool)
    d.append(8)
    pool.release(d.block_ids[0])
    a.append(4)
    tables = {"A": a, "D": d}
    return plot_pool(pool, tables, "title", columns=3, taken={"D": [0]})


def bars():
    """Half of one, nothing of the other."""
    ends = {"a": 5.0, "b": 0.0}
    return plot_bars({"a": 10.0, "b": 4.0}, "title", "ms", ["b"], ends, "again")


DRAWINGS = {
    "a run": lambda: plot_preemptions(run()[0], "title", 12),
    "a run with swap": lambda: plot_preemptions(run("swap")[0], "title", 12),
    "recomputed": lambda: plot_preemptions(RECOMPUTED, "title", 3),
    "swapped": lambda: plot_preemptions(SWAPPED, "title", 3),
    "cut off": lambda: plot_preemptions(RECOMPUTED[:9], "title", 3, unfinished="AB"),
    "chunks": lambda: plot_preemptions(
        [{"A": (6, 2)}, {"B": (6, 2)}] * 20, "title", 3, unfinished="AB"
    ),
    "chunks, with room that is kept": lambda: plot_preemptions(
        [{"A": (6, 1)}, {"B": (6, 2)}] * 20, "title", 4, "AB", {"A": 3, "B": 2}
    ),
    "evictions, and what is still to come": lambda: plot_evictions(
        {"one": GONE}, "AAABB", "title", 4, 5, {"one": "later B's 2, once"}
    ),
    "a long run": lambda: plot_preemptions(RECOMPUTED * 9, "title", 3),
    "evictions": lambda: plot_evictions(
        {"one": GONE, "other": GONE[1:]}, "AAABB", "title", 4
    ),
    "many blocks": lambda: plot_evictions(
        {"one": [[True] * 60]}, "A" * 30 + "B" * 20 + "C" * 10, "title", 50
    ),
    "bars with ends": lambda: bars(),
    "swap": lambda: plot_swap(
        16, {"A": [0, 1], "D": [4, 6]}, [0, 1], {"A": [0, 4], "D": [9, 2]}, "D", "title"
    ),
    "swap, back to the old places": lambda: old_places(),
    "a block that was taken": lambda: taken(),
    "swap, other rows": lambda: plot_swap(6, {"D": [4]}, [2], {"D": [1]}, "D", "title"),
}

test_it_can_be_read = readable_in_all_themes(DRAWINGS)


# --- they show what happened ----------------------------------------------------------


def test_the_log_says_who_computes_how_much_on_how_many_blocks():
    steps, stats = run()
    assert stats.num_preemptions
    computed = sum(number for step in steps for number, _ in step.values())
    assert computed == stats.num_scheduled_tokens
    assert max(sum(held for _, held in step.values()) for step in steps) <= 12


def test_a_group_holds_each_block_once():
    steps, stats = run(num_blocks=40, num_beams=3, num_return_sequences=3)
    assert not stats.num_preemptions and steps[0]["A"] == (9, 3)
    assert 3 < steps[1]["A"].num_blocks < 9


def lanes(steps, num_blocks=3, **options):
    """The words of each lane, and what stands above and behind it."""
    rows = plot_preemptions(steps, "title", num_blocks, **options).scene.rows
    return {row.label: row for row in rows}


def test_recompute_is_told_from_swap():
    for steps, word in ((RECOMPUTED, "away"), (SWAPPED, "in CPU memory")):
        a, b = (lanes(steps)[name] for name in "AB")
        assert {*b.words} == {"", word}
        assert (a.aside, b.aside) == ("ends, step 10", "ends, step 17")
        computed = [number for number in b.above if number]
        assert computed == (["3", "5"] if word == "away" else ["3"])  # again, or not
        assert b.tones[:2] == [strong("B"), soft("B")]
        told = "preempted, until it is back"
        assert told in texts(plot_preemptions(steps, "title", 3))
        assert told not in texts(plot_preemptions(steps[:1], "title", 3))


def test_blocks_come_back_in_the_order_of_the_table():
    """To other places; the old ones, if K and V arrive there, in orange."""
    scene = DRAWINGS["swap"]().scene
    assert [link[:5] for link in scene.links] == [
        ("pool", 4, "CPU memory", 0, None), ("CPU memory", 0, "pool", 9, None),
        ("pool", 6, "CPU memory", 1, None), ("CPU memory", 1, "pool", 2, None),
    ]  # fmt: skip
    out, waiting, back = (row.words for row in scene.rows)
    assert waiting == ["D0", "D1"] and (back[9], back[2]) == ("D0", "D1")
    assert out[:8] == ["A", "A", "", "", "D0", "", "D1", ""]
    wrong = [link for link in old_places().scene.links if link.colour == palette.BAD]
    assert [link.end for link in wrong] == [4, 6]


def test_blocks_of_others_look_as_in_the_legend():
    """Words stand in them, so they are rims without a face: in both places."""
    assert not boxes(DRAWINGS["swap"](), palette.soft_colour("A"))


def test_who_is_cut_off_has_not_ended():
    rows = lanes(RECOMPUTED[:9], unfinished="AB")
    assert not rows["A"].aside and not rows["B"].aside and "away" in rows["B"].words


def test_what_is_missing_is_counted_and_strong():
    figure = plot_evictions({"one": GONE}, "AAABB", "title", 4)
    assert "5 blocks brought back" in texts(figure)
    gone, there, away = (row.tones for row in figure.scene.rows)
    assert gone == [*map(strong, "AAABB")] and there == [*map(soft, "AAABB")]
    assert away == [free()] * 5


def test_the_end_of_a_bar_is_as_long_as_its_share():
    """And a bar is as long as its value."""
    whole, other = bars().scene.rows
    assert whole.tones == [others(), Tone(palette.BAD)]
    assert whole.widths == pytest.approx([50, 50]) and other.widths == [40]
    assert (whole.aside, other.aside) == ("10", "4") and other.tones == [strong(0)]


def test_steps_have_their_numbers_and_what_is_to_come_is_said():
    figure = DRAWINGS["evictions, and what is still to come"]()
    assert "5 blocks brought back; later B's 2, once" in texts(figure)
    assert [row.label for row in figure.scene.rows] == ["step 5", "step 6", "step 7"]


def test_room_that_is_kept_is_hatched_above_what_is_held():
    """A holds 1 of 3 blocks; B holds as many as are kept for it."""
    figure = DRAWINGS["chunks, with room that is kept"]()
    assert "no block yet, but kept for its prompt and a token more" in texts(figure)
    found = figure.scene.of(Box)
    (held,) = {(b.y, b.height) for b in found if b.face == palette.soft_colour("A")}
    kept = [b for b in found if b.pattern and b.height > held[1]]
    heights = [b.height / held[1] for b in kept]
    assert heights == pytest.approx([2.0] * 2 * 20)  # each in two halves
    assert [b.y + b.height for b in kept] == pytest.approx([held[0]] * 2 * 20)


def test_the_size_of_the_pool_stands_at_its_line():
    figure = plot_preemptions(RECOMPUTED, "title", 3)
    ((_, y),) = places_of(figure, "pool: 3")
    (line,) = (line for line in lines(figure) if line.linewidth == 1.6)
    assert line.points[0][1] == line.points[1][1] == pytest.approx(y)


def test_whose_blocks_they_are_is_said_each_time_that_it_has_some():
    steps = [{"A": (1, 2)}] * 8 + [{"B": (1, 2)}] * 8 + [{"A": (2, 2)}] * 8
    said = texts(plot_preemptions(steps, "title", 3))
    assert said.count("A") == 1 + 2 and said.count("B") == 1 + 1


def test_an_entry_whose_block_was_taken_is_marked():
    figure = taken()
    assert "leads to a block that was taken" in texts(figure)
    orange = [box for box in rims(figure) if box.rim == palette.BAD]
    assert sum(box.height > 20 for box in orange) == 1  # but for the legend's


def test_a_server_without_a_model():
    chats = [RequestLengths(9, 20) for _ in range(6)]
    clock = StepClock(2.0, 0.5)
    roomy = serve_lengths(chats, 100, clock, block_size=4)
    assert roomy == (2.0 * 20 + 0.5 * 6 * 28, 0, 0, 0, 6 * 28)
    plain = serve_lengths(chats, 16, StepClock(2.0, 0.5), block_size=4)
    cached = serve_lengths(chats, 16, StepClock(2.0, 0.5), block_size=4, cached=True)
    swap = serve_lengths(chats, 16, StepClock(2.0, 0.5), block_size=4, swaps=True)
    assert plain.preemptions and swap.moved_blocks and not plain.moved_blocks
    assert swap.recomputed_tokens == 0 < cached.recomputed_tokens
    assert cached.recomputed_tokens < plain.recomputed_tokens
    computed = [one.computed_tokens for one in (roomy, swap, cached, plain)]
    assert computed[0] == computed[1] < computed[2] < computed[3]
    assert roomy.seconds < swap.seconds < plain.seconds
