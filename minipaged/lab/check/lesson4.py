"""Lab: checks of lesson 4's exercises: sharing, copy-on-write, beams."""

from collections import Counter
from itertools import product
from typing import NamedTuple

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
def append(attempt: Attempt) -> None:
    """(pool, block_ids, num_tokens, n): room for n tokens more; returns the copies."""
    # Holders of the earlier blocks, and of the last one: not always the same number.
    holders = (1, 1), (2, 2), (2, 1), (3, 2), (3, 3)
    for num_tokens, n, counts, size in product(range(7), range(7), holders, (1, 4)):
        case = num_tokens, n, counts, size
        wanted = _wanted(*case)
        for num_free in (wanted, wanted + 2):
            _appends(attempt, *case, num_free)
        for num_free in {0, wanted - 1} if wanted else ():
            _refuses(attempt, *case, num_free)


def _must_copy(num_tokens: int, n: int, counts: tuple[int, int], size: int) -> bool:
    return n > 0 and num_tokens % size > 0 and counts[1] > 1


def _wanted(num_tokens: int, n: int, counts: tuple[int, int], size: int) -> int:
    """How many free blocks it takes, one for a copy included."""
    new_blocks = -(-(num_tokens + n) // size) - -(-num_tokens // size)
    return new_blocks + _must_copy(num_tokens, n, counts, size)


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
    token = "token" if num_tokens == 1 else "tokens"
    story = f"{num_tokens} {token} in blocks {block_ids} of {size} with {holders} "
    return pool, block_ids, f"{story}holders, {num_free} blocks free"


def _appends(
    attempt: Attempt,
    num_tokens: int,
    n: int,
    counts: tuple[int, int],
    size: int,
    num_free: int,
) -> None:
    pool, block_ids, story = _shared_blocks(num_tokens, counts, size, num_free)
    story = f"{story}; {n} more"
    before = list(block_ids)
    holders = {block_id: pool.refcount(block_id) for block_id in before}
    must_copy = _must_copy(num_tokens, n, counts, size)
    copies = attempt.shared(pool, block_ids, num_tokens, n)
    if not isinstance(copies, list):
        raise Rejected(f"{story}: returned {copies!r:.40}, expected a list of pairs")
    wanted = -(-(num_tokens + n) // size)
    expect(f"{story}; blocks in the table", len(block_ids), wanted)
    kept = before[:-1] if must_copy else before
    expect(f"{story}; the blocks that stay", block_ids[: len(kept)], kept)
    if must_copy and block_ids[len(kept)] == before[-1]:
        raise Rejected(
            f"{story}; block {before[-1]} is written, though others hold it too"
        )
    pairs = [(before[-1], block_ids[len(kept)])] if must_copy else []
    expect(f"{story}; copies", [tuple(pair) for pair in copies], pairs)
    for block_id in block_ids[num_tokens // size :] if n else ():
        what = f"{story}; holders of block {block_id}, to be written"
        expect(what, pool.refcount(block_id), 1)
    for block_id in before:
        left = holders[block_id] - (must_copy and block_id == before[-1])
        expect(f"{story}; holders of block {block_id}", pool.refcount(block_id), left)
    left = num_free - _wanted(num_tokens, n, counts, size)
    expect(f"{story}; free blocks afterwards", pool.num_free, left)


def _refuses(
    attempt: Attempt,
    num_tokens: int,
    n: int,
    counts: tuple[int, int],
    size: int,
    num_free: int,
) -> None:
    pool, block_ids, story = _shared_blocks(num_tokens, counts, size, num_free)
    story = f"{story}; {n} more"
    before = list(block_ids)
    holders = [pool.refcount(block_id) for block_id in before]
    try:
        attempt.shared(pool, block_ids, num_tokens, n)
    except Rejected as error:
        if not isinstance(error.__cause__, OutOfBlocks):
            raise
    else:
        raise Rejected(f"{story}: raised no OutOfBlocks")
    expect(f"{story}, refused; the table", block_ids, before)
    found = [pool.refcount(block_id) for block_id in before]
    expect(f"{story}, refused; holders of {before}", found, holders)
    expect(f"{story}, refused; free blocks", pool.num_free, num_free)


@exercise
def next_beams(attempt: Attempt) -> None:
    """(tables, scores, log_probs, eos) -> (tables, tokens, scores, ended)."""
    generator = torch.Generator().manual_seed(0)
    for width, vocabulary in ((2, 5), (1, 3), (4, 6), (3, 30)):
        pool = BlockPool(200, 2)
        tables = [BlockTable(pool)]
        tables[0].append(3)
        tables += [tables[0].fork() for _ in range(width - 1)]
        # Sums of log-probabilities; at first one beam is far ahead of the others.
        scores = -torch.arange(width) * 30.0 - 1
        for step in range(6):
            for table in tables:
                table.append(1)
            # Wide apart, so that some beams have many children and others none.
            logits = 3 * torch.randn(width, vocabulary, generator=generator)
            logits[:, 1] += (0, 6, 3)[step % 3]  # so that beams end, early and late
            log_probs = logits.log_softmax(-1)
            tables, scores = _one_step(attempt, tables, scores, log_probs, eos=1)


class _Step(NamedTuple):
    """What one step must give: of the beams that go on, and of those that end."""

    parents: list[int]
    tokens: list[int]
    scores: list[float]
    ended: list[tuple[int, float]]  # (beam, sum), best first


def _expected_step(scores: torch.Tensor, log_probs: torch.Tensor, eos: int) -> _Step:
    width, vocabulary = log_probs.shape
    best, index = (log_probs + scores[:, None]).flatten().topk(2 * width)
    candidates = [
        (one // vocabulary, one % vocabulary, total)
        for one, total in zip(index.tolist(), best.tolist(), strict=True)
    ]
    ended = [(beam, total) for beam, token, total in candidates[:width] if token == eos]
    going = [one for one in candidates if one[1] != eos][:width]
    parents, tokens, totals = (list(part) for part in zip(*going, strict=True))
    return _Step(parents, tokens, totals, ended)


def _one_step(
    attempt: Attempt,
    tables: list[BlockTable],
    scores: torch.Tensor,
    log_probs: torch.Tensor,
    eos: int,
) -> tuple[list[BlockTable], torch.Tensor]:
    """Let the attempt take one step, and compare it with all candidates, sorted."""
    width, vocabulary = log_probs.shape
    wanted = _expected_step(scores, log_probs, eos)
    story = f"{width} beams, {vocabulary} tokens; those that go on are children of "
    story += f"beams {wanted.parents}, {len(wanted.ended)} ended"
    before = [(list(table.block_ids), table.num_tokens) for table in tables]
    answer = attempt.shared(list(tables), scores.clone(), log_probs.clone(), eos)
    if not isinstance(answer, tuple | list) or len(answer) != 4:
        raise Rejected(f"{story}: returned {answer!r:.40}, expected four lists")
    found_tables, tokens, found_scores, ended = (list(part) for part in answer)
    sizes = [len(part) for part in (found_tables, tokens, found_scores)]
    expect(f"{story}; number of tables, tokens, scores", sizes, [width] * 3)
    expect(f"{story}; tokens", [*map(int, tokens)], wanted.tokens)
    _expect_numbers(f"{story}; scores", found_scores, wanted.scores)
    if not all(isinstance(one, tuple | list) and len(one) == 2 for one in ended):
        raise Rejected(f"{story}: the fourth list is {ended!r:.40}, expected pairs")
    beams = [int(beam) for beam, _ in ended]
    expect(f"{story}; beams that ended", beams, [beam for beam, _ in wanted.ended])
    totals = [total for _, total in ended]
    sums = [total for _, total in wanted.ended]
    _expect_numbers(f"{story}; sums of those that ended", totals, sums)
    expect(f"{story}; different table objects", len({*map(id, found_tables)}), width)
    for place, (table, parent) in enumerate(
        zip(found_tables, wanted.parents, strict=True)
    ):
        state = list(table.block_ids), table.num_tokens
        where = f"{story}; new beam {place}, (blocks, tokens)"
        expect(where, state, before[parent])
    _nothing_is_lost(story, found_tables, [ids for ids, _ in before])
    return found_tables, torch.tensor(wanted.scores)


def _expect_numbers(what: str, found: list[float], expected: list[float]) -> None:
    """Equal but for rounding."""
    numbers = torch.tensor([float(number) for number in found])
    if not torch.allclose(numbers, torch.tensor(expected), atol=1e-4):
        raise Rejected(f"{what}: got {numbers.tolist()}, expected {expected}")


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
