"""Lab: two prompts as chains of hashed blocks, and which of them are one block."""

from collections.abc import Sequence
from itertools import accumulate, pairwise

from matplotlib.figure import Figure

from minipaged.draw.letters import PART, fit, visible, width_of
from minipaged.draw.palette import BAD, GOOD
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import NOTHING
from minipaged.lab.plots.holders import STRIP, Holders, draw_holders, list_holders
from minipaged.lab.plots.render import render

GAP, LINE = 22.0, 22.0  # pixels between blocks; of a line of words in a block
TOP, BETWEEN = 46.0, 88.0  # pixels above the first row, and between the rows
MOST = 8  # blocks in a row; more are not drawn
Words = Sequence[str]
HIT, FALSE_HIT, NOT_TAKEN, DIFFERENT = range(4)


def plot_hash_chain(
    first: Words,
    second: Words,
    block_size: int,
    found: int,
    title: str,
    names: tuple[str, str] = ("A", "B"),
    block_ids: tuple[Sequence[int], Sequence[int]] = ((), ()),
) -> Figure:
    """Two rows of blocks, parent to child; what was found is linked.

    first, second: the words of two prompts; a tail that fills no block is left out.
    block_ids: of both tables, if they are to be shown.
    found: how many leading blocks of the second were taken from the index, whichever it
    was. Equal words after an equal past are a true hit. After another past they may not
    be taken: if they were, the hit is false, and a cross says so. Bands above the words
    say who holds a block; orange ones, that the second one should not.
    """
    sheet = Sheet(title)
    rows = [_blocks(words, block_size) for words in (first, second)]
    width = min(170.0, (SPAN + GAP) / max(1, *map(len, rows)) - GAP)
    lines = [[_lines(block, width) for block in row] for row in rows]
    deepest = max((len(block) for row in lines for block in row), default=1)
    height = STRIP + 6 + LINE * deepest
    kinds = [_kind(*rows, index, found) for index in range(len(rows[1]))]
    middle = TOP + height
    for row, (name, y) in enumerate(zip(names, (TOP, middle + BETWEEN), strict=True)):
        over, under = (8, y - 11) if row == 0 else (y + height + 34, y + height + 12)
        heading = f"{name}'s prompt, in blocks of {block_size} tokens"
        sheet.write(0, over, heading, PART)
        for index, block in enumerate(lines[row]):
            x = index * (width + GAP)
            kind = kinds[index] if index < len(kinds) else DIFFERENT
            holders = _holders(names, kind, row, index < found)
            _draw_block(sheet, x, y, width, height, block, holders)
            sheet.write(x, under, f"entry {index}", color=sheet.look.quiet)
            if index < len(block_ids[row]):
                said = f"block {block_ids[row][index]}"
                sheet.write(x + width, under, said, ha="right")
            if index:
                sheet.arrow((x - GAP + 1, y + height / 2), (x - 1, y + height / 2))
    for index, kind in enumerate(kinds):
        _draw_link(sheet, index * (width + GAP), width, middle, kind)
    bottom = middle + BETWEEN + height + 64
    _draw_legend(sheet, names, len(rows[0]), kinds, found, bottom)
    return render(sheet.finish(bottom + 8))


