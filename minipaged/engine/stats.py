"""Appendix A: an engine's work in figures, under the names that the field uses."""

import warnings
from collections import deque
from copy import copy
from typing import TYPE_CHECKING, Any, NamedTuple

from minipaged.scheduling.observer import Observer
from minipaged.scheduling.plan import Plan, Work
from minipaged.scheduling.request import Request
from minipaged.scheduling.sequence import Sequence

if TYPE_CHECKING:
    from minipaged.engine.stream import Stream
    from minipaged.scheduling.preemption import PreemptingScheduler


class Snapshot(NamedTuple):
    """A step of the engine, as it ended."""

    num_scheduled_tokens: int  # computed in this step
    num_sequences: int  # that computed something: the batch
    num_requests_running: int
    num_requests_waiting: int  # with those swapped out
    num_requests_swapped: int
    used_blocks: int  # that have a holder
    cached_blocks: int  # free, but their content can be found
    swapped_blocks: int  # that lie in the swap space
    generation_tokens: int  # chosen in this step
    recomputed_tokens: int  # computed in this step because of a preemption


class Stats(Observer):
    """Totals since the engine was made, and the last steps one by one.

    The names are those of vLLM's metrics where it has one.

    Attributes:
        num_steps; num_scheduled_tokens (all that was computed); prompt_tokens and
        generation_tokens, each counted once; recomputed_tokens (after
        preemptions and interrupted steps); num_preemptions, and num_swapped_out of
        them; num_copied_blocks (shared blocks, copied before a write);
        prefix_cache_queries and prefix_cache_hits, in prompt tokens, when a
        request first starts; request_success (how many ended, by finish_reason);
        history (the last `num_kept` Snapshots).
        With speculation: num_drafts (how often a sequence's guesses were checked);
        num_draft_tokens (the guesses); num_accepted_tokens (the right ones), and
        num_accepted_tokens_per_pos (of the first guess, the second, and so on).
    """

    def __init__(self, scheduler: "PreemptingScheduler", num_kept: int = 1000):
        """Nothing has happened yet."""
        self._scheduler = scheduler
        self.num_steps = self.num_scheduled_tokens = 0
        self.prompt_tokens = self.generation_tokens = self.recomputed_tokens = 0
        self.num_preemptions = self.num_swapped_out = self.num_copied_blocks = 0
        self.prefix_cache_queries = self.prefix_cache_hits = 0
        self.num_drafts = self.num_draft_tokens = self.num_accepted_tokens = 0
        self.num_accepted_tokens_per_pos: tuple[int, ...] = ()
        self.request_success: dict[str, int] = {}
        self.history: deque[Snapshot] = deque(maxlen=num_kept)
        self._thrash = Thrash()

    @property
    def kv_cache_usage(self) -> float:
        """The share of the pool's blocks that have a holder, from 0 to 1."""
        pool = self._scheduler.pool
        return 1 - pool.num_free / pool.num_blocks

    @property
    def mean_acceptance_length(self) -> float | None:
        """Tokens of a checked draft: the right guesses, and the token after them."""
        if not self.num_drafts:
            return None
        return 1 + self.num_accepted_tokens / self.num_drafts

    @property
    def shared_blocks(self) -> int:
        """Blocks with several holders, now. It looks at every block of the pool."""
        pool = self._scheduler.pool
        return sum(pool.refcount(block_id) > 1 for block_id in range(pool.num_blocks))

    def save_counts(self) -> tuple[dict[str, Any], Any, Any]:
        """All figures, before a step that may be undone."""
        history = self.history  # one step more will push the oldest out, if it is full
        oldest = history[0] if len(history) == history.maxlen else None
        newest = history[-1] if history else None
        return vars(self) | {"_thrash": copy(self._thrash)}, oldest, newest

    def restore_counts(self, saved: tuple[dict[str, Any], Any, Any]) -> None:
        """Forget what was counted since."""
        numbers, oldest, newest = saved
        history = self.history
        while history and history[-1] is not newest:
            history.pop()
            if oldest is not None:
                history.appendleft(oldest)
        vars(self).update(numbers)

    def admitted(self, request: Request) -> None:
        """A request starts, or starts again."""
        if not request.num_restarts:
            self.prompt_tokens += len(request.prompt)
            if (
                self._scheduler.prefix_cache is not None
                and not request.wants_prompt_logits
            ):
                self.prefix_cache_queries += len(request.prompt)
                self.prefix_cache_hits += request.num_cached_tokens

    def preempted(self, request: Request) -> None:
        """The blocks of a request were taken."""
        self.num_preemptions += 1
        self.num_swapped_out += request.swapped is not None

    def verified(self, sequence: Sequence, num_guesses: int, num_accepted: int) -> None:
        """Guesses were checked."""
        self.num_drafts += 1
        self.num_draft_tokens += num_guesses
        self.num_accepted_tokens += num_accepted
        counts = self.num_accepted_tokens_per_pos
        counts += (0,) * (num_accepted - len(counts))
        # A new tuple, because `save_counts` keeps the old one.
        self.num_accepted_tokens_per_pos = tuple(
            count + (place < num_accepted) for place, count in enumerate(counts)
        )

    def committed(self, plan: Plan) -> None:
        """A step is over."""
        scheduler = self._scheduler
        pool = scheduler.pool
        num_tokens = plan.num_tokens
        generated = sum(map(generated_by, without_forks(plan)))
        again = [work for work in plan.works if work.request.num_restarts]
        recomputed = sum([work.num_recomputed for work in again])
        self.num_steps += 1
        self.num_scheduled_tokens += num_tokens
        self.generation_tokens += generated
        self.recomputed_tokens += recomputed
        self.num_copied_blocks += len(plan.copies)
        space = scheduler.swap_space
        prefix = scheduler.prefix_cache
        self.history.append(
            Snapshot(
                num_scheduled_tokens=num_tokens,
                num_sequences=len(plan.works),
                num_requests_running=len(scheduler.running),
                num_requests_waiting=len(scheduler.waiting),
                num_requests_swapped=len(scheduler.swapped),
                used_blocks=pool.num_blocks - pool.num_free,
                cached_blocks=prefix.num_findable if prefix is not None else 0,
                swapped_blocks=space.pool.num_blocks - space.pool.num_free
                if space
                else 0,
                generation_tokens=generated,
                recomputed_tokens=recomputed,
            )
        )
        self._thrash.look_at(generated, recomputed)

    def finished(self, stream: "Stream") -> None:
        """A request has its Output."""
        reason = stream.output.finish_reason
        self.request_success[reason] = self.request_success.get(reason, 0) + 1

    def __repr__(self) -> str:
        return (
            f"Stats({self.num_steps} steps, {self.num_scheduled_tokens} tokens "
            f"computed, {self.generation_tokens} generated, {self.num_preemptions} "
            "preemptions)"
        )


