"""Work counted in calls, which are the same every time; seconds are for benchmarks."""

import gc
import sys
from collections.abc import Callable
from typing import Any


def count_calls(work: Callable[[], Any]) -> int:
    """How many calls and returns of functions it makes, Python's and C's."""
    events = []
    gc.disable()  # it calls back whoever asked for it, at any time
    sys.setprofile(lambda frame, event, argument: events.append(event))
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return len(events)
