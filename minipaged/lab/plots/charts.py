"""Lab: charts of the lessons, in one palette and two themes."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from minipaged.lab.plots.palette import (
    KINDS_OF_SLOTS,
    ROUNDED_UP,
    sequence_colour,
    theme,
)
from minipaged.memory.waste import KINDS, WasteReport

WIDTH = 8.0  # inches; about 700 pixels in a notebook


def canvas(title: str, height: float) -> tuple[Figure, Axes]:
    """An empty picture in the theme, its message as title."""
    look = theme()
    figure, axes = plt.subplots(figsize=(WIDTH, height), layout="constrained")
    figure.set_facecolor(look.ground)
    axes.set_facecolor(look.ground)
    axes.set_title(title, loc="left", fontsize=12, color=look.ink, pad=10)
    axes.tick_params(colors=look.ink, labelsize=10)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(look.quiet)
    axes.xaxis.label.set_color(look.ink)
    axes.yaxis.label.set_color(look.ink)
    return figure, axes


def legend_of_kinds(
    axes: Axes, below: float, hatched: bool = True, rounded_up: bool = False
) -> None:
    """Say what the colours of the kinds of slots mean, `below` the axes."""
    look, kinds = theme(), list(KINDS_OF_SLOTS.values())
    if rounded_up:
        kinds.append((ROUNDED_UP, "", "external: rounded up"))
    style = {"edgecolor": look.ground if hatched else look.quiet, "linewidth": 0.5}
    handles = [
        Rectangle((0, 0), 1, 1, facecolor=colour, hatch=hatch * hatched, **style)
        for colour, hatch, _ in kinds
    ]
    axes.legend(
        handles,
        [label for _, _, label in kinds],
        ncols=2,
        frameon=False,
        fontsize=10,
        handlelength=2.4,
        handleheight=1.2,
        labelcolor=look.ink,
        loc="upper center",
        bbox_to_anchor=(0.5, below),
    )


def plot_waste(reports: Mapping[str, WasteReport], title: str) -> Figure:
    """One bar per report, split into the four kinds of the paper's figure 2."""
    figure, axes = canvas(title, height=0.62 * len(reports) + 1.8)
    look = theme()
    for row, report in enumerate(reports.values()):
        left = 0.0
        for kind in KINDS:
            colour, hatch, _ = KINDS_OF_SLOTS[kind]
            share = 100 * getattr(report, kind)
            axes.barh(
                row, share, left=left, color=colour, hatch=hatch, edgecolor=look.ground
            )
            if share >= 5:
                axes.text(
                    left + share / 2,
                    row,
                    f"{share:.1f}",
                    bbox={"boxstyle": "round,pad=0.2", "fc": look.ground, "ec": "none"},
                    color=look.ink,
                    ha="center",
                    va="center",
                    fontsize=10,
                )
            left += share
    axes.set_yticks(range(len(reports)), list(reports))
    axes.invert_yaxis()
    axes.set(xlim=(0, 100), xlabel="share of the KV memory (%)")
    legend_of_kinds(axes, below=-0.75 / len(reports))
    return figure


def plot_histogram(values: Sequence[int], title: str, xlabel: str) -> Figure:
    """How often each range of values occurs, the mean marked."""
    figure, axes = canvas(title, height=2.6)
    look = theme()
    axes.hist(values, bins=20, color=sequence_colour(0), edgecolor=look.ground)
    mean = sum(values) / len(values)
    axes.axvline(mean, color=look.ink, linestyle="--", linewidth=1.2)
    axes.annotate(
        f" mean {mean:.0f}",
        (mean, 1),
        xycoords=("data", "axes fraction"),
        color=look.ink,
        va="top",
        fontsize=10,
    )
    axes.set(xlabel=xlabel, ylabel="count", xlim=(0, None))
    return figure


def plot_lines(
    x: Sequence[float],
    lines: Mapping[str, Sequence[float]],
    title: str,
    xlabel: str,
    ylabel: str,
    lowest: float = 0,
    logarithmic: bool = True,
) -> Figure:
    """Lines over a logarithmic x axis (base 2), told apart by marker and dashes too.

    `logarithmic=False`: over an even one. More than 20 values have no markers.
    """
    figure, axes = canvas(title, height=3.8)
    look = theme()
    styles, is_dense = (("o", "-"), ("s", "--"), ("^", ":"), ("D", "-.")), len(x) > 20
    for index, (label, values) in enumerate(lines.items()):
        marker, dashes = styles[index % len(styles)]
        style = {"linestyle": dashes, "color": sequence_colour(index)}
        style["marker"] = None if is_dense else marker
        axes.plot(x, values, label=label, **style)
    if logarithmic:
        axes.set_xscale("log", base=2)
    if not is_dense:
        axes.set_xticks(x, [f"{value:g}" for value in x])
    axes.set(xlabel=xlabel, ylabel=ylabel, ylim=(lowest, None))
    axes.grid(axis="y", color=look.quiet, alpha=0.25)
    axes.legend(
        ncols=len(lines),
        frameon=False,
        fontsize=10,
        labelcolor=look.ink,
        loc="upper center",
        bbox_to_anchor=(0.5, -0.2),
    )
    return figure
