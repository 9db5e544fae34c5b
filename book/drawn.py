"""The pictures of notebooks: their titles, and how much of them is title.

A picture is stored once, for light pages and for dark ones. So its title is drawn on a
white plate. The site writes the title in words instead, and cuts the drawn one off.
"""

from base64 import b64decode
from struct import unpack
from textwrap import wrap
from typing import NamedTuple

from minipaged.draw.sheet import TITLE_LETTERS

# Pixels of the page from the upper edge of a picture to below the title's plate: for
# one line, and for each line more. minipaged/lab/plots/render.py draws it so.
PLATE, PLATE_LINE = 40, 22


class Drawn(NamedTuple):
    """A picture in a notebook: its title, and its size in pixels of the page."""

    title: str
    width: int
    height: float

    @property
    def plate(self) -> int:
        """Pixels at the top that hold the title alone."""
        return PLATE + PLATE_LINE * (len(wrap(self.title, TITLE_LETTERS)) - 1)


def drawn_in(output: dict) -> list[Drawn]:
    """The picture among what a cell has shown, or none."""
    if "image/png" not in output.get("data", {}):
        return []
    data, about = output["data"]["image/png"], output["metadata"]["image/png"]
    width, height = unpack(">II", b64decode(data[:32])[16:24])
    return [Drawn(about["alt"], about["width"], height * about["width"] / width)]
