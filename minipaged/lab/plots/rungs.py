"""Lab: the rungs that lead to lesson 6's kernel, and what each of them gains."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import log

from matplotlib.figure import Figure

from minipaged.lab.plots.palette import BAD, line_colour
from minipaged.lab.plots.scales import Scale
from minipaged.lab.plots.signs import PART, SPAN, Sheet, width_of

LEFT, TOP, HEAD = 48.0, 32.0, 34.0  # pixels beside the panels; above all; above each
EFOLD, MOST = 30.0, 420.0  # how high a step is of e times as fast; all panels together
LINE, GAP = 15.0, 8.0  # from line to line; from a panel to the next
CEILING, TICKS = 100.0, (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)  # %
GAIN, SLOWER = 1.3, 0.97  # times as fast: what is written; less is a loss, no chance
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
    scale is logarithmic, and the same in all panels. Large factors are written, and the
    largest of a batch is heavy; what takes more time than before is orange.

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
    said = f"{unit}; ×: times the rung before" + "; −: what it removed" * bool(removed)
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
        if gains:
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
        if factor == most > GAIN:
            style |= {"linewidth": 6.0, "solid_capstyle": "butt"}
        sheet.line((x, scale.x(before)), (x, scale.x(after)), **style)


def _write_factors(
    sheet: Sheet,
    scale: Scale,
    wide: float,
    path: Sequence[float],
    named: Mapping[int, str],
) -> None:
    """To the right of a step, below it: how many times as fast, and why."""
    most = max((after / before for before, after in pairwise(path)), default=0.0)
    for rung, (before, after) in enumerate(pairwise(path), start=2):
        x, y = LEFT + (rung - 1) * wide + 8, scale.x(after) + 11
        factor, is_best = after / before, after / before == most
        said, style = f"× {factor:.1f}", {"weight": "bold" if is_best else "normal"}
        if factor >= SLOWER and round(factor, 1) < GAIN:
            continue
        if factor < SLOWER:
            style["color"] = BAD
        sheet.write(x, y, said, **style)
        if rung in named:
            words, right = f"− {named[rung]}", x + width_of(said, bold=is_best) + 8
            if right + width_of(words) < SPAN:
                sheet.write(right, y, words)
            else:  # to the left of the step, above what leads to it
                sheet.write(x - 16, scale.x(before) - 10, words, ha="right")


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
