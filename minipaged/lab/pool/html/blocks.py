"""Lab: physical blocks as HTML: who holds them, how full they are, what has changed."""

from dataclasses import dataclass
from html import escape

from minipaged.draw.letters import from_to
from minipaged.draw.palette import sequence_colour
from minipaged.lab.pool.html.parts import chip, colour
from minipaged.lab.pool.snapshot import Snapshot
from minipaged.lab.pool.words import name_slots

MOST_SLOTS = 4  # that are drawn one by one; more are a bar
MOST_LETTERS = 4  # of holders, in a block


@dataclass(frozen=True)
class Block:
    """What is to be drawn of one block, at one moment."""

    id: int
    holders: int
    owners: tuple[str, ...]  # those of them that have a table
    filled: int
    entry: int  # which one it is in the first owner's table
    hash: str  # the first digits, if its content can be found though it is free

    @property
    def first(self) -> str:
        """Whose colour it has; "" for a free block, and for one of others."""
        return self.owners[0] if self.owners else ""

    def differs_from(self, was: "Block") -> bool:
        """Whether it has other holders, or another number of filled slots."""
        mine = self.owners, self.holders, self.filled
        return mine != (was.owners, was.holders, was.filled)


def read_block(snapshot: Snapshot, block_id: int) -> Block:
    """Gather what a snapshot says about a block."""
    contents, holders = snapshot.contents, snapshot.refcounts[block_id]
    owners = tuple(sorted(contents.owners.get(block_id, ())))
    filled = contents.filled.get(block_id, snapshot.block_size if holders else 0)
    _, entry = snapshot.firsts.get(block_id, ("", 0))
    is_cached = not holders and block_id in contents.cached
    digits = f"{snapshot.cached[block_id]:016x}"[:4] if is_cached else ""
    return Block(block_id, holders, owners, filled, entry, digits)


def large_block(
    now: Snapshot, before: Snapshot, block_id: int, offset: int | None
) -> str:
    """A block with its slots; `offset`: the slot to point at."""
    block, was = read_block(now, block_id), read_block(before, block_id)
    size = now.block_size
    if size <= MOST_SLOTS:
        slots = (_slot(block, was, size, at, at == offset) for at in range(size))
        inside = f'<div class="mp-slots">{"".join(slots)}</div>'
    else:
        grows = " mp-in" * (0 < block.filled != was.filled)
        inside = f'<i class="mp-bar{grows}" style="--n:{size}"></i>'
    foot = f'<div class="mp-foot"><span>{block_id}</span>{_foot(now, before, block)}'
    return f"<div {_attributes(block, was, size, offset)}>{inside}{foot}</div></div>"


def small_block(
    now: Snapshot,
    before: Snapshot,
    block_id: int,
    is_here: bool = False,
    is_silent: bool = False,
) -> str:
    """A block as one small box, with its number unless `is_silent`."""
    block, was = read_block(now, block_id), read_block(before, block_id)
    attributes = _attributes(
        block, was, now.block_size, 0 if is_here else None, not is_silent
    )
    text = "" if is_silent else f"<span>{block_id}</span>"
    return f"<i {attributes}>{text}</i>"


def describe(block: Block, size: int) -> str:
    """A block in words."""
    words = f"block {block.id}: {name_slots(block.id, size)}; "
    if not block.holders:
        found = f", can still be found; its hash: {block.hash}…" if block.hash else ""
        return f"{words}free{found}"
    words += f"held by {', '.join(block.owners) or 'others'}; "
    words += f"{block.filled} of {size} slots filled"
    return words + (f"; {block.holders} holders" if block.holders > 1 else "")


def _attributes(
    block: Block, was: Block, size: int, offset: int | None, is_linked: bool = True
) -> str:
    kinds = ["mp-b"]
    if is_linked:  # each such class has the browser look at the block more often
        kinds += ["mp-h", f"mp-k{block.id}", *(f"mp-h{name}" for name in block.owners)]
    if block.holders:
        kinds += ["mp-held", colour(block.first) if block.owners else "mp-others"]
    kinds += ["mp-shared"] * (block.holders > 1) + ["mp-cached"] * bool(block.hash)
    if block.differs_from(was):
        kinds += ["mp-changed"] + ["mp-freed"] * (not block.holders)
    kinds += ["mp-here"] * (offset is not None)
    sequence = f' data-sequence="{block.first}"' if block.owners else ""
    return (
        f'role="listitem" class="{" ".join(kinds)}" title="{describe(block, size)}" '
        f'style="--f:{100 * block.filled / size:.4g}%" '
        f'data-block="{block.id}" data-holders="{block.holders}"{sequence}'
    )


def _slot(block: Block, was: Block, size: int, at: int, is_here: bool) -> str:
    position, slot = block.entry * size + at, block.id * size + at
    is_full, was_full = at < block.filled, at < was.filled
    kinds, style, text = [], "", ""
    if is_full and block.owners:
        words, text = f"position {position} of {block.first}", f"{position}"
        kinds += ["mp-long"] * (position > 99)
    else:
        words = "held" if is_full else "held, still empty" if block.holders else "free"
    if is_full:
        kinds.append("mp-full")
        if not was_full or block.first != was.first:
            kinds.append("mp-in")  # it pours in, one slot after another
            style = f' style="--k:{position % 40}"'
    elif was_full:
        kinds.append("mp-out")
        style = f' style="--was:{sequence_colour(was.first)}"' if was.first else ""
    kinds += ["mp-here"] * is_here
    title = f"slot {slot}: {words}"
    return f'<i class="{" ".join(kinds)}" title="{title}"{style}>{text}</i>'


def _foot(now: Snapshot, before: Snapshot, block: Block) -> str:
    if block.hash:
        return f"<small>hash {block.hash}</small>"
    if block.holders > 1 and block.owners:
        shown = block.owners
        if len(shown) > MOST_LETTERS:
            shown = shown[: MOST_LETTERS - 1]
        letters = "".join(map(chip, shown))
        more = block.holders - len(shown)
        letters += f"<small>+{more}</small>" * (more > 0)
        return f'<span class="mp-letters">{letters}</span>'
    source = _copied_from(before, block)
    first = block.id * now.block_size
    words = from_to(first, first + now.block_size - 1)
    words = words if source is None else f"copy of {source}"
    letter = chip(block.first) if block.owners else ""
    return f"<small>{escape(words)}</small>{letter}"


def _copied_from(before: Snapshot, block: Block) -> int | None:
    """Which block the owner had in this one's place before, if there was one."""
    table = before.tables.get(block.first)
    if table is None or block.entry >= len(table.block_ids):
        return None
    source = table.block_ids[block.entry]
    return source if source != block.id else None
