"""Lesson 3: requests that start from blocks which other requests have computed."""

from weakref import WeakValueDictionary

from minipaged.memory.prefix_cache import PrefixCache
from minipaged.scheduling.observer import Observer
from minipaged.scheduling.plan import Plan, Work
from minipaged.scheduling.request import Request


def common_tokens(request: Request) -> list[int]:
    """The tokens to look up: those of the only living sequence, else the prompt."""
    live = request.live
    return live[0].tokens if len(live) == 1 else request.prompt


class PrefixSharing:
    """What a scheduler does with its prefix cache."""

    def __init__(self, prefix_cache: PrefixCache):
        """Share blocks through this cache."""
        self._cache = prefix_cache
        # Which request computes a block next, as last noted: see `_next_block`.
        self._computing: WeakValueDictionary = WeakValueDictionary()

    def find(self, request: Request) -> list[int]:
        """The cached blocks that the request can start from; nothing is taken.

        If logits of its prompt are wanted, there are none: all tokens are computed.
        """
        if request.wants_prompt_logits:
            return []
        return self._cache.find(common_tokens(request), request.salt)

    def take(self, request: Request, cached: list[int]) -> bool:
        """Hold these cached blocks; the request computes the tokens after them.

        If another request is computing the very next block, the request has to wait for
        it: then nothing is taken, and the answer is False.
        """
        tokens = common_tokens(request)
        salt = request.salt
        if not request.wants_prompt_logits:
            # The last token is always computed.
            wanted = self._cache.next_block(tokens[:-1], cached, salt)
            other = self._computing.get(wanted) if wanted else None
            if other is not None and self._next_block(other) == wanted:
                return False
            self._cache.take(cached, len(tokens))
        self._note(request, self._cache.next_block(tokens, cached, salt))
        return True

    def publish(self, plan: Plan, observers: Observer) -> None:
        """Let others find the blocks that the plan has filled."""
        if not self._cache.is_attached:  # a newer cache has the pool
            return
        size = self._cache.pool.block_size
        for work in plan.works:
            ends_a_block = work.start // size < work.stop // size
            if ends_a_block and self._publish(work):
                observers.published(work)

    def _publish(self, work: Work) -> bool:
        """Publish the blocks that this work has filled; False if it has filled none.

        Of beams, only blocks of the prompt: published blocks must stay while their
        request lives, and a beam may be dropped.
        """
        request, sequence, start, stop, _ = work
        # Fewer tokens, if it was truncated since, or aborted before the last was read;
        # and no guesses. The newest token was chosen in this step, and is computed in
        # the next. If that is in flight, a wrong guess may still lie in the slot.
        in_prompt = start < sequence.num_prefill_tokens
        num_written = sequence.num_known - (not in_prompt)
        stop = min(stop, sequence.num_computed, num_written)
        if request.drops_sequences:
            stop = min(stop, len(request.prompt))
        size = self._cache.pool.block_size
        if start // size >= stop // size:
            return False
        block_ids = sequence.table.block_ids
        self._cache.publish(sequence.tokens, block_ids, request.salt, stop=stop)
        self._note(request, self._next_block(request))
        return True

    def _note(self, request: Request, block: tuple | None) -> None:
        if block is not None:
            self._computing[block] = request

    def _next_block(self, request: Request) -> tuple | None:
        """The block that the request computes next, while it computes its prompt."""
        if not request.is_prefilling or request.live[0].table is None:
            return None
        block_ids = request.live[0].table.block_ids
        return self._cache.next_block(common_tokens(request), block_ids, request.salt)
