"""Lab: blocks that leave the pool, lie elsewhere, and come back to other places."""

from collections.abc import Iterable, Mapping, Sequence

from minipaged.draw.palette import BAD
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import NOTHING, behind_words, free, soft, strong
from minipaged.lab.plots.render import Figure, render

Held = Mapping[str, Sequence[int]]  # block ids by name


def plot_swap(
    num_blocks: int,
    before: Held,
    rows: Sequence[int],
    after: Held,
    name: str,
    title: str,
    arrive: Sequence[int] = (),
) -> Figure:
    """The pool when `name` is preempted, the swap space, the pool when it is back.

    before, after: the block ids of each table. rows: where the blocks of `name` lie in
    the swap space, in the order of its table. Its blocks are strong, numbered as in its
    table, and followed by arrows; those of the others are soft. arrive: the blocks to
    which K and V are copied, if not to those of its table; they have an orange rim.
    """
    places = Picture(title)
    out = [cell._replace(above=id_) for id_, cell in _cells(num_blocks, before, name)]
    out = places.row("pool", f"{name} must go", out)
    space = [cell for _, cell in _cells(max(rows) + 1, {name: rows}, name)]
    waiting = places.row("CPU memory", f"{name} waits", space)
    back = [cell._replace(below=id_) for id_, cell in _cells(num_blocks, after, name)]
    back = places.row("pool", f"{name} is back", back)
    ends = arrive or after[name]
    for start, row, end in zip(before[name], rows, ends, strict=False):
        places.link(out[start], waiting[row], is_followed=True)
        places.link(waiting[row], back[end], BAD if arrive else None, is_followed=True)
    for block in arrive:
        places.frame(back[block], BAD)
    other = next((one for one in before if one != name), name)
    signs = [(strong(name), f"{name}'s blocks, {name}0 the first of its table")]
    signs += [(behind_words(soft(other)), "of others"), (free(), "free")]
    signs += [(NOTHING, f"{name}'s K and V arrive here", BAD)] * bool(arrive)
    places.legend(*signs)
    return render(places.scene())


def _cells(count: int, tables: Held, name: str) -> Iterable[tuple[str, Cell]]:
    """Blocks or rows: of each its id, and a cell that says whose it is."""
    cells = [Cell("", free())] * count
    for who, places in tables.items():
        for index, at in enumerate(places):
            own = Cell(f"{who}{index}", strong(who))
            cells[at] = own if who == name else Cell(who, soft(who))
    return zip(map(str, range(count)), cells, strict=True)
