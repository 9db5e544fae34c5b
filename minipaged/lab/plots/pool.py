"""Lab: pictures of a live block pool and its tables (paper, figures 6 and 7)."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from matplotlib.figure import Figure

from minipaged.draw.letters import PART, counted, width_of
from minipaged.draw.palette import BAD
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import (
    DASHED,
    FOUND,
    NOTHING,
    Tone,
    free,
    others,
    shared,
    soft,
    strong,
)
from minipaged.lab.plots.render import render
from minipaged.lab.pool.snapshot import Contents, read_contents
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable

HEIGHT, ROW, ENTRY_ROW = 28.0, 56.0, 34.0  # pixels of a block, and of rows
ENTRIES = 132.0  # where the entries of a table begin
MOST_ENTRIES = 16  # of a table; more are counted
LOST = {"rim": BAD, "linewidth": 2.4}  # of an entry whose block was taken


class Look(NamedTuple):
    """What lies in a slot."""

    tone: Tone
    word: str


def plot_pool(
    pool: BlockPool,
    tables: Mapping[str, BlockTable],
    title: str,
    tokens: Mapping[str, Sequence[str]] | None = None,
    columns: int = 3,
    cached: Collection[int] = (),
    before: Mapping[str, int] | None = None,
    taken: Mapping[str, Collection[int]] | None = None,
) -> Figure:
    """Draw every physical block, and each sequence's table, from the live objects.

    A block has the colour of its first holder among `tables`, and is hatched if several
    hold it; a block held by somebody else is grey, a free one pale. With `tokens` (each
    sequence's words), the slots show what they hold. `cached`: blocks whose content can
    still be found; while free, they have a dashed rim. `before`: tokens that each
    sequence had before; they are soft; what came since is strong, in the tables too.
    `taken`: entries of a table whose blocks it has lost; they have an orange rim.
    """
    sheet, contents = Sheet(title), read_contents(pool, tables, {}, cached)
    looks: dict[int, Look] = {}
    for name, table in reversed(tables.items()):  # the first holder says the last word
        words = (tokens or {}).get(name, ())
        looks |= _looks(pool, name, table, words, (before or {}).get(name, 0))
    columns = min(columns, pool.num_blocks)
    last = str(pool.num_blocks - 1)
    gap = 14.0 if columns <= 9 else 4.0
    width = min(240.0, (SPAN + gap) / columns - gap)
    row_height = ROW if columns <= 9 else ROW - 8
    for block_id in range(pool.num_blocks):
        x = block_id % columns * (width + gap)
        y = 22 + block_id // columns * row_height
        # Where ids would touch each other, only the first of a row has its own.
        if block_id % columns == 0 or width_of(last) < width + gap / 2:
            label = f"block {block_id}" if width > 100 else str(block_id)
            sheet.write(x, y - 11, label, color=sheet.look.quiet)
        _draw_block(sheet, pool, block_id, x, y, width, contents, looks)
    y = 22 + -(-pool.num_blocks // columns) * row_height
    y = _draw_tables(sheet, tables, y, before, taken or {})
    x = sheet.legend(0, y, list(_meanings(pool, contents, before)))
    if taken:
        sheet.legend(x, y, [(NOTHING, "leads to a block that was taken")], **LOST)
    return render(sheet.finish(y + 8))


def _looks(
    pool: BlockPool, name: str, table: BlockTable, words: Sequence[str], before: int
) -> Iterator[tuple[int, Look]]:
    """Each slot of a table, and what lies in it."""
    size = pool.block_size
    for position in range(table.num_tokens):
        block_id = table.block_ids[position // size]
        tone = soft(name) if position < before else strong(name)
        if pool.refcount(block_id) > 1:
            tone = shared(tone, name)
        word = words[position] if position < len(words) else ""
        yield block_id * size + position % size, Look(tone, word)


def _draw_block(
    sheet: Sheet,
    pool: BlockPool,
    block_id: int,
    x: float,
    y: float,
    width: float,
    contents: Contents,
    looks: Mapping[int, Look],
) -> None:
    """A block with its slots; over it, beside its id, whose it is."""
    size, owners = pool.block_size, contents.owners.get(block_id, [])
    holders, is_cached = pool.refcount(block_id), block_id in contents.cached
    room = width - width_of(f"block {block_id}" if width > 100 else str(block_id)) - 6
    remark = _remark(owners, holders, is_cached, room)
    sheet.write(x + width, y - 11, remark, ha="right")
    if owners:
        empty = Look(free(), "")
        slots = range(block_id * size, (block_id + 1) * size)
        shown = [looks.get(slot, empty) for slot in slots]
        is_fine = width / size > 24
        words = [look.word for look in shown] if is_fine else ()
        tones = [look.tone for look in shown]
        sheet.cells(x, y, [width / size] * size, HEIGHT, tones, words)
    else:
        sheet.box(x, y, width, HEIGHT, others() if holders else free())
    rim = DASHED if is_cached else {"rim": sheet.look.rim}
    sheet.box(x, y, width, HEIGHT, **rim)


def _remark(owners: Sequence[str], holders: int, is_cached: bool, room: float) -> str:
    """Whose a block is and how many hold it, as far as there is room to say so."""
    if is_cached:
        remarks = ["cached"]
    elif owners:
        # Counted only if not all of them stand there already.
        count = f" · {holders} holders" if holders > max(1, len(owners)) else ""
        remarks = [" ".join(owners) + count, "".join(owners), f"×{holders}"]
    else:
        remarks = ["others" * (holders > 0)]
    return next((remark for remark in remarks if width_of(remark) <= room), "")


def _draw_tables(
    sheet: Sheet,
    tables: Mapping[str, BlockTable],
    y: float,
    before: Mapping[str, int] | None,
    taken: Mapping[str, Collection[int]],
) -> float:
    """A row for each table: its entries, and in them the blocks; where they end."""
    longest = max((len(table.block_ids) for table in tables.values()), default=0)
    if not longest:
        return y
    entry = min(44.0, (SPAN - ENTRIES - 88) / min(longest, MOST_ENTRIES))
    quiet = {"color": sheet.look.quiet}
    sheet.write(ENTRIES - 10, y, "entry", ha="right", **quiet)
    for index in range(min(longest, MOST_ENTRIES)):
        sheet.write(
            ENTRIES + (index + 0.5) * entry, y, str(index), ha="center", **quiet
        )
    y += 12
    for name, table in tables.items():
        tokens = counted(table.num_tokens, "token")
        sheet.write(0, y + 12, name, PART, weight="bold")
        sheet.write(ENTRIES - 10, y + 12, tokens, ha="right")
        shown = table.block_ids[:MOST_ENTRIES]
        old = len(shown)
        if before is not None:
            old = min(old, -(-before.get(name, 0) // table.pool.block_size))
        tones = [soft(name)] * old + [strong(name)] * (len(shown) - old)
        sheet.cells(ENTRIES, y, [entry] * len(shown), 24, tones, list(map(str, shown)))
        for index in taken.get(name, ()):
            sheet.box(ENTRIES + index * entry + 1, y, entry - 2, 24, **LOST)
        if more := len(table.block_ids) - len(shown):
            sheet.write(ENTRIES + len(shown) * entry + 6, y + 12, f"and {more} more")
        y += ENTRY_ROW
    return y + 8


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
