"""Lesson 2: a step that is interrupted leaves nothing behind (the border)."""

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import chain
from threading import RLock, get_ident
from traceback import clear_frames
from typing import Any
from weakref import WeakKeyDictionary

from minipaged.errors import TableFreed
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.recovery import holders_of, recover
from minipaged.scheduling.request import Request
from minipaged.scheduling.scheduler import Scheduler

# The garbage collector may come to `give_back` in the thread that has it.
_reserving = RLock()
# Requests that nobody can ask for any more, and whose blocks could not come back yet.
_lost: WeakKeyDictionary[BlockPool, list[Request]] = WeakKeyDictionary()


class StepUndo:
    """All or nothing: the pool is this thread's, and an exception undoes the step.

    Whatever is raised, Ctrl-C between any two lines included: every request has the
    tokens and the random numbers that it had before, and waits to start again, in the
    old order. The blocks that requests of this scheduler held are free. What others
    hold stays, and so does what can be found in the prefix cache, but for blocks that
    were handed out meanwhile: their content is lost, and is not restored.

    To be used as `all_or_nothing` does.
    """

    def __init__(self, scheduler: Scheduler):
        """Nothing is reserved yet, and there is nothing to undo."""
        self._scheduler = scheduler
        self.thread = get_ident()
        self._holders: list[int] | None = None  # None: there is nothing to undo
        self._running: list[Request] = []  # in order
        self._held: list[list[int]] = []  # blocks of each table
        self._texts: tuple[list, ...] = ([], [], [])
        self._counted: tuple = ([], None)  # by observers, and by the prefix cache

    def begin(self) -> None:
        """Reserve the pool, then note who holds what.

        Raises PoolBusy while a step runs on the same pool in another thread.
        """
        scheduler, pool = self._scheduler, self._scheduler.pool
        with _reserving:
            pool.check_thread()
            pool.reserved_for = self.thread
        free_lost(pool)
        self._running = [*scheduler.running]
        self._held = [
            sequence.table.block_ids.copy()
            for request in scheduler.running
            for sequence in request.sequences
            if sequence.table is not None
        ]
        prefix, found = scheduler.prefix_cache, None
        if prefix is not None:
            found = prefix.tokens_asked, prefix.tokens_hit
        self._counted = scheduler.observers.save(), found
        self._holders = holders_of(pool)

    def save_texts(self, requests: Iterable[Request]) -> None:
        """To be called before tokens are chosen for these requests."""
        texts = [
            (request, request.sequences.copy(), request.error, request.strategy.save())
            for request in requests
        ]
        all_sequences = list(chain.from_iterable(own for _, own, *_ in texts))
        # Few lists, not a tuple for each sequence: this is done in every step.
        lengths = [len(sequence.tokens) for sequence in all_sequences]
        reasons = [sequence.finish_reason for sequence in all_sequences]
        self._texts = texts, lengths, reasons  # at once: a signal may come in between

    def undo(self) -> None:
        """Take it back. Done twice, or in part and then wholly, it is the same."""
        if self._holders is None:
            return
        scheduler, holders = self._scheduler, self._holders.copy()
        for block_id in chain.from_iterable(self._held):
            holders[block_id] -= 1
        watched, found = self._counted
        if (prefix := scheduler.prefix_cache) is not None:
            prefix.mend()
            prefix.tokens_asked, prefix.tokens_hit = found
        recover(scheduler.pool, holders)
        texts, *lengths_and_reasons = self._texts
        ends = zip(*lengths_and_reasons, strict=True)
        for request, sequences, error, saved in texts:
            request.sequences, request.error = sequences.copy(), error
            for sequence in sequences:
                num_tokens, sequence.finish_reason = next(ends)
                del sequence.tokens[num_tokens:]
            request.strategy.restore(saved)
        chose = (request for request, *_ in texts)
        known = {*self._running, *scheduler.running, *chose, *scheduler.waiting}
        for request in known:
            # A request that started in this step is as if it had not.
            lose_blocks(request, request in self._running)
        scheduler.observers.restore(watched)
        scheduler.in_flight.clear()
        # A request that has ended stays for a plan in flight only. They wait before
        # nobody runs: interrupted between these lines, all are still known.
        live = [request for request in known if request.live]
        scheduler.waiting = deque(sorted(live, key=lambda request: request.number))
        scheduler.running = []


def give_back(scheduler: Scheduler) -> None:
    """All blocks of a scheduler whose requests nobody can ask for any more.

    May be called at any moment, in any thread, as the garbage collector does. While a
    step has the pool to itself, they come back with the next step.
    """
    pool = scheduler.pool
    with _reserving:
        _lost.setdefault(pool, []).extend(scheduler.running)
        if pool.reserved_for is None:
            free_lost(pool)


def free_lost(pool: BlockPool) -> None:
    """Free what is lost. If it is interrupted, a second call does the rest."""
    lost = _lost.get(pool) if _lost else None
    while lost:
        for sequence in lost[-1].sequences:
            with suppress(TableFreed):
                sequence.free()
        lost.pop()


def lose_blocks(request: Request, is_restart: bool = True) -> None:
    """Its blocks were taken: all that it has is to be computed again.

    Of several sequences all but the last tokens: these are computed together.
    """
    request.num_restarts += is_restart and request.holds_blocks
    request.swapped = None
    live = request.live
    for sequence in request.sequences:
        sequence.table, sequence.num_pending = None, 0
        sequence.num_prefill_tokens = len(sequence.tokens) - (len(live) > 1)


def all_or_nothing(scheduler: Scheduler, work: Callable[[StepUndo], Any]) -> Any:
    """Do a step's work; if anything is raised, Ctrl-C included, undo it.

    It is no context manager: a signal that arrives just as Python leaves a `with` would
    pass by what is to be undone.
    """
    undo, pool = StepUndo(scheduler), scheduler.pool
    try:
        undo.begin()
        return work(undo)
    except BaseException as error:
        try:
            undo.undo()
        except BaseException:  # a second Ctrl-C
            undo.undo()
            raise
        if isinstance(error, KeyboardInterrupt):
            # If it came as torch.inference_mode was entered, that stays on for as long
            # as anybody keeps the traceback; and notebooks do.
            clear_frames(error.__traceback__)
        raise
    finally:  # without a call, in which a signal could arrive
        if pool.reserved_for == undo.thread:
            pool.reserved_for = None
