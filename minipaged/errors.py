"""Lesson 2: the errors of the package; each one says what to do next."""

from typing import Any


class OutOfBlocks(RuntimeError):
    """The pool has too few free blocks; nothing was changed."""

    def __init__(self, wanted: int, free: int, total: int):
        self.wanted = wanted
        self.free = free
        self.total = total
        other = "free a sequence, or " * (wanted <= total)  # else it is not enough
        super().__init__(
            f"wanted {wanted} block{'s' * (wanted != 1)}, {free} free of {total}; "
            f"{other}build the pool with a larger num_blocks"
        )


class BlockNotHeld(ValueError):
    """A block without holders was released or shared: mostly a double release."""

    def __init__(self, block_id: int, action: str):
        super().__init__(
            f"cannot {action} block {block_id}: nobody holds it; every allocate() or "
            "share() allows exactly one release()"
        )


class ForeignBlock(ValueError):
    """A block id that this pool never handed out."""

    def __init__(self, block_id: object, total: int):
        super().__init__(
            f"{block_id!r} is no block of this pool, whose ids are 0 to {total - 1}; "
            "was it taken from another pool?"
        )


class TableFreed(ValueError):
    """A block table was used after free(): its blocks belong to others by now."""

    def __init__(self) -> None:
        super().__init__(
            "this block table was freed: make a new one, or fork it before you free it"
        )


class PoolBusy(RuntimeError):
    """A step is running on this pool in another thread; nothing was changed."""

    def __init__(self) -> None:
        super().__init__(
            "a step is running on this pool in another thread, which has it to itself; "
            "wait until it is over, or make a pool of your own"
        )


class UnsupportedModel(ValueError):
    """The model would generate wrong text in silence, so it is refused."""


class RankFailed(RuntimeError):
    """Another rank has failed, so this one cannot go on; start all ranks anew."""


class UnsupportedOption(ValueError):
    """A generation option that is not honoured here; refused rather than ignored."""


class PromptTooLong(ValueError):
    """A prompt that leaves no room for a single new token."""

    def __init__(self, num_tokens: int, limit: int, what: str, remedy: str):
        super().__init__(
            f"a prompt of {num_tokens} tokens leaves no room for a new one: {what} is "
            f"{limit}; {remedy}"
        )


class Unpicklable:
    """Raises TypeError when it is pickled or copied: it lives in one process only."""

    def __reduce__(self) -> Any:
        raise TypeError(
            f"a {type(self).__name__} cannot be pickled or copied: it holds a pool of "
            "blocks in use; make one where it is wanted, from the model"
        )


def is_out_of_memory(error: BaseException) -> bool:
    """Is there too little memory? Torch has other words for it on each device."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and "allocate" in str(error)


def require_counts(**counts: object) -> None:
    """Raise ValueError for the first count that is no whole number from 1."""
    for name, value in counts.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            # Whole numbers of numpy and torch have an index; so has True, an int.
            is_whole = hasattr(value, "__index__") and not isinstance(value, int)
            remedy = f"; give int({name})" * is_whole
            raise ValueError(
                f"{name} must be a whole number from 1, got {value!r:.60}{remedy}"
            )
