"""Lab: copy-on-write, frame by frame (paper, section 4.4)."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from minipaged.draw.letters import counted, width_of
from minipaged.draw.palette import BAD, line_colour, theme
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import (
    FOUND,
    NOTHING,
    Tone,
    behind_words,
    free,
    shared,
    soft,
    strong,
)
from minipaged.lab.plots.render import Figure, render
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable

COLUMNS = 2  # frames side by side


class Frame(NamedTuple):
    """A pool and its tables at one moment."""

    block_size: int
    tables: dict[str, tuple[int, ...]]
    num_tokens: dict[str, int]
    holders: dict[int, int]
    words: dict[str, tuple[str, ...]]

    def owner(self, block_id: int) -> str | None:
        """The first table that holds it."""
        return next((n for n, ids in self.tables.items() if block_id in ids), None)

    def writer(self, block_id: int, before: "Frame") -> str | None:
        """Which of the tables that hold it has grown; if none, the first one."""
        grown = (
            name
            for name, block_ids in self.tables.items()
            if block_id in block_ids and self.num_tokens[name] > before.num_tokens[name]
        )
        return next(grown, self.owner(block_id))

    def word(self, block_id: int, offset: int) -> str | None:
        """What lies in a slot: "" if it has room, None if no table has it."""
        if (name := self.owner(block_id)) is None:
            return None
        position = self.tables[name].index(block_id) * self.block_size + offset
        if position >= self.num_tokens[name]:
            return None
        words = self.words.get(name, ())
        return words[position] if position < len(words) else ""

    def filled(self, block_id: int) -> list[str]:
        """The words that lie in it."""
        return [w for at in range(self.block_size) if (w := self.word(block_id, at))]


def freeze(
    pool: BlockPool,
    tables: Mapping[str, BlockTable],
    words: Mapping[str, Sequence[str]],
) -> Frame:
    """Keep what a pool and its tables are now; words: those of each sequence."""
    return Frame(
        pool.block_size,
        {name: tuple(table.block_ids) for name, table in tables.items()},
        {name: table.num_tokens for name, table in tables.items()},
        {block_id: pool.refcount(block_id) for block_id in range(pool.num_blocks)},
        {name: tuple(words.get(name, ())) for name in tables},
    )


def plot_copying(
    frames: Mapping[str, Frame], title: str, start: Frame | None = None
) -> Figure:
    """Draw the last blocks of some tables, frame by frame, each under its heading.

    Only blocks are drawn in which the tables' text ends. What is new since the frame
    before is strong, and framed in ink; a new block that took over the content of
    another has an arrow from there. A word that was written over stands above.
    start: what was before the first frame; without it, nothing is new there.
    """
    # As in the last frame from left to right, so that arrows cross less.
    ends = [ids[-1] for one in reversed(frames.values()) for ids in one.tables.values()]
    blocks = list(dict.fromkeys(ends))
    states = list(frames.values())
    earlier = [start or states[0], *states]
    words = [
        [one.word(block, at) or "" for one in states for block in blocks]
        for at in range(states[0].block_size)
    ]
    widths = [10 + max(map(width_of, here)) for here in words]
    drawing, pairs = Picture(title), list(zip(states, earlier, strict=False))
    lost = {(block, at) for p in pairs for block in blocks for at in _lost(*p, block)}
    panels = [
        _panel(f"{number}  {heading}", *pair, blocks, widths, lost)
        for number, (heading, pair) in enumerate(zip(frames, pairs, strict=True), 1)
    ]
    panels += [Picture()] * (-len(panels) % COLUMNS)
    for at in range(0, len(panels), COLUMNS):
        drawing.space(2)
        drawing.beside(*panels[at : at + COLUMNS])
    signs = list(_meanings(states, blocks))
    if start or any(any(_copies(*pair)) for pair in pairs):
        signs.append((NOTHING, "changed", theme().ink))
    drawing.legend(*signs, verdict="×: written over" * bool(lost), colour=BAD)
    return render(drawing.scene())


def _lost(frame: Frame, before: Frame, block_id: int) -> dict[int, str]:
    """Words of the block that are written over, by the slot."""
    words = {
        offset: (before.word(block_id, offset), frame.word(block_id, offset))
        for offset in range(frame.block_size)
    }
    return {offset: old for offset, (old, new) in words.items() if old and new != old}


def _panel(
    title: str,
    frame: Frame,
    before: Frame,
    blocks: Sequence[int],
    widths: Sequence[float],
    lost: Collection[tuple[int, int]],
) -> Picture:
    """Tables above, below them the blocks in which they end.

    lost: of all frames, so that the blocks of all panels stand equally high.
    """
    panel = Picture(title)
    entries = [
        [
            Cell(name, strong(name)),
            *(Cell(str(block), soft(name)) for block in block_ids[:-1]),
            _last_entry(name, block_ids[-1], before),
        ]
        for name, block_ids in frame.tables.items()
    ]
    tables = panel.blocks("", "", entries, fills=True, rim="none")
    slots = [_slots(frame, before, block, widths) for block in blocks]
    row = panel.blocks("", "", slots, fills=True, height=36.0)
    for at, block in enumerate(blocks):
        span, holders = row.block(at), frame.holders[block]
        whose = counted(holders, "holder") if holders else "free"
        said = f"block {block}" if len(blocks) < 4 else str(block)
        panel.under(span, f"{said}: {whose}", "none")
        words = _lost(frame, before, block)
        for offset in (offset for one, offset in lost if one == block):
            said = f"× {words[offset]}" if offset in words else ""
            panel.over(row[span.start + offset], said, "none")
    for at, (name, block_ids) in enumerate(frame.tables.items()):
        end = row.block(blocks.index(block_ids[-1]))
        panel.link(tables[tables.block(at).stop - 1], end, line_colour(name))
    for source, copy in _copies(frame, before):
        ends = (row.block(blocks.index(block)) for block in (source, copy))
        panel.link(*ends, words="copied")
    return panel


def _last_entry(name: str, block: int, before: Frame) -> Cell:
    """Framed if it has changed."""
    is_new = before.tables.get(name, (block,))[-1] != block
    return Cell(str(block), soft(name), rim=theme().ink if is_new else "none")


def _slots(
    frame: Frame, before: Frame, block: int, widths: Sequence[float]
) -> list[Cell]:
    """The words that lie in a block; a rim says what is new, and dashes what is not."""
    name, is_shared = frame.owner(block), frame.holders[block] > 1
    writer, lost = frame.writer(block, before), _lost(frame, before, block)
    cells = []
    for offset, wide in enumerate(widths):
        word, rim = frame.word(block, offset), "none"
        is_new = word != before.word(block, offset)
        if not word:
            rim = "dashed" if word == "" else rim
            cells.append(Cell("", free(), wide, rim))
            continue
        tone = strong(writer) if is_new else soft(name)
        if is_shared:
            tone = shared(tone, writer if is_new else name)
        if is_new and before.holders[block]:
            rim = BAD if offset in lost else theme().ink
        cells.append(Cell(word, tone, wide, rim, ink=rim if rim == BAD else ""))
    return cells


def _copies(frame: Frame, before: Frame) -> Iterator[tuple[int, int]]:
    """(source, copy): a block that has got the words of another one since then."""
    ends = dict.fromkeys(ids[-1] for ids in frame.tables.values())
    for copy, source in product(ends, ends):
        words, old = frame.filled(copy), before.filled(source)
        is_new = source != copy and not before.filled(copy)
        if is_new and old and words[: len(old)] == old:
            yield source, copy


def _meanings(
    frames: Sequence[Frame], blocks: Sequence[int]
) -> Iterator[tuple[Tone, str]]:
    """The tones that occur, and what they mean."""
    name = next(iter(frames[0].tables))
    old = behind_words(soft(name))  # as it is drawn: words stand in it
    yield from ((old, "there before"), (strong(name), "new"))
    if any(frame.holders[block_id] > 1 for frame in frames for block_id in blocks):
        yield shared(old, name), "several holders"
    slots = product(frames, blocks, range(frames[0].block_size))
    words = {frame.word(block_id, offset) for frame, block_id, offset in slots}
    if words & {"", None}:
        yield free(), "empty"
    if "" in words:
        yield FOUND, "room, not written yet"
