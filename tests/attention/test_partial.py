"""Partial results and their algebra: any order, any bracketing, nothing is neutral."""

import random
from functools import reduce

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.thorough import often
from minipaged.attention.partial import Partial

TOLERANCE = 1e-12  # float64 sums of some hundred weights of at most 1


def draw(num_positions, seed, spread=3.0, rows=4, value_dim=5):
    """Logits [2, rows, P], some of them hidden, and values [2, P, value_dim]."""
    generator = torch.Generator().manual_seed(seed)
    shape = {"generator": generator, "dtype": torch.float64}
    logits = spread * torch.randn(2, rows, num_positions, **shape)
    logits[torch.rand(logits.shape, generator=generator) < 0.2] = -torch.inf
    logits[:, 0] = -torch.inf  # the first row sees nothing at all
    return logits, torch.randn(2, num_positions, value_dim, **shape)


def parts_of(logits, values, sizes):
    """A Partial for each piece; sizes may be 0 (then it is of no positions)."""
    pieces = zip(logits.split(sizes, -1), values.split(sizes, -2), strict=True)
    nothing = Partial.nothing(*logits.shape[:-1], values.shape[-1], like=logits)
    return [Partial.of(x, v) if x.shape[-1] else nothing for x, v in pieces]


def right(logits, values):
    return torch.softmax(logits, -1).nan_to_num(0) @ values


def close(one, other):
    """The same partial result, whatever its maximum stands at."""
    scale = (one.maximum - other.maximum).nan_to_num(0).exp()
    return (
        torch.equal(one.maximum, other.maximum)
        and torch.allclose(one.total * scale, other.total, atol=TOLERANCE)
        and torch.allclose(one.weighted, other.weighted, atol=TOLERANCE)
    )


def tree(parts):
    """Neighbours first, then neighbours of these."""
    while len(parts) > 1:
        pairs = [parts[at : at + 2] for at in range(0, len(parts), 2)]
        parts = [reduce(Partial.merge, pair) for pair in pairs]
    return parts[0]


@settings(max_examples=often(60), deadline=None)
@given(
    sizes=st.lists(st.integers(0, 9), min_size=1, max_size=12).filter(any),
    spread=st.sampled_from([0.0, 1.0, 300.0]),
    seed=st.integers(0, 2**31),
)
def test_any_order_and_any_bracketing_give_the_same(sizes, spread, seed):
    logits, values = draw(sum(sizes), seed, spread)
    parts, answer = parts_of(logits, values, sizes), right(logits, values)
    shuffled = random.Random(seed).sample(parts, len(parts))
    for merged in (reduce(Partial.merge, parts), reduce(Partial.merge, shuffled)):
        assert torch.allclose(merged.result(), answer, atol=TOLERANCE)
    assert torch.allclose(tree(parts).result(), answer, atol=TOLERANCE)
    assert torch.allclose(tree(shuffled).result(), answer, atol=TOLERANCE)


@pytest.mark.parametrize("seed", range(5))
def test_merge_is_associative_and_commutative(seed):
    a, b, c = parts_of(*draw(30, seed), [10, 3, 17])
    assert close(a.merge(b), b.merge(a))
    assert close(a.merge(b).merge(c), a.merge(b.merge(c)))


def test_nothing_is_neutral_on_both_sides_and_with_itself():
    logits, values = draw(9, seed=0)
    (part,) = parts_of(logits, values, [9])
    nothing = Partial.nothing(2, 4, 5, like=logits)
    for merged in (part.merge(nothing), nothing.merge(part)):
        assert torch.equal(merged.total, part.total)
        assert torch.equal(merged.weighted, part.weighted)
        assert torch.equal(merged.maximum, part.maximum)
    twice = nothing.merge(nothing)
    assert torch.equal(twice.result(), torch.zeros(2, 4, 5))
    assert (twice.maximum == -torch.inf).all()


def test_a_row_that_sees_nothing_gives_zeros():
    logits, values = draw(9, seed=0)
    result = Partial.of(logits, values).result()
    assert torch.equal(result[:, 0], torch.zeros(2, 5))
    assert not result.isnan().any()


def test_a_given_maximum_that_is_larger_changes_the_sums_but_not_the_result():
    logits, values = draw(9, seed=0)
    higher = torch.full((2, 4), 20.0)
    own, given = Partial.of(logits, values), Partial.of(logits, values, higher)
    assert torch.allclose(own.result(), given.result(), atol=TOLERANCE)
    assert (given.total < own.total)[:, 1:].all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_logits_near_the_largest_number_do_not_overflow(dtype):
    largest = torch.finfo(dtype).max
    logits = torch.tensor([[largest, largest / 2, -largest]], dtype=dtype)
    values = torch.tensor([[1.0], [2.0], [3.0]], dtype=dtype)
    parts = parts_of(logits, values, [1, 1, 1])
    for order in (parts, parts[::-1]):
        assert reduce(Partial.merge, order).result().tolist() == [[1.0]]


def test_rows_can_be_taken_out_and_put_back():
    logits, values = draw(9, seed=0)
    whole, running = Partial.of(logits, values), Partial.nothing(2, 4, 5, like=logits)
    for rows in (
        (slice(1), slice(None)),
        (slice(1, 2), slice(2)),
        (slice(1, 2), slice(2, 4)),
    ):
        running[rows] = running[rows].merge(whole[rows])
    assert close(running, whole)
