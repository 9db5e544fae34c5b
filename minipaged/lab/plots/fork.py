"""Lab: where two texts part, in a radix tree and in blocks."""

from collections.abc import Sequence
from itertools import accumulate

from matplotlib.figure import Figure

from minipaged.lab.plots.signs import SPAN, Sheet, visible, width_of
from minipaged.lab.plots.tones import free, shared, tint

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
    block is found if it ends before the texts part; else it is empty.
    """
    sheet = Sheet(title)
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
            is_found = start + size <= common
            tone = shared(tint(names[0]), names[0]) if is_found else free()
            sheet.box(x + 1, y, stop - x - 2, CELL, tone, sheet.look.rim)
            said = "found" if is_found else "not all tokens are equal"
            if width_of(said) <= stop - x - 12:
                sheet.word(x + 1, y, stop - x - 2, CELL, said, tone)
        right = edges[min(end, num_drawn)] + 10
        sheet.write(right, y + CELL / 2, f"{num_found} found", weight="bold")
    trunk = ROW * len(block_sizes) + BRANCH + 4
    sheet.write(0, trunk + CELL / 2, "a tree")
    right = edges[num_drawn] + 10
    sheet.write(right, trunk + CELL / 2, f"{common} found", weight="bold")
    tone = shared(tint(names[0]), names[0])
    cells = [tone] * common
    sheet.cells(LEFT, trunk, widths[:common], CELL, cells, first[:common])
    for name, words, side in zip(names, (first, second), (-1, 1), strict=True):
        y = trunk + side * BRANCH
        middle = trunk + CELL / 2
        tip = edges[common] + FORK - 2, y + CELL / 2
        sheet.arrow((edges[common] + 2, middle), tip, is_followed=True)
        count = num_drawn - common
        tones = [tint(name)] * count
        place = edges[common] + FORK, y, widths[common:num_drawn]
        sheet.cells(*place, CELL, tones, words[common:num_drawn])
        if len(words) > num_drawn:
            sheet.write(edges[num_drawn] + 5, y + CELL / 2, "…")
    bottom = trunk + BRANCH + CELL + 22
    signs = [(tone, f"of both, {common} tokens")]
    signs += [(tint(name), f"of {name} alone") for name in names]
    sheet.legend(0, bottom, [*signs, (free(), "a block that is not found")])
    sheet.finish(bottom + 8)
    return sheet.figure


def _width(*words: str) -> float:
    """Of a cell with one of these words in it."""
    return max(22.0, *(width_of(visible(word)) + 9 for word in words))
