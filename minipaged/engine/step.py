"""Lesson 2: one step: reserve, batch, forward, decide (paper, section 4.3)."""

from typing import TYPE_CHECKING

from minipaged.decoding import sampling
from minipaged.decoding.request import Request, Turn
from minipaged.decoding.sequence import Sequence
from minipaged.errors import OutOfBlocks
from minipaged.memory.block_table import blocks_needed
from minipaged.model.paged_model import PagedModel
from minipaged.model.ragged_batch import Chunk, RaggedBatch

if TYPE_CHECKING:
    from minipaged.memory.prefix_cache import PrefixCache


def step(
    paged: PagedModel,
    requests: list[Request],
    max_prompt_tokens: int | None = None,
    prefix_cache: "PrefixCache | None" = None,
) -> None:
    """Compute what the requests' sequences have waiting, and let each request go on.

    Prompts and single tokens go through one forward together. A request whose prompt
    is computed to its end gets its logits: tokens are appended, sequences forked or
    freed.

    Args:
        max_prompt_tokens: compute at most so many prompt tokens in this step, first
            come first served; the rest of a prompt waits (chunked prefill).
        prefix_cache: is told of every block that this step has filled (lesson 3).

    Raises OutOfBlocks before anything has changed. After any other exception the
    sequences are unusable and must be freed.
    Source: PagedAttention paper, section 4.3.
    """
    work = _share_out(requests, max_prompt_tokens)
    if not work:
        return
    needed = blocks_needed((sequence.table, n) for _, sequence, n in work)
    if needed > paged.pool.num_free:
        raise OutOfBlocks(needed, paged.pool.num_free, paged.pool.num_blocks)
    # From here to the copies nothing is freed: a source could be handed out again.
    copies, chunks, num_rows = [], [], 0
    rows: dict[Request, list[int]] = {}  # of the logits, which are whose
    for request, sequence, n in work:
        start = sequence.table.num_tokens
        copies += sequence.table.append(n)
        tokens = sequence.tokens[start : start + n]
        is_last = sequence.num_uncomputed == 0
        chunks.append(Chunk(tokens, sequence.table, wants_logits=is_last))
        if is_last:
            rows.setdefault(request, []).append(num_rows)
            num_rows += 1
    batch = RaggedBatch.build(chunks, copies, paged.device)
    for observer in paged.observers:
        observer.planned(requests, batch)
    logits = paged.forward(batch)
    for observer in paged.observers:
        observer.computed(batch, logits)
    if prefix_cache is not None:  # K and V are written; the tables not yet freed
        for request, sequence, _ in work:
            computed = sequence.tokens[: sequence.table.num_tokens]
            prefix_cache.publish(computed, sequence.table.block_ids, request.salt)
    turns = [Turn(request, own_rows) for request, own_rows in rows.items()]
    sampling.advance([t for t in turns if t.request.options.num_beams == 1], logits)
    if beams := [turn for turn in turns if turn.request.options.num_beams > 1]:
        from minipaged.decoding import beam  # lesson 4

        beam.advance(beams, logits)
    for observer in paged.observers:
        observer.chosen(requests)


def _share_out(
    requests: list[Request], max_prompt_tokens: int | None
) -> list[tuple[Request, Sequence, int]]:
    """Which sequence computes how many tokens: all that decode; prompts in order."""
    work, left = [], max_prompt_tokens
    for request in requests:
        for sequence in request.live:
            n = sequence.num_uncomputed
            in_prompt = sequence.table.num_tokens < sequence.num_prompt_tokens
            if in_prompt and left is not None:
                n = min(n, left)
                left -= n
            if n:
                work.append((request, sequence, n))
    return work
