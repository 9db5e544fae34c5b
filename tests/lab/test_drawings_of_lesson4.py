"""Lesson 4's drawings: what is copied, and which candidates end."""

from types import SimpleNamespace

import pytest
from transformers import GenerationConfig

import minipaged as mp
from helpers.drawn import texts
from helpers.readable import readable_in_all_themes
from helpers.tiny_models import VOCABULARY, tiny_model
from minipaged.decoding import beam
from minipaged.draw import palette
from minipaged.draw.marks import Words
from minipaged.draw.tones import free, others, shared, soft, strong
from minipaged.lab.plots.beams import plot_beam_tree
from minipaged.lab.plots.candidates import (
    ENDED,
    GOES_ON,
    LEFT_OUT,
    TOO_LATE,
    Candidate,
    judge,
    plot_candidates,
)
from minipaged.lab.plots.copying import freeze, plot_copying
from minipaged.lab.plots.tables import plot_shared_tables
from minipaged.lab.plots.two_tables import plot_two_tables

WORDS = "Four score and seven years ago our".split()
ENDS = ["fathers", "mothers", "brothers", "sisters"]


def copying(num_tables=2, size=4):
    """Tables over one prompt; each appends and writes a word, drawn after each move."""
    pool = mp.BlockPool(16, size)
    tables = {"A": mp.BlockTable(pool)}
    tables["A"].append(7)
    for name in "BCD"[: num_tables - 1]:
        tables[name] = tables["A"].fork()
    words = {name: list(WORDS) for name in tables}
    frames = {"before": freeze(pool, tables, words)}
    for (name, table), word in zip(tables.items(), ENDS, strict=False):
        table.append(1)
        frames[f"{name} has room"] = freeze(pool, tables, words)
        words[name].append(word)
        frames[f"{name} has written"] = freeze(pool, tables, words)
    return frames


def two_tables(num_blocks=9, size=4, is_forked=True):
    """A's blocks are 2 and 1, or those before, as many as seven words fill."""
    pool = mp.BlockPool(num_blocks, size)
    for _ in range(3):
        pool.allocate()  # somebody's
    for block_id in (1, 2):
        pool.release(block_id)
    a = mp.BlockTable(pool)
    a.append(7)
    b = a.fork() if is_forked else mp.BlockTable(pool)
    words = {"A": WORDS, "B": WORDS if is_forked else []}
    return plot_two_tables(pool, {"A": a, "B": b}, "title", words)


class Overwriting(mp.BlockTable):
    """As in the lesson: writes, whoever else holds the block."""

    def must_copy(self, n):
        return False


def overwriting(num_tables=2, size=4):
    """As above, without copies: all words lie in one slot, and the last one stays."""
    pool = mp.BlockPool(16, size)
    first = Overwriting(pool)
    first.append(7)
    tables = {"A": first}
    for name in "BCD"[: num_tables - 1]:
        shared = [pool.share(block_id) for block_id in first.block_ids]
        tables[name] = Overwriting(pool, shared, 7)
    start = freeze(pool, tables, dict.fromkeys(tables, WORDS))
    frames = {}
    for (name, table), word in zip(tables.items(), ENDS, strict=False):
        table.append(1)
        frames[name] = freeze(pool, tables, {key: [*WORDS, word] for key in tables})
    return frames, "title", start


def candidates(width=3, count=6, ends=(0, 1), word="<|end|>"):
    rows = [
        Candidate(
            -1.25 * rank, rank % width, word if rank in ends else "x", rank in ends
        )
        for rank in range(count)
    ]
    return ["The capital of Portugal is Lisbon"] * width, rows


def tree():
    """Three beams, then two children of the first, and one of the second."""
    steps = (
        {"A": [0], "B": [1], "C": [2]},
        {"A": [0, 3], "D": [0, 4], "B": [1, 5]},
    )
    tables = {"A": SimpleNamespace(block_ids=[0, 1])}
    snapshot = SimpleNamespace(num_held=5, tables=tables)
    frames = [SimpleNamespace(growing=step, snapshot=snapshot) for step in steps]
    words = SimpleNamespace(decode=lambda ids: f"penguin{ids[0]}")
    return plot_beam_tree(frames, words, "title")


def beside_free_blocks():
    """Two tables over one block, and ten that nobody holds."""
    pool = mp.BlockPool(11, 4)
    a = mp.BlockTable(pool)
    a.append(4)
    return plot_shared_tables({"A": a, "B": a.fork()}, "title", pool)


DRAWINGS = {
    "tables beside free blocks": beside_free_blocks,
    "two tables": two_tables,
    "two tables, many blocks": lambda: two_tables(16, 2),
    "two tables, one of them empty": lambda: two_tables(is_forked=False),
    "copying": lambda: plot_copying(copying(), "title"),
    "copying, three tables": lambda: plot_copying(copying(3), "title"),
    "copying, four tables": lambda: plot_copying(copying(4), "title"),
    "copying, large blocks": lambda: plot_copying(copying(size=16), "title"),
    "three rounds": lambda: plot_copying(rounds()[0], "title", rounds()[1]),
    "overwriting": lambda: plot_copying(*overwriting()),
    "overwriting, four tables": lambda: plot_copying(*overwriting(4)),
    "overwriting, small blocks": lambda: plot_copying(*overwriting(2, 2)),
    "candidates": lambda: plot_candidates(*candidates(), 3, "title"),
    "candidates of one": lambda: plot_candidates(*candidates(1, 2, ()), 1, "title"),
    "candidates of eight": lambda: plot_candidates(
        *candidates(8, 24, range(0, 24, 3)), 1234, "title"
    ),
    "tree": tree,
}


