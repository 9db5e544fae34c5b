"""The glossary's words, and where a text uses one."""

import pytest

from book import words
from helpers.guides import ROOT

TABLE = """\
## Words

| word | meaning | lesson |
|---|---|---|
| block table | a list of `blocks` | 2 |
| gather | to copy | 2 |
| stream | to read | 5 |
| turn | once around a loop | 6 |

<details><summary>More words</summary>

| word | meaning | lesson |
|---|---|---|
| engine | serves | A |
| stream | what it answers | A |

</details>

## Pictures

| mechanism | picture |
"""
MAP = (ROOT / "notebooks" / "README.md").read_text("utf-8")


def found(text, is_bold=False):
    finder = words.pattern(words.by_term(TABLE))
    return [text[use.start : use.stop] for use in words.uses(text, finder, is_bold)]


def test_rows_of_the_table_and_no_others():
    rows = words.words(TABLE)
    terms = "block table, gather, stream, turn, engine, stream"
    assert [row.term for row in rows] == terms.split(", ")
    assert rows[2] == ("stream", "to read", "5")
    with pytest.raises(ValueError, match="Words"):
        words.words("# Another page\n")


def test_the_maps_words_are_read():
    known = words.by_term(MAP)
    assert {
        "block table",
        "copy-on-write",
        "holder",
        "little's law",
        "beam",
        "hash",
    } <= known.keys()
    lessons = [word.lesson for word in words.words(MAP)]
    assert lessons == sorted(lessons), "not in the order of the lessons"
    assert known.keys() >= words.EVERYDAY, "an everyday word that the map has no more"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Its block table and two more Block tables.", ["block table", "Block tables"]),
        ("A block\ntable, broken between words", ["block\ntable"]),
        ("engines; the engine's", ["engines", "engine"]),
        ("engineer, steam-engine, engine-like, my.engine, engine(1)", []),
        ("a stream", []),  # two meanings: which?
        ("they take turns", []),  # an everyday word
    ],
)
def test_what_a_text_uses(text, wanted):
    assert found(text) == wanted


def test_an_everyday_word_in_bold_is_meant():
    assert found("turn", is_bold=True) == ["turn"]
    assert found("Turns:", is_bold=True) == ["Turns"]
    assert found("Whose turn is it?", is_bold=True) == []
    assert found("Whose engine is it?", is_bold=True) == ["engine"]


def test_a_thread_block_is_no_block():
    finder = words.pattern(words.by_term(MAP))
    told = "Triton's thread blocks read a block."
    uses = words.uses(told, finder)
    assert [told[use.start :] for use in uses] == ["block."]


def test_only_the_first_use_on_a_page():
    finder, seen = words.pattern(words.by_term(TABLE)), set()
    one = words.first(words.uses("engine, gather, engine", finder), seen)
    other = words.first(words.uses("engine, a block table", finder), seen)
    assert [use.term for use in one] == ["engine", "gather"]
    assert [use.term for use in other] == ["block table"]


def test_the_page_has_an_anchor_for_each_word_that_is_linked():
    page = words.page(TABLE)
    for term in words.by_term(TABLE):
        assert f"{{#{words.anchor(term)}}}" in page
    assert "word-stream" not in page
    assert page.index("block table") < page.index("[engine]") < page.index("[gather]")
    lesson, appendix = "06_triton_kernel.ipynb", "A_continuous_batching.ipynb"
    assert f": once around a loop ([lesson 6](notebooks/{lesson}))" in page
    assert f": serves ([appendix A](notebooks/{appendix}))" in page


def test_a_term_of_two_meanings_is_one_entry():
    lines = words.page(TABLE).split("\n")
    assert lines.count("stream") == 1
    at = lines.index("stream")
    meanings = [line for line in lines[at + 1 : at + 4] if line]
    assert meanings[0].startswith(": to read (") and len(meanings) == 2
    assert meanings[1].startswith(": what it answers (")
