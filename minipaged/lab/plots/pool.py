"""Lab: pictures of a live block pool and its tables (paper, figures 6 and 7)."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby

from minipaged.draw.letters import counted
from minipaged.draw.palette import BAD
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import (
    FOUND,
    NOTHING,
    Tone,
    free,
    others,
    shared,
    soft,
    strong,
)
from minipaged.lab.plots.render import Figure, render
from minipaged.lab.pool.snapshot import Contents, read_contents
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable

MOST_ENTRIES = 16  # of a table; more are counted
MOST_SLOTS = 90  # in a row, each of which is a box: more have no gaps between them


def plot_pool(
    pool: BlockPool,
    tables: Mapping[str, BlockTable],
    title: str,
    columns: int = 3,
    cached: Collection[int] = (),
    before: Mapping[str, int] | None = None,
    taken: Mapping[str, Collection[int]] | None = None,
) -> Figure:
    """Draw every physical block, and each sequence's table, from the live objects.

    A block has the colour of its first holder among `tables`, and is hatched if several
    hold it; a block held by somebody else is grey, a free one pale. `cached`: blocks
    whose content can still be found; while free, they have a dashed rim. `before`:
    tokens that each sequence had before; they are soft; what came since is strong, in
    the tables too. `taken`: entries of a table whose blocks it has lost; they have an
    orange rim.
    """
    picture, contents = Picture(title), read_contents(pool, tables, cached)
    words = [_caption(pool, one, contents, columns) for one in range(pool.num_blocks)]
    add_blocks(picture, pool, tables, words, columns, before, contents.cached)
    below = Picture()
    _add_tables(below, tables, before, taken or {})
    lost = [(NOTHING, "leads to a block that was taken", BAD)] if taken else []
    picture.beside(below)
    picture.legend(*_meanings(pool, contents, before), *lost)
    return render(picture.scene())


def add_blocks(
    picture: Picture,
    pool: BlockPool,
    tables: Mapping[str, BlockTable],
    captions: Sequence[str],
    columns: int,
    before: Mapping[str, int] | None = None,
    cached: Collection[int] = (),
) -> None:
    """All blocks of the pool in rows, with their slots, and a caption above each."""
    size, cells = pool.block_size, {}
    for name, table in reversed(tables.items()):  # the first holder says the last word
        old = (before or {}).get(name, 0)
        for entry, block_id in enumerate(table.block_ids):
            used = range(entry * size, min(table.num_tokens, (entry + 1) * size))
            tones = [soft(name) if at < old else strong(name) for at in used]
            if pool.refcount(block_id) > 1:
                tones = [shared(tone, name) for tone in tones]
            thin = columns * size > MOST_SLOTS
            runs = groupby(tones) if thin else ((tone, [tone]) for tone in tones)
            cells[block_id] = [Cell("", tone, wide=len([*run])) for tone, run in runs]
            rest = size - len(used)
            cells[block_id] += [Cell("", free(), wide=rest)] * (rest > 0)
    for block_id in range(pool.num_blocks):
        tone = others() if pool.refcount(block_id) else free()
        tone = FOUND if block_id in cached else tone
        cells.setdefault(block_id, [Cell("", tone, wide=size)])
    gap = 14.0 if columns <= 9 else 4.0
    for start in range(0, pool.num_blocks, columns):
        ids = range(start, min(start + columns, pool.num_blocks))
        row = picture.blocks("", "", [cells[one] for one in ids], gap=gap)
        for at, block_id in enumerate(ids):
            picture.over(row.block(at), captions[block_id], "none")


def _caption(pool: BlockPool, block_id: int, contents: Contents, columns: int) -> str:
    """A block's id, whose it is, and how many hold it, if they are not all named."""
    holders, owners = pool.refcount(block_id), contents.owners.get(block_id, [])
    whose = " ".join(owners) or "others" * (holders > 0)
    if block_id in contents.cached:
        whose = "cached"
    if owners and holders > len(owners):
        whose += f" · {holders} holders" if columns <= 4 else f" ×{holders}"
    words = f"block {block_id}" if columns <= 4 else str(block_id)
    return f"{words}: {whose}" if whose else words


def _add_tables(
    picture: Picture,
    tables: Mapping[str, BlockTable],
    before: Mapping[str, int] | None,
    taken: Mapping[str, Collection[int]],
) -> None:
    """A row for each table: its entries, and in them the blocks."""
    longest = max((len(table.block_ids) for table in tables.values()), default=0)
    heads = [Cell(below=str(at)) for at in range(min(longest, MOST_ENTRIES))]
    picture.row("entry", "", heads, height=0.0, apart=6.0)
    for name, table in tables.items():
        shown = table.block_ids[:MOST_ENTRIES]
        old = len(shown)
        if before is not None:
            old = -(-before.get(name, 0) // table.pool.block_size)
        more, lost = len(table.block_ids) - len(shown), taken.get(name, ())
        cells = [
            Cell(
                str(block_id),
                soft(name) if entry < old else strong(name),
                rim=BAD if entry in lost else "none",
            )
            for entry, block_id in enumerate(shown)
        ]
        style = {"is_bold": True, "aside": f"and {more} more" if more else ""}
        picture.row(name, counted(table.num_tokens, "token"), cells, **style)


def _meanings(
    pool: BlockPool, contents: Contents, before: Mapping[str, int] | None
) -> Iterator[tuple[Tone, str]]:
    """The tones that occur, and what they mean."""
    owners = [names[0] for names in contents.owners.values()]
    several = [block_id for block_id in contents.owners if pool.refcount(block_id) > 1]
    if owners and (before is not None or len(several) < len(owners)):
        yield strong(owners[0]), "holds a token" if before is None else "new"
    if owners and before is not None:
        yield soft(owners[0]), "there before"
    if several:
        name = contents.owners[several[0]][0]
        tone = strong(name) if before is None else soft(name)
        yield shared(tone, name), "several holders"
    if any(
        pool.refcount(one)
        for one in range(pool.num_blocks)
        if one not in contents.owners
    ):
        yield others(), "held by others"
    yield free(), "empty"
    if contents.cached:
        yield FOUND, "can still be found"
