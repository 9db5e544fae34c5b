"""Lab: tables beside the blocks that they name: what a widget shows of a pool."""

from typing import NamedTuple

from minipaged.draw.letters import counted
from minipaged.lab.pool.html.blocks import MOST_SLOTS, large_block, small_block
from minipaged.lab.pool.html.geometry import COLUMNS, table_height
from minipaged.lab.pool.html.lines import lines
from minipaged.lab.pool.html.parts import heading
from minipaged.lab.pool.html.tables import tables, tables_to_show
from minipaged.lab.pool.snapshot import Snapshot

LARGE_POOL = 64  # a pool of more blocks is always drawn compact
MOST_BLOCKS = 32  # drawn large; and if more are in use, all are drawn small
TALLEST = 700  # pixels of large tables
SILENT = 256  # in a pool of more blocks, small ones are drawn without their numbers
FEWEST_BLOCKS = 16  # drawn large, be they free or not


class Here(NamedTuple):
    """The place to point at: position `entry * block_size + offset` of `name`."""

    name: str
    entry: int
    offset: int
    block_id: int


def is_large(now: Snapshot, before: Snapshot | None = None) -> bool:
    """Whether blocks and tables have room to be drawn large."""
    before = before or now
    shown = tables_to_show(now, before).values()
    height = sum(table_height(len(table.block_ids)) for table in shown)
    is_small = now.num_blocks <= LARGE_POOL and _num_large(now, before) <= MOST_BLOCKS
    return is_small and height <= TALLEST


def stage(
    now: Snapshot,
    before: Snapshot | None = None,
    here: Here | None = None,
    compact: bool = False,
    is_still: bool = False,
) -> str:
    """Tables, blocks, and the lines between them; what has changed since is marked.

    is_still: nothing has happened but that another place is pointed at.
    """
    if before is None or before.num_blocks != now.num_blocks:
        before = now
    compact = compact or not is_large(now, before)
    label = f"{now.num_held} of {now.num_blocks} blocks are held"
    is_silent = now.num_blocks > SILENT
    kinds = " mp-compact" * compact + " mp-still" * is_still + " mp-silent" * is_silent
    rest = lined = ""
    if compact:
        at = here.block_id if here else None
        made = [
            small_block(now, before, block_id, block_id == at, is_silent)
            for block_id in range(now.num_blocks)
        ]
    else:
        num_large = _num_large(now, before)
        offsets = {here.block_id: here.offset} if here else {}
        made = [
            large_block(now, before, block_id, offsets.get(block_id))
            for block_id in range(num_large)
        ]
        rest = _rest(now, before, num_large)
        lined = lines(now, before, here[:3] if here else None, num_large)
    shown = tables(now, before, here[:2] if here else None, not compact)
    return (
        f'<div class="mp-stage{kinds}"><div class="mp-tables">{shown}</div>'
        f'<div class="mp-pool">{heading("Pool", _remark(now, compact))}'
        f'<div role="list" class="mp-list" aria-label="{label}">'
        f'<div role="presentation" class="mp-grid">{"".join(made)}</div>{rest}</div>'
        f"</div>{lined}</div>"
    )


def _num_large(now: Snapshot, before: Snapshot) -> int:
    """How many blocks are shown large: all that are or were in use, in whole rows."""
    held = (id_ for one in (now, before) for id_, n in enumerate(one.refcounts) if n)
    rows = -(-(max((*held, *now.contents.cached), default=0) + 1) // COLUMNS)
    return min(now.num_blocks, max(FEWEST_BLOCKS, rows * COLUMNS))


def _rest(now: Snapshot, before: Snapshot, first: int) -> str:
    if first == now.num_blocks:
        return ""
    ids = range(first, now.num_blocks)
    small = "".join(small_block(now, before, id_, is_silent=True) for id_ in ids)
    words = f"blocks {first} to {now.num_blocks - 1}: all free"
    return (
        f'<div role="presentation" class="mp-rest">{small}<small>{words}</small></div>'
    )


def _remark(now: Snapshot, compact: bool) -> str:
    words = f"{counted(now.num_blocks, 'block')} of {counted(now.block_size, 'slot')}"
    if compact or now.block_size > MOST_SLOTS:
        return words
    return f"{words}; in each slot, its position"
