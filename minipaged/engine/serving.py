"""Appendix A: a thread that makes an engine's steps, and coroutines that it wakes."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from threading import Thread
from weakref import WeakMethod


class Listeners:
    """Coroutines that wait for news, in any event loops, and hold no thread meanwhile.

    The thread that makes steps wakes them. There is no lock that Ctrl-C could leave
    taken: Python's dicts do each operation as a whole.
    """

    def __init__(self) -> None:
        """Nobody waits."""
        self._events: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}

    async def wait(self, is_enough: Callable[[], bool]) -> None:
        """Sleep until `wake`; not at all if `is_enough()`. It may end early."""
        event = asyncio.Event()
        # Before the question: whatever changes afterwards is heard.
        self._events[event] = asyncio.get_running_loop()
        try:
            if not is_enough():
                await event.wait()
        finally:
            self._events.pop(event, None)

    def waiting(self) -> dict[asyncio.Event, asyncio.AbstractEventLoop]:
        """The events of those who wait now, each with its loop."""
        return self._events.copy()


def wake(all_listeners: Iterable[Listeners]) -> None:
    """Wake whoever waits there: one call for each event loop."""
    events: dict[asyncio.AbstractEventLoop, list[asyncio.Event]] = {}
    for listeners in all_listeners:
        for event, loop in listeners.waiting().items():
            events.setdefault(loop, []).append(event)
    for loop, some in events.items():
        with suppress(RuntimeError):  # a loop that was closed meanwhile
            loop.call_soon_threadsafe(_set_all, some)


def _set_all(events: list[asyncio.Event]) -> None:
    for event in events:
        event.set()


class ServingThread(Thread):
    """Makes steps until there is nothing to do for it; an engine starts it.

    It does not keep an idle engine alive. Attributes: must_stop, set to have it end
    after the present step; error, what a step raised, which ended it.
    """

    def __init__(self, go_on: Callable[[], Callable[[], None] | None]):
        """`go_on`, a method: make a step; return how to rest, or None at the end."""
        super().__init__(name="minipaged engine", daemon=True)
        self._go_on = WeakMethod(go_on)
        self.must_stop = False
        self.error: BaseException | None = None

    def run(self) -> None:
        """The loop, in the new thread."""
        while go_on := self._go_on():
            rest = go_on()
            del go_on
            if rest is None:
                break
            rest()
