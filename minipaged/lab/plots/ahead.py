"""Lab: what is on its way to a multiprocessor, beside what keeps the memory busy."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from minipaged.lab.measure.under_way import UnderWay
from minipaged.lab.plots.signs import PART, SPAN, Sheet, width_of
from minipaged.lab.plots.tones import behind_words, soft, strong

LEFT, RIGHT = 118.0, 244.0  # pixels: of the names; of what a bar is made of
TOP, ROW, APART, BAR = 30.0, 28.0, 14.0, 20.0  # above all; of a bar; of batches; high


def plot_ahead(
    batches: Mapping[str, Mapping[str, UnderWay]], enough: float, title: str
) -> Figure:
    """For each batch a bar before and after, beside the KiB that are enough.

    batches: of each, what is under way, by the name of the rung; the last one is
    strong. enough: KiB.
    """
    sheet, y = Sheet(title), TOP
    bars = [bar.total for rungs in batches.values() for bar in rungs.values()]
    unit = (SPAN - LEFT - RIGHT) / max(*bars, enough)
    edge = LEFT + enough * unit
    said = f"{enough:g} KiB keep the memory busy"
    end = max(edge, width_of(said) + 4)
    sheet.write(end, 8, said, ha="right", color=sheet.look.quiet)
    for batch, rungs in batches.items():
        sheet.write(0, y + BAR / 2, batch, PART, weight="bold")
        for number, (rung, bar) in enumerate(rungs.items(), start=1):
            is_last = number == len(rungs)
            sheet.write(LEFT - 10, y + BAR / 2, rung, ha="right")
            tone = strong(0) if is_last else behind_words(soft(0))
            sheet.box(LEFT, y, bar.total * unit, BAR, tone)
            ahead = f"{bar.tiles} × " * (bar.tiles > 1)
            made = f"{bar.programs:.2f} programs × {ahead}{bar.kib:g} = {bar.total:.0f}"
            x = max(LEFT + bar.total * unit, edge) + 12
            sheet.write(x, y + BAR / 2, made, weight="bold" if is_last else "normal")
            y += ROW
        y += APART
    style = {"linestyle": "--", "color": sheet.look.ink}
    sheet.line((edge, TOP - 8), (edge, y - APART), **style)
    sheet.finish(y - APART + 4)
    return sheet.figure
