"""Lab: the same parts merged in several orders; each ends with the same factor."""

import math
from collections.abc import Sequence

from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import behind_words, soft, strong
from minipaged.lab.plots.render import Figure, render

# An order: the number of a part, or two orders that are merged.
Order = int | tuple["Order", "Order"]


def plot_merges(
    maxima: Sequence[float],
    orders: Sequence[Order],
    title: str,
    name: str = "A",
    blocks: Sequence[int] = (),
) -> Figure:
    """A tree for each order, the parts above, at each arrow its rescale.

    maxima: the largest logit of each part. blocks: their ids. Below a tree stands what
    each part was multiplied by on its way down.
    """
    picture, blocks = Picture(title), blocks or range(len(maxima))
    trees = [_tree(order, maxima, blocks, name) for order in orders]
    picture.beside(*trees)
    leaf = behind_words(soft(name))
    signs = (leaf, "a block's part, its maximum"), (strong(name), "a merged part")
    picture.legend(*signs)
    return render(picture.scene())


def _depth(order: Order) -> int:
    return 0 if isinstance(order, int) else 1 + max(map(_depth, order))


def _leaves(order: Order) -> list[int]:
    return (
        [order] if isinstance(order, int) else [*_leaves(order[0]), *_leaves(order[1])]
    )


def _tree(
    order: Order, maxima: Sequence[float], blocks: Sequence[int], name: str
) -> Picture:
    """One order, from the parts down to the one of all; below it, the factors."""
    panel, leaves = Picture(widest=90.0), _leaves(order)
    levels: list[dict[float, Cell]] = [{} for _ in range(_depth(order) + 1)]
    arrows, factors = [], {leaf: [] for leaf in sorted(leaves)}

    def place(order: Order, level: int) -> tuple[tuple[int, float], float]:
        """Where it stands, level and middle, and its maximum."""
        if isinstance(order, int):
            own, said = float(leaves.index(order)), f"block {blocks[order]}"
            cell = Cell("", behind_words(soft(name)), 0.8, above=said)
            at, highest = (0, own), maxima[order]
        else:
            parts = [place(part, level - 1) for part in order]
            highest = max(maximum for _, maximum in parts)
            at = level, sum(middle for (_, middle), _ in parts) / 2
            cell = Cell("", strong(name), 0.8)
            for part, ((above, middle), maximum) in zip(order, parts, strict=True):
                factor = math.exp(maximum - highest)
                upper = levels[above][middle]
                levels[above][middle] = upper._replace(below=f"× {factor:.2f}")
                arrows.append(((above, middle), at))
                for leaf in _leaves(part):
                    factors[leaf].append(factor)
        levels[at[0]][at[1]] = cell._replace(word=f"m = {highest:.1f}")
        return at, highest

    place(order, len(levels) - 1)
    spans = {}
    for level, found in enumerate(levels):
        cells, edge = [], -0.5
        for middle, cell in sorted(found.items()):
            cells += [Cell(wide=middle - 0.4 - edge), cell]
            edge = middle + 0.4
        row = panel.row("", "", cells)
        spans |= {
            (level, middle): row[2 * n + 1] for n, middle in enumerate(sorted(found))
        }
    for start, end in arrows:
        panel.link(spans[start], spans[end])
    lines = [f"{_name_of(order, blocks)[1:-1]}; multiplied by:"]
    for leaf, own in factors.items():
        product = " × ".join(f"{factor:.2f}" for factor in own)
        whole = f" = {math.prod(own):.2f}" if own[1:] else ""
        lines.append(f"block {blocks[leaf]}: {product}{whole}")
    panel.text(*lines)
    return panel


def _name_of(order: Order, blocks: Sequence[int]) -> str:
    """The blocks in brackets, as they are merged."""
    if isinstance(order, int):
        return str(blocks[order])
    return f"({', '.join(_name_of(part, blocks) for part in order)})"
