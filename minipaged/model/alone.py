"""Lesson 2: threads that wait for each other (the border)."""

from contextlib import AbstractContextManager
from threading import RLock


class Alone:
    """Who uses a PagedModel: one thread, while the others wait."""

    def __init__(self) -> None:
        """Nobody, for now."""
        self._lock = RLock()

    @property
    def is_mine(self) -> bool:
        """Is it this thread that uses it?"""
        return self._lock._is_owned()

    def __call__(self) -> AbstractContextManager:
        """To be used as `with paged.alone():`. Other threads wait until it is over.

        Raises RuntimeError where nobody could ever go on: in an attention function that
        generates with its own model.
        """
        if self.is_mine:
            raise RuntimeError(
                "generate was called from within generate on the same PagedModel; wrap "
                "the model once more for it: mp.PagedModel(model)"
            )
        return self._lock  # itself: no signal can come between it and the `with`
