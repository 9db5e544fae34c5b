"""Lab: what each rank holds and computes, and where the ranks must wait."""

from collections.abc import Sequence
from itertools import pairwise

from minipaged.draw.palette import BAD, line_colour, theme
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import Tone, free, others, strong
from minipaged.lab.plots.render import Figure, render
from minipaged.memory.block_table import BlockTable


def plot_heads_on_ranks(
    queries: Sequence[int], keys: Sequence[int], title: str
) -> Figure:
    """Query heads above, KV heads below; a rank has a colour, and what it computes.

    queries, keys: how many heads of each kind every rank has, as `[3, 3]` and `[1, 1]`.
    An arrow leads from a query head to the KV head that it reads.
    """
    picture = Picture(title, widest=84.0)
    group = sum(queries) // sum(keys)
    above = picture.row("query heads", "", _heads(queries, 1))
    below = picture.row("KV heads", "", _heads(keys, group))
    at = 0
    for rank, count in enumerate(queries):
        heads = above[at : at + count]
        picture.over(heads, f"rank {rank}", line_colour(rank))
        at += count
    for head in range(sum(queries)):
        picture.link(above[head], below[head // group])
    return render(picture.scene())


def _heads(counts: Sequence[int], wide: int) -> list[Cell]:
    ranks = [rank for rank, count in enumerate(counts) for _ in range(count)]
    return [Cell(str(head), strong(rank), wide=wide) for head, rank in enumerate(ranks)]


def plot_halves(hidden: int, inner: int, num_ranks: int, title: str) -> Figure:
    """A token through an MLP: weights cut by columns, then by rows; then the sum.

    hidden: numbers of a token between the layers. inner: those within the MLP. A box
    is as wide as it has numbers; each rank has terms of all `hidden` sums.
    """
    picture, ranks, share = Picture(title), range(num_ranks), inner / num_ranks
    plus = max((inner - num_ranks * hidden) / (num_ranks - 1), hidden / 6)
    wide = num_ranks * hidden + (num_ranks - 1) * plus  # units, as many as numbers
    whole = [Cell(f"{hidden} numbers", others(), wide=hidden)]
    middle, aside = (wide - hidden) / 2, (wide - inner) / 2
    x = picture.row("input", "the same on all", whole, start=middle)
    shares = [
        Cell(f"rank {rank}: {inner // num_ranks} of {inner}", strong(rank), wide=share)
        for rank in ranks
    ]
    within = picture.row("gate, up", "cut by columns", shares, start=aside)
    parts = [Cell("+", wide=plus) for _ in range(2 * num_ranks - 1)]
    for rank in ranks:
        word = f"rank {rank}'s terms of {hidden}"
        parts[2 * rank] = Cell(word, strong(rank), wide=hidden, short=f"{hidden}")
    terms = picture.row("down", "cut by rows", parts)
    y = picture.row("output", "by an all-reduce", whole, start=middle)
    for rank in ranks:
        picture.link(x[0], within[rank], line_colour(rank))
        picture.link(within[rank], terms[2 * rank], line_colour(rank))
        picture.link(terms[2 * rank], y[0], line_colour(rank), is_followed=True)
    return render(picture.scene())


def plot_table_on_ranks(
    table: BlockTable, heads: Sequence[Sequence[int]], title: str
) -> Figure:
    """One block table, and the blocks that it names in the memory of each rank.

    heads: the KV heads of each rank, as `[[0], [1]]`.
    """
    picture, pool = Picture(title), table.pool
    rows = []
    for rank, own in enumerate(heads):
        if rank == len(heads) // 2:  # so that arrows cross no more rows than they must
            ids = [Cell(str(block), others()) for block in table.block_ids]
            entries = picture.row("block table", "rank 0 has it", ids, is_bold=True)
        blocks = [_block(block, table, rank) for block in range(pool.num_blocks)]
        said = "KV heads" if len(own) > 1 else "KV head"
        said += f" {' and '.join(map(str, own))}"
        rows.append(picture.row(f"rank {rank}'s blocks", said, blocks))
    for rank, row in enumerate(rows):
        for entry, block in zip(entries, table.block_ids, strict=True):
            picture.link(entry, row[block], line_colour(rank))
    picture.legend((_of_others(), "held by others"), (free(), "free"))
    return render(picture.scene())


def _block(block: int, table: BlockTable, rank: int) -> Cell:
    if block in table.block_ids:
        return Cell(str(block), strong(rank))
    return Cell(str(block), _of_others() if table.pool.refcount(block) else free())


def _of_others() -> Tone:
    """Hatched, but not as shared ones are: free blocks beside it are nearly as pale."""
    return others()._replace(hatching=theme().rim, pattern="\\\\")


def plot_ranks_apart(
    steps: Sequence[int], is_waiting: Sequence[bool], title: str, last: int = 3
) -> Figure:
    """The last steps of each rank; one that waits has begun a step without the others.

    steps: how many each rank has completed. Arrows join those that all have made.
    """
    picture = Picture(title, widest=84.0)
    together = min(steps)
    first = max(1, together - last + 1)
    picture.space(6.0)  # for the frame
    rows = []
    for rank, (count, waits) in enumerate(zip(steps, is_waiting, strict=True)):
        cells = [Cell(f"step {step}", strong(rank)) for step in range(first, count + 1)]
        end = f"step {count + 1}: waits for the others" if waits else "computes no more"
        cells.append(Cell(end, free(), wide=3))
        rows.append(row := picture.row(f"rank {rank}", "", cells, gap=4.0))
        if waits:
            picture.frame(row[len(cells) - 1], BAD)
    for upper, lower in pairwise(rows):
        for at in range(together - first + 1):
            picture.link(upper[at], lower[at], is_straight=True)
            picture.link(lower[at], upper[at], is_straight=True)
    return render(picture.scene())
