"""Lab: what the L1 unit does for a tile, cycle by cycle, as bars."""

from collections.abc import Mapping

from minipaged.draw.picture import Cell, Picture
from minipaged.draw.sheet import SPAN
from minipaged.draw.tones import behind_words, free, soft, strong
from minipaged.lab.measure.l1_cycles import L1Cycles
from minipaged.lab.plots.render import Figure, render

KINDS = "loads", "shuffles", "shared memory"
LEAST = 0.06  # of the longest bar: a narrower part says its number behind the bar


def plot_l1_cycles(rungs: Mapping[str, L1Cycles], title: str, gpu: str) -> Figure:
    """A bar for each, as long as its cycles: loads, shuffles, shared memory.

    gpu: where they were counted.
    """
    picture = Picture(title, widest=SPAN)
    remark = f"all query heads of a KV head; counted on an {gpu}"
    picture.headline("cycles of the L1 unit for 16 positions", remark)
    tones = strong(0), behind_words(soft(0)), free()
    most = max(cycles.in_all for cycles in rungs.values())
    for name, cycles in rungs.items():
        cells, said = [], f"{cycles.in_all:,} in all"
        parts = cycles.loads, cycles.shuffles, cycles.shared
        for kind, part, tone in zip(KINDS, parts, tones, strict=True):
            is_small = part < LEAST * most
            cells.append(Cell("" if is_small else f"{part:,}", tone, part / most))
            said += f", {kind} {part:,}" if is_small else ""
        picture.row(name, "", cells, aside=said, height=30.0)
    picture.legend(*zip(tones, KINDS, strict=True))
    return render(picture.scene())
