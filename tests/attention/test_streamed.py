"""Streamed attention against float64, and beside the error of torch's own."""

from dataclasses import replace
from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import minipaged as mp
from helpers.attention_cases import make_case, oracle, torchs_own
from helpers.notebook_files import NOTEBOOKS, definition, load
from minipaged.attention import streamed, tiles
from minipaged.attention.partial import Partial
from minipaged.attention.streamed import online_softmax, safe_softmax
from minipaged.lab.measure.peak import peak_extra_bytes

RAGGED = [(0, 1), (3, 1), (0, 4), (4, 4), (7, 1), (5, 9), (0, 17), (12, 5)]
DECODES = [(3, 1), (9, 1), (0, 1), (15, 1), (70, 1)]
LONG = [(150, 1), (0, 90), (130, 7), (16, 1)]  # several steps for each
DRAWS = 6
USUAL = tiles.STEP_TOKENS


def steps_of(num_tokens):
    """Read so many tokens in a step (a block at least), as a large batch would."""
    return patch.object(tiles, "STEP_TOKENS", num_tokens)


@pytest.fixture(autouse=True)
def small_steps():
    with steps_of(8):
        yield


both = pytest.mark.parametrize("attention", [online_softmax, safe_softmax])


def run(attention, case, **options):
    out = attention(case.q, case.keys, case.values, case.batch, **options)
    assert out.dtype == case.q.dtype
    return out


def check(attention, lengths, options=None, **shape):
    """At most twice the error of torch's own attention on the same inputs.

    Both errors are rounding, and the largest of a few is a matter of luck: two right
    ways to compute one case differ by a factor of two now and then. So several draws
    are taken together. Over them the root mean square, in which luck averages out, must
    keep to the bar as it is. So must the largest error, but that two units in the last
    place of the largest value are never too much: torch is lucky to be closer.
    """
    ours, theirs, unit = [], [], 0.0
    for seed in range(DRAWS):
        case = make_case(lengths, seed=seed, **shape)
        asked = {"scale": case.q.shape[-1] ** -0.5, **(options or {})}
        right, out = oracle(case, **asked), run(attention, case, **asked)
        assert out.shape == right.shape
        assert not out.isnan().any(), "NaN"
        ours.append(out.double() - right)
        theirs.append(torchs_own(case, **asked).double() - right)
        largest = max(v.abs().max().item() for _, v in case.contexts)
        unit = max(unit, largest * torch.finfo(case.q.dtype).eps)
    ours, theirs = torch.stack(ours), torch.stack(theirs)
    pairs = {
        "mean": (ours.square().mean().sqrt(), theirs.square().mean().sqrt()),
        "largest": (ours.abs().max(), theirs.abs().max().clamp(min=2 * unit)),
    }
    for name, (our, their) in pairs.items():
        assert our <= 2 * their, f"{name} error {our:.1e}, torch's own {their:.1e}"


@both
@pytest.mark.parametrize("group", [1, 3, 5, 7, 8])
@pytest.mark.parametrize("dim", [64, 80, 96, 128])
def test_heads_and_dims(attention, group, dim):
    check(attention, RAGGED, num_heads=2 * group, num_kv_heads=2, key_dim=dim)


@both
@pytest.mark.parametrize("block_size", [1, 3, 16, 64, 100])
def test_block_sizes(attention, block_size):
    check(attention, RAGGED, block_size=block_size)
    check(attention, LONG, block_size=block_size)


@both
@pytest.mark.parametrize("length", [1, 15, 16, 17, 32, 63, 64, 65, 128, 129])
def test_one_sequence_around_the_boundaries_of_blocks_and_steps(attention, length):
    check(attention, [(length - 1, 1)], block_size=16)
    check(attention, [(0, length)], block_size=16)
    check(attention, [(length, length)], block_size=16)  # a chunk that ends anywhere


