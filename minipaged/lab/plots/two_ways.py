"""Lab: two ways to read a sequence's blocks: gather them all, or one after another."""

from minipaged.draw.letters import fit
from minipaged.draw.palette import BAD, GOOD
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.rows import Span
from minipaged.draw.tones import free, others, soft, strong
from minipaged.lab.plots.render import Figure, render
from minipaged.memory.block_table import BlockTable

MOST = 16  # blocks in a row; of a larger pool, only the sequence's own are drawn
HALF = 350.0  # pixels of a panel


def plot_two_ways(table: BlockTable, at: int, title: str, name: str = "A") -> Figure:
    """Left, a copy of the whole context; right, entry `at` of the table is being read.

    Strong is what moves in this step: the copy, or the block that is read in place.

    The pool and its blocks are those of the table.
    """
    picture, pool = Picture(title), table.pool
    picture.beside(_gathered(table, name), _streamed(table, at, name), gap=44.0)
    signs = [(soft(name), f"{name}'s K and V in the pool")]
    if pool.num_free + len(table.block_ids) < pool.num_blocks:
        signs.append((others(), "of others"))
    if pool.num_free and pool.num_blocks <= MOST:
        signs.append((free(), "free"))
    signs += [(strong(name), "left: the copy; right: what is read now")]
    picture.legend(*signs)
    return render(picture.scene())


def _pool(
    panel: Picture, table: BlockTable, name: str, now: int | None = None
) -> dict[int, Span]:
    """The pool's blocks in a row; the cell of each of the table's.

    now: the block that is read. Their ids stand above them.
    """
    pool, cells = table.pool, []
    shown = list(range(pool.num_blocks))
    if pool.num_blocks > MOST:
        shown = sorted(table.block_ids)
    for block in shown:
        if block in table.block_ids:
            tone = strong(name) if block == now else soft(name)
            cells.append(Cell("", tone, above=str(block)))
        else:
            cells.append(Cell("", others() if pool.refcount(block) else free()))
    row = panel.row("pool", "", cells, gap=3.0, fills=True)
    return {block: row[shown.index(block)] for block in table.block_ids}


def _gathered(table: BlockTable, name: str) -> Picture:
    """All blocks go into one piece, and attention reads the piece."""
    panel = Picture()
    panel.headline("Gathered", "", f"a copy of {len(table.block_ids)} blocks", BAD)
    places = _pool(panel, table, name)
    cells = [Cell(str(block), strong(name)) for block in table.block_ids]
    copied = panel.row("copy", "", cells, fills=True)
    cells = [Cell(), Cell("attention", free()), Cell()]
    attention = panel.row("", "", cells, fills=True)
    for entry, block in enumerate(table.block_ids):
        panel.link(places[block], copied[entry])
    panel.under(copied[:], "each number is read, written, and read again", "none")
    panel.link(copied[:], attention[1])
    return panel


def _streamed(table: BlockTable, at: int, name: str) -> Picture:
    """Attention reads one block in place; of those before, it has a summary."""
    panel, ids = Picture(), table.block_ids
    panel.headline("Streamed", "", "one block at a time", GOOD)
    places = _pool(panel, table, name, ids[at])
    step, summary = Cell("→", wide=0.2), Cell("summary", soft(name))
    cells = [summary, step] if at else [Cell(), Cell(wide=0.2)]
    cells += [Cell("attention", free()), step, summary._replace(word="new summary")]
    attention = panel.row("", "", cells, fills=True)
    panel.link(places[ids[at]], attention[2], is_followed=True)
    done, rest = (", ".join(map(str, part)) for part in (ids[:at], ids[at + 1 :]))
    said = [f"read before: {done}; kept: a summary"] * bool(done)
    said += [f"to come: {rest}"] * bool(rest)
    panel.text("each number is read once", fit("; ".join(said), HALF)[0])
    return panel
