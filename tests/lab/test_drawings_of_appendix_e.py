"""Appendix E's drawings: guesses, a fork's life, and what is drawn anew."""

from itertools import pairwise

from helpers.drawn import crosses, texts
from helpers.readable import readable_in_all_themes
from minipaged.draw.palette import BAD
from minipaged.draw.tones import Tone, free, shared, soft, strong
from minipaged.lab.plots.accepted import plot_acceptance, plot_frequencies
from minipaged.lab.plots.checked import plot_checked
from minipaged.lab.plots.copying import freeze
from minipaged.lab.plots.drafts import plot_drafts
from minipaged.lab.plots.moved_back import plot_moved_back
from minipaged.lab.plots.published import plot_published
from minipaged.lab.plots.tree_mask import plot_tree_mask
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable

WORDS = "Four score and seven years ago our fathers".split()


def moment(tables):
    """What these tables are now, with as many words as they have room for."""
    words = {name: WORDS[: table.num_tokens] for name, table in tables.items()}
    return freeze(tables["A"].pool, tables, words)


def life():
    """A draft forks A's two blocks, writes, and is rejected."""
    tables = {"A": BlockTable(BlockPool(8, 4))}
    tables["A"].append(6)
    frames = [moment(tables)]
    tables["D"] = tables["A"].fork()
    frames.append(moment(tables))
    tables["D"].append(2)
    frames.append(moment(tables))
    tables.pop("D").free()
    frames.append(moment(tables))
    headings = ("forks", "writes", "is wrong")
    pairs = pairwise(frames)
    return plot_drafts(dict(zip(headings, pairs, strict=True)), "title")


def moved_back(**wrong):
    """Of four tokens in blocks of 2, the last two move one place back."""
    table = BlockTable(BlockPool(4, 2))
    table.append(4)
    places = {"planned": {2: "x", 3: "y"}, "moved": {1: "x", 2: "y"}}
    return plot_moved_back(table, places, "title", **wrong)


P, Q = [0.5, 0.3, 0.2], [0.2, 0.3, 0.5]
DRAWINGS = {
    "one is wrong": lambda: plot_checked(
        "The", ["old", "fox"], ["old", "cat", "1"], "t"
    ),
    "all are right": lambda: plot_checked("The", ["old"], ["old", "cat"], "title"),
    "a life": life,
    "a mask": lambda: plot_tree_mask(["of"], [["P", "is"], ["F"]], "title"),
    "moved back": moved_back,
    "moved over a wrong guess": lambda: moved_back(wrong={1: "z"}),
    "published": lambda: plot_published(["a", "dog"], ["a", "cat"], "title"),
    "accepted": lambda: plot_acceptance(P, Q, "title"),
    "frequencies": lambda: plot_frequencies(P, {"one": P, "other": Q}, "title"),
}
test_it_can_be_read = readable_in_all_themes(DRAWINGS)


def test_choices_are_compared_up_to_the_first_wrong_guess():
    figure = DRAWINGS["one is wrong"]()
    computed, said = figure.scene.rows
    assert computed.tones == [soft("A"), soft("A"), free()]
    assert said.tones == [strong("A"), strong("A"), free()]
    assert [link[:4] for link in figure.scene.links] == [
        ("chosen", 0, "computed", 1),
        ("chosen", 1, "computed", 2),
    ]
    assert crosses(figure) == 1
    figure = DRAWINGS["all are right"]()
    assert figure.scene.rows[1].tones == [strong("A")] * 2
    assert len(figure.scene.links) == 1 and crosses(figure) == 0


def test_a_forks_blocks_are_shared_then_copied_then_free():
    rows = life().scene.rows
    assert [row.label for row in rows] == ["A", "D", "A", "D", "A", "free"]
    forked, written = rows[1], rows[3]
    assert forked.tones == [shared(strong("D"), "D")] * 2
    assert written.tones == [shared(soft("D"), "D"), strong("D")]
    assert written.words == ["Four score and seven", "years ago our fathers"]
    assert rows[4].tones == [soft("A")] * 2 and rows[5].tones == [free()]
    said = texts(life())
    assert said.count("0: 2 holders") == 4 and "2: 1 holder" in said and "2" in said


def test_an_arrow_leads_from_a_block_to_its_copy():
    (link,) = life().scene.links
    assert link[:4] == ("A", 1, "D", 1)


def test_a_branch_sees_the_text_and_itself():
    rows = DRAWINGS["a mask"]().scene.rows
    assert [row.tones for row in rows] == [
        [soft("A"), strong(1)],
        [soft("A"), strong(1), strong(1)],
        [soft("A"), free(), free(), strong(2)],
    ]


def test_tokens_are_moved_in_their_order():
    scene = moved_back().scene
    planned, moved = scene.rows
    assert [planned.words, moved.words] == [["", "", "x", "y"], ["", "x", "y", ""]]
    assert moved.tones == [soft("A"), strong("A"), strong("A"), free()]
    assert [link[:4] for link in scene.links] == [
        ("planned", 2, "moved", 1),
        ("planned", 3, "moved", 2),
    ]


def test_a_token_is_moved_over_the_wrong_guess():
    figure = DRAWINGS["moved over a wrong guess"]()
    planned, moved = figure.scene.rows
    assert planned.words == ["", "z", "x", "y"] and planned.tones[1] == Tone(BAD)
    assert moved == moved_back().scene.rows[1]
    assert "a wrong guess" in texts(figure)
    assert "a wrong guess" not in texts(moved_back())


def test_a_name_is_crossed_where_the_block_holds_another_token():
    figure = DRAWINGS["published"]()
    name, content = figure.scene.rows
    assert [name.words, content.words] == [["a", "dog"], ["a", "cat"]]
    assert content.tones == [soft("A"), Tone(BAD)]
    (link,) = figure.scene.links
    assert link[:4] == ("name", 1, "content", 1) and crosses(figure) == 1
    assert crosses(plot_published(["a"], ["a"], "title")) == 0


def test_what_p_lacks_is_as_long_as_what_q_has_too_much():
    rows = DRAWINGS["accepted"]().scene.rows
    lacking = sum(
        width
        for row in rows
        for tone, width in zip(row.tones, row.widths, strict=True)
        if tone == Tone(BAD)
    )
    refused = sum(
        width
        for row in rows
        for tone, width in zip(row.tones, row.widths, strict=True)
        if tone == free()
    )
    assert round(lacking) == round(refused) == 30


def test_signs_stand_at_shares():
    rows = DRAWINGS["frequencies"]().scene.rows
    assert [row.widths for row in rows] == [[share] for share in P]
    places = [[place for place, _ in row.signs] for row in rows]
    assert places == [[p, q] for p, q in zip(P, Q, strict=True)]
