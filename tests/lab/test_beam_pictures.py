"""Pictures and counts of a beam search: they show what really ran."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from transformers import GenerationConfig

import minipaged as mp
from helpers.drawn import lines, places_of, texts
from helpers.tiny_models import VOCABULARY, tiny_model
from minipaged.draw import palette
from minipaged.draw.marks import Box, Words
from minipaged.lab.measure.watch import Moment, saving, watch
from minipaged.lab.plots.beams import plot_beam_tree
from minipaged.lab.plots.held import plot_blocks_held
from minipaged.lab.plots.tables import plot_shared_tables
from minipaged.lab.pool.replay import record

CONFIG = GenerationConfig(max_new_tokens=6, num_beams=3, eos_token_id=VOCABULARY - 1)


@pytest.fixture
def paged():
    return mp.PagedModel(tiny_model("qwen3"), num_blocks=64, block_size=4)


class Letters:
    """A tokenizer of one letter a token."""

    def decode(self, tokens):
        return "".join(chr(ord("a") + token % 26) for token in tokens)


def named(figure, word):
    return [words for words in figure.scene.of(Words) if words.text == word]


def texts_and_places(figure):
    return {words.text: (words.x, words.y) for words in figure.scene.of(Words)}


def frames_of(*steps, held=3):
    """As `record` gives them: the new tokens of each living beam, by its letter."""
    table = SimpleNamespace(block_ids=[0] * 7)
    snapshots = [
        SimpleNamespace(num_held=held, tables=dict.fromkeys(s, table)) for s in steps
    ]
    rows = zip(steps, snapshots, strict=True)
    return [SimpleNamespace(growing=step, snapshot=s) for step, s in rows]


# --- the tree -------------------------------------------------------------------------

RACE = frames_of(
    {"A": []},
    {"A": [0], "B": [1]},
    {"C": [0, 2], "A": [0, 3]},
    {"A": [0, 3, 4], "D": [0, 3, 5]},
)


def test_siblings_stand_best_first_not_by_their_tokens():
    """A's own child has the token d, that of C the token c."""
    places = texts_and_places(plot_beam_tree(RACE, Letters(), "title"))
    assert places["d"][1] < places["c"][1] < places["b"][1]
    assert places["e"][1] < places["f"][1]


def test_a_tree_has_one_node_for_each_beginning():
    """a and b begin; only a has children, and of these only one lives on."""
    said = texts(plot_beam_tree(RACE, Letters(), "title"))
    assert sorted(word for word in said if len(word) == 1 and word.islower()) == list(
        "abcdef"
    )
    assert {"B ×", "C ×"} <= set(said)  # b, and the child c of a
    # a's beam is named at its first token, too; b's has that one only.
    assert [word for word in said if word in ("A", "D")] == ["A", "A", "D"]


def test_a_beam_is_named_above_its_first_token():
    figure = plot_beam_tree(RACE, Letters(), "title")
    places, ((x, y),) = places_of(figure, "A"), places_of(figure, "a")
    assert any(at == x and 11 < y - above < 25 for at, above in places)


def test_a_step_stands_above_its_tokens_and_the_blocks_held_below():
    places = texts_and_places(plot_beam_tree(RACE, Letters(), "title"))
    for step, tokens in (("1", "ab"), ("2", "cd"), ("3", "ef")):
        for token in tokens:
            assert places[token][0] == pytest.approx(places[step][0])
    said = texts(plot_beam_tree(RACE, Letters(), "title"))
    assert said.count("3") == 1 + 3  # the third step, and three blocks at each
    assert said.count("14") == 3  # two beams of seven blocks each, if they shared none


def test_living_beams_have_thick_lines_in_their_colours():
    figure = plot_beam_tree(RACE, Letters(), "title")
    thick = [line for line in lines(figure) if line.linewidth > 2]
    colours = sorted(line.color for line in thick)
    expected = [palette.line_colour(name) for name in "AAAD"]  # a, d, e and f
    assert colours == sorted(expected)


def test_letters_are_those_of_the_record(paged):
    with record(paged) as frames:
        mp.generate(paged, [[5, 6, 7, 8, 9]], CONFIG)
    said = set(texts(plot_beam_tree(frames, Letters(), "title")))
    *_, last, end = frames
    assert set(last.growing) <= said and not end.growing
    ended = {name for frame in frames[1:-1] for name in frame.growing}
    assert {f"{name} ×" for name in ended - set(last.growing)} <= said


def test_a_search_without_steps_has_no_tree():
    with pytest.raises(ValueError, match="no beam ran on"):
        plot_beam_tree(frames_of({"A": []}, {}), Letters(), "title")


# --- who shares what ------------------------------------------------------------------


def boxes_of(figure):
    """The blocks that are named, whose colours they have, and how many are hatched."""
    named = [said for said in texts(figure) if said.startswith("block ")]
    boxes = figure.scene.of(Box)
    faces = "".join(
        name
        for box in boxes
        for name in "ABC"
        if box.face == palette.sequence_colour(name)
    )
    return named, faces, sum(bool(box.pattern) for box in boxes)


