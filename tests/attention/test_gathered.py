"""Gathered attention against float64, on ragged, shuffled and poisoned pools."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.attention_cases import make_case, oracle
from minipaged.attention.gathered import gathered_attention
from minipaged.attention.workspace import borrow

RAGGED = [(0, 1), (3, 1), (0, 4), (4, 4), (7, 1), (5, 9), (0, 17), (12, 5)]
TOLERANCE = (
    3e-5  # float32 sums of some hundred products of order 1, relative to order 1
)


def check(case, **options):
    options = {"scale": case.q.shape[-1] ** -0.5, **options}
    ours = gathered_attention(case.q, case.keys, case.values, case.batch, **options)
    theirs = oracle(case, **options)
    assert ours.shape == theirs.shape and ours.dtype == case.q.dtype
    error = (ours.double() - theirs).abs().max()
    assert error < TOLERANCE, f"error {error:.1e}"


@pytest.mark.parametrize("group", [1, 3, 5, 7, 8])
@pytest.mark.parametrize("dim", [64, 80, 96, 128])
def test_heads_and_dims(group, dim):
    check(make_case(RAGGED, num_heads=2 * group, num_kv_heads=2, key_dim=dim))


@pytest.mark.parametrize("block_size", [1, 3, 16, 64])
def test_block_sizes(block_size):
    check(make_case(RAGGED, block_size=block_size))


@pytest.mark.parametrize("length", [1, 15, 16, 17, 32])
def test_one_sequence_around_a_block_boundary(length):
    check(make_case([(length - 1, 1)], block_size=16))
    check(make_case([(0, length)], block_size=16))


@pytest.mark.parametrize("sliding_window", [1, 4, 5, 1000])
def test_sliding_windows(sliding_window):
    check(make_case(RAGGED), sliding_window=sliding_window)


def test_soft_cap_scale_and_k_wider_than_v():
    check(make_case(RAGGED, spread=4.0), softcap=5.0, scale=0.7)
    check(make_case(RAGGED, key_dim=24, value_dim=12), sliding_window=6)
    check(make_case(RAGGED, key_dim=24, value_dim=12), softcap=9.0, sliding_window=6)


DECODES = [(3, 1), (9, 1), (0, 1), (15, 1)]


@pytest.mark.parametrize("sliding_window", [None, 1, 4, 5, 1000])
@pytest.mark.parametrize("softcap", [None, 5.0])
@pytest.mark.parametrize("lengths", [DECODES, [(7, 1)] * 3], ids=["ragged", "even"])
def test_batches_that_only_decode(lengths, sliding_window, softcap):
    case = make_case(lengths, spread=2.0)
    check(case, sliding_window=sliding_window, softcap=softcap)


def test_a_long_prompt_beside_single_tokens_is_not_padded_to_a_rectangle():
    case = make_case([(0, 500), *[(40, 1)] * 31])
    check(case)
    ((groups, _),) = case.batch.scratch.values()
    computed = sum(len(group.queries) for group in groups)
    assert computed <= 2 * len(case.q)


def test_layers_of_unequal_shape_share_a_batch():
    cases = [
        make_case(RAGGED, num_heads=heads, key_dim=16, value_dim=value_dim)
        for heads, value_dim in ((4, 16), (8, 16), (4, 12))
    ]
    for case in cases:
        case.batch = cases[0].batch
        check(case)


def test_one_workspace_serves_several_dtypes():
    workspace = {}
    for dtype in (torch.float32, torch.float64, torch.float32):
        case = make_case(RAGGED, dtype=dtype)
        case.batch.workspace = workspace
        check(case)


@pytest.mark.parametrize("softcap", [None, 5.0])
def test_half_precision_is_as_exact_as_its_inputs_allow(softcap):
    case = make_case(RAGGED, dtype=torch.bfloat16)
    options = {"scale": 0.25, "softcap": softcap}
    ours = gathered_attention(case.q, case.keys, case.values, case.batch, **options)
    assert ours.dtype == torch.bfloat16
    assert (ours.double() - oracle(case, **options)).abs().max() < 0.02


def test_a_context_of_one_token_returns_its_value_exactly():
    case = make_case([(0, 1)])
    ours = gathered_attention(case.q, case.keys, case.values, case.batch, scale=0.25)
    assert torch.equal(ours, case.contexts[0][1].repeat_interleave(2, dim=1))


@pytest.mark.parametrize("spread", [0.0, 100.0])
def test_equal_and_huge_logits(spread):
    check(make_case(RAGGED, spread=spread))


def test_float64_stays_float64():
    case = make_case(RAGGED, dtype=torch.float64)
    ours = gathered_attention(case.q, case.keys, case.values, case.batch, scale=0.25)
    assert (ours - oracle(case, scale=0.25)).abs().max() < 1e-12


@pytest.mark.parametrize("lengths", [[(4, 1)] * 2, RAGGED], ids=len)
def test_layers_of_unequal_dtype_share_a_batch(lengths):
    batch = make_case(lengths).batch
    for dtype in (torch.float32, torch.float64, torch.float32):
        case = make_case(lengths, dtype=dtype)
        case.batch = batch
        ours = gathered_attention(case.q, case.keys, case.values, batch, scale=0.25)
        assert ours.dtype == dtype
        error = (ours - oracle(case, scale=0.25)).abs().max()
        assert error < 10 * torch.finfo(dtype).eps


def test_memory_of_another_device_is_not_lent():
    workspace = {}
    here = borrow(workspace, "rows", 3, torch.zeros(1, 2))
    elsewhere = borrow(workspace, "rows", 3, torch.zeros(1, 2, device="meta"))
    assert (here.device.type, elsewhere.device.type) == ("cpu", "meta")


@pytest.mark.parametrize("lengths", [[(4, 1)] * 2, RAGGED], ids=len)
def test_through_a_window_of_none_nothing_is_seen(lengths):
    case = make_case(lengths)
    arguments = case.q, case.keys, case.values, case.batch
    out = gathered_attention(*arguments, scale=0.25, sliding_window=0)
    assert torch.equal(out, torch.zeros_like(out))


def test_ends_of_table_rows_are_never_read():
    case = make_case(RAGGED)
    own_blocks = -(-case.batch.context_lengths // 4)
    column = torch.arange(case.batch.block_tables.shape[1])
    case.batch.block_tables[column >= own_blocks[:, None]] = 10**9
    check(case)


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(
        st.tuples(st.integers(0, 30), st.integers(1, 30)), min_size=1, max_size=6
    ),
    group=st.integers(1, 4),
    num_kv_heads=st.integers(1, 3),
    block_size=st.integers(1, 9),
    sliding_window=st.none() | st.integers(1, 12),
    seed=st.integers(0, 2**31),
)
def test_any_shape(lengths, group, num_kv_heads, block_size, sliding_window, seed):
    case = make_case(
        lengths,
        num_heads=group * num_kv_heads,
        num_kv_heads=num_kv_heads,
        key_dim=8,
        block_size=block_size,
        seed=seed,
    )
    check(case, sliding_window=sliding_window)


def test_the_check_rejects_attention_that_is_off_by_one():
    case = make_case(RAGGED)
    case.batch.context_lengths -= (case.batch.context_lengths > 1).long()
    with pytest.raises((AssertionError, RuntimeError)):
        check(case)
