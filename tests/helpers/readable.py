"""Can every word of a picture be read? Asked of matplotlib, on any fonts."""

from collections.abc import Callable, Mapping
from itertools import combinations

import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from minipaged.lab.plots import palette


def visible_texts(figure: Figure) -> list[tuple[str, Bbox]]:
    """Each text of a figure that was drawn, with the room that it takes (pixels)."""
    found = [text for text in figure.findobj(Text) if text.get_text().strip()]
    axes = [a for a in figure.axes if not a.axison]
    hidden = {
        id(text)
        for a in axes
        for axis in (a.xaxis, a.yaxis)
        for text in axis.findobj(Text)
    }
    drawn = [text for text in found if id(text) not in hidden and text.get_visible()]
    return [(text.get_text(), Text.get_window_extent(text)) for text in drawn]


def inner(box: Bbox) -> Bbox:
    """A box without the air that a line of text has above and below."""
    return box.padded(-1.5)


def check_that_no_words_overlap(figure: Figure) -> None:
    """And that none is cut off."""
    found = visible_texts(figure)
    assert len(found) > 1
    for (one, box), (other, second) in combinations(found, 2):
        assert not inner(box).overlaps(inner(second)), (one, other)
    width, height = figure.bbox.size
    for words, box in found:
        assert box.x0 > 0 and box.y0 > 0, words
        assert box.x1 < width and box.y1 < height, words


def check_that_words_stand_out(figure: Figure) -> None:
    """WCAG: 4 to 1 at least; what lies under the word's middle counts.

    Without a ground of its own the picture must be right on light and dark pages.
    """
    grounds = [palette.theme().ground]
    if grounds == ["none"]:
        grounds = ["#FFFFFF", "#0D1117"]
    areas = [
        (patch, patch.get_window_extent())
        for patch in figure.axes[0].patches
        if isinstance(patch, Rectangle) and patch.get_fill()
    ]
    for text in filter(Text.get_text, figure.axes[0].texts):
        box = text.get_window_extent()
        middle = (box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2
        behind = [patch for patch, area in areas if area.contains(*middle)]
        for colour in grounds:
            for patch in behind:
                *face, alpha = patch.get_facecolor()
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

    @pytest.mark.parametrize("theme", palette.THEMES)
    @pytest.mark.parametrize("name", drawings)
    def test(monkeypatch: pytest.MonkeyPatch, name: str, theme: str) -> None:
        monkeypatch.setenv("MINIPAGED_THEME", theme)
        figure = drawings[name]()
        figure.draw_without_rendering()  # so that everything has its place
        check_that_words_stand_out(figure)
        if theme == "both":  # a theme moves no word
            check_that_no_words_overlap(figure)

    return test
