"""Can every word of a picture be read? Asked of its scene, as wide as letters are."""

from collections.abc import Callable, Mapping
from itertools import combinations
from math import cos, radians, sin

import pytest
from matplotlib.figure import Figure

from helpers.thorough import all_or
from minipaged.draw import palette
from minipaged.draw.letters import DPI, width_of
from minipaged.draw.marks import Box, Scene, Words
from minipaged.draw.sheet import MARGIN

HIGH = 0.97  # of a letter's size: from the foot of "p" to the top of "l"
AIR = 1.5  # pixels that a line has above and below
BEFORE = {"left": 0.0, "center": 0.5, "right": 1.0}  # what of words is left of their x
ABOVE = {"top": 0.0, "center": 0.5, "bottom": 1.0}
PAGES = "#FFFFFF", "#0D1117"  # light and dark
Edges = tuple[float, float, float, float]  # left, top, right, bottom


def edges_of(words: Words) -> Edges:
    """The room that words take, in pixels of the scene."""
    wide = width_of(words.text, words.size, words.weight == "bold", words.family)
    high = HIGH * words.size * DPI / 72
    across, up = abs(cos(radians(words.rotation))), abs(sin(radians(words.rotation)))
    room = wide * across + high * up, wide * up + high * across
    x, y = wide * (0.5 - BEFORE[words.ha]), high * (0.5 - ABOVE[words.va])
    turn = radians(-words.rotation)
    middle = (
        words.x + x * cos(turn) - y * sin(turn),
        words.y + x * sin(turn) + y * cos(turn),
    )
    left, top = middle[0] - room[0] / 2, middle[1] - room[1] / 2
    return left, top, left + room[0], top + room[1]


def written(scene: Scene) -> list[tuple[Words, Edges]]:
    """All words of a scene, with the room that they take."""
    return [(words, edges_of(words)) for words in scene.of(Words) if words.text.strip()]


def check_that_no_words_overlap(scene: Scene) -> None:
    """And that none is cut off."""
    found = written(scene)
    assert found
    for words, (left, top, right, bottom) in found:
        assert left > -MARGIN and top > -MARGIN, words.text
        assert right < scene.width + MARGIN, words.text
        assert bottom < scene.height + MARGIN, words.text
    for (one, a), (other, b) in combinations(found, 2):
        is_beside = a[2] <= b[0] or b[2] <= a[0]
        is_above = a[3] - AIR <= b[1] + AIR or b[3] - AIR <= a[1] + AIR
        assert is_beside or is_above, (one.text, other.text)


def check_that_words_stand_out(scene: Scene) -> None:
    """WCAG: 4 to 1 at least; what lies under the word's middle counts.

    Without a ground of its own the picture must be right on light and dark pages.
    """
    grounds = PAGES if scene.ground == "none" else [scene.ground]
    faces = [box for box in scene.of(Box) if box.face != "none"]
    for words, (left, top, right, bottom) in written(scene):
        middle = (left + right) / 2, (top + bottom) / 2
        behind = [box for box in faces if box.holds(*middle)]
        for colour in grounds:
            for box in behind:
                alpha = box.alpha * int(box.face[7:] or "FF", 16) / 255
                colour = palette.mix(box.face[:7], colour, alpha)
            assert contrast(words.color, colour) >= 4, (words.text, colour)


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
        scene = drawings[name]().scene
        check_that_words_stand_out(scene)
        if theme == "both":  # a theme moves no word
            check_that_no_words_overlap(scene)

    return test
