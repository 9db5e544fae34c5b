"""Lab: where two texts part, in a radix tree and in blocks."""

from collections.abc import Sequence
from itertools import accumulate

from matplotlib.figure import Figure

from minipaged.draw.letters import visible, width_of
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import NOTHING, free
from minipaged.lab.plots.holders import STRIP, Holders, draw_holders, list_holders
from minipaged.lab.plots.render import render

LEFT, RIGHT, CELL, ROW = 100.0, 84.0, 24.0, 34.0  # labels; counts; a cell; a row
BRANCH, FORK = 40.0, 34.0  # from the trunk's middle to a branch's; between them


def plot_fork(
    first: Sequence[str],
    second: Sequence[str],
    block_sizes: Sequence[int],
    title: str,
    names: tuple[str, str] = ("D", "F"),
) -> Figure:
    """The words that two prompts have in common, two branches, and blocks above.

    first, second: their words. Of the branches, as many words as there is room for. A
    block is found if it ends before the texts part; else it is empty. Bands say whose
    the tokens are.
    """
    sheet, both = Sheet(title), Holders("".join(names))
    pairs = list(zip(first, second, strict=False))
    common = next((at for at, (a, b) in enumerate(pairs) if a != b), len(pairs))
    widths = [_width(*pair) for pair in pairs]
    edges = [LEFT, *accumulate(widths, initial=LEFT)][1:]
    edges = [x + FORK * (at > common) for at, x in enumerate(edges)]
    starts = [x + FORK * (at == common) for at, x in enumerate(edges)]
    num_drawn = max(at for at, x in enumerate(edges) if x <= SPAN - RIGHT)
    last = [size * -(-max(1, common) // size) for size in block_sizes]
    for row, (size, end) in enumerate(zip(block_sizes, last, strict=True)):
        y, num_found = ROW * row, common // size * size
        sheet.write(0, y + CELL / 2, f"blocks of {size}")
        for start in range(0, min(end, num_drawn), size):
            x, stop = starts[start], edges[min(start + size, num_drawn)]
            area = x + 1, y, stop - x - 2, CELL
            if start + size <= common:
                draw_holders(sheet, *area, both)
            sheet.box(*area, rim=sheet.look.rim)
            said = "not all tokens are equal"
            if start + size > common and width_of(said) <= stop - x - 12:
                sheet.word(*area, said, free())
        right = edges[min(end, num_drawn)] + 10
        sheet.write(right, y + CELL / 2, f"{num_found} found", weight="bold")
    trunk = ROW * len(block_sizes) + BRANCH + STRIP + 10
    sheet.write(0, trunk + CELL / 2, "a tree")
    right = edges[num_drawn] + 10
    sheet.write(right, trunk + CELL / 2, f"{common} found", weight="bold")
    _draw_words(sheet, LEFT, trunk, widths[:common], first, both)
    for name, words, side in zip(names, (first, second), (-1, 1), strict=True):
        y = trunk + side * BRANCH
        middle = trunk + CELL / 2
        tip = edges[common] + FORK - 2, y + CELL / 2
        sheet.arrow((edges[common] + 2, middle), tip, is_followed=True)
        place = edges[common] + FORK, y, widths[common:num_drawn]
        _draw_words(sheet, *place, words[common:num_drawn], Holders(name))
        if len(words) > num_drawn:
            sheet.write(edges[num_drawn] + 5, y + CELL / 2, "…")
    bottom = trunk + BRANCH + CELL + 22
    signs = [(both, f"of both, {common} tokens")]
    signs += [(Holders(name), f"of {name} alone") for name in names]
    x = list_holders(sheet, 0, bottom, signs)
    sheet.legend(x, bottom, [(free(), "a block that is not found")])
    return render(sheet.finish(bottom + 8))


def _draw_words(
    sheet: Sheet,
    x: float,
    y: float,
    widths: Sequence[float],
    words: Sequence[str],
    holders: Holders,
) -> None:
    """Tokens side by side, and above them whose they are."""
    if not widths:
        return
    draw_holders(sheet, x, y - STRIP, sum(widths), STRIP, holders)
    sheet.cells(x, y, widths, CELL, [NOTHING] * len(widths), words[: len(widths)])
    for edge in accumulate(widths[:-1], initial=x):
        sheet.line((edge, y), (edge, y + CELL))
    sheet.box(x, y - STRIP, sum(widths), STRIP + CELL, rim=sheet.look.rim)


def _width(*words: str) -> float:
    """Of a cell with one of these words in it."""
    return max(22.0, *(width_of(visible(word)) + 9 for word in words))
