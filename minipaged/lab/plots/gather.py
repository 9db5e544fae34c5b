"""Lab: what attention reads: a table's blocks, end to end, up to the last token."""

from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import KEPT, free, others, strong
from minipaged.lab.plots.render import Figure, render
from minipaged.memory.block_table import BlockTable


def plot_gather(table: BlockTable, title: str, name: str = "A") -> Figure:
    """Three rows: the blocks in the pool, end to end in the table's order, and cut.

    What is cut off are the slots of the last block that hold no token.
    """
    ids, pool, size = table.block_ids, table.pool, table.pool.block_size
    num_tokens, mine = table.num_tokens, strong(name)
    slots = [Cell(str(position), mine) for position in range(num_tokens)]
    rest = len(ids) * size - num_tokens
    filled = slots + [Cell("", KEPT)] * rest
    gathered = [filled[start : start + size] for start in range(0, len(filled), size)]
    contents = dict(zip(ids, gathered, strict=True))
    blocks = [
        [cell._replace(word="") for cell in contents[block_id]]
        if block_id in contents
        else [Cell("", others() if pool.refcount(block_id) else free(), wide=size)]
        for block_id in range(pool.num_blocks)
    ]
    cut = [cells[: num_tokens - entry * size] for entry, cells in enumerate(gathered)]
    some = ", ".join(map(str, ids[:5])) + ", ..." * (len(ids) > 5)

    picture = Picture(title)
    style = {"gap": 6.0 if pool.num_blocks <= 32 else 1.0, "fills": True}
    memory = picture.blocks("1. In the pool", f"blocks {some}", blocks, **style)
    remark = f"in this order: {len(filled)} slots"
    whole = picture.blocks("2. End to end", remark, gathered, gap=2)
    read = picture.blocks("3. Cut", f"{num_tokens} slots hold tokens", cut, gap=2)
    for block_id in range(pool.num_blocks):
        picture.over(memory.block(block_id), str(block_id), "none")
    for entry, block_id in enumerate(ids):
        tokens = whole[entry * size : min(entry * size + size, num_tokens)]
        picture.link(memory.block(block_id), tokens)
        for row in (whole, read):
            picture.under(row.block(entry), f"block {block_id}", "none")
    signs = [(mine, f"{name}'s token"), (others(), "others'"), (free(), "free")]
    signs += [(KEPT, f"not written by {name}")] * (rest > 0)
    picture.legend(*signs)
    return render(picture.scene())
