"""Lesson 2: one progress bar for the whole package, shown only when there is a wait."""

import os
from threading import RLock
from typing import Any, ClassVar
from weakref import WeakSet

from tqdm.auto import tqdm


class ProgressBar(tqdm):
    """A tqdm bar whose lock Ctrl-C cannot leave taken.

    tqdm's own lock is taken by lines of Python. A signal between two of them leaves it
    taken for ever, and every other thread that makes a bar waits for it.
    """

    _lock = RLock()
    # Without tqdm's bars, which have another lock.
    _instances: ClassVar[WeakSet] = WeakSet()

    def refresh(self, *_arguments: Any, **_options: Any) -> bool:
        """Draw it as it is now."""
        if not self.disable:
            with self._lock:
                self.display()
        return True


def progress_bar(*args: Any, **options: Any) -> tqdm:
    """A bar that appears after two seconds; none if TQDM_DISABLE is set.

    The variable is read here, because tqdm's notebook bar does not read it, and stored
    notebook outputs must not depend on how fast a machine is.
    """
    disable = os.environ.get("TQDM_DISABLE", "") not in ("", "0")
    return ProgressBar(*args, delay=2, disable=disable, **options)
