"""Draw the pictures of the README from live objects, for light and dark pages.

python tools/draw_figures.py    writes overview and kernels, -light.png and -dark.png
"""

import os
from pathlib import Path
from random import Random

import matplotlib.pyplot as plt
from draw_kernels import draw_kernels
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from minipaged.lab.plots.palette import (
    KINDS_OF_SLOTS,
    Theme,
    ink_on,
    sequence_colour,
    theme,
)
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable

FIGURES = Path(__file__).parent.parent / "figures"
TOKENS = {"A": 20, "B": 8, "C": 12}
RESERVED, BLOCK_SIZE = 36, 4
RESERVED_HATCH = KINDS_OF_SLOTS["reserved"][1]
NUM_BLOCKS = len(TOKENS) * RESERVED // BLOCK_SIZE  # the same memory, in blocks


def scattered_tables() -> tuple[BlockPool, dict[str, BlockTable]]:
    """The sequences in a pool whose free blocks have come back in random order."""
    pool = BlockPool(NUM_BLOCKS, BLOCK_SIZE)
    blocks = [pool.allocate() for _ in range(NUM_BLOCKS)]
    Random(4).shuffle(blocks)
    for block_id in blocks:
        pool.release(block_id)
    tables = {name: BlockTable(pool) for name in TOKENS}
    for _ in range(max(TOKENS.values())):  # they grow side by side, a token at a time
        for name, table in tables.items():
            if table.num_tokens < TOKENS[name]:
                table.append(1)
    return pool, tables


def draw_slot(axes: Axes, x: float, y: float, owner: str | None, look: Theme) -> None:
    """One slot: coloured and lettered if it holds a token, else pale."""
    face = sequence_colour(owner) if owner else look.free
    axes.add_patch(Rectangle((x, y), 1, 1, facecolor=face, edgecolor=look.ground))
    if owner:
        centred = {"ha": "center", "va": "center", "fontsize": 8}
        axes.text(x + 0.5, y + 0.5, owner, color=ink_on(face), **centred)


def draw_contiguous(axes: Axes, look: Theme) -> None:
    """One reservation in each row, as long as the longest answer could be."""
    for row, (name, tokens) in enumerate(TOKENS.items()):
        for offset in range(RESERVED):
            draw_slot(axes, offset * 1.06, row * 1.5, name * (offset < tokens), look)
        frame = {
            "fill": False,
            "edgecolor": look.quiet,
            "hatch": RESERVED_HATCH,
            "linewidth": 0.8,
        }
        start = tokens * 1.06
        axes.add_patch(
            Rectangle((start, row * 1.5), RESERVED * 1.06 - start, 1, **frame)
        )


def draw_blocks(
    axes: Axes, pool: BlockPool, tables: dict[str, BlockTable], look: Theme
) -> None:
    """All blocks of the pool, nine in a row."""
    owners = {
        slot: name
        for name, table in tables.items()
        for slot in table.slots(0, table.num_tokens)
    }
    for block_id in range(pool.num_blocks):
        x, y = block_id % 9 * (BLOCK_SIZE + 0.24), block_id // 9 * 1.5
        for offset in range(BLOCK_SIZE):
            slot = block_id * BLOCK_SIZE + offset
            draw_slot(axes, x + offset, y, owners.get(slot), look)
        frame = {"fill": False, "edgecolor": look.quiet, "linewidth": 1.2}
        axes.add_patch(Rectangle((x, y), BLOCK_SIZE, 1, **frame))


def draw_overview(look: Theme) -> plt.Figure:
    """The same three sequences in contiguous memory and in a block pool."""
    pool, tables = scattered_tables()
    held = pool.num_blocks - pool.num_free
    slots, tokens = len(TOKENS) * RESERVED, sum(TOKENS.values())
    titles = (
        f"Contiguous: {slots} slots reserved for {tokens} tokens, and nothing left",
        f"Paged: {held} blocks hold the same {tokens} tokens; {pool.num_free} are free",
    )
    figure, (upper, lower) = plt.subplots(2, 1, figsize=(9, 4.2), layout="constrained")
    figure.set_facecolor(look.ground)
    draw_contiguous(upper, look)
    draw_blocks(lower, pool, tables, look)
    for axes, title in zip((upper, lower), titles, strict=True):
        axes.set_title(title, loc="left", fontsize=13, color=look.ink, pad=8)
        axes.set(xlim=(-0.2, RESERVED * 1.06 + 0.2), ylim=(4.2, -0.2))
        axes.set_axis_off()
    return figure


def main() -> None:
    for name in ("light", "dark"):
        os.environ["MINIPAGED_THEME"] = name
        for figure, draw in (("overview", draw_overview), ("kernels", draw_kernels)):
            path = FIGURES / f"{figure}-{name}.png"
            draw(theme()).savefig(path, dpi=160)
            print(f"wrote {path.relative_to(FIGURES.parent)}")


if __name__ == "__main__":
    main()