def without_forks(plan: Plan) -> list[Work]:
    """Its works; of a request of one answer, whose forks guess, only the first."""
    return [
        work
        for place, work in enumerate(plan.works)
        if not place
        or work.request.num_parallel > 1
        or work.request is not plan.works[place - 1].request
    ]


def generated_by(work: Work) -> int:
    """How many tokens were chosen after this work; after a prompt one for each sample.

    It is 0 if the request ended, or was aborted, before they were read. It is 0, too,
    after a part of a prompt whose logprobs are wanted, though this part has logits.
    """
    num_prompt_tokens = len(work.request.prompt)
    if not work.num_logits or work.stop < num_prompt_tokens:
        return 0
    # So many tokens were known before. With guesses, several may be new.
    before = max(num_prompt_tokens, work.stop - work.num_logits + 1)
    if work.request.num_parallel == 1:
        return max(0, work.request.answers[0].num_known - before)
    if work.stop == num_prompt_tokens:
        return work.request.num_parallel
    if work.request.drops_sequences:
        return 1
    return max(0, work.sequence.num_known - before)


class Thrash:
    """Notices when an engine recomputes more tokens than it generates."""

    def __init__(self, num_steps: int = 200):
        """Look at so many steps together."""
        self._steps: deque[tuple[int, int]] = deque(maxlen=num_steps)
        self._generated = self._recomputed = 0
        self._told = False

    def __copy__(self) -> "Thrash":
        other = Thrash()
        vars(other).update(vars(self), _steps=self._steps.copy())
        return other

    def look_at(self, generated: int, recomputed: int) -> None:
        """Count a step; warn when thrashing begins, and again only after it ended."""
        if len(self._steps) == self._steps.maxlen:
            old_generated, old_recomputed = self._steps[0]
            self._generated -= old_generated
            self._recomputed -= old_recomputed
        self._steps.append((generated, recomputed))
        self._generated += generated
        self._recomputed += recomputed
        full = len(self._steps) == self._steps.maxlen
        is_thrashing = full and self._recomputed > self._generated
        if is_thrashing and not self._told:
            warnings.warn(
                f"thrashing: in the last {len(self._steps)} steps, "
                f"{self._recomputed} tokens were computed again after preemptions, and "
                f"{self._generated} were generated; raise num_blocks, or lower "
                "max_sequences",
                RuntimeWarning,
                stacklevel=2,
            )
        self._told = is_thrashing
