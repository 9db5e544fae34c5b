"""What a reader sees of a pool drawn as HTML, read back from the page."""

from dataclasses import dataclass, field
from html.parser import HTMLParser


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


class Page(HTMLParser):
    """Every element of a piece of HTML, each with the text inside it."""

    def __init__(self, html: str):
        """Read all of it."""
        super().__init__()
        self.all: list[Shown] = []
        self._open: list[Shown] = []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        found = {name: value or "" for name, value in attributes}
        made = Shown(found, set(found.get("class", "").split()))
        for outer in self._open:
            outer.inside.append(made)
        self.all.append(made)
        self._open.append(made)

    def handle_endtag(self, tag):
        self._open.pop()

    def handle_data(self, data):
        for outer in self._open:
            outer.text += data

    def with_attribute(self, name: str) -> list[Shown]:
        """The elements that have this attribute."""
        return [one for one in self.all if name in one.attributes]


def shown_blocks(html: str) -> dict[int, Shown]:
    """Block id: what is drawn of it."""
    blocks = Page(html).with_attribute("data-block")
    return {int(block.attributes["data-block"]): block for block in blocks}


def shown_tables(html: str) -> dict[str, list[int | None]]:
    """Name: the block ids in its table, None for those left out; not of who ended."""
    tables = {}
    for table in Page(html).with_attribute("data-table"):
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
        for one in Page(html).with_attribute("data-piece")
    ]
