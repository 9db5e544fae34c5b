"""Appendix H: `minipaged serve` on several GPUs starts the other ranks, and ends them.

No module with torch is imported here: the new processes choose their GPUs first.
"""

import multiprocessing
import os
import signal
import socket
import sys
from collections.abc import Callable
from multiprocessing.connection import wait
from threading import Event, Thread
from typing import Any

_GRACE = 3.0  # seconds in which rank 0 may say by itself what is wrong


class OtherRanks:
    """Processes that compute with this one, which is rank 0.

    They ignore Ctrl-C and SIGTERM: rank 0 completes its answers, and tells them when it
    has stopped. If rank 0 dies, they notice, and end. If one of them ends before that,
    `on_end` is called here; if there is none yet, this process ends, too.
    """

    def __init__(self, count: int, follow: Callable[..., None], *arguments: Any):
        """Start `count - 1` processes, each of which calls `follow(*arguments)`."""
        with socket.create_server(("localhost", 0)) as free:
            port = free.getsockname()[1]
        os.environ |= _environment(0, count, port)
        context = multiprocessing.get_context("spawn")
        self.on_end: Callable[[str], None] | None = None
        self._are_wanted = True
        self._have_ended = Event()
        self._processes = [
            context.Process(
                target=_run,
                args=(_environment(rank, count, port), follow, *arguments),
                name=f"rank {rank}",
                daemon=True,
            )
            for rank in range(1, count)
        ]
        for process in self._processes:
            process.start()
        Thread(target=self._watch, name="minipaged ranks", daemon=True).start()

    def _watch(self) -> None:
        wait([process.sentinel for process in self._processes])
        if self._have_ended.wait(_GRACE) or not self._are_wanted:
            return
        ended = next(one for one in self._processes if one.exitcode is not None)
        text = f"{ended.name} has ended (exit code {ended.exitcode})"
        if self.on_end is not None:
            self.on_end(text)
            return
        print(f"minipaged: {text} before the server was ready", file=sys.stderr)
        os._exit(1)

    def close(self) -> None:
        """Wait until they have ended, as they do once rank 0's engine has stopped."""
        self._are_wanted = False
        self._have_ended.set()
        for process in self._processes:
            process.join(_GRACE)
            process.kill()


def _environment(rank: int, count: int, port: int) -> dict[str, str]:
    """What torchrun would set."""
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(count),
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": str(port),
    }


def _run(
    environment: dict[str, str], follow: Callable[..., None], *arguments: Any
) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    os.environ |= environment
    try:
        follow(*arguments)
    except (OSError, ValueError, MemoryError, RuntimeError) as error:
        sys.exit(f"minipaged, rank {environment['RANK']}: {error}")