@both
@pytest.mark.parametrize("sliding_window", [1, 4, 5, 64, 100, 1000])
@pytest.mark.parametrize("lengths", [RAGGED, DECODES, LONG], ids=len)
def test_sliding_windows(attention, sliding_window, lengths):
    check(attention, lengths, {"sliding_window": sliding_window})


@both
def test_soft_cap_scale_and_k_wider_than_v(attention):
    check(attention, RAGGED, {"softcap": 5.0, "scale": 0.7}, spread=4.0)
    check(attention, RAGGED, {"sliding_window": 6}, key_dim=24, value_dim=12)
    options = {"softcap": 9.0, "sliding_window": 6}
    check(attention, RAGGED, options, key_dim=12, value_dim=24)


@both
@pytest.mark.parametrize("spread", [0.0, 10.0, 100.0])
@pytest.mark.parametrize("lengths", [RAGGED, LONG], ids=len)
def test_equal_and_huge_logits(attention, spread, lengths):
    check(attention, lengths, spread=spread)


@both
@pytest.mark.parametrize("lengths", [DECODES, [(7, 1)] * 3, [(127, 1)] * 2], ids=str)
def test_batches_that_only_decode(attention, lengths):
    check(attention, lengths)


@both
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_summed_in_single(attention, dtype):
    check(attention, LONG, dtype=dtype)
    case = make_case([(4000, 1)], dtype=dtype)
    # Each of 4,001 equal weights is added to a total that half precision stops at 2,048
    # (float16) or 256 (bfloat16).
    case.q = torch.zeros_like(case.q)
    error = (run(attention, case, scale=1.0).double() - oracle(case, scale=1.0)).abs()
    assert error.max() < torch.finfo(dtype).eps


@both
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_near_its_largest_number(attention, dtype):
    """Values and logits close to what the type can hold, and beyond in the logits."""
    check(attention, RAGGED, dtype=dtype, spread=200.0)


@both
def test_float64_stays_float64(attention):
    case = make_case(LONG, dtype=torch.float64)
    assert (run(attention, case, scale=0.25) - oracle(case, scale=0.25)).abs().max() < (
        1e-13
    )


@both
def test_a_context_of_one_token_returns_its_value_exactly(attention):
    case = make_case([(0, 1)])
    out = run(attention, case, scale=0.25)
    assert torch.equal(out, case.contexts[0][1].repeat_interleave(2, dim=1))


@both
def test_what_sees_nothing_gets_zeros_and_disturbs_nobody(attention):
    case = make_case([(40, 1), (0, 1), (0, 3), (9, 1)])
    alone = run(attention, case, scale=0.25)
    # The second has no context at all; of the third, only the last query sees a token.
    contexts = torch.tensor([41, 0, 1, 10])
    case.batch = replace(case.batch, context_lengths=contexts, scratch={})
    out = run(attention, case, scale=0.25)
    assert torch.equal(out[[1, 2, 3]], torch.zeros(3, 4, 16))
    value = case.values[case.batch.block_tables[2, 0], 0]
    assert torch.equal(out[4], value.repeat_interleave(2, dim=0))
    assert torch.allclose(out[[0, 5]], alone[[0, 5]], atol=1e-6)


