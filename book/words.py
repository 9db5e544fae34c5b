"""The glossary: the words of notebooks/README.md, and where a text uses one.

On a lesson's page, the first occurrence of a word leads to what it means. A word that
is also used in its everyday meaning, such as "turn", leads there only where a text sets
it in bold, as lessons do where they introduce a word.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

# Everyday words, or words of other fields: to be looked up, not to be linked at sight.
EVERYDAY = frozenset(
    """accept barrier border branch budget capture consumer grid guess lap latency merge
    pending persistent pipeline place producer program register reject ring spine split
    stage step turn wave""".split()
)
SECTION = re.compile(r"^## Words\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
INTRODUCTION = "What the lessons mean by their words, from [the map](notebooks/README.md)."
ROW = re.compile(r"^\| (?!word \||-)(.+?) \| (.+?) \|$", re.MULTILINE)


class Word(NamedTuple):
    """A row of the table: several words may be explained together."""

    terms: tuple[str, ...]  # as they are written there
    meaning: str  # Markdown


class Meant(NamedTuple):
    """A term as it is written, and what it means."""

    term: str
    meaning: str


class Use(NamedTuple):
    """Where a text uses a word."""

    start: int
    stop: int
    term: str  # as the glossary writes it


def words(text: str) -> list[Word]:
    """The rows of the table "Words", in the text of notebooks/README.md.

    "| gather, stream | to copy ...; to read ... |" is one with two terms.
    """
    section = SECTION.search(text)
    if not section:
        raise ValueError("there is no section '## Words'")
    rows = ROW.findall(section[1])
    return [Word(tuple(names.split(", ")), meaning) for names, meaning in rows]


def page(found: Iterable[Word]) -> str:
    """The glossary as Markdown, in alphabetical order, each term once."""
    meanings: dict[str, list[str]] = {}
    for word in found:
        for term in word.terms:
            others = ", ".join(f"*{other}*" for other in word.terms if other != term)
            beside = f" (in one row with {others})" if others else ""
            meanings.setdefault(term, []).append(word.meaning + beside)
    lines = ["# Glossary", "", INTRODUCTION, "", ":::{glossary}"]
    for term in sorted(meanings, key=str.lower):
        lines += [term, *(f"  {meaning}\n" for meaning in meanings[term])]
    return "\n".join([*lines, ":::", ""])


def by_term(text: str) -> dict[str, Meant]:
    """Each term in small letters: as the glossary writes it, and what it means."""
    return {
        term.lower(): Meant(term, word.meaning)
        for word in reversed(words(text))
        for term in word.terms
    }


def pattern(known: Iterable[str]) -> re.Pattern:
    """What finds any of the terms in a text, also in the plural and with a capital."""
    terms = sorted(known, key=len, reverse=True)
    names = "|".join(re.escape(term).replace(r"\ ", r"[ \n]") for term in terms)
    return re.compile(rf"(?<![\w.`/-])({names})(?:s|es)?(?![\w`/(]|-\w)", re.IGNORECASE)


def uses(
    text: str, finder: re.Pattern, known: Mapping[str, Meant], is_bold: bool = False
) -> Iterator[Use]:
    """Where this text uses words that it may link, from left to right."""
    for match in finder.finditer(text):
        term = known[re.sub(r"\s", " ", match[1].lower())].term
        if is_bold or term.lower() not in EVERYDAY:
            yield Use(match.start(), match.end(), term)


def first(found: Iterable[Use], seen: set[str]) -> list[Use]:
    """Those of terms that were not seen before; they are seen then."""
    new = []
    for use in found:
        if use.term not in seen:
            seen.add(use.term)
            new.append(use)
    return new
