"""Every rung computes the same, in float32 and float16, over poisoned pools."""

from functools import partial
from importlib import import_module
from itertools import pairwise

import pytest
import torch

from helpers.attention_cases import make_case, moved, oracle
from helpers.thorough import all_or
from minipaged.attention.kernels import decode as triton_decode
from minipaged.attention.kernels.setup import INTERPRETED
from minipaged.attention.kernels.sizes import Sizes
from minipaged.lab.measure.small_batches import BATCHES, largest_error
from minipaged.lab.tour import ladder
from minipaged.lab.tour.ladder import RUNGS, per_kv_head
from minipaged.lab.tour.paging import paged_or_not

DEVICE = "cpu" if INTERPRETED else "cuda"
TOLERANCE = {torch.float32: 3e-5, torch.float16: 4e-3}
CONTEXTS = [(0, 1), (14, 1), (15, 1), (16, 1), (99, 1)]


def error_of(rung, dtype=torch.float32, lengths=CONTEXTS, **options):
    case = make_case(lengths, num_heads=6, block_size=16, dtype=dtype)
    expected = oracle(case, scale=0.25)
    case = moved(case, DEVICE)
    ours = case.attend(partial(rung, **options))
    return (ours.cpu().double() - expected).abs().max()


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("name", RUNGS)
def test_rungs(name, dtype):
    assert error_of(RUNGS[name], dtype) < TOLERANCE[dtype]


@pytest.mark.parametrize("matrix_units", [True, False])
@pytest.mark.parametrize("tile", [16, 32, 128])
def test_tiles_of_any_length(tile, matrix_units):
    assert error_of(per_kv_head, tile=tile, matrix_units=matrix_units) < 3e-5


@pytest.mark.parametrize("block_size", [1, 3, 128])
def test_a_tile_need_not_be_a_block(block_size):
    case = make_case(CONTEXTS, num_heads=6, block_size=block_size)
    expected = oracle(case, scale=0.25)
    case = moved(case, DEVICE)
    for name, rung in RUNGS.items():
        error = (case.attend(rung).cpu().double() - expected).abs().max()
        assert error < 3e-5, name


@pytest.mark.parametrize("num_splits", [1, 2, 9])
@pytest.mark.parametrize(
    "rung", [partial(ladder.split, tile=16), ladder.shipped], ids=["split", "shipped"]
)
def test_any_number_of_splits(num_splits, rung, monkeypatch):
    merge, seen = triton_decode.merge_splits, []

    def spy(out, partial, *rest, **options):
        seen.append((partial.shape[2], partial.dtype))
        merge(out, partial, *rest, **options)

    for module in (triton_decode, import_module("minipaged.lab.tour.ladder.split")):
        monkeypatch.setattr(module, "merge_splits", spy)
    even = [(99, 1), (90, 1)]  # else the tiles are so long that one split has all
    error = error_of(rung, torch.float16, lengths=even, num_splits=num_splits)
    assert error < TOLERANCE[torch.float16]
    assert seen == [(num_splits, torch.float32)] * (num_splits > 1)


@pytest.mark.parametrize("name", RUNGS)
def test_what_the_rungs_leave_out_is_refused(name):
    def refuse(match, lengths=CONTEXTS, **shape):
        case = moved(make_case(lengths, block_size=16, **shape), DEVICE)
        with pytest.raises(ValueError, match=match):
            case.attend(RUNGS[name])

    refuse(r"block_tables must be \[num_sequences=6", [(3, 1), (0, 5)])
    refuse(r"values must be .*dim=16\], got .* 32\]", value_dim=32)
    refuse("3 query heads cannot share 2 KV", num_heads=3)
    case = moved(make_case(CONTEXTS, block_size=16), DEVICE)
    case.q = case.q.transpose(0, 1).contiguous().transpose(0, 1)
    with pytest.raises(ValueError, match="q to be contiguous"):
        case.attend(RUNGS[name])


