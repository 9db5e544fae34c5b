"""Lab: pictures that are sharp on fine screens and have no ground of their own."""

import sys
from base64 import b64encode
from io import BytesIO

from matplotlib.figure import Figure
from PIL import Image


class SharpFigure(Figure):
    """A figure that a notebook stores in two pixels for each one of the page."""


def show_sharply() -> None:
    """Have IPython, if we run in it, show every `SharpFigure` by `encode`, no other.

    A ground that is not drawn would make Jupyter lay a white one under the picture if
    the figure said that it is transparent. So its patch is hidden instead, and the
    colour that it says is never seen.
    """
    if "IPython" in sys.modules:
        from IPython import get_ipython

        if shell := get_ipython():
            formatter = shell.display_formatter.formatters["image/png"]
            formatter.for_type(SharpFigure, encode)


def encode(picture: Figure) -> tuple[str, dict[str, int | str]]:
    """A PNG in base64; how many pixels wide the page shows it, and its title in words.

    The width is that of the figure, so that all are equal on a page. Only what stands
    out over its edge makes it wider. The height follows from the width.
    """
    drawn, file = BytesIO(), BytesIO()
    within = [*picture.get_default_bbox_extra_artists(), picture.patch]
    picture.savefig(
        drawn,
        format="png",
        dpi=2 * picture.dpi,
        bbox_inches="tight",  # around all of these, so that nothing is cut off
        bbox_extra_artists=within,
        pad_inches=0,
        pil_kwargs={"compress_level": 1},  # quickly: it is only read again
    )
    # 256 colours are a third of the bytes, and look the same.
    with Image.open(drawn) as image:
        fewer = image.quantize(256, method=Image.Quantize.FASTOCTREE)
    fewer.save(file, "PNG")
    about = {"width": round(image.width / 2)}
    about["alt"] = " ".join(picture.get_suptitle().split())
    return b64encode(file.getvalue()).decode(), about
