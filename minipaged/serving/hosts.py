"""Lab: where a server's engine lives: in a thread, or in a process of its own."""

import gc
import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from multiprocessing import get_context, parent_process
from threading import Thread, current_thread, main_thread
from typing import Any, Protocol

from minipaged.engine.engine import Engine
from minipaged.serving.engine_end import EngineEnd
from minipaged.serving.messages import About, Unpacker, pack

_SIGNALS = signal.SIGINT, signal.SIGTERM
_LAST_STEP = 30.0  # seconds, in which an engine's process must have ended


class Host(Protocol):
    """Where an engine lives."""

    about: About

    def start(self) -> socket.socket:
        """Let it serve; return the front's socket. To close this ends the engine."""

    def stop(self) -> None:
        """Wait for the engine's end; the socket is closed already."""


class EngineInThread:
    """An engine that shares Python with its front."""

    def __init__(self, engine: Engine):
        """It serves from `start` on, and is closed at the end."""
        self._engine = engine
        self._thread: Thread | None = None
        self.about = About.of(engine)

    def start(self) -> socket.socket:
        """Let it serve, in a thread."""
        ours, theirs = socket.socketpair()
        end = EngineEnd(self._engine, theirs)
        self._thread = Thread(target=end.run, name="minipaged engine", daemon=True)
        self._thread.start()
        return ours

    def stop(self) -> None:
        """Wait for its end."""
        if self._thread is not None:
            self._thread.join()


class EngineInProcess:
    """An engine in a process of its own, which ends with the front's process."""

    def __init__(self, make: Callable[..., Engine], *arguments: Any):
        """`make(*arguments)` makes the engine there; both must be picklable.

        In the main thread, the new process does not hear even the first signal.
        """
        self._ours, theirs = socket.socketpair()
        # The front decides when the engine ends; signals for all are not for it.
        # In another thread nothing can be said of signals: the process says it itself.
        is_main = current_thread() is main_thread()
        ignored = _SIGNALS if is_main else ()
        before = [signal.signal(one, signal.SIG_IGN) for one in ignored]
        try:
            self._process = get_context("spawn").Process(
                target=_live, args=(theirs, make, arguments), name="minipaged engine"
            )
            self._process.start()
        finally:
            for one, handler in zip(ignored, before, strict=True):
                signal.signal(one, handler)
            theirs.close()

    @cached_property
    def about(self) -> About:
        """Wait until the engine is there; ValueError if it could not be made."""
        unpacker, found = Unpacker(), []
        while not found:
            if not (data := self._ours.recv(1 << 16)):
                raise ValueError("the engine's process has ended; see above")
            found += unpacker.feed(data)
        if isinstance(found[0], str):
            raise ValueError(found[0])
        return found[0]

    @property
    def pid(self) -> int:
        """Of the engine's process."""
        return self._process.pid

    def start(self) -> socket.socket:
        """Let it serve."""
        return self._ours

    def stop(self) -> None:
        """Wait for its end, or end it if that takes too long."""
        self._ours.close()
        self._process.join(_LAST_STEP if "about" in vars(self) else 0)
        self._process.kill()
        self._process.join()


def _live(
    connection: socket.socket, make: Callable[..., Engine], arguments: tuple
) -> None:
    """The engine's process."""
    for one in _SIGNALS:
        signal.signal(one, signal.SIG_IGN)
    Thread(target=_end_with_the_front, daemon=True).start()
    with suppress(BrokenPipeError):
        try:
            engine = make(*arguments)
        except (OSError, ValueError, MemoryError) as error:
            connection.sendall(pack(str(error)))
            return
        gc.collect()
        gc.freeze()  # the collector would look at torch's objects again and again
        connection.sendall(pack(About.of(engine)))
        EngineEnd(engine, connection).run()


def _end_with_the_front() -> None:
    parent_process().join()
    os._exit(1)
