"""Lab: pictures of contiguous memory: whose slot is it, and what is it used for?"""

from collections.abc import Collection, Sequence
from textwrap import fill

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from minipaged.draw.letters import DPI
from minipaged.draw.palette import KINDS_OF_SLOTS, ink_on, theme
from minipaged.lab.plots.display import SharpFigure, show_sharply
from minipaged.lab.plots.render import plate_of_a_title
from minipaged.memory.waste import Span, Stay, WasteReport, memory_map

KINDS = list(KINDS_OF_SLOTS)
SIZE = 7.6, 4.2  # inches; as many hundreds of pixels in a notebook
LETTERS = 74  # of a title's line
PLATE = "#FFFFFF"  # behind words: a picture of many colours has no ground for them


def plot_memory_over_time(
    report: WasteReport, num_slots: int, iterations: range, title: str
) -> Figure:
    """All of memory as it changes: addresses from left to right, time downwards.

    One chat that begins and ends in these iterations says what its wedge means.
    """
    stays = [stay for stay in report.stays if _is_present(stay, iterations)]
    rows = [_row(memory_map(stays, num_slots, when), num_slots) for when in iterations]
    image = np.stack(rows)
    figure, axes = _canvas(title)
    colours = [colour for colour, _, _ in KINDS_OF_SLOTS.values()]
    axes.imshow(
        image,
        cmap=ListedColormap(colours),
        vmin=0,
        vmax=len(KINDS) - 1,
        aspect="auto",
        interpolation="nearest",
        extent=(0, num_slots, iterations.stop, iterations.start),
    )
    _label_a_wedge(axes, stays, num_slots, iterations)
    axes.set(xlabel="slot (address)", ylabel="step (one new token for each chat)")
    _legend_of_kinds(figure, {KINDS[kind] for kind in np.unique(image)})
    return figure


def _canvas(title: str) -> tuple[Figure, Axes]:
    """An empty picture in the theme, its message as title over its whole width."""
    look = theme()
    show_sharply()
    figure, axes = plt.subplots(
        FigureClass=SharpFigure, figsize=SIZE, dpi=DPI, layout="constrained"
    )
    if look.ground == "none":
        figure.patch.set_visible(False)
    else:
        figure.set_facecolor(look.ground)
    style = {"x": 0.008, "ha": "left", "fontsize": 12, "color": look.title}
    style["bbox"] = plate_of_a_title(look.plate)
    figure.suptitle(fill(title, LETTERS), **style)
    axes.set_facecolor("none")
    axes.tick_params(colors=look.ink, labelsize=10)
    axes.spines[:].set_color(look.rim)
    axes.xaxis.label.set_color(look.ink)
    axes.yaxis.label.set_color(look.ink)
    return figure, axes


def _label_a_wedge(
    axes: Axes, stays: Sequence[Stay], num_slots: int, iterations: range
) -> None:
    """Of the longest chat that is seen whole, if there is room for words beside it."""
    lengths = {
        stay: stay.request.output
        for stay in stays
        if iterations.start <= stay.admitted
        and stay.admitted + stay.request.output < iterations.stop
        and stay.piece.start + sum(stay.request) < 0.75 * num_slots
    }
    stay = max(lengths, key=lengths.__getitem__, default=None)
    if stay is None or lengths[stay] < 0.25 * len(iterations):
        return
    (prompt, output), left, top = stay.request, stay.piece.start, stay.admitted + 1
    beside = left + prompt + output + 0.02 * num_slots
    plate = {"boxstyle": "round,pad=0.25", "fc": PLATE, "ec": ink_on(PLATE), "lw": 0.8}
    arrow = {"arrowstyle": "-|>", "color": ink_on(PLATE), "shrinkA": 0, "shrinkB": 0}
    signs = (
        ("starts, as wide as its prompt", 0.02, 0.06),
        ("one token a step", 0.5, 0.5),
    )
    for words, share, height in (*signs, ("ends", 0.99, 0.94)):
        axes.annotate(
            words,
            (left + prompt + share * output, top + share * output),
            (beside, top + height * output),
            bbox=plate,
            arrowprops=arrow,
            color=ink_on(PLATE),
            fontsize=9,
            va="center",
        )


def _is_present(stay: Stay, iterations: range) -> bool:
    """Is it in memory in one of them? Most are not, and would only slow each row."""
    last = stay.admitted + stay.request.output
    return stay.admitted < iterations[-1] and last >= iterations[0]


def _row(spans: Sequence[Span], num_slots: int, width: int = 700) -> np.ndarray:
    """The kind of slot under each of `width` pixels: the one in the pixel's middle."""
    edges = np.array([stop for _, stop, _, _ in spans])
    kinds = np.array([_kind(kind, owner) for _, _, kind, owner in spans])
    middles = (np.arange(width) + 0.5) * num_slots / width
    return kinds[np.searchsorted(edges, middles, side="right")]


def _kind(kind: str, owner: int | None) -> int:
    """Its number; external slots inside a piece, rounded up, have one of their own."""
    is_rounded_up = kind == "external" and owner is not None
    return KINDS.index("rounded_up" if is_rounded_up else kind)


def _legend_of_kinds(figure: Figure, kinds: Collection[str]) -> None:
    """Say below the picture what the colours of these kinds of slots mean."""
    shown = [look for kind, look in KINDS_OF_SLOTS.items() if kind in kinds]
    rims = [theme().rim if len(colour) > 7 else "none" for colour, _, _ in shown]
    figure.legend(
        [
            Rectangle((0, 0), 1, 1, facecolor=colour, edgecolor=rim, linewidth=0.8)
            for (colour, _, _), rim in zip(shown, rims, strict=True)
        ],
        [label for _, _, label in shown],
        ncols=2,
        frameon=False,
        fontsize=10,
        handlelength=2.4,
        handleheight=1.2,
        labelcolor=theme().ink,
        loc="outside lower center",
    )
