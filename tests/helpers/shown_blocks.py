"""What a reader sees of a pool drawn as HTML, read back from the page."""

from dataclasses import dataclass
from html.parser import HTMLParser


@dataclass
class Shown:
    """A block as it is drawn."""

    holders: int
    kinds: set[str]
    title: str
    filled: str  # the width of its coloured part
    text: str = ""


class Blocks(HTMLParser):
    """Collects the blocks of a grid."""

    def __init__(self):
        super().__init__()
        self.shown: dict[int, Shown] = {}
        self._last = None

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        if "data-block" in found:
            kinds = set(found["class"].split())
            holders = int(found["data-holders"])
            filled = found["style"].removeprefix("--f:")
            self._last = Shown(holders, kinds, found["title"], filled)
            self.shown[int(found["data-block"])] = self._last

    def handle_data(self, data):
        if self._last:
            self._last.text += data


def shown_blocks(html: str) -> dict[int, Shown]:
    """Block id: what is drawn of it."""
    parser = Blocks()
    parser.feed(html)
    return parser.shown
