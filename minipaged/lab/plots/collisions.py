"""Lab: blocks that are asked for, and the blocks to which their hashes lead."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from minipaged.draw.letters import width_of
from minipaged.draw.palette import BAD, GOOD
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import behind_words, soft
from minipaged.lab.plots.render import render

TOP, HEIGHT, BETWEEN, GAP = 22.0, 30.0, 78.0, 16.0  # pixels
WIDEST = 200.0  # pixels of a block, at most


def plot_collisions(
    asked: Sequence[str],
    held: Sequence[str],
    leads: Sequence[int],
    title: str,
    names: tuple[str, str] = ("B", "A"),
    keys: Sequence[int] = (),
) -> Figure:
    """Above, what is asked for, below, what is held; an arrow where a key leads.

    asked, held: what stands in each block. leads: for each that is asked for, which of
    those held has its key. If their contents differ, the arrow bears a cross.
    keys: of those held; written beside each block.
    """
    sheet = Sheet(title)
    most = max(len(asked), len(held))
    width = min(WIDEST, (SPAN + GAP) / most - GAP)
    low = TOP + HEIGHT + BETWEEN
    whole = most * (width + GAP)
    step = whole / len(held)
    tops = [at * (width + GAP) for at in range(len(asked))]
    bottoms = [at * step + (step - GAP - width) / 2 for at in range(len(held))]
    rows = ((names[0], asked, tops, TOP), (names[1], held, bottoms, low))
    for name, blocks, lefts, y in rows:
        over = y - 11 if y == TOP else y + HEIGHT + 12
        for number, (said, x) in enumerate(zip(blocks, lefts, strict=True)):
            whose = f"{name}'s entry {number}"
            sheet.write(x, over, whose, color=sheet.look.quiet)
            if keys:
                key = f"key {keys[leads[number] if y == TOP else number]}"
                style = {"ha": "right", "weight": "bold"}
                sheet.write(x + width, over, key, **style)
            tone = behind_words(soft(name))
            sheet.box(x, y, width, HEIGHT, tone)
            sheet.word(x, y, width, HEIGHT, said, tone)
    for number, (said, target) in enumerate(zip(asked, leads, strict=True)):
        arriving = [at for at, other in enumerate(leads) if other == target]
        aside = 40 * (arriving.index(number) - (len(arriving) - 1) / 2)
        start = tops[number] + width / 2, TOP + HEIGHT + 2
        end = bottoms[target] + width / 2 + aside, low - 2
        colour = GOOD if said == held[target] else BAD
        sheet.arrow(start, end, colour, is_followed=True, is_upright=True)
        if colour == BAD:
            _cross(sheet, (start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
    y = low + HEIGHT + 38
    sheet.write(0, y, "the same content", color=GOOD)
    x = width_of("the same content") + 24
    sheet.write(x, y, "×  the same key, another content", color=BAD)
    return render(sheet.finish(y + 8))


def _cross(sheet: Sheet, x: float, y: float) -> None:
    for slant in (-6, 6):
        ends = (x - slant, y - 6), (x + slant, y + 6)
        sheet.line(*ends, color=BAD, linewidth=2.6)
