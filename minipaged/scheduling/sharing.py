"""Lesson 3: requests that go on from blocks which others have computed."""

from weakref import WeakValueDictionary

from minipaged.memory.prefix_cache import PrefixCache
from minipaged.scheduling.observer import Observer
from minipaged.scheduling.plan import Plan, Work
from minipaged.scheduling.request import Request


def common_tokens(request: Request) -> list[int]:
    """What a prefix cache is asked for: all of a lone sequence, else the prompt."""
    live = request.live
    return live[0].tokens if len(live) == 1 else request.prompt


class PrefixSharing:
    """What a scheduler does with its prefix cache."""

    def __init__(self, prefix_cache: PrefixCache):
        """Nothing is being computed yet."""
        self._cache = prefix_cache
        # Who computes which block of a prompt next. It may have gone on since.
        self._computing: WeakValueDictionary = WeakValueDictionary()

    def find(self, request: Request) -> list[int]:
        """The cached blocks that the request can start from; nothing is taken.

        There are none if logits of its prompt are wanted: all of it is computed.
        """
        if request.is_scored:
            return []
        return self._cache.find(common_tokens(request), request.salt)

    def take(self, request: Request, cached: list[int]) -> bool:
        """Hold these cached blocks. The request computes what comes after them.

        Nothing is taken, and it has to wait, if another one is computing the very block
        that comes next: False.
        """
        tokens, salt = common_tokens(request), request.salt
        if not request.is_scored:
            # The last token is computed in any case.
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
        for work in plan.works:
            if self._publish(work):
                observers.published(work)

    def _publish(self, work: Work) -> bool:
        """The same for one work; False if it has filled none.

        Of beams those of the prompt only. Blocks that others count on must stay while
        their request lives, and a beam may be dropped.
        """
        request, sequence, start, stop, _ = work
        # Less, if it was truncated since, or aborted before its last token was read.
        stop = min(stop, sequence.num_computed, len(sequence.tokens))
        if request.drops_sequences:
            stop = min(stop, len(request.prompt))
        size = self._cache.pool.block_size
        if start // size >= stop // size:
            return False
        ids, salt = sequence.table.block_ids, request.salt
        self._cache.publish(sequence.tokens, ids, salt, stop=stop)
        self._note(request, self._next_block(request))
        return True

    def _note(self, request: Request, block: tuple | None) -> None:
        if block is not None:
            self._computing[block] = request

    def _next_block(self, request: Request) -> tuple | None:
        """The block of its prompt that it computes next."""
        if not request.is_prefilling or request.live[0].table is None:
            return None
        block_ids = request.live[0].table.block_ids
        return self._cache.next_block(common_tokens(request), block_ids, request.salt)
