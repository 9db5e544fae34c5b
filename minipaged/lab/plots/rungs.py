"""Lab: the rungs that lead to lesson 6's kernel, and what each of them gains."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import log

from matplotlib.figure import Figure

from minipaged.lab.plots.palette import BAD, line_colour
from minipaged.lab.plots.scales import Scale
from minipaged.lab.plots.signs import PART, SPAN, Point, Sheet, width_of

LEFT, TOP, HEAD = 48.0, 32.0, 34.0  # pixels beside the panels; above all; above each
EFOLD, MOST = 30.0, 420.0  # how high a step is of e times as fast; all panels together
LINE, GAP = 15.0, 8.0  # from line to line; from a panel to the next
CEILING, TICKS = 100.0, (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)  # %
GAIN, SLOWER = 1.03, 0.97  # times as fast: what is written; less is a loss, no chance
LARGE = 1.3  # times as fast: written with one digit, and worth a heavy line
Area = tuple[float, float, float, float]  # left, top, right, bottom
BELOW, STEADY = 1.6, 2.0  # how far a panel reaches below the lowest rung, and the first


def plot_ladder(
    shares: Mapping[str, Mapping[str, float]],
    title: str,
    unit: str = "GB/s of K and V, in % of the read ceiling",
    whole: int | None = None,
    removed: Mapping[int, str] | None = None,
) -> Figure:
    """A panel for each batch, in it a staircase: a step for each rung, up to a ceiling.

    A step is as high as the factor by which the rung is faster than the one before: the
    scale is logarithmic, and the same in all panels. Below its step each factor is
    written that is not near 1. The largest of a batch is heavy; what takes more time
    than before is orange.

    shares: by batch and rung, in %. whole: how many rungs there will be, so that the
    picture keeps its size while they are added one by one. removed: by number of the
    rung, counted from 1, what costs less time now; written where it gains most.
    """
    sheet, rungs = Sheet(title), list(next(iter(shares.values())))
    wide = (SPAN - LEFT) / max(len(rungs), whole or 0)
    paths = {batch: list(path.values()) for batch, path in shares.items()}
    lows = [min(min(path) / BELOW, path[0] / STEADY) for path in paths.values()]
    tops = [max(CEILING, *path) for path in paths.values()]
    efolds = [log(top / low) for low, top in zip(lows, tops, strict=True)]
    efold = min(EFOLD, MOST / sum(efolds))
    said = f"{unit}, on a logarithmic scale; ×: times the rung before"
    sheet.write(0, 8, said, color=sheet.look.quiet)
    named, y = _most_gained(list(paths.values()), removed or {}), TOP
    for at, (batch, path) in enumerate(paths.items()):
        bottom = y + HEAD + efolds[at] * efold
        limits = lows[at], tops[at]
        ticks = tuple(tick for tick in TICKS if lows[at] <= tick <= tops[at])
        scale = Scale(bottom, -efolds[at] * efold, *limits, True, ticks)
        _draw_head(sheet, y + 10, batch, path)
        _draw_scale(sheet, scale)
        _draw_stairs(sheet, scale, wide, path)
        _write_factors(sheet, scale, wide, path, named[at])
        y = bottom + GAP
    sheet.finish(y + _write_names(sheet, y + 10, wide, rungs))
    return sheet.figure


def _most_gained(
    paths: Sequence[Sequence[float]], removed: Mapping[int, str]
) -> list[dict[int, str]]:
    """What each path says of its rungs: those that gain more here than elsewhere."""
    named: list[dict[int, str]] = [{} for _ in paths]
    for rung, words in removed.items():
        gains = [path[rung - 1] / path[rung - 2] for path in paths if len(path) >= rung]
        if max(gains, default=0.0) >= GAIN:
            named[gains.index(max(gains))][rung] = words
    return named


def _draw_head(sheet: Sheet, y: float, batch: str, path: Sequence[float]) -> None:
    """The batch, and how near its last rung comes to the ceiling."""
    sheet.write(LEFT, y, batch, PART, weight="bold")
    end = _percent(path[-1])
    sheet.write(SPAN, y, end, PART, ha="right", weight="bold")
    said = f"the read ceiling; rung {len(path)} reaches"
    x = SPAN - width_of(end, PART, bold=True) - 6
    sheet.write(x, y, said, ha="right", color=sheet.look.quiet)


def _draw_scale(sheet: Sheet, scale: Scale) -> None:
    """The ceiling on top, and round shares at the left."""
    for tick in scale.ticks:
        y = scale.x(tick)
        sheet.line((LEFT - 5, y), (LEFT, y))
        sheet.write(LEFT - 9, y, f"{tick:g} %", ha="right")
    sheet.line((LEFT, scale.x(scale.lowest)), (LEFT, scale.x(CEILING)))
    ends = (LEFT, scale.x(CEILING)), (SPAN, scale.x(CEILING))
    sheet.line(*ends, color=sheet.look.ink, linewidth=1.6)


def _draw_stairs(
    sheet: Sheet, scale: Scale, wide: float, path: Sequence[float]
) -> None:
    """A level for each rung; from one to the next what it gains, or loses."""
    most = max((after / before for before, after in pairwise(path)), default=0.0)
    level = {"color": line_colour(0), "linewidth": 2.2}
    sheet.write(LEFT + 8, scale.x(path[0]) - 10, _percent(path[0]))
    for at, share in enumerate(path):
        y, x = scale.x(share), LEFT + at * wide
        sheet.line((x, y), (x + wide, y), **level)
    for rung, (before, after) in enumerate(pairwise(path), start=2):
        x, factor = LEFT + (rung - 1) * wide, after / before
        style = level | ({"color": BAD} if factor < SLOWER else {})
        if factor == most > LARGE:
            style |= {"linewidth": 6.0, "solid_capstyle": "butt"}
        sheet.line((x, scale.x(before)), (x, scale.x(after)), **style)


def _write_factors(
    sheet: Sheet,
    scale: Scale,
    wide: float,
    path: Sequence[float],
    named: Mapping[int, str],
) -> None:
    """To the right of a step, below it: how many times as fast; then why."""
    most = max((after / before for before, after in pairwise(path)), default=0.0)
    taken = _lines_drawn(scale, wide, path)
    for rung, (before, after) in enumerate(pairwise(path), start=2):
        x, y = LEFT + (rung - 1) * wide + 8, scale.x(after) + 11
        factor, style = after / before, {}
        if SLOWER <= factor < GAIN:
            continue
        if factor < SLOWER:
            style["color"] = BAD
        elif factor == most:
            style["weight"] = "bold"
        sheet.write(x, y, _times(factor), **style)
        taken.append(_area(x, y, _times(factor), bold=True))
    for rung in sorted(named, reverse=True):
        place = LEFT + (rung - 1) * wide + 8, scale.x(path[rung - 1])
        beside = width_of(_times(path[rung - 1] / path[rung - 2]), bold=True) + 8
        words = f"removes {named[rung]}"
        _write_words(sheet, scale, place, (beside, wide), words, taken)


def _lines_drawn(scale: Scale, wide: float, path: Sequence[float]) -> list[Area]:
    """Where the ceiling is, and the staircase."""
    heights = list(map(scale.x, path))
    ceiling = scale.x(CEILING)
    taken = [(LEFT, ceiling - 2, SPAN, ceiling + 2)]
    for at, y in enumerate(heights):
        x, above = LEFT + at * wide, heights[max(0, at - 1)]
        taken.append((x, y - 2, x + wide, y + 2))
        taken.append((x - 3, min(y, above), x + 3, max(y, above)))
    return taken


def _write_words(
    sheet: Sheet,
    scale: Scale,
    place: Point,
    widths: tuple[float, float],
    words: str,
    taken: list[Area],
) -> None:
    """Beside the factor, or below it in few lines; without room there, above the rung.

    place: where a rung's words begin, and how high it is. widths: of its factor, and of
    a rung. What is written, is taken.
    """
    (x, y), (beside, wide) = place, widths
    tries = [(x + beside, y + 11, [words])]
    for width in (3 * wide, 2 * wide - 10, wide - 10):
        tries.append((x, y + 11 + LINE, _lines(words, width)))
    lines = tries[-1][-1]
    tries.append((x, y - 10 - LINE * (len(lines) - 1), lines))
    for left, first, lines in tries:
        written = [(left, first + LINE * at, said) for at, said in enumerate(lines)]
        areas = [_area(*line) for line in written]
        if all(_is_free(area, taken, scale.x(scale.lowest)) for area in areas):
            break
    for line in written:
        sheet.write(*line)
    taken += areas


def _area(x: float, y: float, words: str, bold: bool = False) -> Area:
    return x, y - 7, x + width_of(words, bold=bold), y + 7


def _is_free(area: Area, taken: Sequence[Area], bottom: float) -> bool:
    """Nothing is there, and it lies in the panel."""
    left, top, right, low = area
    meets = any(left < c and a < right and top < d and b < low for a, b, c, d in taken)
    return right < SPAN and low < bottom and not meets


def _times(factor: float) -> str:
    return f"× {factor:.1f}" if not 1 < factor < LARGE else f"× {factor:.2f}"


def _percent(share: float) -> str:
    return f"{share:.0f} %" if share >= 9.95 else f"{share:.1f} %"


def _write_names(sheet: Sheet, y: float, wide: float, rungs: Sequence[str]) -> float:
    """Below the steps, as many lines as they need; how much room that is."""
    lines = [_lines(name, wide - 4) for name in rungs]
    for at, words in enumerate(lines):
        x = LEFT + (at + 0.5) * wide
        sheet.write(x, y, str(at + 1), PART, ha="center", weight="bold")
        for line, said in enumerate(words, start=1):
            sheet.write(x, y + 3 + line * LINE, said, ha="center")
    return 20 + LINE * max(3, *map(len, lines))


def _lines(words: str, wide: float) -> list[str]:
    """The words, with a new line before each that has no room."""
    lines = [""]
    for word in words.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and width_of(longer) > wide:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines
