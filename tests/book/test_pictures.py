"""The titles of a notebook's pictures in the site: in words, and on no plate."""

from base64 import b64decode
from io import BytesIO

import pytest
from PIL import Image

from book.drawn import Drawn, drawn_in
from helpers import notebook_files as files
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import strong
from minipaged.lab.plots.display import encode
from minipaged.lab.plots.render import render

LONG = "A title of many words, which does not fit into a line, and so goes on below it"


def outputs():
    """Each picture that a notebook stores, by its notebook and cell."""
    for path in files.NOTEBOOKS:
        for cell in files.load(path)["cells"]:
            for output in cell.get("outputs", []):
                if "image/png" in output.get("data", {}):
                    yield f"{path.stem}/{cell['id']}", output


def cut_through(output, plate):
    """What of the picture lies on the line of the cut, a pixel above and below it."""
    with Image.open(BytesIO(b64decode(output["data"]["image/png"]))) as image:
        alpha = image.convert("RGBA").getchannel("A")
    sharp = alpha.width / output["metadata"]["image/png"]["width"]
    return alpha.crop((0, round(sharp * (plate - 1)), alpha.width,
                       round(sharp * (plate + 1)))).getbbox()  # fmt: skip


def output_of(figure):
    """As a notebook stores it."""
    data, about = encode(figure)
    return {"data": {"image/png": data}, "metadata": {"image/png": about}}


def drawing(title):
    """A picture with a row of boxes as close to its title as can be."""
    picture = Picture(title)
    picture.row("pool", "", [Cell("A", strong("A"))] * 4)
    return output_of(render(picture.scene()))


def test_no_stored_picture_is_cut_through():
    """Between the title's plate and all else, nothing is drawn."""
    found = dict(outputs())
    assert len(found) > 100
    wrong = [
        place
        for place, output in found.items()
        if cut_through(output, drawn_in(output)[0].plate)
    ]
    assert wrong == []


@pytest.mark.parametrize("title", ["A short title", LONG, f"{LONG}. {LONG}"])
def test_a_title_of_several_lines_is_cut_off_whole(title):
    output = drawing(title)
    (drawn,) = drawn_in(output)
    assert drawn.title == title and drawn.width == 760
    assert cut_through(output, drawn.plate) is None
    assert cut_through(output, drawn.plate - 22)  # a line less, or no plate at all


def test_the_size_is_that_of_the_page():
    (drawn,) = drawn_in(drawing("Boxes"))
    with Image.open(BytesIO(b64decode(drawing("Boxes")["data"]["image/png"]))) as image:
        assert image.width == 2 * drawn.width and image.height == 2 * drawn.height


def test_what_is_no_picture_has_no_title():
    assert drawn_in({"output_type": "stream", "text": "A"}) == []
    assert Drawn("Short", 760, 300).plate < Drawn(LONG, 760, 300).plate
