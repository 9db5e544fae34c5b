"""Lab: what the L1 unit does for a tile, cycle by cycle, as bars."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from minipaged.draw.letters import PART, width_of
from minipaged.draw.palette import ink_on
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import Tone, behind_words, free, soft, strong
from minipaged.lab.measure.l1_cycles import L1Cycles
from minipaged.lab.plots.render import render

LEFT, BAR, STEP, TOP = 66.0, 30.0, 44.0, 28.0  # pixels: beside bars; high; apart; above
MEANINGS = "loads", "shuffles", "shared memory"


def plot_l1_cycles(rungs: Mapping[str, L1Cycles], title: str, gpu: str) -> Figure:
    """A bar for each, as long as its cycles: loads, shuffles, shared memory.

    gpu: where they were counted.
    """
    sheet, y = Sheet(title), TOP
    most = max(cycles.in_all for cycles in rungs.values())
    unit = (SPAN - LEFT - width_of(f"{most:,}", PART, bold=True) - 10) / most
    what = "cycles of the L1 unit for 16 positions"
    remark = f"all query heads of a KV head; counted on an {gpu}"
    sheet.headline(8, what, remark, "", sheet.look.ink)
    tones = strong(0), behind_words(soft(0)), free()
    for name, cycles in rungs.items():
        sheet.write(0, y + BAR / 2, name, PART)
        x = LEFT
        parts = cycles.loads, cycles.shuffles, cycles.shared
        for part, tone in zip(parts, tones, strict=True):
            _draw_part(sheet, x, y, part, unit, tone)
            x += part * unit
        said = f"{cycles.in_all:,}"
        sheet.write(x + 8, y + BAR / 2, said, PART, weight="bold")
        named = {"loads": cycles.loads, "shuffles": cycles.shuffles}
        small = [f"{what} {n:,}" for what, n in named.items() if not _has_room(n, unit)]
        if small:
            x += 8 + width_of(said, PART, bold=True) + 12
            sheet.write(x, y + BAR / 2, ", ".join(small), color=sheet.look.quiet)
        y += STEP
    sheet.legend(LEFT, y + 6, list(zip(tones, MEANINGS, strict=True)))
    return render(sheet.finish(y + 16))


def _has_room(cycles: int, unit: float) -> bool:
    """Does their number fit into their part of a bar?"""
    return cycles * unit > width_of(f"{cycles:,}") + 8


def _draw_part(
    sheet: Sheet, x: float, y: float, cycles: int, unit: float, tone: Tone
) -> None:
    """A part of a bar; in it the cycles, if there is room."""
    rim, wide = sheet.look.rim if tone == free() else "none", cycles * unit
    sheet.box(x, y, wide, BAR, tone, rim)
    if _has_room(cycles, unit):
        ink = ink_on(tone.face) if tone == strong(0) else sheet.look.ink
        sheet.write(x + wide / 2, y + BAR / 2, f"{cycles:,}", ha="center", color=ink)
