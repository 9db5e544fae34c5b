"""Lab: a row of somebody who has ended writes into a block that has a new owner."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from minipaged.draw.letters import visible, width_of
from minipaged.draw.palette import BAD
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import Tone, behind_words, free, soft, strong
from minipaged.lab.plots.render import render
from minipaged.memory.block_table import BlockTable
from minipaged.model.inputs import RaggedBatch

LEFT, HEIGHT, BLOCK = 104.0, 28.0, 92.0  # pixels: beside the rows; a row; down to it


def plot_ghost(
    batch: RaggedBatch,
    tables: Mapping[str, BlockTable],
    words: Mapping[str, Sequence[str]],
    title: str,
) -> Figure:
    """The first row's token, the slot where it is written, and what lay there.

    tables: of who has ended, and of the new owner; in the batch's order, with a token
    each. words: what each says, position by position.
    """
    sheet, (ghost, owner) = Sheet(title), tables
    size, table = tables[owner].pool.block_size, tables[owner]
    slots, positions = batch.slots.tolist(), batch.positions.tolist()
    block_id, lost = divmod(slots[0], size)
    first = table.block_ids.index(block_id) * size
    cell = (SPAN - LEFT) / size
    x = LEFT + lost * cell
    bold = {"weight": "bold"}
    sheet.label(0, HEIGHT, f"{ghost}'s row", f"position {positions[0]}", **bold)
    sheet.cells(x, 0, [cell], HEIGHT, [strong(ghost)], [words[ghost][positions[0]]])
    said = f"{ghost} has ended, and her token is computed again"
    is_left = x + cell + 12 + width_of(said) < SPAN
    place, side = (x + cell + 12, "left") if is_left else (x - 12, "right")
    sheet.write(place, HEIGHT / 2, said, ha=side, color=sheet.look.quiet)
    middle = x + cell / 2
    way = (middle, HEIGHT + 3), (middle, BLOCK - 3)
    sheet.arrow(*way, BAD, is_followed=True, is_upright=True)
    sheet.label(BLOCK, HEIGHT, f"block {block_id}", f"{owner}'s now", **bold)
    for offset in range(size):
        position = first + offset
        is_new = block_id * size + offset == slots[1]
        tone = strong(owner) if is_new else soft(owner)
        if position >= table.num_tokens:
            tone = free()
        if offset == lost:
            tone = Tone(BAD)
        shown = words[owner][position] if position < table.num_tokens else ""
        left = LEFT + offset * cell
        sheet.cells(left, BLOCK, [cell], HEIGHT, [tone], [shown] if shown else ())
    sheet.box(LEFT, BLOCK, SPAN - LEFT, HEIGHT, rim=sheet.look.rim)
    gone = visible(words[owner][first + lost])
    said = f"K and V of {owner}'s “{gone}” are gone"
    y = BLOCK + HEIGHT + 16
    place, side = (x, "left") if is_left else (x + cell, "right")
    sheet.write(place, y, said, ha=side, color=BAD, weight="bold")
    signs = [(behind_words(soft(owner)), "there before")]
    signs += [(strong(owner), "written in this step")]
    sheet.legend(0, y + 30, [*signs, (Tone(BAD), f"written over by {ghost}'s row")])
    return render(sheet.finish(y + 40))
