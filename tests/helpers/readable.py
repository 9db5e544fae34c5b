"""Can every word of a picture be read? Asked of matplotlib, on any fonts."""

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from helpers.thorough import all_or
from minipaged.draw import palette


def visible_texts(figure: Figure) -> list[tuple[str, Bbox]]:
    """Each text of a figure that was drawn, with the room that it takes (pixels)."""
    found = [text for text in figure.findobj(Text) if text.get_text().strip()]
    hidden = set()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            start, end = sorted(axis.get_view_interval())
            ticks = axis.get_major_ticks() + axis.get_minor_ticks()
            beyond = [tick for tick in ticks if not start <= tick.get_loc() <= end]
            unseen = beyond if axes.axison else [axis]
            hidden |= {id(text) for artist in unseen for text in artist.findobj(Text)}
    drawn = [text for text in found if id(text) not in hidden and text.get_visible()]
    return [(text.get_text(), Text.get_window_extent(text)) for text in drawn]


def corners(boxes: Iterable[Bbox]) -> np.ndarray:
    """[N, 4]: left, bottom, right and top of each box (pixels)."""
    return np.array([box.extents for box in boxes]).reshape(-1, 4)


def areas_of(patches: list[Rectangle]) -> np.ndarray:
    """The corners of rectangles; all that lie in an axes' data at one go (pixels)."""
    areas = np.empty((len(patches), 4))
    together: dict[Axes, list[int]] = {}
    for at, patch in enumerate(patches):
        axes = patch.axes
        if patch.angle or patch.get_data_transform() != axes.transData:
            areas[at] = patch.get_window_extent().extents
        else:
            together.setdefault(axes, []).append(at)
    for axes, places in together.items():
        ends = [(p.get_xy(), (p.get_width(), p.get_height())) for p in patches]
        starts, sizes = np.array([ends[at] for at in places]).transpose(1, 0, 2)
        one, other = map(axes.transData.transform, (starts, starts + sizes))
        areas[places] = np.hstack([np.minimum(one, other), np.maximum(one, other)])
    return areas


def check_that_no_words_overlap(figure: Figure) -> None:
    """And that none is cut off."""
    found = visible_texts(figure)
    assert len(found) > 1
    boxes = corners(box for _, box in found)
    for (words, _), (left, bottom, right, top) in zip(found, boxes, strict=True):
        assert left > 0 and bottom > 0, words
        assert right < figure.bbox.width and top < figure.bbox.height, words
    low = boxes[:, :2] + 1.5  # without the air that a line has above and below
    high = boxes[:, 2:] - 1.5
    low, high = np.minimum(low, high), np.maximum(low, high)
    meets = (low[:, None] <= high) & (low <= high[:, None])  # in x, in y
    pairs = np.argwhere(np.triu(meets.all(axis=2), k=1))
    assert not len(pairs), [(found[one][0], found[other][0]) for one, other in pairs]


def check_that_words_stand_out(figure: Figure) -> None:
    """WCAG: 4 to 1 at least; what lies under the word's middle counts.

    Without a ground of its own the picture must be right on light and dark pages.
    """
    grounds = [palette.theme().ground]
    if grounds == ["none"]:
        grounds = ["#FFFFFF", "#0D1117"]
    patches = [
        patch
        for patch in figure.axes[0].patches
        if isinstance(patch, Rectangle) and patch.get_fill()
    ]
    areas = areas_of(patches)
    for text in filter(Text.get_text, figure.axes[0].texts):
        left, bottom, right, top = text.get_window_extent().extents
        middle = (left + right) / 2, (bottom + top) / 2
        is_behind = (areas[:, :2] <= middle) & (middle <= areas[:, 2:])
        for colour in grounds:
            for at in np.flatnonzero(is_behind.all(axis=1)):
                *face, alpha = patches[at].get_facecolor()
                colour = palette.mix(to_hex(face), colour, alpha)
            ratio = contrast(to_hex(text.get_color()), colour)
            assert ratio >= 4, (text.get_text(), colour)


def contrast(one: str, other: str) -> float:
    """How much two colours ("#RRGGBB") differ in brightness (WCAG 2.2)."""
    light, dark = sorted(map(palette.relative_luminance, (one, other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def readable_in_all_themes(
    drawings: Mapping[str, Callable[[], Figure]],
) -> Callable[..., None]:
    """A test of each drawing, for a module that names it `test_...`."""

    # "both" is looked at on a light and on a dark ground.
    @pytest.mark.parametrize("theme", all_or(palette.THEMES, ["both"]))
    @pytest.mark.parametrize("name", drawings)
    def test(monkeypatch: pytest.MonkeyPatch, name: str, theme: str) -> None:
        monkeypatch.setenv("MINIPAGED_THEME", theme)
        figure = drawings[name]()
        if theme == "both" or figure.get_layout_engine():
            figure.draw_without_rendering()  # so that everything has its place
        figure.axes[0].apply_aspect()  # all that a word's place depends on otherwise
        check_that_words_stand_out(figure)
        if theme == "both":  # a theme moves no word
            check_that_no_words_overlap(figure)

    return test
