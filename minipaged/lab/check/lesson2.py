"""Lab: checks of lesson 2's exercises: block tables."""

from itertools import accumulate
from random import Random

import torch
from torch import Tensor

from minipaged.lab.check.diagnose import diagnose, telling, why
from minipaged.lab.check.misread import Inputs
from minipaged.lab.check.verdict import Attempt, Rejected, exercise

TOLERANCE = 1e-5  # of float32 attention against float64; the values are about 1


@exercise
def position_of(attempt: Attempt) -> None:
    """(block_ids, block_size, num_tokens, slot) -> position, or None."""
    for slot in (43, 32, 47, 30, 63, *range(64)):  # the lesson's user C
        _finds(attempt, [8, 9, 10, 11, 7], 4, 18, slot)
    for slot in range(13 * 16):
        _finds(attempt, [5, 12, 3], 16, 35, slot)
    for slot in range(10):
        _finds(attempt, [7, 9, 2], 1, 3, slot)  # blocks of one token
        _finds(attempt, [1, 0], 5, 10, slot)  # full to the last slot
        _finds(attempt, [], 4, 0, slot)


def _finds(
    attempt: Attempt, block_ids: list[int], size: int, num_tokens: int, slot: int
) -> None:
    case = block_ids, size, num_tokens, slot
    slots = _slots(size, [(block_ids, 0, num_tokens)])
    right = slots.index(slot) if slot in slots else None
    hints = {
        IndexError: "the table lists block ids: look for the slot's block in it",
        ValueError: "the slot's block need not be in the table",
    }
    found = attempt(*case, hints=hints)
    entry = block_ids.index(slot // size) if slot // size in block_ids else None
    number = found if type(found) is int else None
    mistakes = {
        "a token of this table lies there, or is a return missing?": found is None,
        "the slot's block is not in the table": entry is None and number is not None,
    }
    if entry is not None:
        mistakes |= {
            "the slot is in the last block, but empty": (
                right is None and number == entry * size + slot % size
            ),
            "so far it is inside its block; how many tokens are before?": slot % size,
            "there its block begins; how far inside is the slot?": entry * size,
            "that is the entry in the table; how many tokens are before it?": entry,
        }
    mistakes["that is the slot; which token is in it?"] = slot
    if number is None:
        mistakes = {said: wrong is True for said, wrong in mistakes.items()}
    diagnose(attempt.call(*case), found, right, mistakes, write="{!r:.40}".format)


@exercise
def ragged_row(attempt: Attempt) -> None:
    """(block_size, works) -> slots, query_starts, context_lengths; see Works."""
    b, c, a = [0, 1], [2, 3, 4, 5], [6, 7, 8, 9, 10, 11]
    _expect_row(attempt, 4, [(b, 7, 8), (c, 13, 14), (a, 0, 21)])  # the lesson's step
    _expect_row(attempt, 4, [(c, 13, 14)])
    _expect_row(attempt, 4, [([8, 9, 10, 11, 7], 0, 18)])  # back to an earlier block
    _expect_row(attempt, 4, [([5, 0, 3], 6, 11), ([9], 0, 4)])  # in mid-prompt; full
    _expect_row(attempt, 1, [([3, 1, 2], 1, 3), ([0], 0, 1)])  # blocks of one token
    _expect_row(attempt, 16, [([7, 2, 9], 20, 21), ([7, 4], 16, 19)])  # block 7 shared
    _expect_row(attempt, 4, [([2, 6, 1], 3, 4), ([0], 1, 2)])  # more blocks than needed
    _expect_row(attempt, 4, [])
    rng = Random(0)
    for _ in range(30):
        size, free = rng.randint(1, 6), rng.sample(range(60), 60)
        works = []
        for _ in range(rng.randint(1, 4)):
            stop = rng.randint(1, 5 * size)
            ids = [free.pop() for _ in range(-(-stop // size))]
            works.append((ids, rng.randrange(stop), stop))
        _expect_row(attempt, size, works)


Works = list[tuple[list[int], int, int]]  # block ids, and the positions start to stop-1


def _slots(size: int, works: Works) -> list[int]:
    return [
        ids[position // size] * size + position % size
        for ids, start, stop in works
        for position in range(start, stop)
    ]


def _expect_row(attempt: Attempt, size: int, works: Works) -> None:
    """Raise Rejected unless the three lists are right, with the likeliest cause."""
    starts, stops = [start for _, start, _ in works], [stop for *_, stop in works]
    lengths = [stop - start for _, start, stop in works]
    ends = list(accumulate(lengths, initial=0))
    right = _slots(size, works), ends, stops
    hints = {IndexError: "position // block_size is the entry in the table"}
    found = attempt(size, works, hints=hints)
    story = f"block_size {size}, works {works}"
    if not isinstance(found, tuple | list) or len(found) != 3:
        diagnose(f"{story}; three lists", found, right)
    mistakes = {
        "slots": {
            "those are positions; the table says where they lie": [
                position for _, *span in works for position in range(*span)
            ],
            "those are blocks, not slots": [slot // size for slot in right[0]],
            "the new tokens begin at position `start`": (
                _slots(size, [(ids, 0, stop - start) for ids, start, stop in works])
            ),
            "the table has an order": (
                _slots(size, [(sorted(ids), *span) for ids, *span in works])
            ),
        },
        "query_starts": {
            "the last number is the end of the row": ends[:-1],
            "the first sequence begins at 0": ends[1:],
            "those are lengths; where in the row does each begin?": lengths,
            "those are positions, not places": starts,
        },
        "context_lengths": {
            "a token looks at the earlier ones, too: they are in the cache": lengths,
            "a token looks at itself, too": (
                lambda got: got in (starts, [stop - 1 for stop in stops])
            ),
            "empty slots do not count": [len(ids) * size for ids, *_ in works],
        },
    }
    for (name, wrong), got, wanted in zip(mistakes.items(), found, right, strict=True):
        is_nested = any(isinstance(one, list | tuple) for one in got)
        wrong["one list for all sequences"] = is_nested
        diagnose(f"{story}; {name}", list(got), wanted, wrong)


@exercise
def attend(attempt: Attempt) -> None:
    """(q, keys, values, block_ids, num_tokens) -> one token's attention, [H, D]."""
    generator = torch.Generator().manual_seed(0)
    shapes = [(4, 4, 8), (6, 2, 5), (3, 1, 16)]  # heads, KV heads, head_dim
    for unused in (torch.nan, None):  # poison, then the numbers of somebody else
        for heads, kv_heads, dim in shapes:
            for num_tokens in (1, 3, 4, 5, 8, 11):
                q = torch.randn(heads, dim, generator=generator)
                kv = torch.randn(2, num_tokens, kv_heads, dim, generator=generator)
                order = torch.randperm(6, generator=generator)
                blocks = order[: -(-num_tokens // 4)]
                cache = torch.randn(2, 6, 4, kv_heads, dim, generator=generator)
                if unused is not None:
                    cache.fill_(unused)
                slots = (blocks[:, None] * 4 + torch.arange(4)).flatten()[:num_tokens]
                cache.flatten(1, 2)[:, slots] = kv
                _one_token(attempt, q, kv, cache, blocks.tolist())


def _one_token(
    attempt: Attempt, q: Tensor, kv: Tensor, cache: Tensor, blocks: list[int]
) -> None:
    """Compare with attention over the contiguous `kv`, in float64."""
    (heads, dim), (_, num_tokens, kv_heads, _) = q.shape, kv.shape
    story = (
        f"{heads} heads, {kv_heads} KV heads, head_dim {dim}, {num_tokens} tokens in "
        f"blocks {blocks} of 4"
    )
    hints = {RuntimeError: f"{heads} heads share {kv_heads} KV heads"}
    hints = hints if heads != kv_heads else {}
    before = cache.clone()
    found = attempt.shared(q, *cache, blocks, num_tokens, hints=hints)
    with telling(story):
        if not isinstance(found, Tensor):
            missing = "; is a return missing?" if found is None else ""
            raise Rejected(f"got {found!r:.40}, expected a tensor{missing}")
        if not torch.allclose(cache, before, equal_nan=True):
            raise Rejected("keys or values were changed; others need them")
        diagnose("shape", tuple(found.shape), (heads, dim))
        if found.isnan().any():
            raise Rejected(
                "NaN; a slot was read that was never written. Read the blocks in the "
                f"table's order, and of them the first {num_tokens} positions (a mask "
                "comes too late: 0 × NaN is NaN)"
            )
        q, kv = q.double(), kv.double()
        error = _error(found, Inputs(q, *kv).attention())
        if error > TOLERANCE:
            stored = before[:, sorted(blocks)].flatten(1, 2).double()
            mistakes = _misread(q, kv, stored[:, :num_tokens])
            said = why(found, mistakes, lambda own, wrong: _error(own, wrong) < 1e-4)
            raise Rejected(f"off by up to {error:.2g}{said}")


def _misread(q: Tensor, kv: Tensor, by_id: Tensor) -> dict[str, Tensor]:
    """What usual mistakes give.

    `by_id`: K and V as they come when the blocks are read in the order of their ids.
    """
    heads, dim = q.shape
    tiled = kv.repeat(1, 1, heads // kv.shape[2], 1)  # heads 0, 1, ... get KV 0, 1, ...
    scales = {"1": 1.0, "head_dim ** 0.5": dim**0.5, "1 / head_dim": 1 / dim}
    scales |= {"head_dim": dim, "num_heads ** -0.5": heads**-0.5}
    mistakes = {
        f"right but for the scale, which is {said}": Inputs(q, *kv, scale).attention()
        for said, scale in scales.items()
    }
    mistakes |= {
        "right if the last token did not count": Inputs(q, *kv[:, :-1]).attention(),
        "right if query heads took turns; but neighbours share one": (
            Inputs(q, *tiled).attention()
        ),
        "right if keys were the values": Inputs(q, kv[0], kv[0]).attention(),
        "right if softmax ran over heads, not over tokens": (
            Inputs(q, *kv).attention(over=0)
        ),
        "right if blocks were read by id: the table has an order": (
            Inputs(q, *by_id).attention()
        ),
    }
    return {f"it is {said}": wrong for said, wrong in mistakes.items()}


def _error(found: Tensor, expected: Tensor) -> float:
    return (found.double() - expected).abs().max().nan_to_num(torch.inf).item()
