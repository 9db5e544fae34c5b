"""Lesson 2: threads that wait for each other (the border)."""

from contextlib import AbstractContextManager
from threading import RLock


class Alone:
    """Lets one thread use a PagedModel while other threads wait."""

    def __init__(self) -> None:
        """No thread uses it yet."""
        self._lock = RLock()

    @property
    def is_mine(self) -> bool:
        """Does this thread use the PagedModel now?"""
        return self._lock._is_owned()

    def __call__(self) -> AbstractContextManager:
        """Use it as `with paged.alone():`. Other threads wait until that block ends.

        Raises RuntimeError if this thread uses the PagedModel already: an attention
        function, for example, must not generate with the model that calls it.
        """
        if self.is_mine:
            raise RuntimeError(
                "generate was called from within generate on the same PagedModel; wrap "
                "the model once more for it: mp.PagedModel(model)"
            )
        return self._lock  # the lock itself: no signal comes before the `with`
