"""Lab: checks of lesson 2's exercises: block tables."""

from itertools import accumulate
from random import Random

import torch

from minipaged.lab.check.verdict import Attempt, Rejected, exercise, expect

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
    table = range(num_tokens)
    slots = [block_ids[one // size] * size + one % size for one in table]
    expected = slots.index(slot) if slot in slots else None
    call = attempt.call(block_ids, size, num_tokens, slot)
    try:
        found = attempt(block_ids, size, num_tokens, slot)
    except Rejected as error:
        hints = {
            IndexError: "the table lists block ids: look for the slot's block in it",
            ValueError: "the slot's block need not be in the table",
        }
        if hint := hints.get(type(error.__cause__)):
            raise Rejected(f"{error}; {hint}") from error
        raise
    if found == expected:
        expect(call, found, expected)
        return
    mistakes = {slot: "that is the slot; which token is in it?"}
    if slot // size in block_ids:
        entry = block_ids.index(slot // size)
        mistakes |= {
            entry: "that is the entry in the table; how many tokens are before it?",
            entry * size: "there its block begins; how far inside is the slot?",
            slot % size: "so far it is inside its block; how many tokens are before?",
        }
        if expected is None:
            position = entry * size + slot % size
            mistakes[position] = "the slot is in the last block, but empty"
    else:
        mistakes[found] = "the slot's block is not in the table"
    hint = f"; {mistakes[found]}" if _is_number(found) and found in mistakes else ""
    if found is None:
        hint = "; a token of this table lies there, or is a return missing?"
    raise Rejected(f"{call}: got {found!r:.40}, expected {expected}{hint}")


def _is_number(value: object) -> bool:
    return type(value) is int


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
    lengths = [stop - start for _, start, stop in works]
    ends = list(accumulate(lengths, initial=0))
    expected = _slots(size, works), ends, [stop for *_, stop in works]
    try:
        found = attempt(size, works)
    except Rejected as error:
        if isinstance(error.__cause__, IndexError):
            hint = "position // block_size is the entry in the table"
            raise Rejected(f"{error}; {hint}") from error
        raise
    story = f"block_size {size}, works {works}"
    if not isinstance(found, tuple | list) or len(found) != 3:
        expect(f"{story}; three lists", found, expected)
    positions = [position for _, *span in works for position in range(*span)]
    from_zero = [(ids, 0, stop - start) for ids, start, stop in works]
    mistakes = {
        "slots": (
            (positions, "those are positions; the table says where they lie"),
            ([slot // size for slot in expected[0]], "those are blocks, not slots"),
            (_slots(size, from_zero), "the new tokens begin at position `start`"),
            (
                _slots(size, [(sorted(ids), *span) for ids, *span in works]),
                "the table has an order",
            ),
        ),
        "query_starts": (
            (ends[:-1], "the last number is the end of the row"),
            (ends[1:], "the first sequence begins at 0"),
            (lengths, "those are lengths; where in the row does each begin?"),
            ([start for _, start, _ in works], "those are positions, not places"),
        ),
        "context_lengths": (
            (lengths, "a token looks at the earlier ones, too: they are in the cache"),
            ([start for _, start, _ in works], "a token looks at itself, too"),
            ([stop - 1 for *_, stop in works], "a token looks at itself, too"),
            ([len(ids) * size for ids, *_ in works], "empty slots do not count"),
        ),
    }
    for (name, wrong), got, right in zip(
        mistakes.items(), found, expected, strict=True
    ):
        try:
            expect(f"{story}; {name}", list(got), right)
        except Rejected as error:
            hints = [said for numbers, said in wrong if list(got) == numbers]
            hints += ["one list for all sequences"] * any(
                isinstance(one, list | tuple) for one in got
            )
            raise Rejected("; ".join([str(error), *hints[:1]])) from error


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
    attempt: Attempt,
    q: torch.Tensor,
    kv: torch.Tensor,
    cache: torch.Tensor,
    blocks: list[int],
) -> None:
    """Compare with attention over the contiguous `kv`, in float64."""
    (heads, dim), (_, num_tokens, kv_heads, _) = q.shape, kv.shape
    story = (
        f"{heads} heads, {kv_heads} KV heads, head_dim {dim}, {num_tokens} tokens in "
        f"blocks {blocks} of 4"
    )
    before = cache.clone()
    try:
        found = attempt.shared(q, cache[0], cache[1], blocks, num_tokens)
    except Rejected as error:
        if heads != kv_heads and isinstance(error.__cause__, RuntimeError):
            hint = f"{heads} heads share {kv_heads} KV heads"
            raise Rejected(f"{error}; {hint}") from error
        raise
    if not isinstance(found, torch.Tensor):
        missing = "; is a return missing?" if found is None else ""
        raise Rejected(f"{story}: got {found!r:.40}, expected a tensor{missing}")
    if not torch.allclose(cache, before, equal_nan=True):
        raise Rejected(f"{story}: keys or values were changed; others need them")
    expect(f"{story}; shape", tuple(found.shape), (heads, dim))
    if found.isnan().any():
        raise Rejected(
            f"{story}: NaN; a slot was read that was never written. Read the blocks in "
            f"the table's order, and of them the first {num_tokens} positions (a mask "
            "comes too late: 0 × NaN is NaN)"
        )
    error = _error(found, _attention(q, kv))
    if error > TOLERANCE:
        stored = before[:, sorted(blocks)].flatten(1, 2)
        hint = _diagnosis(found, q, kv, stored[:, :num_tokens])
        raise Rejected(f"{story}: off by up to {error:.2g}{hint}")


def _attention(
    q: torch.Tensor, kv: torch.Tensor, scale: float | None = None, axis: int = -1
) -> torch.Tensor:
    """The right answer in float64; with another `scale` or `axis`, a wrong one."""
    group = q.shape[0] // kv.shape[2]
    k, v = kv.double().repeat_interleave(group, dim=2)
    scale = q.shape[1] ** -0.5 if scale is None else scale
    logits = torch.einsum("hd,thd->ht", q.double(), k) * scale
    return torch.einsum("ht,thd->hd", logits.softmax(dim=axis), v)


def _diagnosis(
    found: torch.Tensor, q: torch.Tensor, kv: torch.Tensor, by_id: torch.Tensor
) -> str:
    """What the mistake is, if it is one that is often made.

    `by_id`: K and V as they come when the blocks are read in the order of their ids.
    """
    group = q.shape[0] // kv.shape[2]
    tiled = kv.repeat(1, 1, group, 1)  # heads 0, 1, ... get KV heads 0, 1, ...
    dim = q.shape[1]
    scales = {"1": 1.0, "head_dim ** 0.5": dim**0.5, "1 / head_dim": 1 / dim}
    scales |= {"head_dim": dim, "num_heads ** -0.5": q.shape[0] ** -0.5}
    mistakes = {
        f"right but for the scale, which is {said}": _attention(q, kv, scale=scale)
        for said, scale in scales.items()
    }
    mistakes |= {
        "right if the last token did not count": _attention(q, kv[:, :-1]),
        "right if query heads took turns; but neighbours share one": _attention(
            q, tiled
        ),
        "right if keys were the values": _attention(q, kv[[0, 0]]),
        "right if softmax ran over heads, not over tokens": _attention(q, kv, axis=0),
        "right if blocks were read by id: the table has an order": _attention(q, by_id),
    }
    names = [name for name, wrong in mistakes.items() if _error(found, wrong) < 1e-4]
    return f"; it is {names[0]}" if names else ""


def _error(found: torch.Tensor, expected: torch.Tensor) -> float:
    return (found.double() - expected).abs().max().nan_to_num(torch.inf).item()
