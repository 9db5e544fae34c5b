"""Streamed attention against float64, and beside the error of torch's own."""

from dataclasses import replace
from functools import lru_cache
from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

import minipaged as mp
from helpers.attention_cases import (
    WRONG_SINKS,
    make_case,
    oracle,
    sinks_of,
    torchs_own,
    with_sinks,
)
from helpers.notebook_files import NOTEBOOKS, definition, load
from helpers.thorough import all_or, often
from minipaged.attention import streamed
from minipaged.attention.partial import Partial
from minipaged.attention.streamed import online_softmax, safe_softmax
from minipaged.lab.measure.peak import peak_extra_bytes

RAGGED = [(0, 1), (3, 1), (0, 4), (4, 4), (7, 1), (5, 9), (0, 17), (12, 5)]
DECODES = [(3, 1), (9, 1), (0, 1), (15, 1), (70, 1)]
LONG = [(150, 1), (0, 90), (130, 7), (16, 1)]  # several steps for each
DRAWS = 6
USUAL = streamed.TILE_TOKENS


def steps_of(num_tokens):
    """Read so many tokens of each sequence in a step."""
    return patch.object(streamed, "TILE_TOKENS", num_tokens)


@pytest.fixture(autouse=True)
def small_steps():
    with steps_of(8):
        yield


both = pytest.mark.parametrize("attention", [online_softmax, safe_softmax])


def run(attention, case, **options):
    out = case.attend(attention, **options)
    assert out.dtype == case.q.dtype
    return out


@lru_cache(maxsize=64)  # those of a test: the other attention has the same ones next
def drawn(seed, lengths, options, shape):
    """A case, what is asked, what is right, and how far off torch's own answer is."""
    case = make_case(list(lengths), seed=seed, **dict(shape))
    asked = {"scale": case.q.shape[-1] ** -0.5, **dict(options)}
    right = oracle(case, **asked)
    return case, asked, right, torchs_own(case, **asked).double() - right


def check(attention, lengths, options=None, **shape):
    """At most twice the error of torch's own attention on the same inputs.

    Both errors are rounding, and the largest of a few is a matter of luck: two right
    ways to compute one case differ by a factor of two now and then. So several draws
    are taken together. Over them the root mean square, in which luck averages out, must
    keep to the bar as it is. So must the largest error, but that two units in the last
    place of the largest value are never too much: torch is lucky to be closer.
    """
    ours, theirs, unit = [], [], 0.0
    options = (options or {}).items()
    for seed in range(DRAWS):
        case, asked, right, off = drawn(
            seed, tuple(lengths), tuple(options), tuple(shape.items())
        )
        case.batch = replace(case.batch, scratch={})  # steps may be of another length
        out = run(attention, case, **asked)
        assert out.shape == right.shape
        assert not out.isnan().any(), "NaN"
        ours.append(out.double() - right)
        theirs.append(off)
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
@pytest.mark.parametrize("dim", all_or([64, 80, 96, 128], [64, 80]))
def test_heads_and_dims(attention, group, dim):
    check(attention, RAGGED, num_heads=2 * group, num_kv_heads=2, key_dim=dim)


@both
@pytest.mark.parametrize("block_size", [1, 3, 16, 64, 100])
def test_block_sizes(attention, block_size):
    check(attention, RAGGED, block_size=block_size)
    check(attention, LONG, block_size=block_size)


@both
@pytest.mark.parametrize(
    "length", all_or([1, 15, 16, 17, 32, 63, 64, 65, 128, 129], [1, 16, 64, 129])
)
def test_one_sequence_around_the_boundaries_of_blocks_and_steps(attention, length):
    check(attention, [(length - 1, 1)], block_size=16)
    check(attention, [(0, length)], block_size=16)
    check(attention, [(length, length)], block_size=16)  # a chunk that ends anywhere


@both
@pytest.mark.parametrize("sliding_window", all_or([1, 4, 5, 64, 100, 1000], [1, 5, 64]))
@pytest.mark.parametrize("lengths", [RAGGED, DECODES, LONG], ids=len)
def test_sliding_windows(attention, sliding_window, lengths):
    check(attention, lengths, {"sliding_window": sliding_window})


@both
@pytest.mark.parametrize("sliding_window", [3, 8, 20])
@pytest.mark.parametrize("new", [1, 2, 9, 10, 11])
def test_windows_that_end_where_steps_do(attention, new, sliding_window):
    """The last query may miss just the first position of a step."""
    check(attention, [(100, new)], {"sliding_window": sliding_window})


