"""Appendix A: the time that an engine lives in."""

import time
from collections.abc import Callable


class Clock:
    """Seconds since the engine's first step; before it, time stands still at 0.

    A simulation or a test gives the engine a subclass.
    """

    def __init__(self) -> None:
        """Make a clock that stands at 0."""
        self._start: float | None = None

    def start(self) -> None:
        """Let time pass from now on; a second call changes nothing."""
        if self._start is None:
            self._start = time.perf_counter()

    def now(self) -> float:
        """Seconds since the start."""
        return 0.0 if self._start is None else time.perf_counter() - self._start

    def sleep_until(
        self, moment: float, wait: Callable[[float], None] = time.sleep
    ) -> None:
        """Do nothing until `moment`: call `wait` with the seconds that remain.

        The engine's `wait` ends early when somebody adds or aborts a request.
        """
        wait(max(0.0, moment - self.now()))
