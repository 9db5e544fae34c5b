"""Draw the pictures of READMEs from live objects, for light and dark pages.

python tools/draw_figures.py    writes overview, miscounted, kernels, engine and
                                latencies, each -light.png and -dark.png
"""

import os
from pathlib import Path
from random import Random

from draw_kernels import draw_kernels
from matplotlib.figure import Figure

from minipaged.draw.palette import theme
from minipaged.lab.measure.measured import measured_engine, paper_figures
from minipaged.lab.plots.latencies import plot_latencies
from minipaged.lab.plots.miscounted import plot_miscounted
from minipaged.lab.plots.reservations import plot_reservations_and_pool
from minipaged.lab.plots.speeds import plot_engine_speeds
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable
from minipaged.simulate.paper import BASIC, LIMIT

FIGURES = Path(__file__).parent.parent / "figures"
TOKENS = {"A": 21, "B": 7, "C": 13}
RESERVED, BLOCK_SIZE = 36, 4
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


def draw_overview() -> Figure:
    """The same three sequences in contiguous memory and in a block pool."""
    pool, tables = scattered_tables()
    held, tokens = pool.num_blocks - pool.num_free, sum(TOKENS.values())
    reserved, in_blocks = len(TOKENS) * RESERVED - tokens, held * BLOCK_SIZE - tokens
    title = (
        f"In one piece each, {reserved} of {len(TOKENS) * RESERVED} slots are empty; "
        f"in blocks of {BLOCK_SIZE}, {in_blocks} are"
    )
    return plot_reservations_and_pool(TOKENS, RESERVED, pool, tables, title)


class Forgetful(BlockPool):
    """Lets two sequences hold a block, and forgets that there are two: lesson 2."""

    def share(self, block_id: int) -> int:
        return block_id


def draw_miscounted() -> Figure:
    """A block that C gets though B holds it, because A, who held it too, has ended."""
    pool = Forgetful(num_blocks=8, block_size=4)
    a, c = BlockTable(pool), BlockTable(pool)
    a.append(4)
    b = a.fork()
    a.free()
    c.append(4)
    title = "Two tables lead to one block: C has written over B's prompt"
    memory = {c.block_ids[0]: "My PIN is 4711"}
    tables = {"B": b, "C": c}
    return plot_miscounted(pool, tables, memory, title, lost="You are very polite")


def draw_engine() -> Figure:
    """What each way to run the engine gives on a GPU, as the benchmark stored it."""
    title = "Rung by rung more tokens; one launch brings less than rounds differ by"
    return plot_engine_speeds(dict(enumerate(measured_engine()["hosts"], 1)), title)


def draw_latencies() -> Figure:
    """Latency over the rate, as `make figures-paper` simulated it."""
    found = paper_figures()
    title = "Simulated: vLLM serves more requests a second at the same latency"
    return plot_latencies(
        {name: found[f"figure 12, {name}"] for name in BASIC}, title, LIMIT
    )


def main() -> None:
    for name in ("light", "dark"):
        os.environ["MINIPAGED_THEME"] = name
        pictures = {
            "overview": draw_overview(),
            "miscounted": draw_miscounted(),
            "kernels": draw_kernels(theme()),
            "engine": draw_engine(),
            "latencies": draw_latencies(),
        }
        for picture, figure in pictures.items():
            path = FIGURES / f"{picture}-{name}.png"
            figure.savefig(path, dpi=160 if picture == "kernels" else 200)
            print(f"wrote {path.relative_to(FIGURES.parent)}")


if __name__ == "__main__":
    main()