@both
@pytest.mark.parametrize("sliding_window", [None, 1, 7])
@pytest.mark.parametrize("block_size", [1, 4])
@pytest.mark.parametrize("filling", [10**9, -1])
def test_what_a_table_says_of_others_blocks_is_never_read(
    attention, sliding_window, block_size, filling
):
    for lengths in (RAGGED, LONG, DECODES):
        case = make_case(lengths, block_size=block_size)
        tables = case.batch.block_tables
        own_blocks = -(-case.batch.context_lengths // block_size)
        column = torch.arange(tables.shape[1])
        tables[column >= own_blocks[:, None]] = filling
        if sliding_window is not None:  # nor the blocks that no query sees any more
            before = torch.tensor([before for before, _ in lengths])
            first = (before + 1 - sliding_window).clamp(min=0) // block_size
            tables[column < first[:, None]] = filling
        options = {"scale": 0.25, "sliding_window": sliding_window}
        error = (run(attention, case, **options) - oracle(case, **options)).abs().max()
        assert error < 3e-6


def test_a_longer_sequence_may_have_fewer_blocks_to_read():
    """Seen through a window of one, 3 new tokens end before 4 of a shorter sequence."""
    with steps_of(1):
        check(online_softmax, [(10, 4), (50, 3)], {"sliding_window": 1}, block_size=1)


def columns_read(lengths, sliding_window, block_size=16):
    """How many block columns each sequence reads, over all steps."""
    case = make_case(lengths, block_size=block_size)
    read = torch.zeros(len(lengths), dtype=torch.int64)
    tilings, _ = tiles.plan_tiles(case.q, case.keys, case.batch, sliding_window)
    for tiling in tilings:
        for tile in tiling.tiles:
            read[tiling.rectangle.sequences[: tile.num_sequences]] += len(tile.columns)
    return read.tolist()


def test_a_short_sequence_is_not_read_as_far_as_a_long_one():
    with steps_of(64):
        assert columns_read([(1000, 1), (100, 1), (9, 1)], None) == [63, 8, 4]


def test_what_no_query_sees_through_its_window_is_not_read():
    with steps_of(64):
        assert columns_read([(1000, 1), (100, 1), (9, 1)], 20) == [2, 2, 2]
        assert columns_read([(900, 64)], 16) == [6]


def test_early_queries_do_not_wait_for_late_blocks():
    case = make_case([(0, 256)], block_size=16)
    with steps_of(64):
        (tiling,), _ = tiles.plan_tiles(case.q, case.keys, case.batch, None)
    assert [tile.queries.start for tile in tiling.tiles] == [0, 64, 128, 192]
    with steps_of(64):
        (tiling,), _ = tiles.plan_tiles(case.q, case.keys, case.batch, 10)
    assert [tile.queries.stop for tile in tiling.tiles] == [73, 137, 201, 256]


def test_layers_of_unequal_shape_share_a_batch():
    cases = [
        make_case(RAGGED, num_heads=heads, key_dim=16, value_dim=value_dim)
        for heads, value_dim in ((4, 16), (8, 16), (4, 12))
    ]
    for case in cases:
        case.batch = cases[0].batch
        for window in (None, 5):
            options = {"scale": 0.25, "sliding_window": window}
            out = run(online_softmax, case, **options)
            assert (out - oracle(case, **options)).abs().max() < 3e-6


def test_one_workspace_serves_several_dtypes():
    workspace = {}
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float32):
        case = make_case(RAGGED, dtype=dtype)
        case.batch.workspace = workspace
        error = run(online_softmax, case, scale=0.25).double() - oracle(
            case, scale=0.25
        )
        assert error.abs().max() < 4 * torch.finfo(dtype).eps


@settings(max_examples=80, deadline=None)
@given(
    lengths=st.lists(
        st.tuples(st.integers(0, 90), st.integers(1, 40)), min_size=1, max_size=6
    ),
    group=st.integers(1, 4),
    num_kv_heads=st.integers(1, 3),
    key_dim=st.integers(1, 12),
    value_dim=st.integers(1, 12),
    block_size=st.integers(1, 40),
    sliding_window=st.none() | st.integers(1, 50),
    step_tokens=st.sampled_from([1, 8, 64, 1000]),
    attention=st.sampled_from([online_softmax, safe_softmax]),
    seed=st.integers(0, 2**31),
)
def test_any_shape(
    lengths, group, num_kv_heads, sliding_window, step_tokens, attention, **shape
):
    case = make_case(
        lengths,
        num_heads=group * num_kv_heads,
        num_kv_heads=num_kv_heads,
        dtype=torch.float64,  # so that rounding cannot hide a small mistake
        **shape,
    )
    options = {"scale": 0.5, "sliding_window": sliding_window}
    with steps_of(step_tokens):
        out = run(attention, case, **options)
    assert (out - oracle(case, **options)).abs().max() < 1e-12


