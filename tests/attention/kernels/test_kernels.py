"""The kernels against float64; in Triton's interpreter where there is no GPU."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.attention_cases import make_case, moved, oracle
from helpers.thorough import often
from minipaged.attention.kernels import decode as triton_decode
from minipaged.attention.kernels import prefill as triton_prefill
from minipaged.attention.kernels import tile as triton_tile
from minipaged.attention.kernels.attention import triton_attention
from minipaged.attention.kernels.setup import INTERPRETED, tl, triton
from minipaged.attention.kernels.tile import slots_of
from minipaged.attention.rectangles import gathered_attention

pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in.*:RuntimeWarning")

DEVICE = "cpu" if INTERPRETED else "cuda"
MIXED = [(0, 1), (3, 1), (0, 4), (7, 1), (5, 9), (0, 17), (12, 5)]
DECODES = [(3, 1), (9, 1), (0, 1), (14, 1), (15, 1), (16, 1)]
# float32: rounding of sums of some hundred products of order 1. float16: weights and
# result are rounded to 11 bits, and V reaches 4.
TOLERANCE = {torch.float32: 3e-5, torch.float16: 4e-3}


def error_of(case, attention=triton_attention, **options):
    options = {"scale": case.q.shape[-1] ** -0.5, **options}
    ours = case.attend(attention, **options)
    theirs = oracle(case, **options)
    assert ours.shape == theirs.shape and ours.dtype == case.q.dtype
    return ours.cpu().double() - theirs


def check(case, **options):
    error = error_of(moved(case, DEVICE), **options).abs().max()
    assert error < TOLERANCE[case.q.dtype], f"error {error:.1e}"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize(
    ("group", "dim"),
    [(1, 64), (3, 80), (5, 96), (7, 64), (8, 128), (2, 192), (1, 256), (20, 16)],
)
def test_heads_and_dims(group, dim, dtype):
    """In both kernels: prompts, chunks and single tokens are in one batch."""
    shape = {"num_heads": 2 * group, "num_kv_heads": 2, "key_dim": dim}
    lengths = [(0, 1), (16, 1), (5, 9), (0, 17)]
    check(make_case(lengths, **shape, dtype=dtype))


@pytest.mark.parametrize("block_size", [1, 3, 16, 128])
def test_block_sizes(block_size):
    check(make_case(MIXED, block_size=block_size))
    check(make_case(DECODES, block_size=block_size))


@pytest.mark.parametrize("length", [1, 15, 16, 17, 32])
def test_one_sequence_around_a_block_boundary(length):
    check(make_case([(length - 1, 1)], block_size=16))
    check(make_case([(0, length)], block_size=16))


@pytest.mark.parametrize("num_new", [1, 5, 129])
def test_chunks_over_what_the_cache_holds(num_new):
    """They begin and end inside a block, and one is longer than a tile."""
    check(make_case([(150, num_new), (0, num_new)]))


@pytest.mark.parametrize("dims", [(16, 16), (24, 12)])
def test_chunks_that_begin_where_a_tile_ends(dims):
    """Its last position is seen by all rows of a program, or by all but the first."""
    lengths = [(62, 5), (63, 5), (64, 5)]
    check(make_case(lengths, key_dim=dims[0], value_dim=dims[1]))


@pytest.mark.parametrize("lengths", [MIXED, DECODES], ids=["mixed", "decodes"])
@pytest.mark.parametrize("sliding_window", [1, 4, 5, 1000])
def test_sliding_windows(sliding_window, lengths):
    check(make_case(lengths), sliding_window=sliding_window)


def test_a_window_that_hides_whole_tiles_of_a_row():
    """The last rows of a program see nothing of its first tile: -inf minus -inf."""
    shape = {"num_heads": 1, "num_kv_heads": 1, "key_dim": 128}
    check(make_case([(0, 200), (190, 1)], **shape), sliding_window=3)


@pytest.mark.parametrize("lengths", [MIXED, DECODES], ids=["mixed", "decodes"])
def test_soft_cap_scale_and_k_wider_than_v(lengths):
    check(make_case(lengths, spread=4.0), softcap=5.0, scale=0.7)
    check(make_case(lengths, spread=2.0), scale=-0.3)
    check(make_case(lengths), scale=0.0)
    check(make_case(lengths, key_dim=24, value_dim=12), sliding_window=6)
    check(make_case(lengths, key_dim=24, value_dim=12), softcap=9.0, sliding_window=6)


@pytest.mark.parametrize("lengths", [MIXED, DECODES], ids=["mixed", "decodes"])
@pytest.mark.parametrize("spread", [0.0, 200.0])
def test_equal_and_huge_logits(spread, lengths):
    check(make_case(lengths, spread=spread))


def test_huge_logits_under_a_soft_cap():
    check(make_case(MIXED, spread=200.0), softcap=30.0)


def test_values_near_the_largest_of_float16():
    case = make_case(MIXED, dtype=torch.float16)
    case.values *= 15_000  # of which the largest is about 4
    case.contexts = [(k, v * 15_000) for k, v in case.contexts]
    assert 40_000 < max(v.max() for _, v in case.contexts) < 65_504
    assert error_of(moved(case, DEVICE)).abs().max() < 64  # two of its last digits


def test_a_context_of_one_token_returns_its_value_exactly():
    for lengths in ([(0, 1)], [(0, 1), (0, 2)]):
        case = moved(make_case(lengths), DEVICE)
        ours = case.attend(triton_attention)
        value = case.contexts[0][1].repeat_interleave(2, dim=1)
        assert torch.equal(ours[:1].cpu(), value)


@pytest.mark.parametrize("num_splits", [1, 7])
def test_rows_that_only_pad_the_batch(num_splits):
    """One has no context, another no token: zeros, and nobody else is disturbed."""
    case = moved(make_case([(5, 1), (9, 1), (20, 1)]), DEVICE)
    expected = oracle(case, scale=0.25)
    batch, out = case.batch, torch.full_like(case.q, float("nan"))
    contexts, starts = batch.context_lengths.clone(), batch.query_starts.clone()
    contexts[1] = 0
    tables = torch.cat([batch.block_tables, batch.block_tables[:1] + 10**9])
    contexts = torch.cat([contexts, contexts[:1]])
    starts = torch.cat([starts, starts[-1:]])  # the fourth sequence has no token
    triton_decode.paged_decode(
        out, case.q, case.keys, case.values, tables, contexts, starts,
        0, 21, 0.25, num_splits=num_splits,
    )  # fmt: skip
    assert (out[1] == 0).all()
    assert (out.cpu() - expected)[[0, 2]].abs().max() < 3e-5


def test_ends_of_table_rows_are_never_read():
    for lengths in (MIXED, DECODES):
        case = make_case(lengths)
        own_blocks = -(-case.batch.context_lengths // 4)
        column = torch.arange(case.batch.block_tables.shape[1])
        case.batch.block_tables[column >= own_blocks[:, None]] = -1
        check(case)
        case.batch.block_tables[case.batch.block_tables < 0] = 10**12
        check(case)


def test_sequences_may_share_blocks():
    case = make_case([(20, 1), (20, 1), (4, 17)])
    tables, contexts = case.batch.block_tables, case.contexts
    tables[1], contexts[1] = tables[0], contexts[0]
    tables[2, :5], shared = tables[0, :5], 20
    contexts[2] = tuple(
        torch.cat([ours[:shared], theirs[shared:]])
        for ours, theirs in zip(contexts[0], contexts[2], strict=True)
    )
    check(case)


def decode(case, num_splits, **options):
    batch, out = case.batch, torch.full_like(case.q, float("nan"))
    triton_decode.paged_decode(
        out, case.q, case.keys, case.values, batch.block_tables,
        batch.context_lengths, batch.query_starts, batch.min_context_length,
        batch.max_context_length, 0.25, num_splits=num_splits, **options,
    )  # fmt: skip
    return out.cpu().double()


@pytest.mark.parametrize("sliding_window", [None, 30])
@pytest.mark.parametrize("num_splits", [1, 2, 7, 32])
def test_splits_do_not_matter(num_splits, sliding_window):
    """Also where there are more of them than tiles, so that most are empty."""
    contexts = [(300, 1), (290, 1)]  # few and even ones have the shortest tiles
    case = moved(make_case(contexts), DEVICE)
    ours = decode(case, num_splits, sliding_window=sliding_window)
    expected = oracle(case, scale=0.25, sliding_window=sliding_window)
    assert (ours - expected).abs().max() < 1e-6


def test_there_are_as_many_splits_as_asked_for_and_in_float32(monkeypatch):
    merge, seen = triton_decode.merge_splits, []

    def spy(out, partial, *rest):
        seen.append((partial.shape[2], partial.dtype))
        merge(out, partial, *rest)

    monkeypatch.setattr(triton_decode, "merge_splits", spy)
    case = moved(make_case([(40, 1)], dtype=torch.float16), DEVICE)
    for num_splits in (1, 2, 7):
        decode(case, num_splits)
    assert seen == [(2, torch.float32), (7, torch.float32)]


@pytest.mark.parametrize("num_splits", [1, 3])
def test_decode_touches_only_sequences_of_one_new_token(num_splits):
    case = moved(make_case(MIXED), DEVICE)
    error = decode(case, num_splits) - oracle(case, scale=0.25)
    single = (case.batch.query_starts.diff() == 1).cpu()
    single = single.repeat_interleave(case.batch.query_starts.diff().cpu())
    assert error[single].abs().max() < 1e-6
    assert error[~single].isnan().all()


def test_prefill_alone_serves_mixed_batches_too():
    case = moved(make_case(MIXED), DEVICE)
    batch, out = case.batch, torch.full_like(case.q, float("nan"))
    triton_prefill.paged_prefill(
        out, case.q, case.keys, case.values, batch.block_tables,
        batch.context_lengths, batch.query_starts, 0.25,
    )  # fmt: skip
    assert (out.cpu() - oracle(case, scale=0.25)).abs().max() < 3e-5


def test_more_sequences_than_are_searched_at_once(monkeypatch):
    monkeypatch.setattr(triton_prefill, "SEARCHED_AT_ONCE", 4)
    check(make_case(MIXED + DECODES))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_the_error_is_hardly_larger_than_that_of_torch(dtype):
    for lengths in ([(0, 100), (60, 40)], [(300, 1), (200, 1)]):
        case = moved(make_case(lengths, key_dim=64, dtype=dtype), DEVICE)
        ours, theirs = error_of(case), error_of(case, gathered_attention)
        assert ours.norm() <= 1.5 * theirs.norm()


@settings(max_examples=often(25), deadline=None)
@given(
    lengths=st.lists(
        st.tuples(st.integers(0, 30), st.sampled_from([1, 1, 2, 7, 20])),
        min_size=1,
        max_size=4,
    ),
    group=st.integers(1, 9),
    num_kv_heads=st.integers(1, 2),
    dims=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    block_size=st.integers(1, 9),
    sliding_window=st.none() | st.integers(1, 12),
    softcap=st.none() | st.just(3.0),
    seed=st.integers(0, 2**31),
)
def test_any_shape(
    lengths, group, num_kv_heads, dims, block_size, sliding_window, softcap, seed
):
    case = make_case(
        lengths,
        num_heads=group * num_kv_heads,
        num_kv_heads=num_kv_heads,
        key_dim=dims[0],
        value_dim=dims[1],
        block_size=block_size,
        seed=seed,
    )
    check(case, sliding_window=sliding_window, softcap=softcap)


def test_queries_of_any_strides():
    case = moved(make_case(MIXED), DEVICE)
    expected = oracle(case, scale=0.25)
    heads_first = case.q.transpose(0, 1).contiguous().transpose(0, 1)
    dims_first = case.q.transpose(0, 2).contiguous().transpose(0, 2)
    larger = torch.full((60, 9, 40), float("nan"), device=DEVICE)
    part = larger[1:, 2:6, 5:21][: len(case.q)].copy_(case.q)
    for case.q in (heads_first, dims_first, part):
        out = case.attend(triton_attention)
        assert (out.cpu() - expected).abs().max() < 3e-5


@pytest.mark.parametrize("lengths", [MIXED, DECODES], ids=["mixed", "decodes"])
def test_batches_of_any_strides(lengths):
    """As an engine has them that keeps tables for its longest sequence."""
    case = make_case(lengths)
    batch, tables = case.batch, case.batch.block_tables
    longest = torch.nn.functional.pad(tables, (0, 9), value=10**12)
    batch.block_tables = longest[:, : tables.shape[1]]
    for name in ("context_lengths", "query_starts"):
        tensor = getattr(batch, name)
        setattr(batch, name, torch.stack([tensor, tensor + 3], 1)[:, 0])
    check(case)
    batch.block_tables = tables.T.contiguous().T
    check(case)


# Wrong variants: each is one of the mistakes that such kernels are known for.


@triton.jit
def _load_tile_unmasked(
    head_start,
    slots,
    exists,
    SLOT_STRIDE: tl.constexpr,
    DIM: tl.constexpr,
    PADDED_DIM: tl.constexpr,
    MASKED: tl.constexpr,
):
    column = tl.arange(0, PADDED_DIM)
    pointers = head_start + slots[:, None] * SLOT_STRIDE + column[None, :]
    return tl.load(pointers, mask=(column < DIM)[None, :], other=0.0)


@pytest.mark.skipif(not INTERPRETED, reason="compiled kernels keep their helpers")
@pytest.mark.parametrize("lengths", [MIXED, DECODES], ids=["mixed", "decodes"])
def test_the_check_rejects_tails_that_are_not_masked(monkeypatch, lengths):
    """Their weight is zero, and zero times NaN is NaN."""
    cases = (make_case(lengths, seed=seed) for seed in range(100))
    # Without the mask, block 0 would be read, where nobody's K and V should lie.
    case = next(case for case in cases if case.keys[0].isnan().all())
    check(case)
    monkeypatch.setattr(triton_tile, "load_tile", _load_tile_unmasked)
    with pytest.raises(AssertionError, match="error nan"):
        check(case)


def test_the_check_rejects_a_merge_that_forgets_a_split(monkeypatch):
    case = moved(make_case([(300, 1)]), DEVICE)
    expected = oracle(case, scale=0.25)
    merge = triton_decode.merge_splits

    def forgets_the_second(out, partial, log_totals, *rest):
        log_totals[:, :, 1] = float("-inf")
        merge(out, partial, log_totals, *rest)

    assert (decode(case, 4) - expected).abs().max() < 1e-6
    monkeypatch.setattr(triton_decode, "merge_splits", forgets_the_second)
    assert (decode(case, 4) - expected).abs().max() > 1e-2


@triton.jit
def _offset_kernel(offsets, table, N: tl.constexpr, WIDE: tl.constexpr):
    position = tl.arange(0, N)
    if WIDE:
        slots = slots_of(table, position, position < N, 16)
    else:
        slots = tl.load(table + position // 16) * 16 + position % 16
    tl.store(offsets + position, (slots * 1024).to(tl.int64))


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.filterwarnings("ignore:.*overflow:RuntimeWarning")
def test_offsets_have_64_bits(wide):
    """Block ids of 32 bits, as most engines store them, in a pool of 2**33 numbers."""
    ids = torch.tensor([3, 2**17, 2**17 + 1, 2**19 - 1], dtype=torch.int32)
    expected = (ids.long()[:, None] * 16 + torch.arange(16)).flatten() * 1024
    assert expected.max() > 2**32
    offsets = torch.zeros(64, dtype=torch.int64, device=DEVICE)
    _offset_kernel[(1,)](offsets, ids.to(DEVICE), N=64, WIDE=wide)
    assert torch.equal(offsets.cpu(), expected) == wide


def test_the_kernels_take_tables_of_32_bits():
    case = make_case(MIXED)
    for name in ("block_tables", "context_lengths", "query_starts"):
        setattr(case.batch, name, getattr(case.batch, name).int())
    check(case)
