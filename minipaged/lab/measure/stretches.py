"""Lab: how many stretches of memory come for K of a tile, in two layouts."""

TILE, DIM = 64, 128  # positions of a tile; numbers of a head
STRETCH = 32  # numbers that an H200's L2 fetches together: 64 bytes, of two each


def stretches_for_k(block_size: int, is_turned: bool) -> int:
    """How many stretches of memory must come for K of one head, of a tile.

    What is needed of it lies in runs of numbers side by side; each brings as many
    stretches as it reaches into. Blocks lie far apart, and so do the runs.

    is_turned: K is [heads, dim, slots], else [slots, heads, dim].
    """
    runs, length = runs_of_k(block_size, is_turned)
    if STRETCH % length and length % STRETCH:
        raise ValueError(
            f"runs of {length} numbers do not begin where stretches of {STRETCH} do; "
            "choose powers of two"
        )
    return runs * -(-length // STRETCH)


def runs_of_k(block_size: int, is_turned: bool) -> tuple[int, int]:
    """In how many runs the numbers lie that are needed, and how long a run is.

    Side by side: all numbers of a slot. Transposed: a number of all slots of a block.
    """
    if not is_turned:
        return TILE, DIM
    together = min(block_size, TILE)  # slots
    return DIM * -(-TILE // together), together
