"""Lab: a row of somebody who has ended writes into a block that has a new owner."""

from collections.abc import Mapping, Sequence

from minipaged.draw.letters import visible
from minipaged.draw.palette import BAD, theme
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import Tone, behind_words, free, soft, strong
from minipaged.lab.plots.render import Figure, render
from minipaged.memory.block_table import BlockTable
from minipaged.model.inputs import RaggedBatch


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
    (ghost, owner), table = tables, [*tables.values()][1]
    size, slots = table.pool.block_size, batch.slots.tolist()
    position = batch.positions.tolist()[0]
    block_id, lost = divmod(slots[0], size)
    first = table.block_ids.index(block_id) * size
    said = [*words[owner][: table.num_tokens], *[""] * size][first : first + size]
    tones = [soft(owner) if word else free() for word in said]
    if slots[1] // size == block_id:
        tones[slots[1] % size] = strong(owner)
    tones[lost] = Tone(BAD)

    picture = Picture(title)
    again = f"{ghost} has ended, and her token is computed again"
    written = Cell(words[ghost][position], strong(ghost), above=again)
    style = {"is_bold": True, "height": 28.0}
    row = picture.row(
        f"{ghost}'s row", f"position {position}", [written], start=lost, **style
    )
    cells = [Cell(word, tone) for word, tone in zip(said, tones, strict=True)]
    gone = f"K and V of {owner}'s “{visible(said[lost])}” are gone"
    cells[lost] = cells[lost]._replace(below=gone, ink=BAD)
    block = picture.row(
        f"block {block_id}", f"{owner}'s now", cells, rim=theme().rim, **style
    )
    picture.link(row[0], block[lost], BAD, is_followed=True)
    picture.legend(
        (behind_words(soft(owner)), "there before"),
        (strong(owner), "written in this step"),
        (Tone(BAD), f"written over by {ghost}'s row"),
    )
    return render(picture.scene())
