"""Lab: a kernel beside the best peer of each of many batches; a dot for each."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from minipaged.draw.letters import COUNT, PART, width_of
from minipaged.draw.scales import Scale, scale_of
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.lab.measure.peer_tables import NAMES
from minipaged.lab.plots.dots import draw_axis, draw_reference, marker_of
from minipaged.lab.plots.render import render

RIGHT = 116.0  # pixels beside the dots, for the share
KEY, HEAD, HIGH, BETWEEN = 46.0, 28.0, 64.0, 8.0  # above all; a group, and around it
SIZE, APART = 5.4, 9.0  # points of a dot; pixels from one to another, at least
AIR = 1.03  # from the outermost dots to the ends of the axis


def plot_batches(batches: Mapping[str, Mapping[str, Any]], title: str) -> Figure:
    """A group for each report, a dot for each batch: our time over its best peer's.

    Ours is `step_kernel`, the default launch; a dot's sign says who the best peer is.
    Up and down says nothing: dots give way to each other. At the right is the share of
    the batches in which ours takes as much time or less: as the report has it, which
    counted before it rounded.

    batches: by name, what `measured_batches` describes.
    """
    sheet, step = Sheet(title), HEAD + HIGH + BETWEEN
    rows = [row for report in batches.values() for row in report["batches"].values()]
    _draw_peers(sheet, {row["best_peer"] for row in rows})
    ratios = [row["step_over_best_peer"] for row in rows]
    limits = min(*ratios, 1.0) / AIR, max(*ratios, 1.0) * AIR
    scale = scale_of(ratios, 0.0, SPAN - RIGHT, True, limits)
    tops = [KEY + at * step for at in range(len(batches))]
    spans = [(top + HEAD, top + step) for top in tops]
    xlabel = "our time / the best peer's, batch by batch (logarithmic axis)"
    draw_axis(sheet, scale, spans, xlabel)
    sides = "ours takes less time", "more"
    draw_reference(sheet, scale, 1.0, (KEY, spans[-1][1]), "equal", sides)
    sheet.write(SPAN, KEY - 9, "equal or less", ha="right")
    for top, (name, report) in zip(tops, batches.items(), strict=True):
        _draw_group(sheet, scale, top, name, report)
    return render(sheet.finish(spans[-1][1] + 44))


def _draw_peers(sheet: Sheet, shown: set[str]) -> None:
    """Whose sign is which; only of those that are a batch's best."""
    quiet, said = {"color": sheet.look.quiet}, "the best peer:"
    sheet.write(0, 8, said)
    x = width_of(said) + 14
    for at, (peer, name) in enumerate(NAMES.items()):
        if peer in shown:
            sheet.dots([(x + 5, 8)], **_sign(at))
            sheet.write(x + 16, 8, name, **quiet)
            x += 16 + width_of(name) + 22


def _sign(peer: int) -> dict[str, str | float]:
    return {**marker_of(peer), "size": SIZE}


def _draw_group(
    sheet: Sheet, scale: Scale, top: float, name: str, report: Mapping[str, Any]
) -> None:
    """What it is, its dots, and the share at the right."""
    found, rows = report["summary"]["step"], list(report["batches"].values())
    quiet = {"color": sheet.look.quiet}
    sheet.write(0, top + 14, name, PART, weight="bold")
    said = "in the mean {geometric_mean:.2f}, at most {largest:.2f}".format(**found)
    sheet.write(width_of(name, PART, bold=True) + 12, top + 14, said, **quiet)
    middle, peers = top + HEAD + HIGH / 2, list(NAMES)
    places = [scale.x(row["step_over_best_peer"]) for row in rows]
    for row, x, off in zip(rows, places, spread(places, APART), strict=True):
        sign = _sign(peers.index(row["best_peer"]))
        sheet.dots([(x, middle + off)], layer=3, **sign)
    share, number = found["at_most_1.00"], len(rows)
    sheet.write(SPAN, middle - 9, f"{100 * share:.0f} %", COUNT, ha="right")
    said = f"{round(share * number)} of {number}"
    sheet.write(SPAN, middle + 11, said, ha="right", **quiet)


def spread(places: Sequence[float], apart: float) -> list[float]:
    """How far each dot is moved up or down, so that all are at least so far apart.

    places: from left to right, in any order. Each dot is moved as little as those to
    its left allow.
    """
    moved: dict[int, float] = {}
    for at in sorted(range(len(places)), key=places.__getitem__):
        near = [
            (math.sqrt(apart**2 - (places[at] - places[other]) ** 2), off)
            for other, off in moved.items()
            if places[at] - places[other] < apart
        ]
        tries = [0.0, *(off + sign * way for way, off in near for sign in (-1, 1))]
        free = [y for y in tries if all(abs(y - off) > way - 1e-9 for way, off in near)]
        moved[at] = min(free, key=abs)
    return [moved[at] for at in range(len(places))]
