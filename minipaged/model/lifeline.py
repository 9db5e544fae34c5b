"""Appendix H: how a rank learns that another one has failed, and why."""

import os
import sys
from multiprocessing.connection import Connection, wait
from threading import Event, Thread
from time import monotonic

_GRACE = 3.0  # seconds that a rank has to end by itself, once the ranks have failed


class Lifeline:
    """A thread that listens to the other ranks while this rank computes.

    A collective waits in C++ for all ranks. Neither Ctrl-C nor another rank's error can
    reach it there. So if the ranks have failed, and this rank is still at work a few
    seconds later, the thread prints the cause and ends the process. If a process dies,
    the system closes its connections: that is how the others know.

    Attributes:
        cause: why the ranks cannot go on; None while they can.
        is_news: must this rank tell the cause, as rank 0 may not know it?
        works: does this rank depend on the others now?
        waits_since: when it began to compute or to wait with all others; None outside.
        timeout: how many seconds that may take.
    """

    def __init__(self, rank: int, connections: dict[int, Connection]):
        """connections: to all other ranks. They know of each other's death at once."""
        self._rank = rank
        self._connections = connections
        self._has_failed = Event()
        self.cause: str | None = None
        self.is_news = False
        self.works = False
        self.waits_since: float | None = None
        self.timeout = 300.0
        Thread(target=self._listen, name="minipaged lifeline", daemon=True).start()

    def fail(self, cause: str, is_news: bool = True) -> None:
        """The ranks cannot go on. The others are told why; the first cause stays."""
        if self.cause is not None:
            return
        self.cause, self.is_news = cause, is_news
        for connection in self._connections.values():
            try:
                connection.send(cause)
            except OSError:  # that rank has ended
                continue
        self._has_failed.set()

    def cause_of(self, error: BaseException) -> str:
        """Why the ranks cannot go on after this error of the present rank.

        A collective or a connection only says that it has failed. If another rank was
        the reason, its cause comes soon.
        """
        if isinstance(error, RuntimeError | OSError | EOFError):
            self._has_failed.wait(timeout=2.0)
        self.fail(f"rank {self._rank}: {type(error).__name__}: {error}")
        return self.cause

    def _listen(self) -> None:
        ranks = {connection: rank for rank, connection in self._connections.items()}
        failed_at = None
        while True:
            for connection in wait(list(ranks), timeout=0.5):
                try:
                    self.fail(connection.recv(), is_news=False)
                except (EOFError, OSError):
                    rank = ranks.pop(connection)
                    self.fail(f"rank {rank} has ended", is_news=rank == 0)
            since = self.waits_since
            if since is not None and monotonic() - since > self.timeout:
                self.fail(
                    f"rank {self._rank} has waited {self.timeout:g} seconds for "
                    "the other ranks"
                )
            if self.cause is not None:
                failed_at = failed_at or monotonic()
                if self.works and monotonic() - failed_at > _GRACE:
                    self._end_process()

    def say_farewell(self) -> None:
        """Print the cause, in one line."""
        text = f"minipaged: rank {self._rank} ends with the others: {self.cause}"
        print(text, file=sys.stderr, flush=True)

    def _end_process(self) -> None:
        self.say_farewell()
        os._exit(1)