# --- every picture can be read --------------------------------------------------------


test_it_can_be_read = readable_in_all_themes(DRAWINGS)


# --- they show what happened ----------------------------------------------------------


def copies(figure):
    """How many blocks are copied."""
    return [link.words for link in figure.scene.links].count("copied")


def test_an_arrow_leads_from_each_entry_to_its_block():
    scene = two_tables().scene
    links = scene.links
    assert [link.target for link in links] == ["block 2", "block 1"] * 2
    assert [link.source for link in links] == ["entry 0", "entry 1", "", ""]
    # The second table stands at the right: a box first, then which entry it is.
    rows = [row for row in scene.rows if not row.label.startswith("block")]
    assert [row.words for row in rows] == [["2"], ["1"]] * 2
    assert [row.aside for row in rows] == ["", "", "entry 0", "entry 1"]
    assert [link.colour for link in links] == [*map(palette.line_colour, "AABB")]
    alone = two_tables(is_forked=False)
    assert len(alone.scene.links) == 2 and "several holders" not in texts(alone)


def test_a_block_in_two_tables_is_drawn_once_and_hatched():
    blocks = {row.label: row for row in two_tables().scene.rows}
    both = shared(strong("A"), "A")
    assert blocks["block 2"].words == WORDS[:4]
    assert blocks["block 1"].words[:3] == WORDS[4:]
    assert blocks["block 2"].tones == [both] * 4
    assert blocks["block 1"].tones == [both] * 3 + [free()]
    assert blocks["block 0"].tones == [others()]  # somebody else's
    assert blocks["block 8"].tones == [free()]


@pytest.mark.parametrize("num_tables", [2, 3, 4])
def test_all_but_the_last_holder_copy(num_tables):
    figure = plot_copying(copying(num_tables), "title")
    assert copies(figure) == num_tables - 1
    assert any(words.endswith(f": {num_tables} holders") for words in texts(figure))
    words = [word for row in figure.scene.rows for word in row.words]
    assert [words.count(end) for end in ENDS[:num_tables]] == [
        2 * num_tables - 1 - 2 * at for at in range(num_tables)
    ]


def test_an_arrow_leads_from_the_last_entry_of_a_table_to_its_block():
    """First both to block 1, then A's to block 2, which stands at the left."""
    frames = copying()
    links = plot_copying(frames, "title").scene.links
    ends = [(link.start, link.end) for link in links if not link.words]
    assert ends == [(2, 4), (5, 4)] + [(2, 0), (5, 4)] * (len(frames) - 1)
    assert {link.colour for link in links[:2]} == {*map(palette.line_colour, "AB")}


def rounds():
    """Two tables append; then the words are copied; then both write."""
    pool = mp.BlockPool(16, 4)
    tables = {"A": mp.BlockTable(pool)}
    tables["A"].append(7)
    tables["B"] = tables["A"].fork()

    def now(of_a, of_b):
        return freeze(pool, tables, {"A": of_a, "B": of_b})

    start = now(WORDS, WORDS)
    assert tables["A"].append(1) + tables["B"].append(1) == [(1, 2)]
    frames = {"append": now(WORDS[:4], WORDS), "copy": now(WORDS, WORDS)}
    frames["write"] = now([*WORDS, "fathers"], [*WORDS, "mothers"])
    return frames, start


def test_a_copy_is_drawn_when_the_words_are_there():
    """Not when the table points to the empty block, nor once more when all write."""
    frames, start = rounds()
    states = [start, *frames.values()]
    for (name, frame), before in zip(frames.items(), states, strict=False):
        figure = plot_copying({name: frame}, "title", before)
        assert copies(figure) == (name == "copy"), name
        words = figure.scene.rows[1].words
        assert words.count("years") == (1 if name == "append" else 2)
    assert copies(plot_copying(frames, "title", start)) == 1


def test_what_is_written_over_stands_above_its_slot():
    figure = plot_copying(*overwriting())
    blocks = [row.words[-1] for row in figure.scene.rows[1::2]]
    assert blocks == ["fathers", "mothers"] and not copies(figure)
    said = texts(figure)
    assert "× fathers" in said and "× mothers" not in said
    assert "empty" not in said  # all slots of the block are full
    lost = "×: written over"
    assert lost in said and lost not in texts(plot_copying(copying(), "title"))
    words = {words.text: words for words in figure.scene.of(Words)}
    assert words["× fathers"].color == words[lost].color == palette.BAD
    assert words["fathers"].y == words["mothers"].y  # the blocks stand equally high


