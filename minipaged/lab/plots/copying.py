"""Lab: copy-on-write, frame by frame (paper, section 4.4)."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, product
from typing import NamedTuple

from matplotlib.figure import Figure

from minipaged.draw.letters import PART, counted, width_of
from minipaged.draw.palette import BAD, line_colour
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import (
    NOTHING,
    Tone,
    behind_words,
    free,
    shared,
    soft,
    strong,
)
from minipaged.lab.plots.render import render
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable

COLUMNS, GUTTER = 2, 24.0  # frames side by side, and pixels between them
APART = 14.0  # pixels between blocks
HEAD, TABLE, DROP, BLOCK, ROW = 24.0, 24.0, 62.0, 40.0, 186.0  # pixels, downwards
CURVE = 36.0  # more pixels of a row in which a block is copied
NAME, ENTRY = 26.0, 34.0  # pixels of a table's name, and of an entry
WIDTH = (SPAN - GUTTER) / COLUMNS
ROOM = {"linestyle": "--", "linewidth": 1.4}  # the rim of a slot that awaits a word


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
    another has an arrow from there. A word that was written over is struck out above.
    start: what was before the first frame; without it, nothing is new there.
    """
    sheet = Sheet(title)
    # As in the last frame from left to right, so that arrows cross less.
    ends = [ids[-1] for one in reversed(frames.values()) for ids in one.tables.values()]
    blocks = list(dict.fromkeys(ends))
    states, y = list(frames.values()), 8.0
    width = (WIDTH + APART) / len(blocks) - APART
    slots = _slot_widths(states, blocks, width)
    earlier = [start or states[0], *states]
    for number, (heading, frame) in enumerate(frames.items()):
        x = number % COLUMNS * (WIDTH + GUTTER)
        sheet.write(x, y, f"{number + 1}  {heading}", PART, weight="bold")
        _draw_frame(sheet, frame, earlier[number], blocks, slots, x, y + HEAD)
        if number % COLUMNS == COLUMNS - 1 or number == len(frames) - 1:
            row = range(number - number % COLUMNS, number + 1)
            copied = any(any(_copies(states[at], earlier[at])) for at in row)
            y += ROW + CURVE * copied
    x = sheet.legend(0, y, list(_meanings(states, blocks)))
    if any(_has_room(frame, block_id) for frame, block_id in product(states, blocks)):
        signs = [(NOTHING, "room, not written yet")]
        x = sheet.legend(x, y, signs, rim=sheet.look.ink, **ROOM)
    pairs = list(zip(states, earlier, strict=False))
    if any(_lost(*pair, id_) for pair in pairs for id_ in blocks):
        words = "struck out: written over"
        sheet.write(SPAN, y, words, color=BAD, ha="right")
    if start or any(any(_copies(*pair)) for pair in pairs):
        rim = {"rim": sheet.look.ink, "linewidth": 2.2}
        sheet.legend(x, y, [(NOTHING, "changed")], **rim)
    return render(sheet.finish(y + 8))


def _slot_widths(
    frames: Sequence[Frame], blocks: Sequence[int], width: float
) -> list[float]:
    """Of a block so wide: all the same; if a word is too long, as words need."""
    needs = [
        10 + max(width_of(one.word(id_, at) or "") for one in frames for id_ in blocks)
        for at in range(frames[0].block_size)
    ]
    if max(needs) <= width / len(needs):
        return [width / len(needs)] * len(needs)
    return [width * need / sum(needs) for need in needs]


def _lost(frame: Frame, before: Frame, block_id: int) -> dict[int, str]:
    """Words of the block that are written over, by the slot."""
    words = {
        offset: (before.word(block_id, offset), frame.word(block_id, offset))
        for offset in range(frame.block_size)
    }
    return {offset: old for offset, (old, new) in words.items() if old and new != old}


def _draw_frame(
    sheet: Sheet,
    frame: Frame,
    before: Frame,
    blocks: list[int],
    slots: list[float],
    x: float,
    y: float,
) -> None:
    width = sum(slots)
    lefts = {block_id: x + at * (width + APART) for at, block_id in enumerate(blocks)}
    bottom = y + TABLE + DROP + BLOCK
    starts = _draw_tables(sheet, frame, before, x, y)
    for block_id, left in lefts.items():
        _draw_block(sheet, frame, before, block_id, left, bottom - BLOCK, slots)
        arriving = [(name, at) for name, at in starts.items() if at[0] == block_id]
        for number, (name, (_, start)) in enumerate(arriving):
            end = left + width / 2 + 14 * (number - (len(arriving) - 1) / 2)
            sheet.arrow(
                (start, y + TABLE + 1),
                (end, bottom - BLOCK - 1),
                line_colour(name),
                is_upright=True,
            )
    for source, copy in _copies(frame, before):
        ends = [left + 0.3 * width for left in (lefts[source], lefts[copy])]
        _draw_copy(sheet, *ends, bottom + 3)


