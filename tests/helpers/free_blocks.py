"""Which blocks of a pool are free, in the order in which they came back."""

from minipaged.memory.block_pool import BlockPool


def free_blocks(pool: BlockPool) -> tuple[list[int], list[int]]:
    """The plain ones, and those that a prefix cache can still find."""
    free = pool._free
    return (free, []) if isinstance(free, list) else (free.plain, list(free.findable))


def set_free_blocks(pool: BlockPool, plain: list[int], findable: list[int]) -> None:
    """Put them there, right or wrong."""
    if isinstance(pool._free, list):
        pool._free = plain
    else:
        pool._free.plain = plain
        pool._free.findable = type(pool._free.findable).fromkeys(findable)
