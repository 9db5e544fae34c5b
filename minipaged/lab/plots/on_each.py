"""Lab: how fast a kernel is, by how many of its programs each multiprocessor has."""

import math
from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from minipaged.draw.letters import width_of
from minipaged.draw.palette import line_colour
from minipaged.draw.scales import Scale, scale_of
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.lab.plots.curves import DASHES
from minipaged.lab.plots.dots import draw_series, marker_of
from minipaged.lab.plots.render import render
from minipaged.lab.plots.roof import DOTTED

LEFT, HIGH = 40.0, 240.0  # pixels beside the field, and its height
HEAD = 20.0  # above it, for megabytes
BESIDE, LOW = 8.0, 10.0  # from a line to its words; their height, in %
LIMITS = 0.25, 64.0  # programs: where the axis ends


def plot_on_each(
    lines: Mapping[str, Mapping[float, float]],
    title: str,
    room: int,
    said: str,
    xlabel: str = "programs on each multiprocessor",
    ylabel: str = "GB/s of K and V, in % of the read ceiling",
    limits: tuple[float, float] = LIMITS,
    megabytes: float | None = None,
    aim: tuple[float, str] | None = None,
) -> Figure:
    """A line for each batch: its splits give each multiprocessor so many programs.

    The axis below doubles from tick to tick; the one above says how much they have
    under way, as far as they run at a time.

    lines: by batch, by programs on each multiprocessor, the share in %. room: so many
    run at a time; there stands a line, and low at its right `said`. limits: the ends of
    the axis; what lies outside is left out. megabytes: of a program on each
    multiprocessor, on the whole GPU; without it there is no axis above. aim: so many
    programs are best; there stands a dotted line, and low at its left what it says.
    """
    sheet = Sheet(title)
    y = draw_series(sheet, list(lines))
    sheet.write(0, y + 12, ylabel)
    top = y + 30 + HEAD * bool(megabytes)
    across = scale_of([*limits], LEFT, SPAN - LEFT, True, limits)
    up = scale_of([0, 100], top + HIGH, -HIGH, False, (0, 100))
    curves = [
        [
            (across.x(programs), up.x(share))
            for programs, share in sorted(line.items())
            if limits[0] <= programs <= limits[1]
        ]
        for line in lines.values()
    ]
    _draw_grid(sheet, across, up)
    if megabytes:
        _draw_megabytes(sheet, across, top, room, megabytes)
    x, style = across.x(room), {"color": sheet.look.ink, "linewidth": 1.6, "layer": 1}
    sheet.line((x, top), (x, top + HIGH), **style)
    sheet.write(x + BESIDE, up.x(LOW), said)
    if aim:
        x, dotted = across.x(aim[0]), style | {"linestyle": DOTTED}
        sheet.line((x, top), (x, top + HIGH), **dotted)
        sheet.write(x - BESIDE, up.x(LOW), aim[1], ha="right")
    _draw_curves(sheet, curves)
    sheet.write(LEFT, top + HIGH + 34, xlabel)
    return render(sheet.finish(top + HIGH + 44))


def _draw_curves(sheet: Sheet, curves: Sequence[Sequence[tuple[float, float]]]) -> None:
    """A line for each batch, with its signs."""
    for index, points in enumerate(curves):
        style = {"color": line_colour(index), "linewidth": 1.6, "layer": 2}
        sheet.path(points, linestyle=DASHES[index % len(DASHES)], **style)
        sheet.dots(points, layer=3, **marker_of(index))


def _doublings(across: Scale) -> list[float]:
    """The powers of two on the axis."""
    low, high = (math.log2(limit) for limit in (across.lowest, across.highest))
    return [2.0**power for power in range(math.ceil(low), math.floor(high) + 1)]


def _draw_grid(sheet: Sheet, across: Scale, up: Scale) -> None:
    """Thin lines, with their numbers; upright ones leave the lowest band to words."""
    quiet, bottom = {"color": sheet.look.quiet}, up.left
    for tick in up.ticks:
        height = up.x(tick)
        sheet.line((LEFT, height), (SPAN, height), alpha=0.35, layer=0)
        sheet.write(LEFT - 8, height, f"{tick:g}", ha="right", **quiet)
    for programs in _doublings(across):
        x, number = across.x(programs), f"{programs:g}"
        sheet.line((x, bottom - HIGH), (x, up.x(up.ticks[1])), alpha=0.35, layer=0)
        middle = min(x, SPAN - width_of(number) / 2)
        sheet.write(middle, bottom + 12, number, ha="center", **quiet)
    sheet.line((LEFT, bottom), (SPAN, bottom), layer=1)


def _draw_megabytes(
    sheet: Sheet, across: Scale, top: float, room: int, megabytes: float
) -> None:
    """Above the field: what so many programs have under way, as far as all run."""
    y, quiet, said = top - 14, {"color": sheet.look.quiet}, ""
    for programs in [*(n for n in _doublings(across) if n < room), room]:
        number = programs * megabytes
        said = f"{number:.1f} MB" if number < 10 else f"{number:,.0f} MB"
        sheet.write(across.x(programs), y, said, ha="center", **quiet)
    x = across.x(room) + width_of(said) / 2 + 6
    sheet.write(x, y, "under way; the others wait", **quiet)
