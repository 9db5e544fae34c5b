"""Lab: scenes as matplotlib figures, which notebooks store; drawn only here."""

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Polygon, Rectangle
from matplotlib.path import Path

from minipaged.draw.letters import DPI
from minipaged.draw.marks import Area, Box, Dots, Group, Scene, Stroke, Words
from minipaged.draw.sheet import MARGIN
from minipaged.lab.plots.display import SharpFigure, show_sharply

TITLE = 48.0  # pixels above a scene, for a title of one line
TITLE_SIZE = 12.0  # points


def render(scene: Scene) -> Figure:
    """The scene below its title; `figure.scene` is the scene."""
    above = TITLE + 22 * scene.title.count("\n")
    wide, high = scene.width + 2 * MARGIN, scene.height + above + MARGIN
    show_sharply()
    figure = plt.figure(
        FigureClass=SharpFigure, figsize=(wide / DPI, high / DPI), dpi=DPI
    )
    figure.scene = scene
    if scene.ground == "none":
        figure.patch.set_visible(False)
    else:
        figure.set_facecolor(scene.ground)
    place = {"x": MARGIN / wide, "y": 1 - MARGIN / high, "ha": "left", "va": "top"}
    plate = {"boxstyle": "round,pad=0.3", "fc": scene.plate, "ec": "none"}
    style = {"fontsize": TITLE_SIZE, "color": scene.ink, "bbox": plate}
    figure.suptitle(scene.title, **place, **style)
    axes = figure.add_axes((0, 0, 1, (scene.height + MARGIN) / high))
    axes.set_axis_off()
    axes.set(xlim=(-MARGIN, wide - MARGIN), ylim=(scene.height + MARGIN, 0))
    for mark in scene.all:
        if not isinstance(mark, Group):
            PENS[type(mark)](axes, mark)
    return figure


def _add_box(axes: Axes, box: Box) -> None:
    area = (box.x, box.y), box.width, box.height
    style = {"zorder": box.layer, "alpha": None if box.alpha == 1 else box.alpha}
    if box.face != "none":
        axes.add_artist(Rectangle(*area, facecolor=box.face, linewidth=0, **style))
    if box.pattern:
        lines = {"hatch": box.pattern, "edgecolor": box.hatching, "linewidth": 0}
        axes.add_artist(Rectangle(*area, fill=False, **lines, **style))
    if box.rim != "none":
        style |= {"linewidth": box.linewidth, "linestyle": box.linestyle}
        style |= {"fill": False, "edgecolor": box.rim}
        if box.rounding:
            shape = f"round,pad=0,rounding_size={box.rounding}"
            axes.add_artist(FancyBboxPatch(*area, boxstyle=shape, **style))
        else:
            axes.add_artist(Rectangle(*area, **style))


def _add_words(axes: Axes, words: Words) -> None:
    axes.text(
        words.x, words.y, words.text, fontsize=words.size, color=words.color,
        ha=words.ha, va=words.va, weight=words.weight, rotation=words.rotation,
        rotation_mode="anchor",
        family="monospace" if words.family == "monospace" else None,
        zorder=words.layer, parse_math=False,
    )  # fmt: skip


def _add_stroke(axes: Axes, stroke: Stroke) -> None:
    style = {"color": stroke.color, "linewidth": stroke.linewidth}
    style |= {"linestyle": stroke.linestyle, "zorder": stroke.layer}
    if stroke.alpha != 1:
        style["alpha"] = stroke.alpha
    if not stroke.curved and not stroke.head:
        cap = "butt" if stroke.cap == "butt" else "projecting"
        columns = zip(*stroke.points, strict=True)
        axes.plot(*columns, solid_capstyle=cap, **style)
        return
    steps = [Path.LINETO] * (len(stroke.points) - 1)
    if stroke.curved:
        steps[:3] = [Path.CURVE4] * 3
    path = Path(stroke.points, [Path.MOVETO, *steps])
    head = {"arrowstyle": "-|>" if stroke.head else "-"}
    head["mutation_scale"] = stroke.head or 1
    axes.add_artist(FancyArrowPatch(path=path, **head, **style))


def _add_area(axes: Axes, area: Area) -> None:
    style = {"linewidth": 0, "zorder": area.layer, "closed": True}
    if area.face != "none":
        style |= {"facecolor": area.face, "alpha": area.alpha}
    else:
        style |= {"fill": False, "hatch": area.pattern, "edgecolor": area.hatching}
    axes.add_artist(Polygon(area.corners, **style))


def _add_dots(axes: Axes, dots: Dots) -> None:
    style = {"marker": dots.marker, "markersize": dots.size, "color": dots.color}
    style |= {"markeredgewidth": dots.linewidth, "linestyle": "none"}
    style["markeredgecolor"] = dots.color if dots.rim == "none" else dots.rim
    if dots.alpha != 1:
        style["alpha"] = dots.alpha
    axes.plot(*zip(*dots.places, strict=True), zorder=dots.layer, **style)


PENS = {  # how matplotlib draws each kind of mark
    Box: _add_box,
    Words: _add_words,
    Stroke: _add_stroke,
    Area: _add_area,
    Dots: _add_dots,
}
