"""Appendix A: threads that wait for news, woken by whoever has some."""

from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue

_LONGEST = 60.0  # seconds: who waits looks again then


class Bell:
    """Wakes all who wait. It may be rung anywhere, in a signal handler too.

    There is no lock that Ctrl-C could leave taken: each who waits has a queue of its
    own, and Python's queues and dicts do each operation as a whole.
    """

    def __init__(self) -> None:
        """Nobody waits."""
        self._waiting: dict[SimpleQueue, None] = {}

    def wait(self, is_enough: Callable[[], bool], seconds: float) -> None:
        """Sleep until it rings, or for so long; not at all if it is enough already.

        Whoever changes what `is_enough` says rings afterwards. It may return early.
        """
        mine: SimpleQueue = SimpleQueue()
        self._waiting[mine] = None  # before the look: what rings from now on is heard
        if seconds > 0 and not is_enough():
            with suppress(Empty):
                mine.get(timeout=min(seconds, _LONGEST))
        self._waiting.pop(mine, None)

    def ring(self) -> None:
        """Wake all who wait now."""
        for queue in list(self._waiting):
            queue.put(None)
            self._waiting.pop(queue, None)
