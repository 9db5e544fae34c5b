"""Lab: charts of the lessons, in one palette and two themes."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from minipaged.draw.chart import MANY, Chart
from minipaged.draw.palette import KINDS_OF_SLOTS
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.scales import Limits
from minipaged.draw.tones import Tone, kind_of_slot
from minipaged.lab.plots.render import Figure, render
from minipaged.memory.waste import WasteReport

SHORT = {  # names of kinds of slots beside a bar
    "token_states": "tokens",
    "reserved": "reserved",
    "internal": "internal",
    "rounded_up": "rounded up",
    "external": "free",
}


def legend_of_slots(kinds: Collection[str]) -> list[tuple[Tone, str]]:
    """What the tones of these kinds of slots mean."""
    shown = [kind for kind in KINDS_OF_SLOTS if kind in kinds]
    return [(kind_of_slot(kind), KINDS_OF_SLOTS[kind][2]) for kind in shown]


def plot_waste(reports: Mapping[str, WasteReport], title: str) -> Figure:
    """One bar per report, split into the kinds of the paper's figure 2.

    A share too small for its number in the bar is said beside it.
    What the allocator rounded up is told apart from free slots; the paper calls both
    external.
    """
    picture = Picture(title)
    picture.text("share of the KV memory (%)")
    shares = {name: _shares(report) for name, report in reports.items()}
    for name, parts in shares.items():
        cells = [
            Cell(f"{share:.1f}" if share >= 5 else "", kind_of_slot(kind), wide=share)
            for kind, share in parts.items()
        ]
        small = [
            f"{share:.1f} {SHORT[kind]}"
            for kind, share in parts.items()
            if 0.05 <= share < 5
        ]
        picture.row(name, "", cells, values=[", ".join(small)], fills=True, height=34)
    picture.legend(*legend_of_slots({kind for one in shares.values() for kind in one}))
    return render(picture.scene())


def _shares(report: WasteReport) -> dict[str, float]:
    """Percent of the memory by kind, those that occur; `external` is told apart."""
    shares = {kind: 100 * getattr(report, kind) for kind in KINDS_OF_SLOTS}
    shares["external"] -= shares["rounded_up"]
    return {kind: share for kind, share in shares.items() if share > 1e-9}


def plot_histogram(
    values: Sequence[int], title: str, xlabel: str, ylabel: str = "count"
) -> Figure:
    """How often each range of values occurs, the mean marked."""
    limits = 0, 1.03 * max(values)
    chart = Chart(title, xlabel=xlabel, ylabel=ylabel, height=150, x_limits=limits)
    counts, edges = np.histogram(values, bins=20 if len(values) >= 40 else 10)
    chart.columns(edges.tolist(), counts.tolist())
    mean = sum(values) / len(values)
    chart.mark(x=mean, words=f"mean {mean:.0f}")
    return render(chart.scene())


def plot_lines(
    x: Sequence[float],
    lines: Mapping[str, Sequence[float | None]],
    title: str,
    xlabel: str,
    ylabel: str,
    logarithmic: bool = True,
    y_is_logarithmic: bool = False,
    crosses: Sequence[Sequence[float]] = (),
    highest: float | None = None,
) -> Figure:
    """Lines over a logarithmic x axis (base 2), told apart by marker and dashes too.

    `logarithmic=False`: over an even one. None leaves a point out. More than 20 values
    have no markers. crosses: of each line, values to compare with it. highest: where
    the y axis ends.
    """
    limits = None if y_is_logarithmic else (0, highest)
    chart = chart_of(x, lines, title, xlabel, ylabel, logarithmic, limits)
    for series, values in enumerate(crosses):
        points = list(zip(x, values, strict=True))
        chart.line(points, series=series, has_line=False, marker="x")
    return render(chart.scene())


def chart_of(
    x: Sequence[float],
    lines: Mapping[str, Sequence[float | None]],
    title: str,
    xlabel: str,
    ylabel: str,
    logarithmic: bool = False,
    y_limits: Limits | None = (0, None),
    **kind: bool,
) -> Chart:
    """A chart with these lines. y_limits: without them, the y axis is logarithmic."""
    air = 0.04 * (max(x) - min(x))
    chart = Chart(
        title,
        xlabel=xlabel,
        ylabel=ylabel,
        y_limits=y_limits,
        x_limits=None if logarithmic or min(x) == 0 else (min(x) - air, max(x) + air),
        x_is_logarithmic=logarithmic,
        y_is_logarithmic=y_limits is None,
        x_ticks=x if len(x) <= MANY else None,
    )
    for name, values in lines.items():
        points = [(a, b) for a, b in zip(x, values, strict=True) if b is not None]
        chart.line(points, name, **kind)
    return chart
