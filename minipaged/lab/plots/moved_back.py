"""Lab: tokens of a step in the blocks of a table: where planned, and where moved to."""

from collections.abc import Mapping
from itertools import pairwise

from minipaged.draw.palette import BAD
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import Tone, free, soft, strong
from minipaged.lab.plots.render import Figure, render
from minipaged.memory.block_table import BlockTable


def plot_moved_back(
    table: BlockTable,
    places: Mapping[str, Mapping[int, str]],
    title: str,
    wrong: Mapping[int, str] = {},
) -> Figure:
    """A row for each moment: the table's blocks, and the step's tokens in their slots.

    places: by moment, the tokens of the step by position. An arrow leads from each
    token to its place in the next moment. wrong: by position, the wrong guesses whose K
    and V lie there, until a token of the step is written over them.
    """
    picture, rows = Picture(title), []
    size = table.pool.block_size
    for name, tokens in places.items():
        slots = []
        for position in range(len(table.block_ids) * size):
            tone = soft("A") if position < min(tokens) else free()
            if position in wrong:
                tone = Tone(BAD)
            if position in tokens:
                tone = strong("A")
            word = tokens.get(position, wrong.get(position, ""))
            slots.append(Cell(word, tone))
        cut = [slots[at : at + size] for at in range(0, len(slots), size)]
        row = picture.blocks(name, "", cut)
        for number, block in enumerate(table.block_ids):
            if not rows:
                picture.over(row.block(number), f"block {block}", "none")
        rows.append((row, {word: at for at, word in tokens.items()}))
    for (row, at), (below, then) in pairwise(rows):
        for word, position in at.items():
            picture.link(row[position], below[then[word]])
    signs = [(strong("A"), "of this step"), (soft("A"), "of steps before")]
    signs += [(Tone(BAD), "a wrong guess")] * bool(wrong)
    picture.legend(*signs, (free(), "room"))
    return render(picture.scene())