def launches_of(rung, case, monkeypatch):
    """What the first kernel of a rung is launched with, as far as rungs differ."""
    kind, seen = type(triton_decode._decode_kernel), []
    launch = kind.__getitem__  # kernel[grid](...)

    def noting(kernel, grid):
        def run(*args, **options):
            seen.append((kernel.fn.__name__, grid, options))
            return launch(kernel, grid)(*args, **options)

        return run

    with monkeypatch.context() as patch:
        patch.setattr(kind, "__getitem__", noting)
        case.attend(rung)
    kernel, grid, options = seen[0]
    names = "ROWS TILE UPDATE num_warps num_stages OVERLAP".split()
    facts = {"kernel": kernel, "programs": grid[0], "splits": (*grid, 1)[2]}
    return facts | {name: options[name] for name in names if name in options}


@pytest.fixture
def one_sequence():
    return moved(make_case([(299, 1)], num_heads=6, block_size=16), DEVICE)


def test_each_rung_changes_one_thing(one_sequence, monkeypatch):
    """What they are timed for does not show in their results."""
    rows = [launches_of(rung, one_sequence, monkeypatch) for rung in RUNGS.values()]
    changes = [
        {name for name in {**one, **two} if one.get(name) != two.get(name)}
        for one, two in pairwise(rows)
    ]
    first = {"programs": 6, "splits": 1, "TILE": 16, "num_warps": 4, "num_stages": 1}
    assert first.items() <= rows[0].items()
    assert changes[0] == {"kernel", "programs", "ROWS", "UPDATE"}
    assert changes[1] == {"UPDATE", "ROWS"}  # which matrix units want
    assert [rows[place]["ROWS"] for place in (1, 2)] == [4, 16]
    assert changes[2:4] == [{"TILE"}, {"num_stages"}]
    assert changes[4] == {"kernel", "UPDATE", "splits"}  # they stay, unsaid
    assert changes[5] <= {"TILE", "num_warps", "num_stages", "splits"}
    assert changes[6] == {"kernel", "OVERLAP"}


@pytest.mark.skipif(not INTERPRETED, reason="there are other GPUs")
def test_two_programs_for_each_multiprocessor(one_sequence, monkeypatch):
    name = "contexts split among programs"
    row = launches_of(RUNGS[name], one_sequence, monkeypatch)
    assert row["splits"] == 4  # 2 x 4 multiprocessors, as the rules take it; 2 KV heads
    many = moved(make_case([(2, 1)] * 9, num_heads=6, block_size=16), DEVICE)
    assert launches_of(RUNGS[name], many, monkeypatch)["splits"] == 1


@pytest.mark.parametrize("num_splits", [1, 3])
@pytest.mark.parametrize("block_size", all_or([1, 2, 16, 64], [1, 16]))
def test_with_a_table_and_without_is_the_same(block_size, num_splits):
    """The same K and V, poisoned behind each sequence: in a pool, and in one piece."""
    case = make_case(CONTEXTS, num_heads=6, block_size=block_size)
    expected = oracle(case, scale=0.25)
    room = 128
    pieces = [torch.full((len(CONTEXTS), room, 2, 16), torch.nan) for _ in range(2)]
    for seq, (k, v) in enumerate(case.contexts):
        pieces[0][seq, : len(k)], pieces[1][seq, : len(k)] = k, v
    sizes, case = Sizes(16, 32, 4, 1), moved(case, DEVICE)
    batch = case.batch
    how = (batch.context_lengths, batch.query_starts, 0.25, sizes, num_splits)
    paged = paged_or_not(case.q, case.keys, case.values, batch.block_tables, *how)
    contiguous = paged_or_not(
        case.q, *(piece.to(DEVICE) for piece in pieces), None, *how
    )
    assert torch.equal(paged, contiguous)
    assert (paged.cpu().double() - expected).abs().max() < 3e-5


def test_the_largest_error_of_any_batch_counts_and_nan_is_not_lost():
    device = "cpu" if INTERPRETED else "cuda"
    right = RUNGS["one program per query head"]
    assert largest_error(right, device) < 1e-5
    for wrong in (0.5, torch.nan):
        for size in map(len, BATCHES):  # no two are equal

            def spoiled(q, cache, *rest, size=size, wrong=wrong):
                found = right(q, cache, *rest)
                return found + wrong if len(q) == size else found

            error = largest_error(spoiled, device)
            assert error == pytest.approx(wrong, abs=1e-4, nan_ok=True)
