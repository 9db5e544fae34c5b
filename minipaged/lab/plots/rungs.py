"""Lab: the rungs that lead to lesson 6's kernel, and what each of them gains."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import log

from minipaged.draw.letters import PART, lines_of, width_of
from minipaged.draw.palette import BAD, line_colour
from minipaged.draw.scales import Scale
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.lab.plots.render import Figure, render

LEFT, TOP, HEAD = 48.0, 32.0, 34.0  # pixels beside the panels; above all; above each
EFOLD = 30.0  # how high a step is of e times as fast
LINE, GAP = 15.0, 18.0  # from line to line; from a panel to the next
BESIDE, AIR = 8.0, 6.0  # from a step to its words; from them to the next step
CEILING, TICKS = 100.0, (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)  # %
BEGIN = 1.0  # %: panels begin there, or at a tick below it, if there is a lower rung
GAIN, SLOWER = 1.03, 0.97  # times as fast: what is written; less is a loss, no chance
UNIT = "GB/s of K and V, in % of the read ceiling, on a logarithmic scale"
UNIT += "; ×: times the rung before"
LARGE = 1.3  # times as fast: written with one digit, says why, may have a heavy line


def plot_ladder(
    shares: Mapping[str, Mapping[str, float]],
    title: str,
    removed: Mapping[int | tuple[str, int], str] | None = None,
) -> Figure:
    """A panel for each batch, in it a staircase: a step for each rung, up to a ceiling.

    A step is as high as the factor by which the rung is faster than the one before: the
    scale is logarithmic, and all panels have the same. At its step each factor is
    written that is not near 1; where it is, the rung's share is written instead. The
    largest factor of a batch is heavy; what takes more time than before is orange.

    shares: by batch and rung, GB/s of K and V in % of the read ceiling. removed: by
    number of the rung, counted from 1, what costs less time now: few words, which stand
    at its step in each batch where that is 1.3 times as fast or more. By (batch,
    number), words for that batch alone, in place of those by number.
    """
    sheet, rungs = Sheet(title), list(next(iter(shares.values())))
    wide = (SPAN - LEFT) / len(rungs)
    found = [share for path in shares.values() for share in path.values()]
    least, highest = min(BEGIN, *found), max(CEILING, *found)
    lowest = max((tick for tick in TICKS if tick <= least), default=least)
    high, ticks = EFOLD * log(highest / lowest), [n for n in TICKS if n >= lowest]
    sheet.write(0, 8, UNIT, color=sheet.look.quiet)
    y = TOP
    for batch, steps in shares.items():
        bottom, path = y + HEAD + high, list(steps.values())
        scale = Scale(bottom, -high, lowest, highest, True, tuple(ticks))
        _draw_head(sheet, y + 10, batch, path)
        _draw_scale(sheet, scale)
        _draw_stairs(sheet, scale, wide, path)
        said = _words_of(batch, removed or {}, len(path))
        _write_factors(sheet, scale, wide, path, said)
        y = bottom + GAP
    return render(sheet.finish(y + _write_names(sheet, y + 10, wide, rungs)))


def _words_of(
    batch: str, removed: Mapping[int | tuple[str, int], str], num_rungs: int
) -> dict[int, str]:
    """What each rung removes in this batch: its own words first, then those of all."""
    rungs = range(1, num_rungs + 1)
    own = {rung: removed.get((batch, rung), removed.get(rung)) for rung in rungs}
    return {rung: words for rung, words in own.items() if words}


def _draw_head(sheet: Sheet, y: float, batch: str, path: Sequence[float]) -> None:
    """The batch, and how near its last rung comes to the ceiling."""
    sheet.write(LEFT, y, batch, PART, weight="bold")
    end = _percent(path[-1])
    sheet.write(SPAN, y, end, PART, ha="right", weight="bold")
    said = f"rung {len(path)} reaches"
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
    for at, share in enumerate(path):
        y, x = scale.x(share), LEFT + at * wide
        sheet.line((x, y), (x + wide, y), **level)
    for rung, (before, after) in enumerate(pairwise(path), start=2):
        x, factor = LEFT + (rung - 1) * wide, after / before
        style = level | ({"color": BAD} if factor < SLOWER else {})
        if factor == most > LARGE:
            style |= {"linewidth": 6.0, "cap": "butt"}
        sheet.line((x, scale.x(before)), (x, scale.x(after)), **style)


def _write_factors(
    sheet: Sheet,
    scale: Scale,
    wide: float,
    path: Sequence[float],
    removed: Mapping[int, str],
) -> None:
    """At a step how many times as fast, and why.

    At the first rung its share. Where hardly anything changes, the factor is pale, and
    left out if a long word of the rung before takes its room.
    """
    most = max((after / before for before, after in pairwise(path)), default=0.0)
    end = _write_at(sheet, scale, LEFT, path[0], [_percent(path[0])])
    for rung, (before, after) in enumerate(pairwise(path), start=2):
        factor, lines, style = after / before, [], {}
        x = LEFT + (rung - 1) * wide
        if SLOWER <= factor < GAIN:
            if end < x + BESIDE - AIR:
                quiet, said = sheet.look.quiet, [f"× {factor:.2f}"]
                end = _write_at(sheet, scale, x, after, said, color=quiet)
            continue
        if factor < SLOWER:
            style["color"] = BAD
        elif factor == most:
            style["weight"] = "bold"
        if rung in removed and round(factor, 2) >= LARGE:
            lines = _lines(f"removes {removed[rung]}", wide - BESIDE - AIR + 1)
        said = [_times(factor), *lines]
        end = _write_at(sheet, scale, x, after, said, **style)


def _write_at(
    sheet: Sheet, scale: Scale, x: float, share: float, lines: list[str], **style: str
) -> float:
    """Between a rung's own step and the next: below its level, or above it.

    There is nothing else as far as the panel reaches, so the side with more room has
    enough. style: of the first line. Returns where the line next to the level ends.
    """
    y, top = scale.x(share), scale.x(scale.highest)
    is_below = scale.left - y > y - top
    first = y + 11 if is_below else y - 10 - LINE * (len(lines) - 1)
    for at, words in enumerate(lines):
        sheet.write(x + BESIDE, first + LINE * at, words, **({} if at else style))
    return x + BESIDE + width_of(lines[0 if is_below else -1])


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
    """The words, in as many lines as they need if they are so wide."""
    return lines_of(words, max(wide, *map(width_of, words.split())), len(words))
