"""Every rung computes the same, in float32 and float16, over poisoned pools."""

from functools import partial

import pytest
import torch

from helpers.attention_cases import make_case, moved, oracle
from minipaged.attention.kernels import decode as triton_decode
from minipaged.attention.kernels.setup import INTERPRETED
from minipaged.lab.tour import ladder
from minipaged.lab.tour.ladder import RUNGS, per_kv_head, split

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


@pytest.mark.parametrize("tile", [16, 32, 128])
def test_tiles_of_any_length(tile):
    assert error_of(per_kv_head, tile=tile) < 3e-5


@pytest.mark.parametrize("num_splits", [2, 9])
def test_any_number_of_splits(num_splits, monkeypatch):
    merge, seen = triton_decode.merge_splits, []

    def spy(out, partial, *rest):
        seen.append(partial.shape[2])
        merge(out, partial, *rest)

    monkeypatch.setattr(triton_decode, "merge_splits", spy)
    even = [(99, 1), (90, 1)]  # else the tiles are so long that one split has all
    assert error_of(split, lengths=even, num_splits=num_splits) < 3e-5
    assert seen == [num_splits]


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


def test_each_rung_has_its_own_tile_and_stages(monkeypatch):
    """What they are timed for does not show in their results."""
    launched = []

    class Spy:
        def __getitem__(self, grid):
            return lambda *_, **options: launched.append(
                (grid, options["TILE"], options["num_stages"])
            )

    monkeypatch.setattr(ladder, "_kv_head_kernel", Spy())
    case = moved(make_case(CONTEXTS, num_heads=6, block_size=16), DEVICE)
    for name in list(RUNGS)[1:4]:
        case.attend(RUNGS[name])
    assert launched == [((2, 5), 16, 1), ((2, 5), 64, 1), ((2, 5), 64, 4)]
