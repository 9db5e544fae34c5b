"""Lab: a clock on which a busy machine's other work takes no time."""

import time
from collections.abc import Callable

from minipaged.scheduling.clock import Clock


class BusyClock(Clock):
    """Counts the seconds that this thread computes, and jumps over waits.

    So an engine's run takes no longer than its steps. Let torch compute in one thread:
    what others compute is not counted.
    """

    def __init__(self) -> None:
        """At 0, until the engine's first step."""
        super().__init__()
        self._skipped = 0.0

    def start(self) -> None:
        """Count from now on; a second call changes nothing."""
        if self._start is None:
            self._start = time.thread_time()

    def now(self) -> float:
        """Seconds computed and jumped over so far."""
        if self._start is None:
            return 0.0
        return time.thread_time() - self._start + self._skipped

    def sleep_until(
        self, moment: float, wait: Callable[[float], None] = time.sleep
    ) -> None:
        """It is that late at once."""
        self._skipped += max(0.0, moment - self.now())