def _blocks(words: Words, size: int) -> list[Words]:
    """The full ones, as many as are drawn."""
    return [words[at * size : (at + 1) * size] for at in range(len(words) // size)][
        :MOST
    ]


def _kind(
    first: Sequence[Words], second: Sequence[Words], index: int, found: int
) -> int:
    """What the block of the second prompt has to do with that of the first."""
    if list(second[index]) != list(first[index] if index < len(first) else ()):
        return DIFFERENT
    if index >= found:
        return NOT_TAKEN
    before = (list(map(list, row[:index])) for row in (first, second))
    return HIT if next(before) == next(before) else FALSE_HIT


def _holders(names: tuple[str, str], kind: int, row: int, is_found: bool) -> Holders:
    """Whose the block is that stands in this row."""
    if kind in (HIT, FALSE_HIT):
        return Holders("".join(names), hatching=BAD if kind == FALSE_HIT else None)
    return Holders(names[row], is_new=row == 1 and not is_found)


def _lines(words: Words, width: float) -> list[list[tuple[str, float]]]:
    """The words and how wide their boxes are, line by line; lines are filled evenly."""
    needed = [min(width, width_of(visible(word)) + 9) for word in words]
    lines = narrow = _broken(needed, width)
    room = width
    while len(narrow) == len(lines) and room > max(needed):
        lines, room = narrow, room - 4
        narrow = _broken(needed, room)
    parts = [list(zip(words, needed, strict=True))[line] for line in lines]
    wider = [width / sum(one for _, one in part) for part in parts]
    return [
        [(word, one * factor) for word, one in part]
        for part, factor in zip(parts, wider, strict=True)
    ]


def _broken(widths: Sequence[float], room: float) -> list[slice]:
    """Which boxes stand together in a line of this room."""
    starts, used = [0], 0.0
    for index, width in enumerate(widths):
        if index > starts[-1] and used + width > room:
            starts.append(index)
            used = 0.0
        used += width
    return [slice(*pair) for pair in pairwise([*starts, len(widths)])]


def _draw_block(
    sheet: Sheet,
    x: float,
    y: float,
    width: float,
    height: float,
    lines: list[list[tuple[str, float]]],
    holders: Holders,
) -> None:
    """Who holds one block, and its words, in as many lines as they need."""
    draw_holders(sheet, x, y, width, STRIP, holders)
    line_height = (height - STRIP) / len(lines)
    for number, line in enumerate(lines):
        words, widths = zip(*line, strict=True)
        top = y + STRIP + number * line_height
        sheet.cells(x, top, widths, line_height, [NOTHING] * len(line), words)
        for edge in accumulate(widths[1:-1], initial=x + widths[0]):
            sheet.line((edge, top + 4), (edge, top + line_height - 4))
    sheet.box(x, y, width, height, rim=holders.hatching or sheet.look.rim)


def _draw_link(sheet: Sheet, x: float, width: float, y: float, kind: int) -> None:
    """From the first row, which ends at y, to the second: what the two blocks are."""
    if kind == DIFFERENT:
        return
    said, colour, dashes = {
        HIT: (("same block",), GOOD, "-"),
        FALSE_HIT: (("equal tokens,", "another past"), BAD, "--"),
        NOT_TAKEN: (("equal tokens,", "not taken"), sheet.look.quiet, ":"),
    }[kind]
    middle, style = x + width / 2, {"color": colour, "linewidth": 1.6}
    text = y + BETWEEN / 2 + 10 * (kind == FALSE_HIT)
    reach = 8 * len(said) + 4
    above = text - reach - 18 * (kind == FALSE_HIT)
    sheet.line((middle, y + 3), (middle, above), linestyle=dashes, **style)
    sheet.line(
        (middle, text + reach), (middle, y + BETWEEN - 3), linestyle=dashes, **style
    )
    if kind == FALSE_HIT:
        for slant in (-7, 7):
            ends = (middle - slant, above + 2), (middle + slant, above + 16)
            sheet.line(*ends, color=BAD, linewidth=2.6)
    for line, words in enumerate(said):
        shown, size = fit(words, width + GAP / 2)
        low = text + 16 * (line - (len(said) - 1) / 2)
        sheet.write(middle, low, shown, size, ha="center", color=colour)


def _draw_legend(
    sheet: Sheet,
    names: tuple[str, str],
    num_first: int,
    kinds: Sequence[int],
    found: int,
    y: float,
) -> None:
    """The bands that occur, and what they mean."""
    one, two = names
    signs, taken = [], kinds.count(HIT) + kinds.count(FALSE_HIT)
    if taken < num_first:
        signs.append((Holders(one), f"{one}'s block"))
    if HIT in kinds:
        signs.append((Holders(one + two), f"{one}'s block, rightly taken for {two}"))
    if FALSE_HIT in kinds:
        false = Holders(one + two, hatching=BAD)
        signs.append((false, f"{one}'s block, wrongly taken for {two}"))
    if any(kind == DIFFERENT for kind in kinds[:found]):
        signs.append((Holders(two), f"{two}'s block, found"))
    if len(kinds) > found:
        signs.append((Holders(two, is_new=True), f"computed for {two} now"))
    list_holders(sheet, 0, y, signs)
