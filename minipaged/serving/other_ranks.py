"""Appendix H: `minipaged serve` on several GPUs starts the other ranks, and ends them.

No module with torch is imported here: the new processes choose their GPUs first.
"""

import multiprocessing
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import wait
from threading import Thread
from typing import Any

_GRACE = 3.0  # seconds in which rank 0 may say by itself what is wrong


def start_other_ranks(count: int, follow: Callable[..., None], *arguments: Any) -> None:
    """Start `count - 1` processes, each of which calls `follow(*arguments)`.

    They compute with this one, which is rank 0. They ignore Ctrl-C and SIGTERM: rank 0
    completes its answers, and tells them when it has stopped. If rank 0 dies, they
    notice, and end. If one of them fails, this process ends, too.
    """
    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    os.environ |= _environment(0, count, port)
    context = multiprocessing.get_context("spawn")
    processes = [
        context.Process(
            target=_run,
            args=(_environment(rank, count, port), follow, *arguments),
            name=f"rank {rank}",
            daemon=True,
        )
        for rank in range(1, count)
    ]
    for process in processes:
        process.start()
    Thread(target=_watch, args=(processes,), name="ranks", daemon=True).start()


def _watch(processes: list[multiprocessing.Process]) -> None:
    """End this process after one of them has failed."""
    ready = wait([process.sentinel for process in processes])
    ended = next(process for process in processes if process.sentinel in ready)
    ended.join()
    if not ended.exitcode:  # rank 0 has told it to stop, or has joined it at its end
        return
    time.sleep(_GRACE)
    print(
        f"minipaged: {ended.name} has ended (exit code {ended.exitcode}), so the "
        "engine has ended; start it anew",
        file=sys.stderr,
        flush=True,
    )
    os._exit(1)


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
        from minipaged.model.said_once import is_said_by_rank_0

        if is_said_by_rank_0(error):
            sys.exit(1)
        sys.exit(f"minipaged, rank {environment['RANK']}: {error}")