def test_neighbours_share_one_box():
    pool = mp.BlockPool(8, 4)
    a = mp.BlockTable(pool)
    a.append(4)
    b, c = a.fork(), a.fork()
    for table in (a, b):
        table.append(4)
    named, faces, num_hatched = boxes_of(
        plot_shared_tables({"A": a, "B": b, "C": c}, "title")
    )
    assert named == ["block 0", "block 1", "block 2"] and num_hatched == 1
    # First the names; the box of block 0 has a part of each holder's colour.
    assert faces == "ABC" + "ABC" + "A" + "B"


def test_holders_that_are_no_neighbours_have_a_box_each():
    pool = mp.BlockPool(8, 4)
    a, b = mp.BlockTable(pool), mp.BlockTable(pool)
    a.append(4)
    b.append(4)
    figure = plot_shared_tables({"A": a, "B": b, "C": a.fork()}, "title")
    assert boxes_of(figure)[0] == ["block 0", "block 1", "block 0"]
    assert boxes_of(figure)[2] == 2


def test_free_blocks_stand_beside_the_tables():
    pool = mp.BlockPool(9, 4)
    a = mp.BlockTable(pool)
    a.append(4)
    b = a.fork()
    b.append(8)
    figure = plot_shared_tables({"A": a, "B": b}, "title", pool)
    said = texts(figure)
    assert "6 free blocks" in said
    assert [words for words in said if words.isdigit()] == [*"345678"]
    assert "free" not in " ".join(texts(plot_shared_tables({"A": a, "B": b}, "title")))


# --- counting -------------------------------------------------------------------------


def test_moments_are_what_the_tables_hold(paged):
    """Two samples of 6 + 3 tokens in blocks of 4, one of them alone at first."""
    sampled = GenerationConfig(
        max_new_tokens=4,
        do_sample=True,
        num_return_sequences=2,
        eos_token_id=VOCABULARY - 1,
    )
    with watch(paged) as moments:
        mp.generate(paged, [[5, 6, 7, 8, 9, 10]], sampled, seed=1)
    # Tokens computed, sequences, blocks, blocks without sharing, copies.
    assert [replace(moment, works=()) for moment in moments] == [
        Moment(6, 1, 2, 2, 0),
        Moment(2, 2, 3, 4, 1),
        Moment(2, 2, 3, 4, 0),
        Moment(2, 2, 5, 6, 0),
    ]
    assert saving(moments) == pytest.approx(3 / 16)


def test_filling_zeros_of_short_tables_are_not_counted(paged):
    """Block 0 is somebody else's; the table of one block is filled up with zeros."""
    other = mp.BlockTable(paged.pool)
    other.append(4)
    with watch(paged) as moments:
        mp.generate(paged, [[5, 6], [7] * 9], GenerationConfig(max_new_tokens=1))
    assert (moments[0].num_blocks, moments[0].num_unshared) == (4, 4)


def test_outside_of_the_block_nothing_is_noted(paged):
    with pytest.raises(ValueError, match="empty"), watch(paged) as moments:
        mp.generate(paged, [[]])
    mp.generate(paged, [[5]], GenerationConfig(max_new_tokens=1))
    assert moments == [] and "forward" not in vars(paged)
    with watch(paged) as outer, watch(paged) as inner:
        mp.generate(paged, [[5]], GenerationConfig(max_new_tokens=1))
    assert len(outer) == len(inner) == 1


def test_watching_changes_no_token(paged):
    plain = mp.generate(paged, [[5, 6, 7]], CONFIG)
    torch.manual_seed(0)
    with watch(paged):
        watched = mp.generate(paged, [[5, 6, 7]], CONFIG)
    assert plain == watched


def test_a_dotted_line_stands_where_every_beam_opens_a_block(paged):
    with record(paged) as frames:  # four tokens in a block
        mp.generate(paged, [[1, 2, 3]], CONFIG)
    figure = plot_beam_tree(frames, Letters(), "title")
    dotted = [line for line in lines(figure) if line.linestyle == ":"]
    assert len(dotted) == len(named(figure, "blocks"))
    (x,) = {x for line in dotted for x, _ in line.points}
    step = {number: places_of(figure, number)[0][0] for number in "12"}
    assert x == pytest.approx((step["1"] + step["2"]) / 2)  # 3 + 1 tokens fill a block


# --- the blocks of a long search ------------------------------------------------------


def test_stairs_say_where_blocks_come_free():
    counts = [(4, 4), (6, 10), (6, 10), (3, 9)]
    moments = [Moment(1, 1, held, unshared, 0) for held, unshared in counts]
    scene = plot_blocks_held(moments, 16, "title").scene
    held, unshared = scene.curves
    assert [y for _, y in held.points] == [4, 6, 6, 3] and held.name == "with sharing"
    assert [y for _, y in unshared.points] == [4, 10, 10, 9]
    assert held.is_stairs and unshared.is_stairs
    assert [w.text for w in scene.of(Words) if w.text.startswith("−")] == ["−3"]
