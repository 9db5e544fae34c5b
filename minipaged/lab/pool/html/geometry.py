"""Lab: where blocks and table entries lie, in pixels: the lines between them are drawn
beside the text, so boxes must have sizes that no font changes.
"""

COLUMNS = 4  # of blocks
ENTRIES = 6  # of a table, in a line
HEAD = 26  # above the tables, above each table, and above the blocks
LABEL, ENTRY, ENTRY_GAP = 61, 44, 5  # from left to right
LINE, LINE_BOX = 72, 52  # of a table; the second: down to its boxes' lower edge
BLOCK, BLOCK_GAP = (92, 58), (8, 14)
POOL_LEFT = 396  # where tables and blocks lie side by side
BETWEEN = 18  # tables and blocks, where they lie one above the other
TRUNKS = (363, 398)  # where lines run down: beside the blocks, or right of them
SLOT, SLOT_STEP = 15.25, 20.5  # the middle of a block's first slot; from slot to slot

TABLES_WIDTH = LABEL + ENTRIES * (ENTRY + ENTRY_GAP) - ENTRY_GAP
POOL_WIDTH = COLUMNS * (BLOCK[0] + BLOCK_GAP[0]) - BLOCK_GAP[0]
WIDE = POOL_LEFT + POOL_WIDTH  # pixels from which both lie side by side


def table_height(num_entries: int) -> int:
    """A sequence's name, and its entries below."""
    return HEAD + LINE * -(-num_entries // ENTRIES)


def below_entry(table_top: int, entry: int) -> tuple[float, float]:
    """The middle of an entry's lower edge."""
    x = LABEL + entry % ENTRIES * (ENTRY + ENTRY_GAP) + ENTRY / 2
    return x, table_top + HEAD + entry // ENTRIES * LINE + LINE_BOX


def above_block(block_id: int, left: int, top: int) -> tuple[float, float]:
    """The left end of a block's upper edge."""
    (width, height), (across, down) = BLOCK, BLOCK_GAP
    x = left + block_id % COLUMNS * (width + across)
    return x, top + block_id // COLUMNS * (height + down)


VARIABLES = ";".join(
    f"--mp-{name}:{size}px"
    for name, size in {
        "head": HEAD,
        "label": LABEL,
        "entry": ENTRY,
        "entry-gap": ENTRY_GAP,
        "block": BLOCK[0],
        "block-height": BLOCK[1],
        "block-gap": BLOCK_GAP[0],
        "row-gap": BLOCK_GAP[1],
        "tables": TABLES_WIDTH,
        "pool": POOL_WIDTH,
        "between": POOL_LEFT - TABLES_WIDTH,
    }.items()
)
