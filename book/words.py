"""The glossary: the words of notebooks/README.md, and where a text uses one.

On a lesson's page, the first occurrence of a word leads to what it means. A word that
is also used in its everyday meaning, such as "turn", leads there only where a text sets
it in bold, as lessons do where they introduce a word.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from tools.lesson_tables import lessons

# Everyday words, or words of other fields: to be looked up, not to be linked at sight.
EVERYDAY = frozenset(
    """accept agreement balance barrier branch budget capture consumer grid guess
    ladder lap latency merge pending persistent piece pipeline place policy producer
    plan program publish rank register reject ring scale share spill split stage step
    stretch sweep turn wave""".split()
) | {"under way"}
SECTION = re.compile(r"^## Words\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
BEFORE = r"(?<![\w.`/-])(?<!thread )"  # a thread block is CUDA's, and no block of ours
INTRODUCTION = "What the words of [the series](notebooks/README.md) mean in it."
ROW = re.compile(r"^\| (?!word \||-)(.+?) \| (.+?) \| (\w) \|$", re.MULTILINE)


class Word(NamedTuple):
    """A row of the table."""

    term: str  # as it is written there
    meaning: str  # Markdown
    lesson: str  # that introduces it: its number, or an appendix's letter


class Use(NamedTuple):
    """Where a text uses a word."""

    start: int
    stop: int
    term: str  # in small letters


def words(text: str) -> list[Word]:
    """The rows of the tables under "Words", in the text of notebooks/README.md."""
    section = SECTION.search(text)
    if not section:
        raise ValueError("there is no section '## Words'")
    return [Word(*row) for row in ROW.findall(section[1])]


def page(text: str) -> str:
    """The glossary as Markdown: the terms by alphabet, each an anchor, with its lesson.

    A term that stands in two rows has both meanings below it, and no anchor.
    """
    lines = ["# Glossary", "", INTRODUCTION, ""]
    known, pages = by_term(text), {each.number: each.name for each in lessons()}
    rows = sorted(words(text), key=lambda word: word.term.lower())
    for term, group in groupby(rows, key=lambda word: word.term):
        is_known = term.lower() in known
        lines.append(f"[{term}]{{#{anchor(term)}}}" if is_known else term)
        for word in group:
            kind = "lesson" if word.lesson.isdigit() else "appendix"
            link = f"[{kind} {word.lesson}](notebooks/{pages[word.lesson]})"
            lines += [f": {word.meaning} ({link})", ""]
    return "\n".join(lines)


def anchor(term: str) -> str:
    """Where the glossary has a term: "Little's law" stands at `word-little-s-law`."""
    return "word-" + re.sub(r"\W+", "-", term.lower())


def by_term(text: str) -> dict[str, Word]:
    """The row of each term, in small letters; without those that stand in two rows.

    `stream` means one thing in lesson 5 and another in an engine.
    """
    rows = words(text)
    count = Counter(word.term.lower() for word in rows)
    return {term: word for word in rows if count[term := word.term.lower()] == 1}


def pattern(known: Iterable[str]) -> re.Pattern:
    """What finds any of the terms in a text, also in the plural and with a capital."""
    terms = sorted(known, key=len, reverse=True)
    names = "|".join(re.escape(term).replace(r"\ ", r"[ \n]") for term in terms)
    return re.compile(rf"{BEFORE}({names})(?:s|es)?(?![\w`/(]|-\w)", re.IGNORECASE)


def uses(text: str, finder: re.Pattern, is_bold: bool = False) -> Iterator[Use]:
    """Where this text uses words that it may link, from left to right.

    An everyday word is meant if it is all that is bold: not in a bold question.
    """
    for match in finder.finditer(text):
        term = re.sub(r"\s", " ", match[1].lower())
        is_alone = is_bold and text.strip(" .:\n") == match[0]
        if is_alone or term not in EVERYDAY:
            yield Use(match.start(), match.end(), term)


def first(found: Iterable[Use], seen: set[str]) -> list[Use]:
    """Those of terms that were not seen before; they are seen then."""
    new = []
    for use in found:
        if use.term not in seen:
            seen.add(use.term)
            new.append(use)
    return new
