"""A decode step in one launch: against float64, and against planted mistakes."""

import heapq
import importlib.util
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.attention_cases import (
    WRONG_SINKS,
    make_case,
    moved,
    oracle,
    sinks_of,
    with_sinks,
)
from helpers.thorough import all_or, often
from minipaged.attention.backend import Masking
from minipaged.attention.kernels import one_launch, pieces
from minipaged.attention.kernels import sizes as triton_sizes
from minipaged.attention.kernels import step as triton_step
from minipaged.attention.kernels.attention import triton_attention
from minipaged.attention.kernels.setup import INTERPRETED
from minipaged.attention.kernels.sizes import Device, Sizes
from minipaged.memory.kv_cache import LayerCache

pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in.*:RuntimeWarning")

DEVICE = "cpu" if INTERPRETED else "cuda"
DECODES = [(3, 1), (9, 1), (0, 1), (14, 1), (15, 1), (16, 1)]
FAR_APART = [(0, 1), (110, 1), (3, 1), (47, 1), (31, 1), (32, 1)]
MIXED = [(0, 1), (3, 1), (0, 4), (7, 1), (5, 9), (0, 17), (12, 5)]
ONE_KV_HEAD = {"num_heads": 2, "num_kv_heads": 1}
TOLERANCE = {torch.float32: 3e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
APART = pytest.mark.parametrize("apart", [False, True], ids=["", "apart"])
SOME_APART = pytest.mark.parametrize("apart", all_or([False, True], [True]), ids=str)
NO_BLOCK = 2**40  # far outside: in tables of rows that only pad, nobody may look
DTYPES = [torch.float32, torch.float16, *([] if INTERPRETED else [torch.bfloat16])]


def step(case, **masking):
    """The new tokens' K and V are taken out of the cache, and must be there again."""
    slots = case.batch.slots
    cache = LayerCache(case.keys, case.values)
    rows = [blocks.flatten(0, 1) for blocks in (cache.keys, cache.values)]
    new = [blocks[slots].clone() for blocks in rows]
    for blocks in rows:
        blocks[slots] = float("nan")
    before = [blocks.clone() for blocks in rows]
    options = Masking(**{"scale": 0.25, **masking})
    out = triton_attention.step(case.q, *new, cache, case.batch, options)
    for blocks, old, own in zip(rows, before, new, strict=True):
        old[slots] = own
        assert torch.equal(blocks.nan_to_num(99.0), old.nan_to_num(99.0))
    return out


def move(tensor):
    return tensor if tensor is None else tensor.to(DEVICE).contiguous()


def error_of(case, **masking):
    theirs = oracle(case, **masking)
    ours = step(case, **masking | {"sinks": move(masking.get("sinks"))})
    assert ours.shape == theirs.shape and ours.dtype == case.q.dtype
    return (ours.cpu().double() - theirs).abs().max().item()


def check(case, **masking):
    error = error_of(moved(case, DEVICE), **masking)
    assert error < TOLERANCE[case.q.dtype], f"error {error:.1e}"


@pytest.fixture
def cut(monkeypatch):
    """cut(target): small tiles, and pieces of one or more; apart: a second launch."""

    def cut(target, apart=False, tile=16, fill=False, exact=False):
        def sizes(q, values, *_):
            rows = max(16, 1 << (q.shape[1] // values.shape[2] - 1).bit_length())
            sizes = Sizes(rows, tile, num_warps=4, num_stages=2)
            return sizes, target, apart, False, apart or fill, exact

        monkeypatch.setattr(triton_step, "step_sizes", sizes)

    return cut


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("group", "dim"),
    [(1, 64), (3, 80), (5, 96), (7, 64), (8, 128), (2, 192), (1, 256), (20, 16)],
)
def test_heads_and_dims(group, dim, dtype):
    shape = {"num_heads": 2 * group, "num_kv_heads": 2, "key_dim": dim}
    case = make_case([(0, 1), (9, 1), (16, 1)], **shape, dtype=dtype)
    check(case, scale=dim**-0.5)


@pytest.mark.parametrize("block_size", [1, 3, 16, 128])
def test_block_sizes(block_size):
    check(make_case([*FAR_APART, (150, 1)], block_size=block_size, **ONE_KV_HEAD))


@pytest.mark.parametrize("length", [1, 15, 16, 17, 32, 33])
def test_one_sequence_around_a_boundary(length, cut):
    cut(5)
    check(make_case([(length - 1, 1)], block_size=16))


@pytest.mark.parametrize("sliding_window", [1, 2, 17, 100, 1000])
def test_sliding_windows(sliding_window, cut):
    for target in (1, 30):
        cut(target)
        case = make_case(FAR_APART, **ONE_KV_HEAD)
        check(case, sliding_window=sliding_window)


def test_soft_cap_scale_and_k_wider_than_v(cut):
    cut(9)
    check(make_case(FAR_APART, spread=4.0), softcap=5.0, scale=0.7)
    check(make_case(FAR_APART), scale=0.0)
    wide = make_case(FAR_APART, key_dim=24, value_dim=12)
    check(wide, softcap=9.0, sliding_window=6)


@pytest.mark.parametrize("spread", [0.0, 200.0])
def test_equal_and_huge_logits(spread, cut):
    cut(9)
    check(make_case(FAR_APART, spread=spread))


@APART
@pytest.mark.parametrize("target", all_or([1, 2, 7, 20, 64], [1, 7, 64]))
def test_pieces_do_not_matter(target, apart, cut):
    cut(target, apart)
    case = moved(make_case(FAR_APART), DEVICE)
    assert error_of(case) < 1e-6


@pytest.mark.parametrize("target", [3, 7, 20])
def test_short_last_pieces_do_not_matter(target, cut):
    cut(target, fill=True)
    case = moved(make_case(FAR_APART), DEVICE)
    assert error_of(case) < 1e-6


def test_no_more_pieces_than_there_are_programs(cut):
    """All sequences a tile longer than their share: each has one piece too many."""
    for target in range(1, 12):
        cut(target)
        check(make_case([(16 * n, 1) for n in range(5)], **ONE_KV_HEAD))


def test_more_sequences_than_one_program_plans(monkeypatch, cut):
    monkeypatch.setattr(pieces, "_SEQUENCES", 4)
    cut(11)
    check(make_case(FAR_APART + DECODES))


@APART
def test_more_pieces_than_are_merged_at_once(apart, few_at_once, cut):
    cut(40, apart)
    check(make_case(FAR_APART, num_heads=6))


def test_a_context_of_one_token_returns_its_value_exactly():
    case = moved(make_case([(0, 1)]), DEVICE)
    value = case.contexts[0][1].repeat_interleave(2, dim=1)
    assert torch.equal(step(case).cpu(), value)


@APART
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_error_is_no_larger_than_that_of_lesson_6(dtype, apart, cut):
    cut(9, apart)
    case = moved(make_case([(300, 1), (200, 1)], key_dim=64, dtype=dtype), DEVICE)
    theirs = case.attend(triton_attention).cpu().double() - oracle(case)
    ours = step(case).cpu().double() - oracle(case)
    assert ours.norm() <= 1.2 * theirs.norm()


def padded_case(context=0):
    """Rows 1 and 3 only pad the batch; before the cache lies memory of others.

    context: what is said of those rows. Without one, they attend to nothing.
    """
    case = moved(make_case([(40, 1), (7, 1), (20, 1), (3, 1)]), DEVICE)
    case.expected = oracle(case)
    case.guarded = torch.randn(2, len(case.keys) + 1, *case.keys.shape[1:])
    case.guarded = case.guarded.to(DEVICE)
    case.guarded[0, 1:], case.guarded[1, 1:] = case.keys, case.values
    case.keys, case.values = case.guarded[:, 1:]
    case.batch.context_lengths[1::2] = context
    if not context:
        case.batch.block_tables[1::2] = NO_BLOCK
    return case


def pad_and_step(case):
    slots = case.batch.slots
    cache = LayerCache(case.keys, case.values)
    new = [b.flatten(0, 1)[slots].clone() for b in (cache.keys, cache.values)]
    slots[1::2] = -1
    before = case.guarded.clone()
    case.q[1::2] = float("nan")
    out = triton_attention.step(case.q, *new, cache, case.batch, Masking(0.25))
    if not case.batch.context_lengths[1::2].any():
        assert (out[1::2] == 0).all()
    assert (out.cpu() - case.expected)[::2].abs().max() < 3e-5
    written = [*slots[::2].tolist()]
    for now, then, own in zip(case.guarded, before, new, strict=True):
        then[1:].flatten(0, 1)[written] = own[::2]
        assert torch.equal(now.nan_to_num(99.0), then.nan_to_num(99.0))


@APART
@pytest.mark.parametrize("target", [1, 6])
def test_rows_that_only_pad_write_nothing_and_get_zeros(target, apart, cut):
    cut(target, apart)
    pad_and_step(padded_case())


def padded_mixed_case(left_over=6, rows=3):
    """Prompts and answers, then tokens of nobody, all in one row; and empty rows."""
    case = make_case(MIXED)
    case.expected, batch = oracle(case), case.batch
    num_tokens = len(case.q)
    case.q = torch.cat([case.q, torch.full((left_over, *case.q.shape[1:]), torch.nan)])
    batch.slots = torch.cat([batch.slots, torch.full((left_over,), -1)])
    ends = torch.full((rows,), num_tokens + left_over)
    batch.query_starts = torch.cat([batch.query_starts, ends])
    nothing = torch.zeros(rows, dtype=torch.int64)
    batch.context_lengths = torch.cat([batch.context_lengths, nothing])
    more = batch.block_tables.new_full((rows, batch.block_tables.shape[1]), NO_BLOCK)
    batch.block_tables = torch.cat([batch.block_tables, more])
    batch.max_query_length = num_tokens + left_over
    return moved(case, DEVICE)


@pytest.mark.parametrize("left_over", all_or([1, 2, 70], [2]))
@pytest.mark.parametrize("with_sinks", [False, True])
def test_tokens_that_only_pad_prompts_write_nothing_and_get_zeros(
    left_over, with_sinks
):
    case = padded_mixed_case(left_over)
    sinks = move(sinks_of(4)) if with_sinks else None
    if with_sinks:
        case.expected = oracle(make_case(MIXED), sinks=sinks_of(4))
    slots, cache = case.batch.slots, LayerCache(case.keys, case.values)
    new = [b.flatten(0, 1)[slots].clone() for b in (cache.keys, cache.values)]
    caches = cache.keys, cache.values
    before = [blocks.clone() for blocks in caches]
    for blocks in caches:  # the new tokens' own are there only after the step
        blocks.flatten(0, 1)[slots[:-left_over]] = torch.nan
    masking = Masking(0.25, sinks=sinks)
    out = triton_attention.step(case.q, *new, cache, case.batch, masking)
    assert (out[-left_over:] == 0).all()
    assert (out[:-left_over].cpu() - case.expected).abs().max() < 3e-5
    for now, then in zip(caches, before, strict=True):
        assert torch.equal(now.nan_to_num(99.0), then.nan_to_num(99.0))


def layers(case, num_layers=3):
    """Errors of layers that share the batch, so its plan and its tickets too.

    One after another: who has found a mistake asks for no more.
    """
    caches = [(case.keys, case.values)]
    for _ in range(num_layers):
        case.q = torch.randn_like(case.q)
        yield error_of(case)
        case.keys, case.values = case.keys.clone(), case.values.clone()
        caches.append((case.keys, case.values))  # each at an address of its own
    case.keys, case.values = caches[0]


@SOME_APART
def test_layers_share_a_batch(apart, cut):
    cut(20, apart)
    case = moved(make_case(FAR_APART), DEVICE)
    assert all(e < 3e-5 for e in layers(case))
    ((_, launch),) = case.batch.scratch["one launch"]
    assert not launch._tickets.any()


@SOME_APART
def test_a_batch_may_be_used_again_with_other_lengths(apart, cut):
    """In the same tensors, as `PagedModel.attending` begins a step: it plans anew."""
    cut(12, apart)
    case = moved(make_case(FAR_APART), DEVICE)
    assert all(e < 3e-5 for e in layers(case, 2))
    for seed in (1, 2):
        later = moved(make_case(FAR_APART[seed:] + FAR_APART[:seed], seed=seed), DEVICE)
        for name in ("block_tables", "context_lengths", "slots"):
            getattr(case.batch, name).copy_(getattr(later.batch, name))
        case.keys.copy_(later.keys), case.values.copy_(later.values)
        case.contexts = later.contexts
        case.batch.scratch.clear()
        assert all(e < 3e-5 for e in layers(case, 2))


def test_contexts_may_be_longer_than_what_was_prepared_for(cut):
    """A kernel that merges 16 pieces: the plan makes longer ones, but no more."""
    cut(60, apart=True)
    case = moved(make_case([(600, 1)]), DEVICE)
    batch, expected = case.batch, oracle(case)
    k, v = (b.flatten(0, 1)[batch.slots].clone() for b in (case.keys, case.values))
    cache, batch.max_context_length = LayerCache(case.keys, case.values), 200
    out = triton_attention.step(case.q, k, v, cache, batch, Masking(0.25))
    assert (out.cpu() - expected).abs().max() < 3e-5


def test_what_is_prepared_is_for_a_number_of_sequences():
    """As many tokens and blocks, but of more sequences: tickets need more room."""
    cases = [make_case([(40, 1), (3, 3)]), make_case([(30, 1), (9, 1), (3, 1), (2, 1)])]
    assert cases[0].q.shape == cases[1].q.shape
    assert cases[0].keys.shape == cases[1].keys.shape
    scratch, sinks = {}, sinks_of(4)
    for case in cases:
        case = moved(case, DEVICE)
        case.batch.scratch = scratch
        assert attend_error(case, triton_attention, sinks) < 3e-5
    assert [len(launch._tickets) for _, launch in scratch["one launch"]] == [2, 4]


def rows_of_plan(
    lengths,
    target,
    tile=16,
    window=None,
    starts=None,
    by=pieces,
    most_pieces=None,
    fill=False,
    exact=False,
    mixed=False,
    in_eight_bits=False,
):
    """Rows that the plan has, without those that are left over."""
    num_rows = max(target, len(lengths)) if exact else target + len(lengths)
    plan = torch.full((num_rows, pieces.COLUMNS), 99, dtype=torch.int32)
    plan, tickets = plan.to(DEVICE), torch.ones(len(lengths), 2, dtype=torch.int32)
    tickets = tickets.to(DEVICE)
    contexts = torch.tensor(lengths, device=DEVICE)
    how = target, tile, window, most_pieces, fill, mixed, in_eight_bits
    by.write_plan(plan, tickets, contexts, starts, *how)
    assert not tickets.any()
    rows = plan.tolist()
    used = [row for row in rows if row[0] >= 0]
    sequences = [row[0] for row in used]
    for seq in range(len(lengths)):  # where each begins
        found = sequences.index(seq) if seq in sequences else -1
        assert rows[seq][-1] == found
    assert sorted(row[7] for row in used) == list(range(len(used)))
    assert rows[: len(used)] == used and all(row[0] < len(lengths) for row in used)
    return used


def tiles_of(rows):
    return [-(-(stop - start) // 16) for _, _, start, stop, *_ in rows]


@pytest.mark.parametrize("target", [1, 3, 10, 57])
@pytest.mark.parametrize("window", [None, 40])
@pytest.mark.parametrize("fill", [False, True, "mixed"], ids=str)
def test_a_plan_covers_everything_once_and_begins_with_the_longest(
    target, window, fill
):
    generator = torch.Generator().manual_seed(target)
    lengths = torch.randint(0, 400, (90,), generator=generator).tolist()
    options = {"fill": bool(fill), "mixed": fill == "mixed"}
    rows = rows_of_plan(lengths, target, window=window, **options)
    sizes, by_sequence = tiles_of(rows), {}
    for seq, token, start, stop, first, num, kind, result, _ in rows:
        assert token == seq
        by_sequence.setdefault(seq, []).append((start, stop))
        assert result - first == len(by_sequence[seq]) - 1
        is_last = len(by_sequence[seq]) == num
        assert kind == (0 if not is_last else 2 if lengths[seq] else 1)
    for seq, length in enumerate(lengths):
        spans = by_sequence[seq]
        begin = 0 if window is None else max(0, length - window)
        assert spans[0][0] == begin and spans[-1][1] == max(length - 1, 0)
        assert all(a[1] == b[0] for a, b in pairwise(spans))
    if fill:
        assert sizes == sorted(sizes, reverse=True)
        return
    share = -(-sum(sizes) // target)
    firsts = [size for size, row in zip(sizes, rows, strict=True) if row[6] == 0]
    assert max(sizes) <= share and firsts == sorted(firsts, reverse=True)


@pytest.mark.parametrize(
    "tiles, pieces, most",
    all_or(
        [
            (16, 16, None),
            (17, 9, None),
            (200, 50, None),
            (200, 200, 256),
            (256, 256, 256),
            (257, 129, 256),
            (200, 16, 16),
        ],
        [(16, 16, None), (17, 9, None), (257, 129, 256)],
    ),
)
def test_a_plan_cuts_nobody_into_more_pieces_than_are_merged(tiles, pieces, most):
    """Four times the root of its tiles; or so many, by a kernel of its own."""
    rows = rows_of_plan([16 * tiles + 1, 1], target=1000, most_pieces=most)
    assert len(rows) == pieces + 1


@pytest.mark.parametrize("most_pieces", [None, 256])
def test_pieces_are_longer_if_there_are_too_few_rows(most_pieces):
    lengths, options = [16 * 100 + 1, 16 * 125 + 1], {"most_pieces": most_pieces}
    assert len(rows_of_plan(lengths, 6, **options)) == 7
    assert len(rows_of_plan(lengths, 6, exact=True, **options)) == 6
    assert len(rows_of_plan(lengths, 1, exact=True, **options)) == 2


@pytest.mark.parametrize("length", [1, 100, 1000, 5000])
@pytest.mark.parametrize("each", [1, 3, 7])
def test_equal_sequences_take_all_rows(length, each):
    rows = rows_of_plan([16 * length + 1] * 9, 9 * each, exact=True)
    assert len(rows) == 9 * min(each, length)


def test_a_plan_fills_places():
    rows = rows_of_plan([16 * 15 + 1] * 2, 5, fill=True)
    assert tiles_of(rows) == [7, 7, 7, 7, 1, 1]


def test_what_is_soon_read_is_no_piece_of_its_own_in_eight_bits():
    """A short piece takes long to begin, beside reading so little."""

    def found(**options):
        return tiles_of(rows_of_plan([16 * 13 + 1] * 39, 49, fill=True, **options))

    assert found() == [12] * 39 + [1] * 39
    assert found(in_eight_bits=True) == [13] * 39


def check_places(tiles, target, by=pieces, **options):
    """The last of `target` places is ready soon after the average one."""
    rows = rows_of_plan([16 * n + 1 for n in tiles], target, by=by, **options)
    places = [0.0] * target
    for size in tiles_of(rows):  # each program begins in the first free place
        heapq.heapreplace(places, places[0] + size)
    assert max(places) <= 1.15 * sum(tiles) / target


UNFILLED = {
    "even": ([182] * 27, 66),
    "few": ([220] * 7, 16),
    "ragged": ([26 * n for n in range(2, 20)], 66),
    "a long tail": ([900, *range(4, 30)], 66),
}


@pytest.mark.parametrize("most_pieces", [None, 256])
@pytest.mark.parametrize("case", UNFILLED.values(), ids=UNFILLED)
def test_filled_places_have_as_much_to_read(case, most_pieces):
    check_places(*case, most_pieces=most_pieces, fill=True)


def test_short_pieces_of_different_lengths_share_places():
    tiles = [150] * 4 + [3 + 5 * n % 17 for n in range(40)]
    check_places(tiles, 49, fill=True, mixed=True)
    with pytest.raises(AssertionError):
        check_places(tiles, 49, fill=True)


def test_places_are_not_filled_by_equal_pieces_or_without_short_ones(plant):
    even = UNFILLED["even"]
    with pytest.raises(AssertionError):
        check_places(*even)
    plant(pieces, "1.0 / in_a_place", "0.0 / in_a_place")
    with pytest.raises(AssertionError):
        check_places(*even, by=sys.modules["wrong_pieces"], fill=True)


def test_a_plan_leaves_out_sequences_of_more_or_less_new_tokens():
    starts = torch.tensor([0, 1, 1, 4, 5], device=DEVICE)
    rows = rows_of_plan([30, 50, 60, 17], 5, starts=starts)
    assert {(row[0], row[1]) for row in rows} == {(0, 0), (3, 4)}
    assert max(row[3] for row in rows) == 30


@pytest.mark.skipif(INTERPRETED, reason="wants a GPU")
@APART
def test_in_a_graph_a_step_waits_for_the_kernel_before_it(apart, monkeypatch):
    """That kernel takes long, and writes the queries late."""
    shape = {"num_heads": 16, "num_kv_heads": 8, "key_dim": 128, "block_size": 16}
    case = moved(make_case([(n, 1) for n in (3000, 20, 900)], **shape), DEVICE)
    cache, batch = LayerCache(case.keys, case.values), case.batch
    k = torch.zeros(3, 8, 128, device=DEVICE)
    many = torch.randn(2000, *case.q.shape, device=DEVICE)
    sizes = Sizes(16, tile=64, num_warps=4, num_stages=2)
    cut = sizes, 24, apart, True, apart, False
    monkeypatch.setattr(triton_step, "step_sizes", lambda *_: cut)

    def steps(wait=lambda: None):
        batch.scratch.clear()
        for _ in range(4):
            torch.sum(many, 0, out=case.q)
            wait()
            for _ in range(2):
                yield triton_attention.step(case.q, k, k, cache, batch, Masking(0.1))
                wait()

    list(steps())  # compiled
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = list(steps())
    for _ in range(20):
        many[0].normal_(std=20.0)
        graph.replay()
        torch.cuda.synchronize()
        now = [out.clone() for out in found]
        assert all(map(torch.equal, now, steps(torch.cuda.synchronize)))


@pytest.mark.skipif(INTERPRETED, reason="wants a GPU")
def test_a_graph_serves_any_lengths():
    """Captured at one length, replayed at others, and the same each time."""
    shape = {"num_heads": 16, "num_kv_heads": 8, "key_dim": 128, "block_size": 16}
    lengths = [[(n, 1)] * 24 for n in (1, 500, 3000)]
    lengths += [[(100 * n, 1) for n in range(24)]]
    cases = [moved(make_case(own, **shape), DEVICE) for own in lengths]
    size = max(len(case.keys) for case in cases), *cases[0].keys.shape[1:]
    width = max(case.batch.block_tables.shape[1] for case in cases)
    static = SimpleNamespace(
        q=torch.zeros_like(cases[0].q),
        k=torch.zeros(24, 8, 128, device=DEVICE),
        v=torch.zeros(24, 8, 128, device=DEVICE),
        cache=LayerCache(*torch.zeros(2, *size, device=DEVICE)),
        batch=cases[0].batch,
    )
    static.batch.block_tables = torch.zeros(24, width, dtype=torch.int64, device=DEVICE)

    def fill(case):
        batch, own = static.batch, case.batch
        slots = own.slots
        static.q.copy_(case.q)
        for new, blocks, cache in (
            (static.k, case.keys, static.cache.keys),
            (static.v, case.values, static.cache.values),
        ):
            new.copy_(blocks.flatten(0, 1)[slots])
            cache[: len(blocks)] = blocks
            cache.flatten(0, 1)[slots] = float("nan")
        batch.block_tables.fill_(10**9)
        batch.block_tables[:, : own.block_tables.shape[1]] = own.block_tables
        batch.context_lengths.copy_(own.context_lengths)
        batch.slots.copy_(slots)

    def run():
        args = static.q, static.k, static.v, static.cache, static.batch
        return triton_attention.step(*args, Masking(0.25))

    case_0 = moved(make_case(lengths[0], **shape), DEVICE)
    fill(case_0)
    run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outs = [run(), run()]
    for case in [*cases[1:], case_0, *cases[1:]]:
        fill(case)
        expected, seen = oracle(case), []
        for _ in range(20):
            graph.replay()
            seen += [out.clone() for out in outs]
        assert (seen[0].cpu().double() - expected).abs().max() < 3e-5
        assert all(torch.equal(seen[0], other) for other in seen)


@pytest.mark.parametrize("sinks", [None, sinks_of(4)], ids=["", "sinks"])
def test_a_step_with_prompts_writes_and_attends(sinks):
    check(make_case(MIXED), sinks=sinks)
    check(make_case([(0, 5)]), sinks=sinks, sliding_window=3)


@pytest.mark.parametrize("sinks", [None, sinks_of(4)], ids=["", "sinks"])
def test_rows_of_one_sequence_read_what_others_write(sinks, monkeypatch):
    """Each token as a row of its own; in one launch, a row would read too early."""
    monkeypatch.delattr(triton_step, "decode_step")
    case = make_case([(5, 4), (0, 3), (14, 1), (2, 6)])
    right = oracle(case, sinks=sinks)
    batch = case.batch
    rows = batch.query_starts.diff()
    case.batch = replace(
        batch,
        block_tables=batch.block_tables.repeat_interleave(rows, 0),
        context_lengths=batch.positions + 1,
        query_starts=torch.arange(len(batch.tokens) + 1),
        max_query_length=1,
        min_context_length=1,
        rows_share=True,
    )
    found = step(moved(case, DEVICE), sinks=move(sinks)).cpu().double()
    assert (found - right).abs().max() < TOLERANCE[torch.float32]


# Attention sinks, in all three kernels.


@pytest.mark.parametrize("dtype", all_or(DTYPES[:2], DTYPES[:1]), ids=str)
@pytest.mark.parametrize("options", [{}, {"sliding_window": 5}, {"softcap": 3.0}])
@pytest.mark.parametrize("target", all_or([1, 20], [20]))
def test_sinks(options, target, dtype, cut):
    cut(target)
    shape = {"num_heads": 6, "num_kv_heads": 2, "dtype": dtype}
    sinks = sinks_of(6, dtype)
    check(make_case(FAR_APART, **shape), sinks=sinks, **options)
    check(make_case(MIXED, **shape), sinks=sinks, **options)


def attend_error(case, attention, sinks):
    ours = case.attend(attention, sinks=sinks.to(DEVICE))
    return (ours.cpu() - oracle(case, sinks=sinks)).abs().max()


@pytest.mark.parametrize(
    "lengths", [[(0, 1), (5, 9), (0, 4)], [(3, 1), (0, 1), (16, 1)], [(0, 9)]], ids=str
)
def test_sinks_where_all_is_written_already(lengths):
    case, sinks = moved(make_case(lengths), DEVICE), sinks_of(4)
    assert attend_error(case, triton_attention, sinks) < 3e-5
    for name, change in WRONG_SINKS.items():
        wrong = with_sinks(triton_attention, lambda s, c=change: move(c(s.cpu())))
        assert attend_error(case, wrong, sinks) > 1e-2, name


def test_a_row_of_padding_has_no_sink_to_show():
    case = moved(make_case([(5, 1), (9, 1)]), DEVICE)
    case.batch.context_lengths[0] = 0
    case.batch.slots[0] = -1
    k = torch.zeros(2, 2, 16, device=DEVICE)
    cache = LayerCache(case.keys, case.values)
    masking = Masking(0.25, sinks=sinks_of(4).to(DEVICE))
    out = triton_attention.step(case.q, k, k, cache, case.batch, masking)
    assert (out[0] == 0).all() and out[1].isfinite().all()


@settings(max_examples=often(25), deadline=None)
@given(
    contexts=st.lists(st.integers(0, 70), min_size=1, max_size=4),
    group=st.integers(1, 9),
    num_kv_heads=st.integers(1, 2),
    dims=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    block_size=st.integers(1, 9),
    sliding_window=st.none() | st.integers(1, 50),
    softcap=st.none() | st.just(3.0),
    has_sinks=st.booleans(),
    apart=st.booleans(),
    target=st.integers(1, 12),
    seed=st.integers(0, 2**31),
)
def test_any_shape(
    contexts, group, num_kv_heads, dims, block_size, sliding_window, softcap,
    has_sinks, apart, target, seed,
):  # fmt: skip
    case = make_case(
        [(context, 1) for context in contexts],
        num_heads=group * num_kv_heads,
        num_kv_heads=num_kv_heads,
        key_dim=dims[0],
        value_dim=dims[1],
        block_size=block_size,
        seed=seed,
    )
    sinks = sinks_of(group * num_kv_heads) if has_sinks else None
    sizes = Sizes(16, tile=16, num_warps=4, num_stages=2)
    with pytest.MonkeyPatch.context() as patch:
        cut = sizes, target, apart, False, apart, False
        patch.setattr(triton_step, "step_sizes", lambda *_: cut)
        check(case, sliding_window=sliding_window, softcap=softcap, sinks=sinks)


def test_tensors_of_any_strides():
    case = moved(make_case([(3, 1), (0, 1), (16, 1)]), DEVICE)
    batch, expected = case.batch, oracle(case)
    longest = torch.nn.functional.pad(batch.block_tables, (0, 9), value=10**12)
    new = [b.flatten(0, 1)[batch.slots].clone() for b in (case.keys, case.values)]
    fused = torch.cat([case.q, *new], dim=1)  # as one linear makes them
    heads_first = fused.transpose(0, 1).contiguous().transpose(0, 1)
    dims_first = fused.transpose(0, 2).contiguous().transpose(0, 2)
    cache, tables = LayerCache(case.keys, case.values), batch.block_tables
    for whole in (fused, heads_first, dims_first):
        q, k, v = whole.split([4, 2, 2], dim=1)
        for batch.block_tables in (tables, longest[:, :-9], tables.T.contiguous().T):
            for blocks in (case.keys, case.values):
                blocks.flatten(0, 1)[batch.slots] = float("nan")
            out = triton_attention.step(q, k, v, cache, batch, Masking(0.25))
            assert (out.cpu() - expected).abs().max() < 3e-5


H200 = Device(132, 227 * 1024, (torch.bfloat16,), can_overlap=True)


def sizes_of(monkeypatch, shape, step, device=H200, **options):
    """What the rule says of a shape of heads, and of sequences and their lengths."""
    monkeypatch.setattr(triton_sizes, "device_of", lambda index: device)
    heads, kv_heads, dim = shape
    q = torch.empty(step[0], heads, dim, dtype=torch.bfloat16)
    values = torch.empty(1, 16, kv_heads, dim, dtype=torch.bfloat16)
    sizes, *found, fill, exact = triton_sizes.step_sizes(q, values, *step, **options)
    assert not exact or step[2] <= 1.25 * step[1]  # else pieces may be long
    return sizes.tile, sizes.num_warps, *found, *["fill"] * (fill and not found[1])


@pytest.mark.parametrize("shape", [(32, 8, 128), (8, 4, 256), (32, 8, 64)])
@pytest.mark.parametrize("num_seqs", [1, 4, 30, 60])
def test_rows_that_only_pad_have_sizes_too(monkeypatch, shape, num_seqs):
    """All contexts are 0."""
    assert sizes_of(monkeypatch, shape, (num_seqs, 0, 0))


@pytest.mark.parametrize(
    ("step", "found"),
    [
        ((1, 8192, 8192), (32, 1, 66, True, False)),  # four pieces on each of 132
        ((4, 1100, 1100), (32, 1, 66, True, False)),
        ((5, 8192, 8192), (64, 2, 65, True, False)),  # thirteen pieces each
        ((3, 1100, 1100), (128, 4, 33, True, True)),  # less than 256 for each of 132
        ((4, 1024, 1024), (128, 4, 33, True, True)),
        ((16, 1024, 1024), (128, 4, 48, False, False)),  # three on each
        ((7, 1, 8192), (64, 2, 66, True, True)),
        (
            (5, 100, 128),
            (128, 4, 33, False, True),
        ),  # a tile holds all: nothing to merge
        ((32, 100, 2048), (128, 4, 49, False, True)),  # three on each
        ((8, 4096, 4096), (128, 4, 48, False, False)),  # six pieces each: nearly three
        ((24, 1, 6000), (128, 4, 49, False, False, "fill")),  # there is much to read
        ((64, 1, 4096), (128, 4, 49, False, False)),  # there are enough: in waves
        ((200, 1, 2048), (64, 4, 49, False, False)),
        ((256, 1, 2048), (32, 1, 49, False, False)),  # more than 14 on each
        ((32, 2048, 2048), (64, 4, 1, False, False)),  # 1.9 on each: two are enough
        ((64, 4096, 4096), (64, 2, 64, False, False)),  # 3.9 on each: four at a time
        ((73, 5900, 5900), (128, 4, 146, False, False)),  # 4.4: in two, three waves
    ],
    ids=str,
)
def test_sizes_follow_from_what_the_host_knows(monkeypatch, step, found):
    shape = 16, 8, 128
    assert sizes_of(monkeypatch, shape, step) == found
    old = H200._replace(can_overlap=False)
    monkeypatch.setattr(triton_sizes, "INTERPRETED", False)
    _, _, _, apart, early, *_ = sizes_of(monkeypatch, shape, step, old)
    assert not apart  # two launches, one after the other, would take longer
    assert not early


@pytest.mark.parametrize(
    ("shape", "num_seqs", "length", "found"),
    [
        ((24, 2, 128), 24, 12502, (64, 2, 11)),  # four places, nearly full
        ((24, 2, 128), 90, 7000, (128, 4, 2)),  # three
        ((32, 32, 128), 5, 16313, (64, 2, 3)),
        ((32, 8, 128), 16, 700, (128, 4, 3)),
        ((28, 4, 128), 50, 14607, (64, 2, 5)),  # 7.6 on each: two waves of four
        ((64, 8, 128), 32, 8000, (64, 4, 1)),  # 1.9 on each
        ((64, 8, 128), 37, 4000, (128, 4, 4)),  # 9.0: three waves of three
        ((64, 8, 128), 91, 5004, (128, 4, 1)),  # 5.5: two waves of three
        ((32, 32, 128), 41, 2360, (64, 2, 2)),  # 19.9: five waves of four
        ((8, 4, 256), 60, 1500, (32, 4, 1)),
        ((16, 16, 256), 60, 1158, (64, 4, 2)),  # 14.5: five waves of three
    ],
    ids=str,
)
def test_even_contexts_leave_few_places_empty(
    monkeypatch, shape, num_seqs, length, found
):
    step = num_seqs, length, length
    tile, num_warps, target, *_ = sizes_of(monkeypatch, shape, step)
    pieces = max(1, target // num_seqs)
    assert (tile, num_warps, pieces) == found
    assert target in (1, num_seqs * pieces)


@pytest.mark.parametrize(
    ("step", "found"),
    [
        ((72, 2944, 2944), (32, 1, 1, False, False)),  # all at once
        ((72, 1, 2944), (128, 4, 66, False, True)),
        ((13, 710, 710), (32, 1, 66, False, True)),
        ((6, 582, 582), (128, 4, 66, False, True)),
        ((50, 1500, 1500), (128, 4, 1, False, False)),  # three on each
        ((90, 1500, 1500), (32, 1, 1, False, False)),
    ],
    ids=str,
)
def test_sizes_of_short_heads(monkeypatch, step, found):
    assert sizes_of(monkeypatch, (32, 8, 64), step) == found


@pytest.mark.parametrize(
    ("step", "found"),
    [
        ((6, 4416, 4416), (32, 4, 99, True, True)),  # as many bytes in a tile
        ((4, 2208, 8804), (32, 4, 99, True, True)),
        ((6, 625, 625), (64, 4, 66, True, True)),  # there is little to read
        ((21, 1551, 1551), (32, 2, 126, False, False)),  # nearly four on each
        ((27, 951, 951), (32, 4, 81, False, False)),  # three: they are short
        ((47, 10387, 10387), (32, 4, 94, False, False)),
        ((20, 205, 4912), (32, 4, 99, True, True)),
        ((7, 318, 1300), (16, 2, 132, True, True)),  # the longest piece counts
        ((30, 146, 31228), (32, 4, 99, True, True)),  # one is very long
        ((59, 1500, 9000), (32, 4, 99, False, False, "fill")),
        ((67, 1, 512), (64, 4, 99, False, False)),  # two on each: there are enough
    ],
    ids=str,
)
def test_sizes_of_long_heads(monkeypatch, step, found):
    assert sizes_of(monkeypatch, (8, 4, 256), step) == found


@pytest.mark.parametrize(
    ("step", "places", "found"),
    [
        ((8, 4096, 4096), 3, (64, 4, 49, False, True, "fill")),
        ((26, 2429, 2429), 4, (64, 4, 66, False, True, "fill")),  # 2 x 1.6 of four
        ((40, 1500, 1500), 3, (64, 4, 49, False, True, "fill")),  # 2.4 of three
        ((27, 962, 962), 3, (64, 4, 49, False, True, "fill")),  # too short to be cut
        ((55, 826, 826), 4, (64, 4, 66, False, True, "fill")),  # 3.3 of four: one wave
        ((92, 769, 769), 6, (64, 2, 99, False, True, "fill")),  # 5.6 of six
        ((32, 100, 2048), 3, (64, 4, 49, False, True, "fill")),
        ((76, 136, 855), 4, (64, 4, 66, False, True, "fill")),
        ((256, 100, 2048), 6, (64, 2, 49, False, True)),
        ((76, 100, 2048), 3, (64, 4, 49, False, True, "fill")),  # some much longer
        ((3, 9000, 9000), 3, (64, 4, 49, True, True)),
    ],
    ids=str,
)
def test_sizes_in_8_bits(monkeypatch, step, places, found):
    """Three places on a multiprocessor, or four or six, with fewer registers each."""
    shape, options = (16, 8, 128), {"in_eight_bits": True}
    assert sizes_of(monkeypatch, shape, step, **options) == found
    q = torch.empty(1, 16, 128, dtype=torch.bfloat16)
    sizes, *_ = triton_sizes.step_sizes(q, q.view(1, 2, 8, 128), *step, **options)
    threads = 32 * sizes.num_warps
    assert 65536 // (sizes.registers * threads) == places


@pytest.mark.parametrize(
    ("shape", "together", "step", "found"),
    [
        ((32, 8, 64), 2, (32, 2048, 2048), (64, 4, 99, False, True, "fill")),
        ((32, 8, 64), 2, (6, 2048, 2048), (64, 4, 99, True, True)),
        ((9, 3, 64), 1, (40, 2048, 2048), (64, 4, 132, False, True, "fill")),
        ((8, 4, 256), 1, (33, 1018, 1018), (64, 4, 99, False, True, "fill")),
        ((10, 1, 256), 1, (60, 1018, 1018), (64, 4, 264, False, True, "fill")),
        ((16, 2, 256), 1, (3, 314, 63652), (64, 4, 198, True, True)),
        ((24, 2, 128), 1, (45, 173, 56336), (64, 4, 198, True, True)),
        ((24, 2, 128), 1, (32, 673, 8407), (64, 4, 198, False, True, "fill")),
        ((24, 2, 128), 1, (105, 2429, 2429), (64, 4, 198, False, True, "fill")),
        ((8, 1, 128), 1, (89, 4287, 4287), (64, 4, 528, False, True, "fill")),  # four
        ((8, 1, 128), 1, (55, 578, 8518), (64, 4, 528, False, True, "fill")),
    ],
    ids=str,
)
def test_sizes_in_8_bits_of_other_heads(monkeypatch, shape, together, step, found):
    options = {"in_eight_bits": True, "together": together}
    assert sizes_of(monkeypatch, shape, step, **options) == found


@pytest.mark.parametrize(
    ("heads", "step", "found"),
    [
        (71, (5, 461, 58580), (32, 4, 264, True, False)),
        (71, (10, 15219, 15219), (32, 4, 264, True, False)),
        (71, (46, 6060, 6060), (32, 4, 396, True, False)),
        (71, (73, 605, 605), (32, 4, 396, False, True, "fill")),
        (20, (5, 461, 58580), (128, 4, 528, True, True)),
    ],
)
def test_sizes_of_many_query_heads(monkeypatch, heads, step, found):
    assert sizes_of(monkeypatch, (heads, 1, 64), step) == found


@pytest.mark.parametrize(
    ("shape", "step", "found"),
    [
        ((16, 16, 64), (25, 882, 882), (128, 4, 1, False, False)),
        ((14, 2, 64), (20, 1458, 1458), (128, 4, 264, False, True, "fill")),
        ((32, 8, 64), (22, 4561, 4561), (32, 1, 132, False, False)),
        ((8, 1, 128), (57, 16156, 16156), (64, 2, 513, True, False)),
        ((32, 8, 128), (11, 1412, 9490), (64, 2, 66, False, True, "fill")),
        ((32, 32, 128), (4, 829, 829), (128, 4, 12, False, False)),
        ((40, 8, 128), (10, 443, 15128), (128, 4, 33, False, False)),  # a long tail
        ((40, 8, 128), (28, 13586, 13586), (64, 4, 1, False, False)),  # nearly two
    ],
    ids=str,
)
def test_which_plans_fill_places(monkeypatch, shape, step, found):
    assert sizes_of(monkeypatch, shape, step) == found


@pytest.mark.parametrize(
    ("shape", "step", "read"),
    [
        ((8, 1, 128), (6, 504, 47720), (32, 256)),  # there are few, and one is long
        ((8, 1, 128), (6, 4000, 4000), (32, 64)),
        ((16, 2, 256), (10, 6495, 6495), (64, 64)),
        ((71, 1, 64), (55, 136, 7036), (64, 32)),  # some wait for a place
    ],
    ids=str,
)
def test_the_more_programs_merge_the_less_each_reads(monkeypatch, shape, step, read):
    monkeypatch.setattr(triton_sizes, "device_of", lambda index: H200)
    heads, kv_heads, dim = shape
    q = torch.empty(step[0], heads, dim, dtype=torch.bfloat16)
    values = torch.empty(1, 16, kv_heads, dim, dtype=torch.bfloat16)
    assert triton_sizes.merge_sizes(q, values, *step) == read


def test_tables_of_32_bits():
    case = make_case(DECODES)
    for name in ("block_tables", "context_lengths", "query_starts", "slots"):
        setattr(case.batch, name, getattr(case.batch, name).int())
    check(case)


def test_what_cannot_be_taken_is_refused():
    case = moved(make_case(DECODES), DEVICE)
    k = torch.zeros(6, 2, 16, device=DEVICE)
    cache, batch = LayerCache(case.keys, case.values), case.batch

    def refused(words, k=k, v=k, cache=cache, masking=None, **changed):
        masking = masking or Masking(0.25)
        given = SimpleNamespace(**{**vars(batch), "scratch": {}, **changed})
        with pytest.raises(ValueError, match=words):
            triton_attention.step(case.q, k, v, cache, given, masking)

    refused("new K and V are torch.float16", k=k.half())
    refused(r"k must be \[num_sequences=6", k=k[:5])
    refused("v must be .*num_kv_heads=3", k=k.repeat(1, 2, 1)[:, :3])
    refused("slots must be int64 or int32", slots=batch.slots.float())
    refused("slots must be", slots=batch.slots[:5])
    refused(
        "keys must be|keys to be contiguous",
        cache=LayerCache(
            case.keys.transpose(1, 2).contiguous().transpose(1, 2), case.values
        ),
    )
    refused("sinks must be", masking=Masking(0.25, sinks=sinks_of(5).to(DEVICE)))
    refused("softcap must not be 0", masking=Masking(0.25, softcap=0.0))
    if INTERPRETED:
        refused("slots must lie in -1", slots=batch.slots + 10**6)
        refused("context_lengths must", context_lengths=batch.context_lengths + 99)


def test_what_a_known_launch_cannot_take_is_refused_too():
    case = moved(make_case(DECODES), DEVICE)
    k, batch = torch.zeros(6, 2, 16, device=DEVICE), case.batch
    cache = LayerCache(case.keys, case.values)
    batch.slots = batch.slots[:6]
    triton_attention.step(case.q, k, k, cache, batch, Masking(0.25))
    tables, slots = batch.block_tables, batch.slots
    for own, changed in (
        (k.half(), {}),
        (k[:5], {}),
        (k, {"slots": slots.float()}),
        (k, {"block_tables": tables.float()}),
        *([] if INTERPRETED else [(k, {"block_tables": tables.cpu()})]),
    ):
        given = SimpleNamespace(**{**vars(batch), **changed})
        with pytest.raises(ValueError):
            triton_attention.step(case.q, own, own, cache, given, Masking(0.25))


def test_no_sequence_at_all():
    case = moved(make_case([(3, 1)]), DEVICE)
    batch, cache = case.batch, LayerCache(case.keys, case.values)
    for name in ("slots", "block_tables", "context_lengths"):
        setattr(batch, name, getattr(batch, name)[:0])
    batch.query_starts = batch.query_starts[:1]
    k = torch.zeros(0, 2, 16, device=DEVICE)
    out = triton_attention.step(case.q[:0], k, k, cache, batch, Masking(0.25))
    assert out.shape == (0, 4, 16)


# Wrong variants: a line of the kernel is exchanged, and a check must notice.


@pytest.fixture
def plant(monkeypatch, tmp_path):
    """plant(module, right, wrong): from now on the kernel is the wrong one."""

    def plant(module, right, wrong):
        name = f"wrong_{module.__name__.rpartition('.')[2]}"
        text = Path(module.__file__).read_text()
        assert text.count(right) == 1
        path = tmp_path / f"{name}.py"
        path.write_text(text.replace(right, wrong))
        spec = importlib.util.spec_from_file_location(name, path)
        planted = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, planted)
        spec.loader.exec_module(planted)
        if module is pieces:
            source = f"from {pieces.__name__} import"
            planted = plant(one_launch, source, f"from {name} import")
        monkeypatch.setattr(triton_step, "step_kernel", planted.step_kernel)
        if module is pieces:
            for function in ("write_plan", "merge_kernel"):
                wrong = getattr(sys.modules[name], function)
                monkeypatch.setattr(triton_step, function, wrong)
        return planted

    return plant


def case_of_layers():
    """In pieces, which are merged two at a time, or fewer."""
    shape = {"num_heads": 4, "num_kv_heads": 2, "spread": 2.0, "seed": 2}
    return moved(make_case([(0, 1), (90, 1), (40, 1)], **shape), DEVICE)


KERNEL_MISTAKES = {
    "the new token is forgotten": ("has_new = kind == 2", "has_new = kind == 3"),
    "all pieces have the new token": ("has_new = kind == 2", "has_new = kind < 3"),
    "tickets are not put back": ("tl.store(ticket, 0)", "tl.store(ticket, num_pieces)"),
    "nobody merges": ("== num_pieces - 1:", "== num_pieces:"),
    "positions are left out": ("tl.load(own + 3)", "tl.load(own + 3) - 1"),
    "pieces of another head": (
        "to(tl.int64) * NUM_KV_HEADS + kv_head) * GROUP",
        "to(tl.int64) * NUM_KV_HEADS) * GROUP",
    ),
    "the new token is stored, but not read": ("stop += 1", "stop += 0"),
}
PIECES_MISTAKES = {
    "what lies behind the new slot is read": (
        "end = tl.maximum(context - 1, 0)",
        "end = context",
    ),
    "no rescale in the merge": (
        "tl.exp2(maximum - reference)",
        "total * 0 + 1",
    ),
    "all pieces count the same": (
        "tl.exp2(part_logs[at] - reference)",
        "tl.exp2(part_logs[at] * 0)",
    ),
    "the first of those at once counts for all": ("part_means[at]", "part_means[0]"),
    "pieces are not merged": (
        "range(0, num_pieces, AT_ONCE)",
        "range(AT_ONCE, num_pieces, AT_ONCE)",
    ),
}


APART_MISTAKES = {
    "heads of a KV head are merged from its first": (
        "* (NUM_KV_HEADS * GROUP) + head\n        log",
        "* (NUM_KV_HEADS * GROUP) + head // GROUP * GROUP\n        log",
    ),
    "the second half of the numbers is the first": (
        "column = tl.program_id(2) * NUMBERS",
        "column = tl.program_id(2) * 0",
    ),
    "what is stored already is merged again": ("num_pieces == 1:", "num_pieces == 0:"),
    "one piece is merged, for one sequence has one": (
        "num_pieces = tl.load(own + 1).to(tl.int64), tl.load(own + 5)",
        "num_pieces = tl.load(own + 1).to(tl.int64), 1",
    ),
    "every sequence begins where the first does": (
        "found_at = tl.load(plan + seq * COLUMNS + 8)",
        "found_at = tl.load(plan + 8)",
    ),
    "all pieces count the same": (
        "tl.exp2(log - base)",
        "tl.exp2(tl.where(exists, 0.0, log))",
    ),
    "pieces of nobody count": (
        "log = tl.load(logs + rows, mask=exists",
        "log = tl.load(logs + rows, mask=rows >= 0",
    ),
    "no rescale between those at once": ("tl.exp2(highest - base)", "total * 0 + 1"),
    "pieces are left out": (
        "range(0, num_pieces, PIECES)",
        "range(PIECES, num_pieces, PIECES)",
    ),
    "the sum is not divided": (
        "/ tl.where(total == 0.0, 1.0, total)\n    places",
        "/ 1.0\n    places",
    ),
}


@pytest.fixture
def few_at_once(monkeypatch):
    """Two pieces, or fewer, are merged at once; apart, eight numbers of each."""
    monkeypatch.setattr(triton_step, "_MERGED_NUMBERS", 1)
    monkeypatch.setattr(triton_step, "merge_sizes", lambda *_: (8, 2))


@APART
def test_the_check_accepts_the_kernel_as_it_is(apart, cut, few_at_once):
    cut(8, apart)
    assert all(e < 3e-5 for e in layers(case_of_layers()))


MISTAKES = [(one_launch, False, KERNEL_MISTAKES), (pieces, False, PIECES_MISTAKES)]
MISTAKES += [(pieces, True, APART_MISTAKES)]


@pytest.mark.parametrize(
    ("module", "apart", "right", "wrong"),
    [
        pytest.param(module, apart, *change, id=name + ", apart" * apart)
        for module, apart, mistakes in MISTAKES
        for name, change in mistakes.items()
    ],
)
def test_the_check_rejects(module, apart, right, wrong, plant, cut, few_at_once):
    cut(8, apart)
    plant(module, right, wrong)
    try:  # seen in the results, or in the cache afterwards
        found = not all(e < 1e-2 for e in layers(case_of_layers(), 2))
    except AssertionError:
        found = True
    assert found


def test_the_check_rejects_a_plan_in_which_sequences_share_rows(plant):
    rows_of_plan([40, 40, 40], 5)
    before = "other[None, :] < seq[:, None]"
    plant(pieces, before, before + " - 1")
    wrong = sys.modules["wrong_pieces"]
    with pytest.raises(AssertionError):
        rows_of_plan([40, 40, 40], 5, by=wrong)


def test_the_check_rejects_that_padding_is_stored(plant):
    pad_and_step(padded_case(context=1))
    plant(one_launch, "has_new and slot >= 0:", "has_new:")
    with pytest.raises(AssertionError):
        pad_and_step(padded_case(context=1))