@both
def test_steps_of_the_usual_length(attention):
    with steps_of(USUAL):
        check(attention, [*RAGGED, *LONG, (600, 1)])
        check(attention, [(300, 100)], num_heads=8)


@pytest.mark.parametrize("block_size", [1, 4, 16, 64, 500])
def test_a_step_is_as_long_as_the_rule_says(block_size):
    """256 tokens, or fewer for many queries, 64 at least; a block at least."""
    for chunks, num_tokens in (
        ([(999, 1)] * 8, 256),
        ([(0, 1024)], 64),
        ([(0, 256)], 256),
        ([(0, 512)], 128),
    ):
        case = make_case(chunks, 8, 2, block_size=block_size)
        with steps_of(USUAL):
            (tiling,), _ = tiles.plan_tiles(case.q, case.keys, case.batch, None)
        assert len(tiling.tiles[0].columns) == max(1, num_tokens // block_size)


def peak(attention, length, num_seqs=4, **shape):
    """Bytes beside the cache, of sequences of `length` tokens that decode."""
    case = make_case([(length - 1, 1)] * num_seqs, 8, 2, block_size=16, **shape)
    return peak_extra_bytes(lambda: run(attention, case, scale=0.25))


def test_memory_beside_the_cache_does_not_grow_with_the_context():
    with steps_of(64):
        for attention in (online_softmax, safe_softmax):
            assert peak(attention, 256) == peak(attention, 2048)
            assert 20 * peak(attention, 2048) < peak(mp.gathered_attention, 2048)


@both
@pytest.mark.parametrize("length", [512, 509])  # the last step with and without a mask
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_holds_little_more_than_single(attention, dtype, length):
    """Of a step's K and V, as they lie and in float32, only one is held at a time."""
    shape = {"num_seqs": 8, "key_dim": 64}
    with steps_of(64):
        single = peak(attention, length, **shape)
        assert peak(attention, length, dtype=dtype, **shape) < 1.3 * single


def gathered_by(attention, case, **options):
    """What each call of _gather took: which cache, and the memory it was put in."""
    taken, gather = [], streamed._gather

    def recording(cache, *rest):
        out = gather(cache, *rest)
        taken.append((cache.data_ptr(), out.data_ptr()))
        return out

    with patch.object(streamed, "_gather", recording):
        run(attention, case, scale=0.25, **options)
    return taken


@both
def test_all_steps_gather_into_the_same_memory(attention):
    case = make_case(DECODES)
    taken = gathered_by(attention, case)
    assert len(taken) > 6
    assert {out for _, out in taken} == {case.batch.workspace["streamed"].data_ptr()}


def test_the_first_of_two_passes_reads_no_values():
    case = make_case(DECODES)
    one, two = (gathered_by(way, case) for way in (online_softmax, safe_softmax))
    keys, values = case.keys.data_ptr(), case.values.data_ptr()
    num_steps = len(one) // 2
    assert [cache for cache, _ in one] == [keys, values] * num_steps
    assert [cache for cache, _ in two] == [keys] * num_steps + [
        keys,
        values,
    ] * num_steps


@pytest.mark.parametrize("sliding_window", [None, 1000])
def test_what_all_see_whole_has_no_mask_and_is_not_cut_out(sliding_window):
    case = make_case([(1000, 1), (1001, 1), (1002, 1)], block_size=16)
    arguments = case.batch, sliding_window
    with steps_of(64):
        (tiling,), _ = tiles.plan_tiles(case.q, case.keys, *arguments)
    hidden = [tiles.locate(tile, tiling, *arguments)[1] for tile in tiling.tiles]
    seen_whole = [one is None for one in hidden]
    in_the_middle = slice(1 if sliding_window else 0, -1)
    assert len(hidden) > 10 and all(seen_whole[in_the_middle])
    assert not seen_whole[-1]
    assert all(tile.is_whole for tile in tiling.tiles)


@both
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_queries_are_scaled_in_single_precision(attention, dtype):
    """0.3 q, rounded to half precision, would move logits of 80 by several percent."""
    case = make_case(RAGGED, dtype=dtype, spread=8.0)
    out = run(attention, case, scale=0.3).double()
    largest = max(v.abs().max().item() for _, v in case.contexts)
    error = (out - oracle(case, scale=0.3)).abs().max()
    assert error < largest * torch.finfo(dtype).eps


@both
@pytest.mark.parametrize("block_size", [1, 4])
@pytest.mark.parametrize("lengths", [RAGGED, DECODES, LONG], ids=len)
def test_through_a_window_of_none_nothing_is_seen(attention, block_size, lengths):
    out = run(
        attention, make_case(lengths, block_size=block_size), scale=1, sliding_window=0
    )
    assert torch.equal(out, torch.zeros_like(out))


def test_the_public_name_is_the_one_pass():
    assert mp.streamed_attention is online_softmax


# --- wrong versions, which the checks above must notice ------------------------------


def rescales_one_side(self, other):
    """As if the new block always had the larger maximum."""
    right = merge(self, replace(other, maximum=other.maximum))
    ours = (self.maximum - right.maximum).exp_().nan_to_num()
    weighted = self.weighted * ours[..., None] + other.weighted
    return Partial(right.maximum, self.total * ours + other.total, weighted)


def no_guard(maximum):
    """Subtracts -inf from -inf."""
    return maximum


def without_maximum(logits, values, maximum=None):
    """Plain softmax: the exponential of the logit as it is."""
    weights = logits.exp()
    return Partial(torch.zeros_like(weights[..., 0]), weights.sum(-1), weights @ values)


def masked_but_read(tile, tiling, *rest):
    """Hides what was never written, and multiplies it by a weight of 0."""
    places, _ = locate(replace_tile(tile, is_masked=False), tiling, *rest)
    return places, locate(tile, tiling, *rest)[1]


def of_lesson_5(name):
    """A deliberately wrong function, as the notebook defines it."""
    (path,) = (path for path in NOTEBOOKS if path.stem.startswith("05"))
    namespace = {"Partial": Partial, "torch": torch, "locate": tiles.locate}
    return definition(load(path), name, namespace)


merge, locate, replace_tile = Partial.merge, tiles.locate, tiles.Tile._replace
WRONG = {
    "no rescale": (Partial, "merge", of_lesson_5("forgets_rescale")),
    "rescales one side": (Partial, "merge", rescales_one_side),
    "without maximum": (Partial, "of", without_maximum),
    "unmasked": (streamed, "locate", of_lesson_5("unmasked_tail")),
    "masked but read": (streamed, "locate", masked_but_read),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_version_is_rejected(name):
    with patch.object(*WRONG[name]), pytest.raises(AssertionError):
        check(online_softmax, LONG, spread=8.0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_the_softmax_of_lesson_5_overflows_where_ours_does_not(dtype):
    limit = torch.finfo(dtype).max
    logits = torch.tensor([[0.0, torch.tensor(limit).log().ceil().item()]], dtype=dtype)
    assert of_lesson_5("plain_softmax")(logits).isnan().any()
    values = torch.tensor([[1.0], [2.0]], dtype=dtype)
    assert Partial.of(logits, values).result().item() == 2.0


def test_a_missing_guard_is_rejected():
    """A row sees nothing of a step: it is longer than another, and ends sooner."""
    lengths, options = [(71, 1), (70, 1)], {"sliding_window": 8}
    check(online_softmax, lengths, options)
    with (
        patch("minipaged.attention.partial._finite", no_guard),
        pytest.raises(AssertionError, match="NaN"),
    ):
        check(online_softmax, lengths, options)