def test_the_legend_names_a_slot_that_awaits_a_word():
    frames = copying()
    told = "room, not written yet"
    assert told in texts(plot_copying(frames, "title"))
    done = {name: frame for name, frame in frames.items() if "room" not in name}
    assert told not in texts(plot_copying(done, "title"))
    assert told not in texts(plot_copying(*overwriting()))


def test_a_word_has_the_colour_of_its_writer_and_without_a_start_nothing_is_new():
    old, new = shared(soft("A"), "A"), [shared(strong(name), name) for name in "AB"]
    rows = plot_copying(*overwriting()).scene.rows
    assert [row.tones for row in rows[1::2]] == [[old] * 3 + [tone] for tone in new]
    frames, title, _ = overwriting()
    figure = plot_copying({"A": frames["A"]}, title)
    assert figure.scene.rows[1].tones == [old] * 4 and "changed" not in texts(figure)


def test_a_frozen_state_does_not_change():
    frames = copying()
    before, *_, after = frames.values()
    assert before.tables == {"A": (0, 1), "B": (0, 1)} and before.holders[1] == 2
    assert after.tables == {"A": (0, 2), "B": (0, 1)} and after.holders[1] == 1
    assert (before.word(1, 3), after.word(1, 3), after.word(2, 3)) == (
        None,
        "mothers",
        "fathers",
    )
    assert frames["A has room"].word(2, 3) == ""


def test_the_first_may_end_and_the_best_others_go_on():
    ends = [True, False, False, True, False, False]
    expected = [ENDED, GOES_ON, GOES_ON, TOO_LATE, GOES_ON, LEFT_OUT]
    assert judge(3, ends) == expected
    assert judge(1, [True, True]) == [ENDED, TOO_LATE]
    figure = plot_candidates(*candidates(3, 6, (0, 3)), 2, "title")
    assert [row.aside for row in figure.scene.rows[3:]] == [
        "has ended, score 0.00 / 2 = 0.00", "goes on", "goes on",
        "× below the line", "goes on", "× left out",
    ]  # fmt: skip
    sums = [row.words[1] for row in figure.scene.rows[3:]]
    assert sums[:2] == ["0.00", "−1.25"]
    assert "only above the line may a text end" in texts(figure)


def test_a_score_that_is_rounded_is_said_to_be_so():
    ends = [Candidate(total, 0, "end", True) for total in (-0.01, -1.5)]
    rows = plot_candidates(["one", "two"], ends, 6, "title").scene.rows
    assert [row.aside for row in rows[2:]] == [
        "has ended, score −0.01 / 6 ≈ −0.002", "has ended, score −1.50 / 6 = −0.25",
    ]  # fmt: skip


def test_an_arrow_leads_from_a_beam_to_each_child_in_its_colour():
    figure = plot_candidates(*candidates(3, 6, ()), 2, "title")
    rows, links = figure.scene.rows, figure.scene.links
    tones = [strong(number) for number in range(3)]
    assert [row.tones[0] for row in rows] == tones * 2 + [others()] * 3
    assert [(link.source, link.target) for link in links] == [
        (f"beam {n % 3}", str(n + 1)) for n in range(6)
    ]
    colours = [palette.line_colour(number) for number in range(3)]
    assert [link.colour for link in links] == colours + [None] * 3


def test_where_nothing_ends_nothing_is_said_of_ends():
    said = texts(plot_candidates(*candidates(3, 6, ()), 2, "title"))
    assert "above the line: the best 3" in said
    assert not [words for words in said if "end" in words]


def test_a_verdict_is_that_of_the_search(monkeypatch):
    """Whom the picture lets go on, and end, the search does too."""
    paged = mp.PagedModel(tiny_model("qwen3"), num_blocks=64, block_size=4)
    many = list(range(0, VOCABULARY, 3))
    config = GenerationConfig(max_new_tokens=9, num_beams=3, eos_token_id=many)
    seen = []

    class Watched(beam.Beams):
        def apply(self, turn, choice):
            parents = [one.new_tokens for one in beam._parents(turn.request)]
            was = {tuple(one.tokens) for one in self.best}
            super().apply(turn, choice)
            kept = [self.best[index] for index in self.ended.nonzero().flatten()]
            new = [one.tokens for one in kept if tuple(one.tokens) not in was]
            live = [one.new_tokens for one in turn.request.live]
            seen.append((parents, choice, live, new))

    monkeypatch.setattr(beam, "Beams", Watched)
    mp.generate(paged, [[5, 6, 7], [8] * 5], config)
    verdicts = set()
    for parents, choice, live, new in seen:
        tokens = choice.tokens.tolist()
        beams = choice.beams.tolist()
        found = judge(3, [token in many for token in tokens])
        verdicts |= set(found)
        texts_of = [[*parents[b], t] for b, t in zip(beams, tokens, strict=True)]
        going = [t for t, v in zip(texts_of, found, strict=True) if v == GOES_ON]
        ended = [t for t, v in zip(texts_of, found, strict=True) if v == ENDED]
        assert not live or live == going
        if live:
            assert all(tokens in ended for tokens in new)
    assert {GOES_ON, ENDED, TOO_LATE} <= verdicts
