"""Lab: checks of lesson 4's exercises: sharing, copy-on-write, beams."""

from collections import Counter
from itertools import product

import torch

from minipaged.errors import OutOfBlocks
from minipaged.lab.check.verdict import Attempt, Rejected, exercise, expect
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable


@exercise
def beam_blocks(attempt: Attempt) -> None:
    """(prompt, new, beams, block_size) -> blocks held, each beam's new tokens its own.

    Compared with real tables that are forked and appended to.
    """
    attempt.expect(8, 64, 10, 4, 16)
    for case in product((1, 3, 4, 5, 8, 9), (1, 2, 4, 5, 9), (1, 2, 5), (1, 4)):
        attempt.expect(_held_by_tables(*case), *case)


def _held_by_tables(prompt: int, new: int, beams: int, block_size: int) -> int:
    pool = BlockPool(beams * (prompt + new), block_size)
    first = BlockTable(pool)
    first.append(prompt)
    for table in [first, *(first.fork() for _ in range(beams - 1))]:
        table.append(new)
    return pool.num_blocks - pool.num_free


@exercise
def append_one(attempt: Attempt) -> None:
    """(pool, block_ids, num_tokens): room for one token more; returns the copies."""
    # Holders of the earlier blocks, and of the last one: not always the same number.
    holders = (1, 1), (2, 2), (2, 1), (3, 2), (3, 3)
    for num_tokens, counts, size in product(range(10), holders, (1, 4)):
        _appends(attempt, num_tokens, counts, size, num_free=3)
        _appends(attempt, num_tokens, counts, size, num_free=1)
        if num_tokens % size == 0 or counts[1] > 1:
            _refuses(attempt, num_tokens, counts, size)
    # With nothing free, the last holder still writes into its own block.
    _appends(attempt, 5, (1, 1), size=4, num_free=0)
    _appends(attempt, 5, (2, 1), size=4, num_free=0)


