"""Both gathered attentions against float64, on ragged, shuffled, poisoned pools."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.attention_cases import (
    WRONG_SINKS,
    make_case,
    oracle,
    sinks_of,
    with_sinks,
)
from helpers.thorough import often
from minipaged.attention.gathered import attend_gathered
from minipaged.attention.rectangles import gathered_attention

pytestmark = pytest.mark.parametrize(
    "attention", [attend_gathered, gathered_attention], ids=["loop", "rectangles"]
)

RAGGED = [(0, 1), (3, 1), (0, 4), (4, 4), (7, 1), (5, 9), (0, 17), (12, 5)]
TOLERANCE = (
    3e-5  # float32 sums of some hundred products of order 1, relative to order 1
)


def check(attention, case, **options):
    options = {"scale": case.q.shape[-1] ** -0.5, **options}
    ours = case.attend(attention, **options)
    theirs = oracle(case, **options)
    assert ours.shape == theirs.shape and ours.dtype == case.q.dtype
    error = (ours.double() - theirs).abs().max()
    assert error < TOLERANCE, f"error {error:.1e}"


@pytest.mark.parametrize("group", [1, 3, 5, 7, 8])
@pytest.mark.parametrize("dim", [64, 80, 96, 128])
def test_heads_and_dims(attention, group, dim):
    case = make_case(RAGGED, num_heads=2 * group, num_kv_heads=2, key_dim=dim)
    check(attention, case)


@pytest.mark.parametrize("block_size", [1, 3, 16, 64])
def test_block_sizes(attention, block_size):
    check(attention, make_case(RAGGED, block_size=block_size))


@pytest.mark.parametrize("length", [1, 15, 16, 17, 32])
def test_one_sequence_around_a_block_boundary(attention, length):
    check(attention, make_case([(length - 1, 1)], block_size=16))
    check(attention, make_case([(0, length)], block_size=16))


@pytest.mark.parametrize("sliding_window", [1, 4, 5, 1000])
def test_sliding_windows(attention, sliding_window):
    check(attention, make_case(RAGGED), sliding_window=sliding_window)


def test_soft_cap_scale_and_k_wider_than_v(attention):
    check(attention, make_case(RAGGED), scale=0.7)
    check(attention, make_case(RAGGED, spread=4.0), softcap=5.0, scale=0.7)
    wide = make_case(RAGGED, key_dim=24, value_dim=12)
    check(attention, wide, sliding_window=6)
    check(attention, wide, softcap=9.0, sliding_window=6)


DECODES = [(3, 1), (9, 1), (0, 1), (15, 1)]


@pytest.mark.parametrize("sliding_window", [None, 1, 4, 5, 1000])
@pytest.mark.parametrize("softcap", [None, 5.0])
@pytest.mark.parametrize("lengths", [DECODES, [(7, 1)] * 3], ids=["ragged", "even"])
def test_batches_that_only_decode(attention, lengths, sliding_window, softcap):
    case = make_case(lengths, spread=2.0)
    check(attention, case, sliding_window=sliding_window, softcap=softcap)


@pytest.mark.parametrize("lengths", [[(0, 500)], [(1000, 1)]], ids=["prompt", "past"])
def test_a_long_sequence_beside_short_ones(attention, lengths):
    check(attention, make_case([*lengths, *[(40, 1)] * 31]))


def test_layers_of_unequal_shape_share_a_batch(attention):
    cases = [
        make_case(RAGGED, num_heads=heads, key_dim=16, value_dim=value_dim)
        for heads, value_dim in ((4, 16), (8, 16), (4, 12))
    ]
    for case in cases:
        case.batch = cases[0].batch
        for sliding_window in (None, 5, 3):
            check(attention, case, sliding_window=sliding_window)


@pytest.mark.parametrize("softcap", [None, 5.0])
def test_half_precision_is_as_exact_as_its_inputs_allow(attention, softcap):
    case = make_case(RAGGED, dtype=torch.bfloat16)
    ours = case.attend(attention, softcap=softcap)
    assert ours.dtype == torch.bfloat16
    assert (ours.double() - oracle(case, softcap=softcap)).abs().max() < 0.02


def test_a_context_of_one_token_returns_its_value_exactly(attention):
    case = make_case([(0, 1)])
    ours = case.attend(attention)
    assert torch.equal(ours, case.contexts[0][1].repeat_interleave(2, dim=1))


@pytest.mark.parametrize("spread", [0.0, 100.0])
def test_equal_and_huge_logits(attention, spread):
    check(attention, make_case(RAGGED, spread=spread))


def test_float64_stays_float64(attention):
    case = make_case(RAGGED, dtype=torch.float64)
    assert (case.attend(attention) - oracle(case)).abs().max() < 1e-12


@pytest.mark.parametrize("lengths", [[(4, 1)] * 2, RAGGED], ids=len)
def test_layers_of_unequal_dtype_share_a_batch(attention, lengths):
    batch = make_case(lengths).batch
    for dtype in (torch.float32, torch.float64, torch.float32):
        case = make_case(lengths, dtype=dtype)
        case.batch = batch
        ours = case.attend(attention)
        assert ours.dtype == dtype
        error = (ours - oracle(case)).abs().max()
        assert error < 10 * torch.finfo(dtype).eps


@pytest.mark.parametrize("lengths", [[(4, 1)] * 2, RAGGED], ids=len)
def test_through_a_window_of_none_nothing_is_seen(attention, lengths):
    case = make_case(lengths)
    out = case.attend(attention, sliding_window=0)
    assert torch.equal(out, torch.zeros_like(out))


def test_ends_of_table_rows_are_never_read(attention):
    case = make_case(RAGGED)
    own_blocks = -(-case.batch.context_lengths // 4)
    column = torch.arange(case.batch.block_tables.shape[1])
    case.batch.block_tables[column >= own_blocks[:, None]] = 10**9
    check(attention, case)


@settings(max_examples=often(60), deadline=None)
@given(
    lengths=st.lists(
        st.tuples(st.integers(0, 30), st.integers(1, 30)), min_size=1, max_size=6
    ),
    group=st.integers(1, 4),
    num_kv_heads=st.integers(1, 3),
    block_size=st.integers(1, 9),
    sliding_window=st.none() | st.integers(1, 12),
    softcap=st.none() | st.just(3.0),
    has_sinks=st.booleans(),
    seed=st.integers(0, 2**31),
)
def test_any_shape(
    attention,
    lengths,
    group,
    num_kv_heads,
    block_size,
    sliding_window,
    softcap,
    has_sinks,
    seed,
):
    case = make_case(
        lengths,
        num_heads=group * num_kv_heads,
        num_kv_heads=num_kv_heads,
        key_dim=8,
        block_size=block_size,
        seed=seed,
    )
    sinks = sinks_of(group * num_kv_heads) if has_sinks else None
    check(attention, case, sliding_window=sliding_window, softcap=softcap, sinks=sinks)


# --- attention sinks -----------------------------------------------------------------


@pytest.mark.parametrize("softcap", [None, 5.0])
@pytest.mark.parametrize("sliding_window", [None, 1, 5, 1000])
@pytest.mark.parametrize("lengths", [RAGGED, DECODES, [(7, 1)] * 3], ids=len)
def test_sinks(attention, lengths, sliding_window, softcap):
    options = {"sliding_window": sliding_window, "softcap": softcap}
    check(attention, make_case(lengths, spread=2.0), sinks=sinks_of(4), **options)


@pytest.mark.parametrize("group", [1, 3, 8])
def test_every_query_head_has_a_sink_of_its_own(attention, group):
    sinks = sinks_of(2 * group, spread=4.0)
    check(attention, make_case(RAGGED, 2 * group, num_kv_heads=2), sinks=sinks)
    check(attention, make_case(DECODES, 2 * group, num_kv_heads=1), sinks=sinks)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("lengths", [RAGGED, DECODES], ids=len)
def test_sinks_in_other_precisions(attention, lengths, dtype):
    case = make_case(lengths, dtype=dtype)
    for of_sinks in (dtype, torch.float32):  # a model may keep these in float32
        sinks = sinks_of(4, of_sinks)
        ours = case.attend(attention, sinks=sinks)
        assert ours.dtype == dtype
        error = (ours.double() - oracle(case, sinks=sinks)).abs().max()
        # Weights are rounded, and so are the sums and the sink; values reach 4.
        assert error < 6 * torch.finfo(dtype).eps


@pytest.mark.parametrize("level", [-1e4, -100.0, 100.0, 1e4])
def test_sinks_that_take_nothing_or_all(attention, level):
    case = make_case(RAGGED)
    out = case.attend(attention, sinks=torch.full((4,), level))
    expected = torch.zeros_like(out).double() if level > 0 else oracle(case)
    assert (out - expected).abs().max() < TOLERANCE


def test_what_sees_nothing_but_a_sink_gets_zeros(attention):
    case = make_case(RAGGED)
    out = case.attend(attention, sinks=sinks_of(4), sliding_window=0)
    assert torch.equal(out, torch.zeros_like(out))


@pytest.mark.parametrize("name", WRONG_SINKS)
@pytest.mark.parametrize("lengths", [RAGGED, DECODES], ids=len)
def test_wrong_sinks_are_rejected(attention, lengths, name):
    case, sinks = make_case(lengths), sinks_of(4)
    check(with_sinks(attention, lambda sinks: sinks), case, sinks=sinks)
    with pytest.raises(AssertionError, match="error"):
        check(with_sinks(attention, WRONG_SINKS[name]), case, sinks=sinks)


def test_the_check_rejects_attention_that_is_off_by_one(attention):
    case = make_case(RAGGED)
    case.batch.context_lengths -= (case.batch.context_lengths > 1).long()
    with pytest.raises((AssertionError, RuntimeError)):
        check(attention, case)
