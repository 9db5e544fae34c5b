"""Lesson 2: what a request computes next, as its strategy says it (paper, 4.3)."""

from typing import TYPE_CHECKING

from minipaged.scheduling.plan import Work

if TYPE_CHECKING:
    from minipaged.scheduling.request import Request


class NextWorks:
    """What a scheduler asks of a request's strategy: which tokens come next.

    The base of `decoding.Strategy`, which chooses and applies. Alone it is enough for
    a scheduler whose caller appends the tokens, as lesson 2's simulations do.

    First comes the prompt, in one part or in several; then one token of each living
    sequence at a time. A strategy that checks several tokens in a step overrides
    `next_works`. A scheduler may ask several times before a step: answer alike.
    """

    def next_works(self, request: "Request", limit: float) -> list[Work]:
        """One token of each living sequence, with its logits.

        An empty list while the prompt is being computed, or if these would be more than
        `limit` tokens. For example, two samples of 9 tokens, 8 of them computed, give
        two works, both with `start=8` and `stop=9`.
        """
        works = []
        sequences = request.sequences if request.drafts else request.answers
        if len(sequences) > 1 and request.is_prefilling:
            from minipaged.scheduling.restart import share_prompt  # appendix B

            share_prompt(request)
        for sequence in sequences:
            if sequence.finish_reason is not None:
                continue
            # start is num_computed, end is num_tokens: without calls, which take time.
            table = sequence.table
            start = 0 if table is None else table.num_tokens
            if start < sequence.num_prefill_tokens:
                return []
            end = len(sequence.tokens) + sequence.num_pending
            # The last token that is allowed is never computed: no token follows it.
            if start < end and start < request.max_computed:
                works.append(Work(request, sequence, start, start + 1, 1))
        return works if len(works) <= limit else []

    def next_prefills(self, request: "Request", limit: float) -> list[Work]:
        """Tokens of its prefill that it has not computed, at most `limit` of them.

        Those are the prompt; after a restart, generated tokens too. The last of them
        gets logits, from which the next token is chosen. A part before it gets none.
        """
        live = request.live
        if not live or not limit:
            return []
        if len(live) > 1:
            from minipaged.scheduling.restart import chunks_of_group  # appendix B

            return chunks_of_group(request, limit) if request.is_prefilling else []
        (sequence,) = live
        start = sequence.num_computed
        end = sequence.num_prefill_tokens
        if start >= end:
            return []
        stop = min(end, start + limit)
        return [Work(request, sequence, start, stop, num_logits=int(stop == end))]

    def blocks_at_most(self, request: "Request", block_size: int) -> int:
        """The most blocks that the request can come to hold at one time.

        Its sequences share at least the blocks that the prompt fills. Once all of its
        sequences exist, only the living ones count. For example, a prompt of 10 tokens,
        2 samples of 7 new tokens, blocks of 4: the samples share the 2 blocks that the
        prompt fills. Each sample computes 10 + 7 - 1 = 16 positions in 4 blocks, of
        which 2 are not shared: 2 + 2 * 2 = 6.
        """
        num_parallel = request.num_parallel
        has_forked = len(request.answers) == num_parallel
        living = [answer for answer in request.answers if answer.finish_reason is None]
        num_growing = len(living) if has_forked else num_parallel
        shared = len(request.prompt) // block_size
        unshared = -(-request.max_computed // block_size) - shared
        return shared + num_growing * unshared if num_growing else 0
