"""Appendix A: threads that wait for a change, woken by the thread that makes it."""

from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue

_LONGEST = 60.0  # seconds, after which a waiting thread looks again


class Bell:
    """Wakes all threads that wait. It may be rung anywhere, in a signal handler, too.

    There is no lock that Ctrl-C could leave taken: each waiting thread has a queue, and
    Python's queues and dicts do each operation as a whole.
    """

    def __init__(self) -> None:
        """No thread waits."""
        self._waiting: dict[SimpleQueue, None] = {}

    def wait(self, is_enough: Callable[[], bool], seconds: float) -> None:
        """Sleep until it rings, or for so long; not at all if `is_enough()`.

        A thread that changes the answer of `is_enough` rings afterwards. The sleep may
        end early.
        """
        queue: SimpleQueue = SimpleQueue()
        self._waiting[queue] = None  # before the question: every later ring is heard
        if seconds > 0 and not is_enough():
            with suppress(Empty):
                queue.get(timeout=min(seconds, _LONGEST))
        self._waiting.pop(queue, None)

    def ring(self) -> None:
        """Wake all threads that wait now."""
        for queue in list(self._waiting):
            queue.put(None)
            self._waiting.pop(queue, None)
