"""What a reader sees of a pool drawn as HTML, read back from the page."""

from dataclasses import dataclass, field
from functools import lru_cache
from xml.parsers.expat import ParserCreate


@dataclass
class Shown:
    """An element of the page that stands for something of the pool."""

    attributes: dict[str, str]
    kinds: set[str]
    text: str = ""
    inside: list["Shown"] = field(default_factory=list)

    @property
    def title(self) -> str:
        """What a screen reader says of it."""
        return self.attributes.get("title", "")

    @property
    def holders(self) -> int:
        """Of a block: how many hold it."""
        return int(self.attributes["data-holders"])

    @property
    def filled(self) -> str:
        """The width of a block's coloured part."""
        return self.attributes["style"].removeprefix("--f:")


class Page:
    """Every element of a piece of HTML, each with the text inside it.

    It is read as XML, for which every element must be closed.
    """

    def __init__(self, html: str):
        """Read all of it."""
        self.all: list[Shown] = []
        self._open: list[Shown] = []
        parser = ParserCreate()
        parser.StartElementHandler = self._start
        parser.EndElementHandler = lambda _tag: self._open.pop()
        parser.CharacterDataHandler = self._read
        html = html.replace(" data-gone>", ' data-gone="">')  # the same in HTML
        parser.Parse(f"<div>{html}</div>", True)
        del self.all[0]  # that div

    def _start(self, _tag, attributes):
        made = Shown(attributes, set(attributes.get("class", "").split()))
        for outer in self._open:
            outer.inside.append(made)
        self.all.append(made)
        self._open.append(made)

    def _read(self, data):
        for outer in self._open:
            outer.text += data

    def with_attribute(self, name: str) -> list[Shown]:
        """The elements that have this attribute."""
        return [one for one in self.all if name in one.attributes]


@lru_cache(maxsize=8)
def page_of(html: str) -> Page:
    """The page as it was read before, if nothing has changed. Nobody may change it."""
    return Page(html)


def shown_blocks(html: str) -> dict[int, Shown]:
    """Block id: what is drawn of it."""
    blocks = page_of(html).with_attribute("data-block")
    return {int(block.attributes["data-block"]): block for block in blocks}


def shown_tables(html: str) -> dict[str, list[int | None]]:
    """Name: the block ids in its table, None for those left out; not of who ended."""
    tables = {}
    for table in page_of(html).with_attribute("data-table"):
        if "data-gone" not in table.attributes:
            tables[table.attributes["data-table"]] = [
                int(one.attributes["data-b"]) if "data-b" in one.attributes else None
                for one in table.inside
                if one.kinds & {"mp-entry", "mp-more"}
            ]
    return tables


def shown_pieces(html: str) -> list[tuple[str, int, int]]:
    """Of contiguous memory: whose ("" for free), from which slot, how many."""
    return [
        (
            one.attributes["data-piece"],
            *(int(one.attributes[f"data-{name}"]) for name in ("start", "size")),
        )
        for one in page_of(html).with_attribute("data-piece")
    ]