def _draw_tables(
    sheet: Sheet, frame: Frame, before: Frame, x: float, y: float
) -> dict[str, tuple[int, float]]:
    """A box for each table; its last block, and where the arrow to it begins."""
    starts, left = {}, x
    for name, block_ids in frame.tables.items():
        sheet.cells(left, y, [NAME], TABLE, [strong(name)], [name])
        entries, tones = list(map(str, block_ids)), [soft(name)] * len(block_ids)
        widths = [ENTRY] * len(block_ids)
        sheet.cells(left + NAME, y, widths, TABLE, tones, entries)
        end = left + NAME + ENTRY * len(block_ids)
        starts[name] = block_ids[-1], end - ENTRY / 2
        if before.tables.get(name, block_ids)[-1] != block_ids[-1]:
            sheet.box(end - ENTRY, y, ENTRY, TABLE, rim=sheet.look.ink, linewidth=2.2)
        left += (WIDTH + APART) / max(2, len(frame.tables))
    return starts


def _draw_block(
    sheet: Sheet,
    frame: Frame,
    before: Frame,
    block_id: int,
    x: float,
    y: float,
    slots: list[float],
) -> None:
    """A block with its slots, so wide each, over it its number and how many hold it."""
    name, holders = frame.owner(block_id), frame.holders[block_id]
    writer, lost = frame.writer(block_id, before), _lost(frame, before, block_id)
    width, lefts = sum(slots), [x + left for left in accumulate(slots, initial=0)]
    sheet.write(x, y - 11, f"block {block_id}", color=sheet.look.quiet)
    count = counted(holders, "holder") if holders else "free"
    sheet.write(x + width, y + BLOCK + 11, count, ha="right")
    for offset, (left, slot) in enumerate(zip(lefts, slots, strict=False)):
        word = frame.word(block_id, offset)
        is_new = word != before.word(block_id, offset)
        if not word:
            sheet.cells(left, y, [slot], BLOCK, [free()])
            if word is not None:  # there is room, and nothing is written yet
                inner = left + 3, y + 3, slot - 6, BLOCK - 6
                sheet.box(*inner, rim=line_colour(name), **ROOM)
            continue
        tone = strong(writer) if is_new else soft(name)
        tone = shared(tone, writer if is_new else name) if holders > 1 else tone
        words = [word] if slot > 24 else []  # else they could not be read
        sheet.cells(left, y, [slot], BLOCK, [tone], words)
    sheet.box(x, y, width, BLOCK, rim=sheet.look.rim)
    for offset in range(frame.block_size):
        word, old = frame.word(block_id, offset), before.word(block_id, offset)
        if word and word != old and before.holders[block_id]:
            rim = {"rim": BAD if offset in lost else sheet.look.ink, "linewidth": 2.2}
            sheet.box(lefts[offset], y, slots[offset], BLOCK, **rim)
    for offset, word in lost.items():
        middle = lefts[offset] + slots[offset] / 2
        half = width_of(word, bold=True) / 2 + 2
        sheet.write(middle, y - 12, word, color=BAD, ha="center", weight="bold")
        ends = (middle - half, y - 11), (middle + half, y - 11)
        sheet.line(*ends, color=BAD, linewidth=1.2)


def _has_room(frame: Frame, block_id: int) -> bool:
    """Has a table a slot in it that nothing was written to yet?"""
    return "" in (frame.word(block_id, at) for at in range(frame.block_size))


def _copies(frame: Frame, before: Frame) -> Iterator[tuple[int, int]]:
    """(source, copy): a block that has got the words of another one since then."""
    ends = dict.fromkeys(ids[-1] for ids in frame.tables.values())
    for copy, source in product(ends, ends):
        words, old = frame.filled(copy), before.filled(source)
        is_new = source != copy and not before.filled(copy)
        if is_new and old and words[: len(old)] == old:
            yield source, copy


def _draw_copy(sheet: Sheet, start: float, end: float, y: float) -> None:
    """An arrow below the blocks, from one to the other."""
    bends = [(start, y + 44), (end, y + 44)]
    points = [(start, y), *bends, (end, y)]
    sheet.curve(points, color=sheet.look.ink, linewidth=2.0, head=11)
    sheet.write((start + end) / 2, y + 46, "copied", ha="center")


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
    if any(not frame.word(block_id, offset) for frame, block_id, offset in slots):
        yield free(), "empty"
