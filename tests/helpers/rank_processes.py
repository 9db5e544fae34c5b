"""Processes as torchrun starts them, that stay: each runs what a test hands to all."""

import multiprocessing
import os
import signal
import socket
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

SECONDS = 60


class RankProcesses:
    """`ranks(function, *arguments)`: what it returns on each rank.

    The function must be one of a module in `helpers`. If a rank raises an error, the
    call raises its traceback; `ranks.errors(...)` returns all errors: (type, text).
    What ranks print goes to a file, `ranks.printed()`.
    """

    def __init__(self, count: int, folder: Path, seconds: float = SECONDS):
        self.seconds = seconds  # in which a rank must answer
        # Torch and transformers are imported once, for all ranks of all tests. But a
        # process that was forked may not use a GPU that has been looked at before.
        gpu = torch.cuda.is_available()
        context = multiprocessing.get_context("spawn" if gpu else "forkserver")
        if not gpu:
            context.set_forkserver_preload(["minipaged.engine.one_of_ranks"])
        with socket.create_server(("localhost", 0)) as free:
            port = free.getsockname()[1]
        self.pipes, self.processes = [], []
        self.log = folder / f"ranks-{port}.log"
        for rank in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_run, args=(theirs, rank, count, port, self.log)
            )
            process.start()
            theirs.close()
            self.pipes.append(ours)
            self.processes.append(process)

    def start(self, function: Callable, *arguments: Any, **options: Any) -> None:
        """Hand it to all, without waiting."""
        for pipe in self.pipes:
            pipe.send((function, arguments, options))

    def outcome(self, rank: int) -> tuple[Any, tuple[str, str, str] | None]:
        """What it returned there, or its error: type, text, traceback; waits for it."""
        has_come = self.pipes[rank].poll(self.seconds)
        assert has_come, f"rank {rank} does not answer: {self.printed()}"
        return self.pipes[rank].recv()

    def __call__(
        self, function: Callable, *arguments: Any, **options: Any
    ) -> list[Any]:
        self.start(function, *arguments, **options)
        outcomes = [self.outcome(rank) for rank in range(len(self.pipes))]
        for rank, (_, error) in enumerate(outcomes):
            assert error is None, f"rank {rank}: {error[2]}"
        return [result for result, _ in outcomes]

    def errors(
        self, function: Callable, *arguments: Any, **options: Any
    ) -> list[tuple[str, str]]:
        self.start(function, *arguments, **options)
        outcomes = [self.outcome(rank) for rank in range(len(self.pipes))]
        assert all(error for _, error in outcomes), "a rank raised nothing"
        return [error[:2] for _, error in outcomes]

    def ends(self, rank: int) -> tuple[str, str]:
        """How it has ended: by which error; or "exit", and what was printed."""
        try:
            _, error = self.outcome(rank)
        except EOFError:
            return "exit", self.printed()
        return error[:2]

    def printed(self) -> str:
        return self.log.read_text() if self.log.exists() else ""

    def close(self) -> None:
        for pipe in self.pipes:
            pipe.close()
        for process in self.processes:
            process.join(1)
            process.kill()


def _run(pipe: Connection, rank: int, count: int, port: int, log: Path) -> None:
    # Ctrl-C is ignored by what a shell runs in the background, and by all it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    printed = log.open("ab", buffering=0)
    os.dup2(printed.fileno(), 1)
    os.dup2(printed.fileno(), 2)
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(count),
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": str(port),
    }
    while True:
        try:
            function, arguments, options = pipe.recv()
        except EOFError:
            os._exit(0)
        try:
            pipe.send((function(*arguments, **options), None))
        except BaseException as error:
            kind, text = type(error).__name__, str(error)
            pipe.send((None, (kind, text, traceback.format_exc())))
            if not isinstance(error, Exception):  # Ctrl-C ends a script
                os._exit(1)