@both
@pytest.mark.parametrize("sliding_window", [None, 3, 20])
def test_sequences_with_unequal_pasts_in_one_rectangle(attention, sliding_window):
    lengths = [(20, 4), (2, 3), (0, 4), (33, 3)]
    options = {"sliding_window": sliding_window, "sinks": sinks_of(4)}
    for num_tokens in (1, 8):
        with steps_of(num_tokens):
            check(attention, lengths, options)


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


class Seen:
    """What one call read of the cache, and which logits it computed, step by step."""

    def __init__(self, attention, case, **options):
        self.case, num_kv_heads = case, case.keys.shape[2]
        self.caches, self.memory, self.slots, self.logits = [], [], [], []
        gather, of = streamed._gather, Partial.of

        def gathering(blocks, places, memory):
            found = gather(blocks, places, memory)
            is_keys = blocks.data_ptr() == case.keys.data_ptr()
            self.caches.append("keys" if is_keys else "values")
            self.memory.append(found.data_ptr())
            slots = places // num_kv_heads
            assert (slots == slots[:, :1]).all()  # every head of a slot is read
            if is_keys:
                self.slots.append(slots[:, 0])
            return found

        def noting(logits, *rest):
            self.logits.append(tuple(logits.shape))  # [n, kv heads, Q * G, P]
            return of(logits, *rest)

        with (
            patch.object(streamed, "_gather", gathering),
            patch.object(Partial, "of", noting),
        ):
            run(attention, case, **options)

    def by_sequence(self):
        """The slots that each sequence has had read, again if again."""
        batch, block_size = self.case.batch, self.case.keys.shape[1]
        blocks = [set(row.tolist()) for row in batch.block_tables]
        found = [[] for _ in blocks]
        for row in (row for slots in self.slots for row in slots.tolist()):
            owners = [{slot // block_size for slot in row} <= own for own in blocks]
            found[owners.index(True)] += row
        return found


def tokens_read(lengths, sliding_window=None):
    """How many tokens of each sequence are read; all that are seen are among them."""
    case = make_case(lengths, block_size=16)
    found = Seen(online_softmax, case, sliding_window=sliding_window).by_sequence()
    tables = case.batch.block_tables
    for table, slots, (before, new) in zip(tables, found, lengths, strict=True):
        first = 0 if sliding_window is None else max(0, before + 1 - sliding_window)
        position = torch.arange(first, before + new)
        assert set(slots) == set((table[position // 16] * 16 + position % 16).tolist())
    return [len(slots) for slots in found]


def test_a_short_sequence_is_not_read_as_far_as_a_long_one():
    with steps_of(64):
        assert tokens_read([(1000, 1), (100, 1), (9, 1)]) == [1001, 128, 64]
        assert tokens_read([(255, 1), (127, 1), (63, 1)]) == [256, 128, 64]


def test_what_no_query_sees_through_its_window_is_not_read():
    with steps_of(64):
        assert tokens_read([(1000, 1), (100, 1), (9, 1)], 20) == [20, 20, 20]
        assert tokens_read([(900, 64)], 16) == [79]
        assert tokens_read([(2000, 64), (100, 40)], 16) == [79, 64]


def test_early_queries_do_not_wait_for_late_blocks():
    case = make_case([(0, 256)], block_size=16)
    with steps_of(64):
        whole, narrow = (
            Seen(online_softmax, case, sliding_window=window).logits
            for window in (None, 10)
        )
    assert [rows // 2 for _, _, rows, _ in whole] == [256, 192, 128, 64]
    assert [rows // 2 for _, _, rows, _ in narrow] == [73, 73, 73, 64]


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


def test_layers_of_unequal_dtype_share_a_batch():
    batch = make_case(RAGGED).batch
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float32):
        case = make_case(RAGGED, dtype=dtype)
        case.batch = batch
        error = run(online_softmax, case).double() - oracle(case)
        assert error.abs().max() < 4 * torch.finfo(dtype).eps


@settings(max_examples=often(80), deadline=None)
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
    softcap=st.none() | st.just(3.0),
    has_sinks=st.booleans(),
    step_tokens=st.sampled_from([1, 8, 64, 1000]),
    attention=st.sampled_from([online_softmax, safe_softmax]),
    seed=st.integers(0, 2**31),
)
def test_any_shape(
    lengths,
    group,
    num_kv_heads,
    sliding_window,
    softcap,
    has_sinks,
    step_tokens,
    attention,
    **shape,
):
    case = make_case(
        lengths,
        num_heads=group * num_kv_heads,
        num_kv_heads=num_kv_heads,
        dtype=torch.float64,  # so that rounding cannot hide a small mistake
        **shape,
    )
    options = {"scale": 0.5, "sliding_window": sliding_window, "softcap": softcap}
    if has_sinks:
        options["sinks"] = sinks_of(group * num_kv_heads, torch.float64)
    with steps_of(step_tokens):
        out = run(attention, case, **options)
    assert (out - oracle(case, **options)).abs().max() < 1e-12


@both
def test_steps_of_the_usual_length(attention):
    with steps_of(USUAL):
        check(attention, [*RAGGED, *LONG, (600, 1)])
        check(attention, [(300, 100)], num_heads=8)


@pytest.mark.parametrize("block_size", [1, 4, 16, 500])
@both
def test_a_step_is_as_long_as_the_rule_says(attention, block_size):
    """256 tokens, or fewer for many queries, 64 at least; whatever blocks hold."""
    for chunks, num_tokens in (
        ([(999, 1)] * 8, 256),
        ([(0, 1024)], 64),
        ([(0, 1025)], 64),
        ([(0, 256)], 256),
        ([(0, 512)], 128),
    ):
        case = make_case(chunks, 8, 2, block_size=block_size)
        with steps_of(USUAL):
            lengths = [shape[-1] for shape in Seen(attention, case).logits]
        assert set(lengths[:-1]) <= {num_tokens} and lengths[0] == num_tokens
        assert sum(lengths) == sum(chunks[0])


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
    """A step's K or V, never both: as it lies, and in float32."""
    shape = {"num_seqs": 8, "key_dim": 64}
    as_it_lies = 8 * 64 * 2 * 64 * dtype.itemsize
    with steps_of(64):
        single = peak(attention, length, **shape)
        assert peak(attention, length, dtype=dtype, **shape) <= single + as_it_lies


@both
def test_all_steps_gather_into_the_same_memory(attention):
    """Of one pass; a second one has its own."""
    memory = Seen(attention, make_case(DECODES)).memory
    num_passes = 1 + (attention is streamed.safe_softmax)
    assert len(memory) > 6 and len(set(memory)) <= num_passes


def test_the_first_of_two_passes_reads_no_values():
    case = make_case(DECODES)
    one, two = (Seen(way, case).caches for way in (online_softmax, safe_softmax))
    num_steps = len(one) // 2
    assert num_steps > 6
    assert one == ["keys", "values"] * num_steps
    assert two == ["keys"] * num_steps + one


class Masks(TorchDispatchMode):
    """Counts how often something is hidden."""

    count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += function is torch.ops.aten.masked_fill_.Scalar
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("lengths", "sliding_window", "num_masked"),
    [
        ([(1000, 1), (1001, 1), (1002, 1)], None, 1),  # the last step
        ([(1000, 1), (1001, 1), (1002, 1)], 1000, 0),  # all read 1,000 tokens
        ([(1000, 1), (500, 1), (300, 1)], None, 2),  # where the shorter ones end
        ([(999, 64)], None, 2),  # steps that hold new tokens
        ([(999, 64)], 1000, 3),  # and what the last query no longer sees
        ([(0, 256)], None, 4),
    ],
    ids=str,
)
def test_what_all_see_whole_is_not_masked(lengths, sliding_window, num_masked):
    case = make_case(lengths, block_size=16)
    with steps_of(64), Masks() as masks:
        out = run(online_softmax, case, sliding_window=sliding_window)
    error = out - oracle(case, sliding_window=sliding_window)
    assert error.abs().max() < 3e-6
    assert masks.count == num_masked


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


# --- attention sinks -----------------------------------------------------------------


@both
@pytest.mark.parametrize("softcap", [None, 5.0])
@pytest.mark.parametrize("sliding_window", all_or([None, 1, 7, 100], [None, 7]))
@pytest.mark.parametrize("lengths", [RAGGED, DECODES, LONG], ids=len)
def test_sinks(attention, lengths, sliding_window, softcap):
    options = {"sliding_window": sliding_window, "softcap": softcap}
    check(attention, lengths, {**options, "sinks": sinks_of(4)})


@both
@pytest.mark.parametrize("group", [1, 3, 8])
def test_every_query_head_has_a_sink_of_its_own(attention, group):
    options = {"sinks": sinks_of(2 * group, spread=4.0)}
    check(attention, RAGGED, options, num_heads=2 * group, num_kv_heads=2)
    check(attention, LONG, options, num_heads=2 * group, num_kv_heads=1)


@both
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_sinks_in_other_precisions(attention, dtype):
    for of_sinks in (dtype, torch.float32):  # a model may keep these in float32
        check(attention, LONG, {"sinks": sinks_of(4, of_sinks)}, dtype=dtype)


@both
@pytest.mark.parametrize("level", [-1e4, -100.0, 100.0, 1e4])
def test_sinks_that_take_nothing_or_all(attention, level):
    case = make_case(LONG)
    out = run(attention, case, sinks=torch.full((4,), level))
    expected = torch.zeros_like(out).double() if level > 0 else oracle(case)
    assert (out - expected).abs().max() < 3e-6


@both
def test_what_sees_nothing_but_a_sink_gets_zeros(attention):
    case = make_case([(40, 1), (0, 1), (0, 3), (9, 1)])
    options = {"sinks": sinks_of(4)}
    out = run(attention, case, sliding_window=0, **options)
    assert torch.equal(out, torch.zeros_like(out))
    contexts = torch.tensor([41, 0, 1, 10])
    expected = oracle(case, **options)
    case.batch = replace(case.batch, context_lengths=contexts, scratch={})
    out = run(attention, case, **options)
    assert torch.equal(out[[1, 2, 3]], torch.zeros(3, 4, 16))
    assert (out[[0, 5]] - expected[[0, 5]]).abs().max() < 3e-6


@both
def test_a_sink_costs_no_reading(attention):
    case = make_case(DECODES)
    plain, sunk = (Seen(attention, case, sinks=s) for s in (None, sinks_of(4)))
    assert plain.caches == sunk.caches
    assert sunk.logits == [(5, 2, 2, 1), *plain.logits]


# --- wrong versions, which the checks above must notice ------------------------------


def doubled(logits, values, maximum=None):
    """Counts a part of one position twice."""
    part = of(logits, values, maximum)
    return part.merge(part) if logits.shape[-1] == 1 else part


@pytest.mark.parametrize("name", WRONG_SINKS)
def test_wrong_sinks_are_rejected(name):
    options = {"sinks": sinks_of(4)}
    check(with_sinks(online_softmax, lambda sinks: sinks), RAGGED, options)
    with pytest.raises(AssertionError, match="error"):
        check(with_sinks(online_softmax, WRONG_SINKS[name]), RAGGED, options)


def test_a_sink_that_is_read_twice_is_rejected():
    with patch.object(Partial, "of", doubled), pytest.raises(AssertionError):
        check(online_softmax, LONG, {"sinks": sinks_of(4)})


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


def masked_but_read(position, rectangle, *rest):
    """Hides what was never written, and multiplies it by a weight of 0."""
    endless = rectangle._replace(positions=rectangle.positions + 10**9)
    return places(position, endless, *rest)


def of_lesson_5(name):
    """A deliberately wrong function, as the notebook defines it."""
    (path,) = (path for path in NOTEBOOKS if path.stem.startswith("05"))
    namespace = {"Partial": Partial, "torch": torch, "tiles": streamed._tiles}
    return definition(load(path), name, namespace)


merge, of, places = Partial.merge, Partial.of, streamed._places
WRONG = {
    "no rescale": (Partial, "merge", of_lesson_5("forgets_rescale")),
    "rescales one side": (Partial, "merge", rescales_one_side),
    "without maximum": (Partial, "of", without_maximum),
    "unmasked": (streamed, "_tiles", of_lesson_5("hides_nothing")),
    "masked but read": (streamed, "_places", masked_but_read),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_version_is_rejected(name):
    with patch.object(*WRONG[name]), pytest.raises(AssertionError):
        check(online_softmax, LONG, spread=8.0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_the_sum_of_plain_exponentials_overflows_where_ours_does_not(dtype):
    limit = torch.finfo(dtype).max
    logits = torch.tensor([[0.0, torch.tensor(limit).log().ceil().item()]], dtype=dtype)
    weights = logits.exp()  # nothing is subtracted: lesson 5's harm
    assert (weights / weights.sum(1, keepdim=True)).isnan().any()
    values = torch.tensor([[1.0], [2.0]], dtype=dtype)
    assert Partial.of(logits, values).result().item() == 2.0


def test_a_missing_guard_is_rejected():
    """A row sees nothing of a step: its sequence has more queries, and fewer before."""
    with steps_of(1):
        check(online_softmax, [(20, 4), (21, 3)])
        with (
            patch("minipaged.attention.partial._finite", no_guard),
            pytest.raises(AssertionError, match="NaN"),
        ):
            check(online_softmax, [(20, 4), (21, 3)])
