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
        self._waiting: dict[asyncio.Future, asyncio.AbstractEventLoop] = {}

    async def wait(self, is_enough: Callable[[], bool]) -> None:
        """Sleep until `wake`; not at all if `is_enough()`. It may end early."""
        loop = asyncio.get_running_loop()
        news = loop.create_future()
        # Before the question: whatever changes afterwards is heard.
        self._waiting[news] = loop
        try:
            if not is_enough():
                await news
        finally:
            self._waiting.pop(news, None)

    def waiting(self) -> dict[asyncio.Future, asyncio.AbstractEventLoop]:
        """What those who wait now await, each with its loop."""
        return self._waiting.copy()


def wake(all_listeners: Iterable[Listeners]) -> None:
    """Wake whoever waits there: one call for each event loop."""
    awaited: dict[asyncio.AbstractEventLoop, list[asyncio.Future]] = {}
    for listeners in all_listeners:
        for news, loop in listeners.waiting().items():
            awaited.setdefault(loop, []).append(news)
    for loop, some in awaited.items():
        with suppress(RuntimeError):  # a loop that was closed meanwhile
            loop.call_soon_threadsafe(_end_all, some)


def _end_all(awaited: list[asyncio.Future]) -> None:
    for news in awaited:
        if not news.done():  # it may have been woken already, or cancelled
            news.set_result(None)


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
