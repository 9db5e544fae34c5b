"""Lab: the life of a fork that guesses: whose blocks are whose, moment by moment."""

from collections.abc import Iterator, Mapping

from minipaged.draw.letters import counted
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.rows import Row
from minipaged.draw.tones import behind_words, free, shared, soft, strong
from minipaged.lab.plots.copying import Frame
from minipaged.lab.plots.render import Figure, render

COLUMNS = 2  # frames side by side
FREE = "free"


def plot_drafts(frames: Mapping[str, tuple[Frame, Frame]], title: str) -> Figure:
    """Draw some moments, each under its heading: all tables, and blocks given back.

    frames: by heading, what was before the moment, and what is then. A block says which
    words lie in it; below, its id, and how many hold it. It is strong if its table did
    not hold it before, and hatched if several hold it. An arrow leads to a copy.
    """
    drawing = Picture(title)
    panels = [
        _panel(heading, *moment, _most(frames)) for heading, moment in frames.items()
    ]
    for start in range(0, len(panels), COLUMNS):
        drawing.beside(*panels[start : start + COLUMNS])
        drawing.space()
    drawing.text(
        "a box is a block; below it, its number and how many hold it; an arrow leads "
        "to a copy"
    )
    last = list(next(iter(frames.values()))[1].tables)[-1]  # the fork: it is new
    drawing.legend(
        (behind_words(soft(last)), "held before"),
        (strong(last), "new in this table"),
        (shared(soft(last), last), "several holders"),
        (free(), "given back"),
    )
    return render(drawing.scene())


def _most(frames: Mapping[str, tuple[Frame, Frame]]) -> int:
    """Blocks of the longest row: so in all panels a block is as wide."""
    tables = [ids for moment in frames.values() for ids in moment[1].tables.values()]
    return max(map(len, tables))


def _panel(heading: str, before: Frame, now: Frame, most: int) -> Picture:
    panel = Picture(heading, widest=400.0 / most)
    rows = {}
    for name, block_ids in now.tables.items():
        cells = [_block(before, now, name, at) for at in range(len(block_ids))]
        rows[name] = _draw_row(panel, name, block_ids, cells, now)
    for (name, at), other in _copied(before, now):
        panel.link(rows[other][at], rows[name][at], is_straight=True)
    held = {block for ids in before.tables.values() for block in ids}
    freed = [block for block in sorted(held) if not now.holders[block]]
    if freed:
        _draw_row(panel, FREE, freed, [Cell("", free())] * len(freed), now)
    return panel


def _draw_row(
    panel: Picture, name: str, block_ids: list[int], cells: list[Cell], now: Frame
) -> Row:
    row = panel.row(name, "", cells, height=42.0, gap=4.0)
    for at, block in enumerate(block_ids):
        holders = now.holders[block]
        said = f": {counted(holders, 'holder')}" if holders else ""
        panel.under(row[at], f"{block}{said}", "none")
    return row


def _copied(before: Frame, now: Frame) -> Iterator[tuple[tuple[str, int], str]]:
    """Entries with a copy, and the table that has the original in this entry."""
    for name, block_ids in now.tables.items():
        pairs = enumerate(zip(before.tables.get(name, ()), block_ids, strict=False))
        for at, (old, new) in pairs:
            others = [other for other, ids in now.tables.items() if old in ids]
            if new != old and others:
                yield (name, at), others[0]


def _block(before: Frame, now: Frame, name: str, at: int) -> Cell:
    block = now.tables[name][at]
    words = now.words[name][at * now.block_size : (at + 1) * now.block_size]
    is_old = block in before.tables.get(name, ())
    tone = soft(name) if is_old else strong(name)
    if now.holders[block] > 1:
        tone = shared(tone, name)
    return Cell(" ".join(words), tone)
