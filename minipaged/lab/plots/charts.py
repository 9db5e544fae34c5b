"""Lab: charts of the lessons, in one palette and two themes."""

from collections.abc import Collection, Mapping, Sequence
from textwrap import fill

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from minipaged.draw.letters import DPI
from minipaged.draw.palette import (
    KINDS_OF_SLOTS,
    hatching_on,
    ink_on,
    sequence_colour,
    theme,
)
from minipaged.lab.plots.display import Picture, show_sharply
from minipaged.memory.waste import WasteReport

WIDTH = 7.6  # inches; as many hundreds of pixels in a notebook
SHORT = {  # names of kinds of slots beside a bar
    "token_states": "tokens",
    "reserved": "reserved",
    "internal": "internal",
    "rounded_up": "rounded up",
    "external": "free",
}
TITLE_LETTERS = 74  # of a line; longer titles go on below


def canvas(title: str, height: float) -> tuple[Figure, Axes]:
    """An empty picture in the theme, its message as title over its whole width."""
    look, title = theme(), fill(title, TITLE_LETTERS)
    size = WIDTH, height + 0.22 * title.count("\n")
    show_sharply()
    figure, axes = plt.subplots(
        FigureClass=Picture, figsize=size, dpi=DPI, layout="constrained"
    )
    if look.ground == "none":
        figure.patch.set_visible(False)
    else:
        figure.set_facecolor(look.ground)
    figure.suptitle(title, x=0.008, ha="left", fontsize=12, color=look.ink)
    style_axes(axes)
    return figure, axes


def style_axes(axes: Axes) -> None:
    """No ground, lines at the left and below only, words in the theme's ink."""
    look = theme()
    axes.set_facecolor("none")
    axes.tick_params(colors=look.ink, labelsize=10)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(look.rim)
    axes.xaxis.label.set_color(look.ink)
    axes.yaxis.label.set_color(look.ink)


def legend_of_kinds(
    figure: Figure, kinds: Collection[str], is_hatched: bool = True
) -> None:
    """Say below the picture what the colours of these kinds of slots mean."""
    shown = [look for kind, look in KINDS_OF_SLOTS.items() if kind in kinds]
    handles = [
        Rectangle((0, 0), 1, 1, hatch=hatch * is_hatched, **_face(colour))
        for colour, hatch, _ in shown
    ]
    figure.legend(
        handles,
        [label for _, _, label in shown],
        ncols=2,
        frameon=False,
        fontsize=10,
        handlelength=2.4,
        handleheight=1.2,
        labelcolor=theme().ink,
        loc="outside lower center",
    )


def _face(colour: str) -> dict[str, str | float]:
    """Of a box in a chart; where the page shines through, with a rim around it."""
    if len(colour) > 7:
        return {"facecolor": colour, "edgecolor": theme().rim, "linewidth": 0.8}
    return {"facecolor": colour, "edgecolor": hatching_on(colour), "linewidth": 0}


def plot_waste(reports: Mapping[str, WasteReport], title: str) -> Figure:
    """One bar per report, split into the kinds of the paper's figure 2.

    A share too small for its number in the bar is said beside it.
    What the allocator rounded up is told apart from free slots; the paper calls both
    external.
    """
    figure, axes = canvas(title, height=0.62 * len(reports) + 1.8)
    shares = [_shares(report) for report in reports.values()]
    for row, parts in enumerate(shares):
        left, small = 0.0, []
        for kind, share in parts.items():
            colour, hatch, _ = KINDS_OF_SLOTS[kind]
            axes.barh(row, share, left=left, hatch=hatch, **_face(colour))
            if share >= 5:
                plate = {"boxstyle": "round,pad=0.3", "fc": colour, "ec": "none"}
                plate["visible"] = len(colour) == 7
                place = {"ha": "center", "va": "center", "fontsize": 10}
                ink = ink_on(colour)
                number = left + share / 2, row, f"{share:.1f}"
                axes.text(*number, bbox=plate, color=ink, **place)
            elif share >= 0.05:
                small.append(f"{share:.1f} {SHORT[kind]}")
            left += share
        style = {"va": "center", "fontsize": 10, "color": theme().ink}
        axes.text(101, row, "\n".join(small), **style)
    axes.set_yticks(range(len(reports)), list(reports))
    axes.invert_yaxis()
    axes.set(xlim=(0, 100), xlabel="share of the KV memory (%)")
    legend_of_kinds(figure, {kind for parts in shares for kind in parts})
    return figure


def _shares(report: WasteReport) -> dict[str, float]:
    """Percent of the memory by kind, those that occur; `external` is told apart."""
    shares = {kind: 100 * getattr(report, kind) for kind in KINDS_OF_SLOTS}
    shares["external"] -= shares["rounded_up"]
    return {kind: share for kind, share in shares.items() if share > 1e-9}


def plot_histogram(
    values: Sequence[int], title: str, xlabel: str, ylabel: str = "count"
) -> Figure:
    """How often each range of values occurs, the mean marked."""
    figure, axes = canvas(title, height=2.6)
    look = theme()
    bins = 20 if len(values) >= 40 else 10
    axes.hist(values, bins=bins, color=sequence_colour(0), rwidth=0.94)
    mean = sum(values) / len(values)
    axes.axvline(mean, color=look.ink, linestyle="--", linewidth=1.2)
    axes.annotate(
        f"mean {mean:.0f}",
        (mean, 1.02),  # above the axes, where no bar can reach
        xycoords=("data", "axes fraction"),
        color=look.ink,
        ha="center",
        va="bottom",
        fontsize=10,
    )
    axes.set(xlabel=xlabel, ylabel=ylabel, xlim=(0, None))
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
    axes.grid(axis="y", color=look.rim, alpha=0.35)
    style = {"frameon": False, "fontsize": 10, "labelcolor": look.ink}
    figure.legend(ncols=min(4, len(lines)), loc="outside lower center", **style)
    return figure
