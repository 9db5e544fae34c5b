"""Lab: the free blocks of a pool in the order in which they are handed out."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from minipaged.draw.letters import PART, width_of
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import DASHED, FOUND, free
from minipaged.lab.plots.holders import STRIP, Holders, draw_holders, list_holders
from minipaged.lab.plots.render import render
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.cached_blocks import CachedBlocks

COLUMNS, GAP, HEIGHT, BETWEEN = 10, 10.0, 42.0, 32.0
ARC, DEEPER = 16.0, 8.0  # pixels that an arc hangs down, and for each block it skips
WIDEST = 160.0  # pixels of a block, at most
TOP = 66.0


def plot_free_list(
    pool: BlockPool,
    title: str,
    words: Mapping[int, str] | None = None,
    owners: Mapping[int, str] | None = None,
    parents: Mapping[int, Sequence[int]] | None = None,
) -> Figure:
    """The free blocks from left to right: the first is handed out next.

    Blocks with nothing to find go first; of the others, the one freed longest ago.
    words: what lies in a block. owners: the letters of those who held it; the block
    has a band in the colour of each of them.
    parents: the blocks that a block's text may follow; arcs lead to those that are
    free, too, and in its row.
    """
    sheet, words, owners = Sheet(title), words or {}, owners or {}
    plain, findable = pool._free, ()
    if isinstance(plain, CachedBlocks):
        plain, findable = plain.plain, plain.findable
    blocks = [*reversed(plain), *findable]
    columns = min(COLUMNS, max(1, len(blocks)))
    places = {block: at for at, block in enumerate(blocks)}
    pairs = [
        (places[child], places[parent])
        for child, before in (parents or {}).items()
        for parent in before
        if child in places and parent in places
    ]
    arcs = [(one, other) for one, other in pairs if one // columns == other // columns]
    longest = max((abs(child - parent) for child, parent in arcs), default=0)
    height = HEIGHT + STRIP * any(words.values())
    row = height + BETWEEN + (ARC + DEEPER * longest) * bool(arcs)
    width = min(WIDEST, (SPAN + GAP) / columns - GAP)
    if not blocks:
        sheet.write(0, TOP, "no block is free", PART)
    else:
        sheet.write(0, 8, "handed out next", color=sheet.look.ink)
        sheet.arrow(
            (width / 2, 16), (width / 2, TOP - 20), is_followed=True, is_upright=True
        )
    for after in range(1, -(-len(blocks) // columns)):
        _lead_on(sheet, TOP + after * row, row - height, width)
    for at, block_id in enumerate(blocks):
        x = at % columns * (width + GAP)
        y = TOP + at // columns * row
        sheet.write(x, y - 10, str(block_id), color=sheet.look.quiet)
        holders = owners.get(block_id, "")
        sheet.write(x + width, y - 10, holders, ha="right", weight="bold")
        lines = _two_lines(words.get(block_id, ""), width - 6)
        band = STRIP if lines else height
        draw_holders(sheet, x, y, width, band, Holders(holders))
        if not holders:
            sheet.box(x, y, width, height, free())
        for line, said in enumerate(lines):
            low = y + band + 3 + 18 * line + 9 * (len(lines) == 1)
            sheet.word(x, low, width, 18, said, free())
        rim = {"rim": sheet.look.rim}
        if block_id in findable:
            rim = DASHED
        sheet.box(x, y, width, height, **rim)
    bottom = TOP + -(-max(1, len(blocks)) // columns) * row
    signs = [(free(), "nothing to find"), (FOUND, "can still be found")]
    x = sheet.legend(0, bottom, signs)
    several = [holders for holders in owners.values() if len(holders) > 1]
    if several:
        x = list_holders(sheet, x, bottom, [(Holders(several[0]), "several held it")])
    for child, parent in arcs:
        y = TOP + child // columns * row + height
        middles = [at % columns * (width + GAP) + width / 2 for at in (child, parent)]
        _lead_back(sheet, y, *middles, abs(child - parent))
    if arcs:
        told = "an arrow leads to the block before it in the text"
        sheet.write(x, bottom, told, color=sheet.look.quiet)
    return render(sheet.finish(bottom + 8))


def _lead_back(sheet: Sheet, y: float, child: float, parent: float, steps: int) -> None:
    """An arc below the blocks; longer ones enclose shorter ones."""
    aside = max(4.0, 34.0 - 10 * steps) * (1 if parent > child else -1)
    start, end = child + aside, parent - aside
    # A curve reaches three quarters of the way to its handles.
    low = y + (ARC + DEEPER * steps) * 4 / 3
    points = (start, y + 3), (start, low), (end, low), (end, y + 3)
    sheet.curve(points, color=sheet.look.ink, linewidth=1.6, head=11)


def _lead_on(sheet: Sheet, y: float, between: float, width: float) -> None:
    """From the end of a row to the next one, which begins so far below it, at y."""
    right, middle, level = SPAN - 5, width / 2, y - 24
    start = (right, y - between + 3)
    style = {"color": sheet.look.ink, "linewidth": 1.1}
    sheet.line(start, (right, level), (middle, level), (middle, y - 10), **style)
    sheet.arrow((middle, y - 14), (middle, y - 2), sheet.look.ink, is_upright=True)


def _two_lines(text: str, width: float) -> list[str]:
    """A text broken between its words, so that the first line is not too wide."""
    words = text.split()
    fitting = [
        at for at in range(1, len(words) + 1) if width_of(" ".join(words[:at])) <= width
    ]
    at = max(fitting, default=1)
    return [line for line in (" ".join(words[:at]), " ".join(words[at:])) if line]
