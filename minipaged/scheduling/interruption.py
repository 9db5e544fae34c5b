"""Lesson 2: a step that is interrupted leaves nothing behind (the border)."""

import gc
from collections import deque
from collections.abc import Callable, Iterable
from itertools import chain
from threading import RLock, get_ident
from traceback import clear_frames
from typing import Any

from minipaged.memory.block_pool import BlockPool
from minipaged.scheduling.request import Request
from minipaged.scheduling.scheduler import Scheduler

# The garbage collector may come to `give_back` in the thread that has it.
_reserving = RLock()


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
        self._lost: list[Request] = []
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
        self._running = [*scheduler.running]
        self._lost = [*pool.lost]
        self._held = [
            sequence.table.block_ids.copy()
            for request in (*scheduler.running, *self._lost)
            for sequence in request.sequences
            if sequence.table is not None
        ]
        prefix, found = scheduler.prefix_cache, None
        if prefix is not None:
            found = prefix.tokens_asked, prefix.tokens_hit
        self._counted = scheduler.observers.save_counts(), found
        self._holders = pool.holders()
        if self._lost:
            self._free_lost()

    def save_texts(self, requests: Iterable[Request]) -> None:
        """To be called before tokens are chosen for these requests."""
        texts = [
            (
                request,
                request.answers.copy(),
                request.drafts.copy(),
                request.error,
                request.strategy.save(),
            )
            for request in requests
        ]
        all_sequences = list(chain.from_iterable(own + dr for _, own, dr, *_ in texts))
        # Few lists, not a tuple for each sequence: this is done in every step. Of its
        # tokens, those that are no guesses are only ever appended to.
        lengths = [sequence.num_known for sequence in all_sequences]
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
            prefix.repair()
            prefix.tokens_asked, prefix.tokens_hit = found
        scheduler.pool.restore(holders)
        texts, *lengths_and_reasons = self._texts
        ends = zip(*lengths_and_reasons, strict=True)
        for request, answers, drafts, error, saved in texts:
            request.answers, request.drafts = answers.copy(), drafts.copy()
            request.error = error
            for sequence in answers + drafts:
                num_known, sequence.finish_reason = next(ends)
                del sequence.tokens[num_known:]
                sequence.guesses_from = None
            request.strategy.restore(saved)
        chose = (request for request, *_ in texts)
        known = {*self._running, *scheduler.running, *chose, *scheduler.waiting}
        for request in known:
            # A request that started in this step is as if it had not.
            lose_blocks(request, request in self._running)
        scheduler.in_flight.clear()
        # A request that has ended stays for a plan in flight only. They wait before
        # nobody runs: interrupted between these lines, all are still known.
        live = [request for request in known if request.live]
        scheduler.waiting = deque(sorted(live, key=lambda request: request.number))
        scheduler.running = []
        self._forget_lost()
        scheduler.observers.restore_counts(watched)  # last: it is others' code

    def _free_lost(self) -> None:
        """The blocks of requests that nobody can ask for any more come back."""
        for request in self._lost:
            for sequence in request.sequences:
                sequence.free()
        self._forget_lost()

    def _forget_lost(self) -> None:
        pool = self._scheduler.pool  # others may be lost meanwhile
        pool.lost = [one for one in pool.lost if one not in self._lost]


def give_back(scheduler: Scheduler) -> None:
    """All blocks of a scheduler whose requests nobody can ask for any more.

    May be called at any moment, in any thread, as the garbage collector does. While a
    step has the pool to itself, they come back with the next step.
    """
    pool = scheduler.pool
    lost, scheduler.running = scheduler.running, []
    if not lost:
        return
    pool.lost = [*pool.lost, *lost]
    with _reserving:
        if pool.reserved_for is None:
            all_or_nothing(scheduler, lambda undo: None)


def collect_lost(pool: BlockPool) -> bool:
    """Let Python look for engines that nobody has; did blocks come back by that?"""
    before = pool.num_free
    gc.collect()
    return pool.num_free > before


def lose_blocks(request: Request, is_restart: bool = True) -> None:
    """Its blocks were taken: all that it has is to be computed again.

    Of several sequences all but the last tokens: these are computed together. Drafts
    and guesses are dropped: they can be made anew.
    """
    request.num_restarts += is_restart and request.holds_blocks
    request.swapped = None
    for draft in request.drafts:
        draft.table = None
        draft.end("dropped")
    request.drafts = []
    live = request.live
    for sequence in request.answers:
        sequence.table, sequence.num_pending = None, 0
        sequence.accept()
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
