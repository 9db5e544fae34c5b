"""Lab: the same parts merged in several orders; each ends with the same factor."""

import math
from collections.abc import Sequence

from matplotlib.figure import Figure

from minipaged.draw.letters import width_of
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import behind_words, soft, strong
from minipaged.lab.plots.render import render

# An order: the number of a part, or two orders that are merged.
Order = int | tuple["Order", "Order"]
BOX, HEIGHT, LEVEL = 58.0, 24.0, 78.0  # pixels of a box; from one level to the next
TOP, GAP = 26.0, 24.0  # above the leaves; between two trees


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
    sheet, width = Sheet(title), (SPAN + GAP) / len(orders) - GAP
    bottom = TOP + LEVEL * max(map(_depth, orders)) + HEIGHT
    for at, order in enumerate(orders):
        tree = _Tree(sheet, maxima, at * (width + GAP), width, name, blocks)
        tree.draw(order, bottom)
    leaf = behind_words(soft(name))
    signs = [(leaf, "a block's part, its maximum"), (strong(name), "a merged part")]
    sheet.legend(0, bottom + 24 + 20 * (len(maxima) + 1), signs)
    return render(sheet.finish(bottom + 34 + 20 * (len(maxima) + 1)))


def _depth(order: Order) -> int:
    return 0 if isinstance(order, int) else 1 + max(map(_depth, order))


def _leaves(order: Order) -> list[int]:
    return (
        [order] if isinstance(order, int) else [*_leaves(order[0]), *_leaves(order[1])]
    )


class _Tree:
    """One order, from the parts down to the one of all."""

    def __init__(
        self,
        sheet: Sheet,
        maxima: Sequence[float],
        left: float,
        width: float,
        name: str,
        blocks: Sequence[int],
    ):
        self.sheet, self.maxima, self.name, self.left = sheet, maxima, name, left
        self.step = width / len(maxima)
        self.blocks = blocks or range(len(maxima))

    def draw(self, order: Order, bottom: float) -> None:
        """The tree; below it the products of the factors along each way down."""
        self.places = {leaf: at for at, leaf in enumerate(_leaves(order))}
        self.ways: dict[int, list[float]] = {leaf: [] for leaf in self.places}
        self._node(order, bottom - HEIGHT)
        quiet, y = self.sheet.look.quiet, bottom + 22
        said = f"{self._name_of(order)[1:-1]}; multiplied by:"
        self.sheet.write(self.left, y, said, color=quiet)
        for leaf in sorted(self.ways):
            y += 20
            said = f"block {self.blocks[leaf]}: "
            if len(self.ways[leaf]) > 1:
                said += " × ".join(f"{factor:.2f}" for factor in self.ways[leaf]) + " ="
            self.sheet.write(self.left, y, said, color=quiet)
            place, whole = self.left + width_of(said) + 8, math.prod(self.ways[leaf])
            self.sheet.write(place, y, f"{whole:.2f}", weight="bold")

    def _name_of(self, order: Order) -> str:
        """The blocks in brackets, as they are merged."""
        if isinstance(order, int):
            return str(self.blocks[order])
        return f"({', '.join(map(self._name_of, order))})"

    def _node(self, order: Order, y: float) -> tuple[float, float, float]:
        """Draw it, its upper edge at y (parts: at TOP); its middle, top and maximum."""
        if isinstance(order, int):
            x, y = self.left + (self.places[order] + 0.5) * self.step, TOP
            block = f"block {self.blocks[order]}"
            self.sheet.write(x, y - 12, block, ha="center", color=self.sheet.look.quiet)
            self._box(x, y, self.maxima[order], is_leaf=True)
            return x, y, self.maxima[order]
        pair = [self._node(part, y - LEVEL) for part in order]
        x, maximum = sum(one for one, *_ in pair) / 2, max(m for *_, m in pair)
        for part, (from_x, from_y, own) in zip(order, pair, strict=True):
            factor, aside = math.exp(own - maximum), 14 if from_x < x else -14
            low = from_y + HEIGHT + 10
            self.sheet.write(from_x, low, f"× {factor:.2f}", ha="center")
            self.sheet.arrow((from_x, low + 8), (x - aside, y - 2), is_upright=True)
            for leaf in _leaves(part):
                self.ways[leaf].append(factor)
        self._box(x, y, maximum)
        return x, y, maximum

    def _box(self, x: float, y: float, maximum: float, is_leaf: bool = False) -> None:
        tone = behind_words(soft(self.name)) if is_leaf else strong(self.name)
        self.sheet.box(x - BOX / 2, y, BOX, HEIGHT, tone)
        said = f"m = {maximum:.1f}"
        self.sheet.word(x - BOX / 2, y, BOX, HEIGHT, said, tone)
