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

# An RLock: the garbage collector may call `give_back` in the thread that holds it.
_reserving = RLock()


class StepUndo:
    """What a step may change, noted before it begins, so that an exception undoes it.

    The exception may be Ctrl-C, between any two lines. After `undo`, every request has
    the tokens and the random numbers that it had before the step, and waits to start
    again, in the old order. The blocks that requests of this scheduler held are free;
    blocks of other holders stay held. The prefix cache finds what it found before the
    step, except in blocks that were handed out meanwhile: their content is lost.

    `all_or_nothing` shows how to use it.
    """

    def __init__(self, scheduler: Scheduler):
        """Note nothing yet: `begin` reserves the pool."""
        self._scheduler = scheduler
        self.thread = get_ident()
        self._holders: list[int] | None = None  # None: there is nothing to undo
        self._running: list[Request] = []  # in order
        self._held: list[list[int]] = []  # blocks of each table
        self._lost: list[Request] = []
        self._texts: tuple[list, ...] = ([], [], [])
        self._counts: tuple = ([], None)  # of observers, and of the prefix cache

    def begin(self) -> None:
        """Reserve the pool, then note which requests hold which blocks.

        Raises PoolBusy while a step runs on the same pool in another thread.
        """
        scheduler = self._scheduler
        pool = scheduler.pool
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
        prefix = scheduler.prefix_cache
        found = None if prefix is None else (prefix.tokens_asked, prefix.tokens_hit)
        self._counts = scheduler.observers.save_counts(), found
        self._holders = pool.holders()
        if self._lost:
            self._free_lost()

    def save_texts(self, requests: Iterable[Request]) -> None:
        """Note the texts of these requests, before tokens are drawn and appended."""
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
        sequences = []
        for _, answers, drafts, *_ in texts:
            sequences += answers
            sequences += drafts
        # Two lists, not a tuple for each sequence, because every step does this. A
        # length is enough: tokens that are no guesses stay, and others come after them.
        lengths = [sequence.num_known for sequence in sequences]
        reasons = [sequence.finish_reason for sequence in sequences]
        self._texts = texts, lengths, reasons  # one assignment, for a signal may come

    def undo(self) -> None:
        """Restore what was noted. An interrupted `undo` may be called again."""
        if self._holders is None:
            return
        scheduler = self._scheduler
        holders = self._holders.copy()
        for block_id in chain.from_iterable(self._held):
            holders[block_id] -= 1
        watched, found = self._counts
        if (prefix := scheduler.prefix_cache) is not None:
            prefix.repair()
            prefix.tokens_asked, prefix.tokens_hit = found
        scheduler.pool.restore(holders)
        texts, *lengths_and_reasons = self._texts
        ends = zip(*lengths_and_reasons, strict=True)
        for request, answers, drafts, error, saved in texts:
            request.answers = answers.copy()
            request.drafts = drafts.copy()
            request.error = error
            for sequence in answers + drafts:
                num_known, sequence.finish_reason = next(ends)
                del sequence.tokens[num_known:]
                sequence.guesses_from = None
            request.strategy.restore(saved)
        chosen = (request for request, *_ in texts)
        known = {*self._running, *scheduler.running, *chosen, *scheduler.waiting}
        for request in known:
            # A request that started in this step counts as never started.
            lose_blocks(request, request in self._running)
        scheduler.in_flight.clear()
        # A request that has ended was kept only for plans in flight. `waiting` comes
        # before `running`: if a signal comes between the two, no request is lost.
        live = [request for request in known if request.live]
        scheduler.waiting = deque(sorted(live, key=lambda request: request.number))
        scheduler.running = []
        self._forget_lost()
        scheduler.observers.restore_counts(watched)  # last: it is the observers' code

    def _free_lost(self) -> None:
        """Free the blocks of requests whose engines are gone."""
        for request in self._lost:
            for sequence in request.sequences:
                sequence.free()
        self._forget_lost()

    def _forget_lost(self) -> None:
        pool = self._scheduler.pool  # other requests may have been lost meanwhile
        pool.lost = [request for request in pool.lost if request not in self._lost]


def give_back(scheduler: Scheduler) -> None:
    """Free all blocks of a scheduler whose engine is gone.

    The garbage collector may call this at any moment, in any thread. While a step has
    reserved the pool, the blocks are noted as lost: the next step frees them.
    """
    pool = scheduler.pool
    lost = scheduler.running
    scheduler.running = []
    if not lost:
        return
    pool.lost = [*pool.lost, *lost]
    with _reserving:
        if pool.reserved_for is None:
            all_or_nothing(scheduler, lambda undo: None)


def collect_lost(pool: BlockPool) -> bool:
    """Let Python collect engines that nobody uses any more; did that free blocks?"""
    before = pool.num_free
    gc.collect()
    return pool.num_free > before


def lose_blocks(request: Request, is_restart: bool = True) -> None:
    """The request's blocks were taken: all its tokens are to be computed again.

    If several sequences live, the prefill computes all but their last tokens, which are
    then computed together. Drafts and guesses are dropped: they can be made anew.
    """
    request.num_restarts += is_restart and request.holds_blocks
    request.swapped = None
    for draft in request.drafts:
        draft.table = None
        draft.end("dropped")
    request.drafts = []
    live = request.live
    for sequence in request.answers:
        sequence.table = None
        sequence.num_pending = 0
        sequence.accept()
        sequence.num_prefill_tokens = len(sequence.tokens) - (len(live) > 1)


def all_or_nothing(scheduler: Scheduler, work: Callable[[StepUndo], Any]) -> Any:
    """Do a step's work with the pool reserved; any exception, also Ctrl-C, undoes it.

    This is no context manager: if a signal arrived just as Python leaves a `with`
    block, nothing would be undone.
    """
    undo = StepUndo(scheduler)
    pool = scheduler.pool
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
            # If it came while torch.inference_mode was entered, the mode stays on as
            # long as somebody keeps the traceback, as notebooks do.
            clear_frames(error.__traceback__)
        raise
    finally:  # no call here, because a signal could arrive in it
        if pool.reserved_for == undo.thread:
            pool.reserved_for = None
