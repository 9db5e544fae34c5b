"""Lab: the free blocks of a pool in the order in which they are handed out."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from minipaged.lab.plots.signs import PART, SPAN, Sheet, width_of
from minipaged.lab.plots.tones import DASHED, FOUND, Tone, free, shared, soft, tint
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.cached_blocks import CachedBlocks

COLUMNS, GAP, HEIGHT, ROW = 10, 10.0, 42.0, 74.0
LINE = 20.0  # more pixels of a row, if parents stand below the blocks
WIDEST = 160.0  # pixels of a block, at most
TOP = 66.0


def plot_free_list(
    pool: BlockPool,
    title: str,
    words: Mapping[int, str] | None = None,
    owners: Mapping[int, str] | None = None,
    parents: Mapping[int, str] | None = None,
) -> Figure:
    """The free blocks from left to right: the first is handed out next.

    Blocks with nothing to find go first; of the others, the one freed longest ago.
    words: what lies in a block. owners: the letters of those who held it.
    parents: what a block's text follows, written below it.
    """
    sheet, words, owners = Sheet(title), words or {}, owners or {}
    parents, row = parents or {}, ROW + LINE * bool(parents)
    plain, findable = pool._free, ()
    if isinstance(plain, CachedBlocks):
        plain, findable = plain.plain, plain.findable
    blocks = [*reversed(plain), *findable]
    columns = min(COLUMNS, max(1, len(blocks)))
    width = min(WIDEST, (SPAN + GAP) / columns - GAP)
    if not blocks:
        sheet.write(0, TOP, "no block is free", PART)
    else:
        sheet.write(0, 8, "handed out next", color=sheet.look.ink)
        sheet.arrow(
            (width / 2, 16), (width / 2, TOP - 20), is_followed=True, is_upright=True
        )
    for after in range(1, -(-len(blocks) // columns)):
        _lead_on(sheet, TOP + after * row, row, width)
    for at, block_id in enumerate(blocks):
        x = at % columns * (width + GAP)
        y = TOP + at // columns * row
        sheet.write(x, y - 10, str(block_id), color=sheet.look.quiet)
        holders = owners.get(block_id, "")
        sheet.write(x + width, y - 10, holders, ha="right", weight="bold")
        sheet.write(x, y + HEIGHT + 12, parents.get(block_id, ""))
        lines = _two_lines(words.get(block_id, ""), width - 6)
        tone = _tone(holders, bears_words=bool(lines))
        sheet.box(x, y, width, HEIGHT, tone)
        for line, said in enumerate(lines):
            low = y + 3 + 18 * line + 9 * (len(lines) == 1)
            sheet.word(x, low, width, 18, said, tone)
        rim = {"rim": sheet.look.rim}
        if block_id in findable:
            rim = DASHED
        sheet.box(x, y, width, HEIGHT, **rim)
    bottom = TOP + -(-max(1, len(blocks)) // columns) * row
    signs = [(free(), "nothing to find"), (FOUND, "can still be found")]
    several = [holders for block, holders in owners.items() if len(holders) > 1]
    if several:
        bears_words = any(words.values())
        signs.append((_tone(several[0], bears_words), "several held it"))
    sheet.legend(0, bottom, signs)
    sheet.finish(bottom + 8)
    return sheet.figure


def _lead_on(sheet: Sheet, y: float, row: float, width: float) -> None:
    """From the end of a row to the beginning of the next one, which lies at y."""
    right, middle, between = SPAN - 5, width / 2, y - 24
    start = (right, y - row + HEIGHT + 3)
    style = {"color": sheet.look.ink, "linewidth": 1.1}
    sheet.line(start, (right, between), (middle, between), (middle, y - 10), **style)
    sheet.arrow((middle, y - 14), (middle, y - 2), sheet.look.ink, is_upright=True)


def _tone(holders: str, bears_words: bool) -> Tone:
    """Of what lies in a free block: whose it was, hatched if it was of several."""
    if not holders:
        return free()
    tone = tint(holders[0]) if bears_words else soft(holders[0])
    return shared(tone, holders[0]) if len(holders) > 1 else tone


def _two_lines(text: str, width: float) -> list[str]:
    """A text broken between its words, so that the first line is not too wide."""
    words = text.split()
    fitting = [
        at for at in range(1, len(words) + 1) if width_of(" ".join(words[:at])) <= width
    ]
    at = max(fitting, default=1)
    return [line for line in (" ".join(words[:at]), " ".join(words[at:])) if line]
