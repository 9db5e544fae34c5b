"""Lab: a token that has no block is written to block 0, over another sequence's."""

from collections.abc import Collection, Mapping, Sequence

from minipaged.draw.palette import BAD
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import Tone, free, soft, strong
from minipaged.lab.plots.render import Figure, render
from minipaged.memory.block_table import BlockTable
from minipaged.model.inputs import RaggedBatch

MOST_BLOCKS = 8  # more are not drawn


def plot_overwritten(
    batch: RaggedBatch, tables: Mapping[str, BlockTable], title: str
) -> Figure:
    """Two rows of `block_tables`, and where each writes the last token of its sequence.

    The first row stands above the blocks, the second below them. Entries that only fill
    a row up have an orange rim. A slot that belongs to the other sequence gets a cross.

    tables: two, in the batch's order; a table may lack the block of its last token.
    """
    size = next(iter(tables.values())).pool.block_size
    hues = {
        name: name if len(name) == 1 else letter
        for name, letter in zip(tables, "AB", strict=True)
    }
    owners = {
        block_id * size + at % size: (name, at)
        for name, table in tables.items()
        for entry, block_id in enumerate(table.block_ids)
        for at in range(entry * size, min(table.num_tokens, (entry + 1) * size))
    }
    _, *stops = batch.query_starts.tolist()
    positions, slots = (
        [values[stop - 1].item() for stop in stops]
        for values in (batch.positions, batch.slots)
    )
    # Whose a slot was in which its row writes, if it is not its own.
    lost = {
        slot: owners[slot]
        for name, slot in zip(tables, slots, strict=True)
        if slot in owners and owners[slot][0] != name
    }
    held, written = {slot // size for slot in owners}, {slot // size for slot in slots}
    shown = sorted([*written, *sorted(held - written)][:MOST_BLOCKS])

    picture, rows = Picture(title), []
    for row, (name, table) in enumerate(tables.items()):
        if row:
            spans = [range(one * size, (one + 1) * size) for one in shown]
            blocks = []
            for span in spans:
                last = max(slot for slot in span if slot in owners or slot in slots)
                used, rest = range(span.start, last + 1), span.stop - 1 - last
                cells = [_cell(slot, hues, owners, slots, lost) for slot in used]
                blocks.append(cells + [Cell("", free(), rest)] * (rest > 0))
            memory = picture.blocks("the pool", "", blocks, fills=True)
            for at, block_id in enumerate(shown):
                owner, _ = owners.get(block_id * size, ("", 0))
                whose = f"block {block_id}" + f", {owner}'s" * bool(owner)
                # Not where an arrow arrives.
                say = picture.under if block_id == slots[0] // size else picture.over
                say(memory.block(at), whose, "none")
        used, known = positions[row] // size, len(table.block_ids)
        ids = batch.block_tables[row].tolist()
        cells = [
            Cell(str(block_id), strong(hues[name]) if at == used else soft(hues[name]))
            if at < known
            else Cell(str(block_id), free(), rim=BAD)
            for at, block_id in enumerate(ids)
        ]
        said = "no blocks: the row is filled up with zeros" * (len(ids) > known)
        remark = f"writes position {positions[row]}"
        style = {"is_bold": True, "gap": 5.0}
        style |= {"aside": said, "aside_colour": BAD}
        rows.append(picture.row(name, remark, cells, **style)[used])
    for entry, slot in zip(rows, slots, strict=True):
        block = memory.block(shown.index(slot // size))
        place = memory[block.start + slot % size]
        style = {"is_followed": True}
        if slot in lost:
            name, at = lost[slot]
            style |= {"words": f"K and V of {name}'s position {at} are gone"}
            style |= {"colour": BAD}
            picture.cross(place, "#FFFFFF", 2.2)
        picture.link(entry, place, **style)
    hue, _ = hues.values()
    signs = [(soft(hue), "there before"), (strong(hue), "written in this step")]
    signs += [(Tone(BAD), "overwritten by the other sequence")] * bool(lost)
    picture.legend(*signs)
    return render(picture.scene())


def _cell(
    slot: int,
    hues: Mapping[str, str],
    owners: Mapping[int, tuple[str, int]],
    written: Sequence[int],
    lost: Collection[int],
) -> Cell:
    """Whose it is, and since when."""
    if slot in lost:
        return Cell("", Tone(BAD))
    if slot not in owners:
        return Cell("", free())
    hue = hues[owners[slot][0]]
    return Cell("", strong(hue) if slot in written else soft(hue))
