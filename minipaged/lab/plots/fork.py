"""Lab: where two texts part, in a radix tree and in blocks."""

from collections.abc import Sequence
from itertools import accumulate

from minipaged.draw.letters import visible, width_of
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.rows import Row
from minipaged.draw.tones import free, held
from minipaged.lab.plots.render import Figure, render

ROOM, FORK = 530.0, 34.0  # pixels of all words; between the trunk and its branches


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
    fork, both = Picture(title, widest=1.0), "".join(names)
    pairs = list(zip(first, second, strict=False))
    common = next((at for at, (a, b) in enumerate(pairs) if a != b), len(pairs))
    widths = [
        max(22.0, *(width_of(visible(word)) + 9 for word in pair)) for pair in pairs
    ]
    num_drawn = sum(end <= ROOM for end in accumulate(widths)) or 1
    widths = widths[:num_drawn]
    for size in block_sizes:
        num_found, end = common // size * size, size * -(-max(1, common) // size)
        cells = []
        for start in range(0, min(end, num_drawn), size):
            stop = min(start + size, num_drawn)
            wide = sum(widths[start:stop]) + FORK * (start <= common < stop)
            is_found = start + size <= common
            said = "" if is_found else "not all tokens are equal"
            cells.append(Cell(said, held(both) if is_found else free(), wide))
        style = {"values": [f"{num_found} found"], "height": 24.0}
        fork.row(f"blocks of {size}", "", cells, **style)

    def cells(words: Sequence[str], start: int, stop: int, whose: str) -> list[Cell]:
        pairs = zip(words[start:stop], widths[start:stop], strict=False)
        return [Cell(word, held(whose), wide) for word, wide in pairs]

    def branch(name: str, words: Sequence[str]) -> Row:
        more = [Cell("…", wide=16.0)] * (len(words) > num_drawn)
        indent = Cell(wide=sum(widths[:common]) + FORK)
        tokens = cells(words, common, num_drawn, name)
        return fork.row(f"{name} goes on", "", [indent, *tokens, *more], height=36.0)

    fork.space(0)
    upper = branch(names[0], first)
    trunk = cells(first, 0, common, both)
    trunk = fork.row("a tree", "", trunk, height=36.0, values=[f"{common} found"])
    lower = branch(names[1], second)
    for row in (upper, lower):
        if common and len(row.cells) > 1:
            style = {"is_followed": True, "is_level": True}
            fork.link(trunk[min(common, num_drawn) - 1], row[1], **style)
    signs = [(held(both), f"of both, {common} tokens")]
    signs += [(held(name), f"of {name} alone") for name in names]
    fork.legend(*signs, (free(), "a block that is not found"))
    return render(fork.scene())
