"""Lesson 2: what a request computes next, as its strategy says it (paper, 4.3)."""

from typing import TYPE_CHECKING

from minipaged.scheduling.plan import Work

if TYPE_CHECKING:
    from minipaged.scheduling.request import Request


class Turns:
    """What a scheduler asks of a request's strategy. This default needs no model.

    First comes the prompt, in one part or in several; then one token of each living
    sequence at a time. A strategy that checks several tokens in a step says so in a
    `next_works` of its own.
    """

    def next_works(self, request: "Request", limit: float) -> list[Work]:
        """One token of each living sequence, with its logits.

        Nothing while the prompt is being computed, or if `limit` is less than their
        number. For example: two samples of 9 tokens, of which 8 are computed, give two
        works from position 8 to 9.
        """
        works = []
        if len(request.sequences) > 1 and request.is_prefilling:
            from minipaged.scheduling.restart import share_prompt  # appendix B

            share_prompt(request)
        for sequence in request.sequences:
            if sequence.finish_reason is not None:
                continue
            start = sequence.num_computed
            if start < sequence.num_prefill_tokens:
                return []
            # The last one allowed is never computed, read or not.
            if start < sequence.num_tokens and start < request.max_computed:
                works.append(Work(request, sequence, start, start + 1, 1))
        return works if len(works) <= limit else []

    def next_prefills(self, request: "Request", limit: float) -> list[Work]:
        """What is still to be computed of its prompt, at most `limit` tokens.

        Logits are wanted of the last one: they choose the first new token.
        """
        if not request.is_prefilling or not limit:
            return []
        if len(request.live) > 1:
            from minipaged.scheduling.restart import chunks_of_group  # appendix B

            return chunks_of_group(request, limit)
        (sequence,) = request.live
        start, end = sequence.num_computed, sequence.num_prefill_tokens
        stop = min(end, start + limit)
        return [Work(request, sequence, start, stop, num_logits=int(stop == end))]

    def blocks_at_most(self, request: "Request", block_size: int) -> int:
        """The most blocks that the request can come to hold at one time.

        Its sequences share the blocks that the prompt fills; the rest is their own.
        Once all have been forked, only the living ones count. For example: a prompt of
        10 tokens, of which 2 samples of 7 tokens are wanted, in blocks of 4. Two blocks
        are shared; each sample computes 10 + 7 - 1 = 16 positions, and has 2 more
        blocks of its own: 2 + 2 * 2 = 6.
        """
        num_parallel = request.num_parallel
        has_forked = len(request.answers) == num_parallel
        num_growing = len(request.live) if has_forked else num_parallel
        shared = len(request.prompt) // block_size
        own = -(-request.max_computed // block_size) - shared
        return shared + num_growing * own if num_growing else 0