def _shared_blocks(
    num_tokens: int, counts: tuple[int, int], size: int, num_free: int
) -> tuple[BlockPool, list[int], str]:
    """A pool, a table's blocks with so many holders each, and the case in words."""
    held = -(-num_tokens // size)
    pool = BlockPool(held + num_free + 1, size)
    pool.allocate()  # somebody else's
    # Not in ascending order, as in a pool that has been used for a while.
    block_ids = [pool.allocate() for _ in range(held)][::-1]
    for index, block_id in enumerate(block_ids):
        for _ in range(counts[index == held - 1] - 1):
            pool.share(block_id)
    holders = [pool.refcount(block_id) for block_id in block_ids]
    story = f"{num_tokens} tokens in blocks {block_ids} of {size} with {holders} "
    return pool, block_ids, f"{story}holders, {num_free} blocks free"


def _appends(
    attempt: Attempt, num_tokens: int, counts: tuple[int, int], size: int, num_free: int
) -> None:
    pool, block_ids, story = _shared_blocks(num_tokens, counts, size, num_free)
    before = list(block_ids)
    holders = {block_id: pool.refcount(block_id) for block_id in before}
    must_copy = num_tokens % size > 0 and counts[1] > 1
    is_new = must_copy or num_tokens % size == 0
    copies = attempt.shared(pool, block_ids, num_tokens)
    if not isinstance(copies, list):
        raise Rejected(f"{story}: returned {copies!r:.40}, expected a list of pairs")
    wanted = -(-(num_tokens + 1) // size)
    expect(f"{story}; blocks in the table", len(block_ids), wanted)
    kept = before[:-1] if must_copy else before
    expect(f"{story}; the blocks that stay", block_ids[: len(kept)], kept)
    last = block_ids[-1]
    if must_copy and last == before[-1]:
        raise Rejected(f"{story}; block {last} is written, though others hold it too")
    pairs = [(before[-1], last)] if must_copy else []
    expect(f"{story}; copies", [tuple(pair) for pair in copies], pairs)
    expect(f"{story}; holders of block {last}, to be written", pool.refcount(last), 1)
    for block_id in before:
        left = holders[block_id] - (must_copy and block_id == before[-1])
        expect(f"{story}; holders of block {block_id}", pool.refcount(block_id), left)
    expect(f"{story}; free blocks afterwards", pool.num_free, num_free - is_new)


def _refuses(
    attempt: Attempt, num_tokens: int, counts: tuple[int, int], size: int
) -> None:
    pool, block_ids, story = _shared_blocks(num_tokens, counts, size, num_free=0)
    before = list(block_ids)
    holders = [pool.refcount(block_id) for block_id in before]
    try:
        attempt.shared(pool, block_ids, num_tokens)
    except Rejected as error:
        if not isinstance(error.__cause__, OutOfBlocks):
            raise
    else:
        raise Rejected(f"{story}: raised no OutOfBlocks")
    expect(f"{story}, refused; the table", block_ids, before)
    found = [pool.refcount(block_id) for block_id in before]
    expect(f"{story}, refused; holders of {before}", found, holders)


@exercise
def next_beams(attempt: Attempt) -> None:
    """(tables, scores, log_probs) -> (tables, tokens, scores) of the best beams."""
    generator = torch.Generator().manual_seed(0)
    for width, vocabulary in ((2, 5), (1, 3), (4, 6), (3, 30)):
        pool = BlockPool(200, 2)
        tables = [BlockTable(pool)]
        tables[0].append(3)
        tables += [tables[0].fork() for _ in range(width - 1)]
        # Sums of log-probabilities; at first one beam is far ahead of the others.
        scores = -torch.arange(width) * 30.0 - 1
        for _ in range(6):
            for table in tables:
                table.append(1)
            # Wide apart, so that some beams have many children and others none.
            logits = 3 * torch.randn(width, vocabulary, generator=generator)
            log_probs = logits.log_softmax(-1)
            tables, scores = _one_step(attempt, tables, scores, log_probs)


def _one_step(
    attempt: Attempt,
    tables: list[BlockTable],
    scores: torch.Tensor,
    log_probs: torch.Tensor,
) -> tuple[list[BlockTable], torch.Tensor]:
    """Let the attempt take one step, and compare it with all candidates, sorted."""
    width, vocabulary = log_probs.shape
    best, index = (log_probs + scores[:, None]).flatten().topk(width)
    parents = (index // vocabulary).tolist()
    story = f"{width} beams, {vocabulary} tokens; the best come from beams {parents}"
    before = [(list(table.block_ids), table.num_tokens) for table in tables]
    answer = attempt.shared(list(tables), scores.clone(), log_probs.clone())
    if not isinstance(answer, tuple | list) or len(answer) != 3:
        raise Rejected(f"{story}: returned {answer!r:.40}, expected three lists")
    found_tables, tokens, found_scores = (list(part) for part in answer)
    sizes = [len(part) for part in (found_tables, tokens, found_scores)]
    expect(f"{story}; number of tables, tokens, scores", sizes, [width] * 3)
    expect(f"{story}; tokens", [*map(int, tokens)], (index % vocabulary).tolist())
    found = torch.tensor([float(score) for score in found_scores])
    if not torch.allclose(found, best, atol=1e-4):
        wanted = best.tolist()
        raise Rejected(f"{story}; scores: got {found.tolist()}, expected {wanted}")
    expect(f"{story}; different table objects", len({*map(id, found_tables)}), width)
    for place, (table, parent) in enumerate(zip(found_tables, parents, strict=True)):
        state = list(table.block_ids), table.num_tokens
        where = f"{story}; new beam {place}, (blocks, tokens)"
        expect(where, state, before[parent])
    _nothing_is_lost(story, found_tables, [ids for ids, _ in before])
    return found_tables, best


def _nothing_is_lost(
    story: str, tables: list[BlockTable], before: list[list[int]]
) -> None:
    """Every block that was held has as many holders as tables hold it now."""
    pool = tables[0].pool
    holds = Counter(block_id for table in tables for block_id in table.block_ids)
    for block_id in sorted({block_id for ids in before for block_id in ids}):
        holders = pool.refcount(block_id)
        expect(f"{story}; holders of block {block_id}", holders, holds[block_id])
    held = pool.num_blocks - pool.num_free
    expect(f"{story}; blocks held in the pool", held, len(holds))
