"""Lab: what stands between the rows of a picture: words, a legend, panels."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from minipaged.draw.letters import PART, fit, width_of
from minipaged.draw.rows import Band
from minipaged.draw.sheet import Sheet
from minipaged.draw.tones import Tone

if TYPE_CHECKING:
    from minipaged.draw.picture import Picture


class Drawn(Band):
    """A band of a fixed height that a function draws, given sheet, x, y and width."""

    def __init__(
        self, height: float, draw: Callable[[Sheet, float, float, float], None]
    ):
        self._height, self._draw = height, draw

    def measure(self, width: float) -> float:
        """Always as high."""
        return self._height

    def draw(self, sheet: Sheet, x: float, y: float, width: float) -> None:
        """By the function."""
        self._draw(sheet, x, y, width)


class Legend(Band):
    """What the tones mean, in as many lines as it takes, behind a verdict."""

    def __init__(
        self,
        signs: Sequence[tuple[Tone, str]],
        verdict: str,
        colour: str | None,
        rim: dict,
        picture: "Picture",
    ):
        self._signs, self._verdict, self._picture = signs, verdict, picture
        self._colour, self._rim = colour, rim

    def _lines(self, width: float) -> list[list[tuple[Tone, str]]]:
        used = width_of(self._verdict, PART, bold=True) + 28 if self._verdict else 0.0
        lines: list[list[tuple[Tone, str]]] = [[]]
        for sign in self._signs:
            wide = 24 + width_of(sign[1])
            if used + wide > width and (lines[-1] or self._verdict):
                lines.append([])
                used = 0.0
            lines[-1].append(sign)
            used += wide + 20
        return lines

    def measure(self, width: float) -> float:
        """As high as its lines."""
        return 6.0 + 20.0 * len(self._lines(width))

    def draw(self, sheet: Sheet, x: float, y: float, width: float) -> None:
        """The verdict, then the signs."""
        left = x
        if self._verdict:
            colour = self._colour or sheet.look.ink
            style = {"color": colour, "weight": "bold"}
            sheet.write(x, y + 14, self._verdict, PART, **style)
            left += width_of(self._verdict, PART, bold=True) + 28
        for at, line in enumerate(self._lines(width)):
            place = left if at == 0 else x
            for tone, words, *rim in line:
                style = {"rim": rim[0], "linewidth": 2.2} if rim else self._rim
                low = y + 14 + 20 * at
                shown = self._picture.as_drawn(tone)
                place = sheet.legend(place, low, [(shown, words)], **style)


class Panels(Band):
    """Pictures side by side, whose widths are in proportion to `shares`."""

    def __init__(
        self, pictures: "Sequence[Picture]", gap: float, shares: Sequence[float]
    ):
        self.pictures, self._gap = pictures, gap
        self._shares = shares or [1.0] * len(pictures)

    def _widths(self, width: float) -> list[float]:
        room = width - self._gap * (len(self.pictures) - 1)
        return [room * share / sum(self._shares) for share in self._shares]

    @property
    def _heads(self) -> float:
        return 22.0 * any(picture.title for picture in self.pictures)

    def measure(self, width: float) -> float:
        """As high as the highest of them."""
        pairs = zip(self.pictures, self._widths(width), strict=True)
        return self._heads + max(picture.measure(wide) for picture, wide in pairs)

    def draw(self, sheet: Sheet, x: float, y: float, width: float) -> None:
        """One after another, their titles above them."""
        for picture, wide in zip(self.pictures, self._widths(width), strict=True):
            if picture.title:
                shown, size = fit(picture.title, wide, PART)
                sheet.write(x, y + 8, shown, size, weight="bold")
            picture.draw(sheet, x, y + self._heads, wide)
            x += wide + self._gap
