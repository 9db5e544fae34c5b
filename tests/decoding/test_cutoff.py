"""A row's cutoff keeps what HuggingFace's top-k, top-p and min-p keep."""

import pytest
import torch
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from helpers.thorough import all_or, often
from helpers.warpers import warpers_of
from minipaged.attention.kernels.setup import INTERPRETED
from minipaged.decoding import cutoff
from minipaged.decoding.cutoff import find_cutoffs
from minipaged.decoding.row_options import RowOptions

DEVICE = "cpu" if INTERPRETED else "cuda"
INF = float("inf")
# Sums of probabilities are of float32 here and there: so near to a bound, either is
# right. HuggingFace adds hundreds one after the other, each to about 1e-7.
NEAR = 1e-5
DTYPES = [torch.float32, torch.float16]
if not INTERPRETED:
    DTYPES.append(torch.bfloat16)


def cutoffs_of(logits, options):
    numbers = [[o.sharpness, o.top_k, o.top_p, o.min_p] for o in options]
    return find_cutoffs(logits.to(DEVICE), torch.tensor(numbers, device=DEVICE)).cpu()


def kept(logits, options):
    """[rows, vocabulary]: what may be drawn; what is -inf cannot be, cutoff or not."""
    floats = logits.float()
    return (floats >= cutoffs_of(logits, options)[:, None]) & (floats > -INF)


def kept_by_huggingface(row, options):
    """The same of one row."""
    return warpers_of(options)(None, row.float()[None])[0] > -INF


def surely_and_perhaps_kept(row, options):
    """By definition, in float64: what must be kept, and what may be if rounded."""
    x = row.double()
    kth = x.sort(descending=True).values[min(options.top_k or len(x), len(x)) - 1]
    left = torch.where(x >= kth, x, -INF)
    share = torch.softmax(left * options.sharpness, 0)
    above = torch.stack([share[x > each].sum() for each in x])
    below_the_first = share / share.max()

    def by(slack):
        in_p = (above < options.top_p + slack) | (x == x.max())
        return in_p & (below_the_first >= options.min_p * (1 - slack)) & (left > -INF)

    return by(-NEAR), by(NEAR)


def check(logits, options):
    """Ours against the definition and against HuggingFace's, row for row."""
    for row, own, ours in zip(logits, options, kept(logits, options), strict=True):
        surely, perhaps = surely_and_perhaps_kept(row, own)
        theirs = kept_by_huggingface(row, own)
        assert not (surely & ~ours).any() and not (ours & ~perhaps).any(), own
        unlike = ours != theirs
        lowest = row[theirs].min()
        assert (perhaps & (~surely | (row == lowest)))[unlike].all(), own
        assert ours.any() and not (unlike & ~ours & surely).any()


any_options = st.builds(
    RowOptions,
    sharpness=st.sampled_from([0.1, 0.7, 1.0, 1 / 0.6, 3.0]),
    top_k=st.sampled_from([0, 1, 2, 7, 20, 64, 500, 10**9]),
    top_p=st.sampled_from([0.0, 1e-6, 0.1, 0.5, 0.9, 0.95, 0.999, 1.0]),
    min_p=st.sampled_from([0.0, 1e-4, 0.05, 0.3, 1.0]),
)


@st.composite
def any_rows(draw):
    """[rows, vocabulary]: random ones, with ties or impossible ones among them."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    size = draw(st.integers(1, 4)), draw(st.sampled_from([1, 2, 15, 16, 17, 90]))
    rows = torch.randn(size, generator=generator)
    rows = rows * draw(st.sampled_from([0.01, 1.0, 3.0, 10.0]))
    rows = rows + draw(st.sampled_from([0.0, -30.0, 50.0]))
    if draw(st.booleans()):
        rows = rows.round()
    if draw(st.booleans()):
        rows[:, : size[1] - 1][
            torch.rand(size, generator=generator)[:, 1:] < 0.5
        ] = -INF
    return rows.to(draw(st.sampled_from(DTYPES)))


# Not shrunk: a kernel that is interpreted takes minutes for that.
@settings(
    max_examples=often(150),
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
)
@given(any_rows(), st.lists(any_options, min_size=4, max_size=4), st.booleans())
@example(torch.zeros(1, 40), [RowOptions(top_k=3, top_p=0.5)], True)
def test_any_rows(rows, options, is_narrow):
    """Each row has its own options, all in one launch."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cutoff, "_LANES", 16 if is_narrow else 128)
        check(rows, options[: len(rows)])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [0.5, 3.0])
def test_as_many_as_a_model_has(dtype, scale):
    generator = torch.Generator().manual_seed(1)
    logits = (torch.randn(5, 20_000, generator=generator) * scale).to(dtype)
    k20, p95 = {"top_k": 20}, {"top_p": 0.95}
    each = [k20, p95, k20 | p95, {"min_p": 0.05}, k20 | p95 | {"min_p": 0.3}]
    options = [RowOptions(1 / 0.6, **own) for own in each]
    counts = []
    for row, own, ours in zip(logits, options, kept(logits, options), strict=True):
        theirs = kept_by_huggingface(row, own)
        counts.append(int(ours.sum()))
        # At the cut ties, and sums of 20,000 float32, may fall to either side.
        unlike = row[ours != theirs].unique()
        assert len(unlike) <= (1 if dtype is torch.float16 else 3)
    assert counts[0] >= 20 > counts[4] and counts[1] > 20 > counts[2]


@pytest.mark.parametrize("dtype", DTYPES)
def test_extremes(dtype):
    """Equal ones are kept together; what is impossible never is."""
    tiny, huge = torch.finfo(dtype).smallest_normal, torch.finfo(dtype).max
    rows = [
        [2.0, 2.0, 2.0, 2.0, 2.0, 2.0],
        [-INF, -INF, 3.0, -INF, -INF, -INF],
        [-0.0, 0.0, -0.0, -1.0, -2.0, tiny],
        [-0.0, -tiny, tiny, -huge, -INF, -1.0],
        [huge, -huge, -huge, 0.0, 1.0, -INF],
        [-5.0, -6.0, -7.0, -8.0, -9.0, -5.0],
        [100.0, 1.0, 2.0, 3.0, 4.0, 5.0],
    ]
    logits = torch.tensor(rows).to(dtype)
    for k in all_or((0, 1, 3, 7), (0, 3)):
        for p in all_or((0.0, 1e-9, 0.6, 1.0), (1e-9, 0.6)):
            check(logits, [RowOptions(top_k=k, top_p=p, min_p=0.01)] * len(rows))
    zeros = kept(logits[2:3], [RowOptions(top_k=2)])
    assert zeros.tolist() == [[True, True, True, False, False, True]]


@pytest.mark.parametrize("scale", [0.01, 3.0, 1e30])
def test_the_numbers_of_bfloat16(monkeypatch, scale):
    """The interpreter knows them only as float32, but with as many empty bits."""
    bits = cutoff._EMPTY_BITS
    monkeypatch.setitem(bits, torch.float32, bits[torch.bfloat16])
    logits = torch.randn(6, 300, generator=torch.Generator().manual_seed(6)) * scale
    each = [{"top_k": 20}, {"top_p": 0.9}, {"top_k": 290}]
    options = [RowOptions(1 / scale, **own) for own in each * 2]
    check(logits.bfloat16().float(), options)


def test_who_asks_for_nothing_keeps_all():
    logits = torch.randn(3, 50, generator=torch.Generator().manual_seed(2))
    options = [RowOptions(2.0), RowOptions(top_k=1), RowOptions(INF)]
    found = cutoffs_of(logits, options)
    assert found.tolist() == [-INF, logits[1].max(), -INF]


@pytest.mark.parametrize("lanes", [16, 64])
def test_the_highest_may_share_a_lane(monkeypatch, lanes):
    """Then what is found among the lanes is too low, and the row is searched."""
    monkeypatch.setattr(cutoff, "_LANES", lanes)
    logits = torch.randn(2, 700, generator=torch.Generator().manual_seed(3))
    logits[:, 5::lanes] += 20.0
    check(logits, [RowOptions(top_k=9), RowOptions(0.3, top_p=0.8)])


def test_rows_that_lie_apart():
    logits = torch.randn(6, 100, generator=torch.Generator().manual_seed(4))
    options = [RowOptions(top_k=4)] * 3
    apart = cutoffs_of(logits[::2, :70], options)
    assert torch.equal(apart, cutoffs_of(logits[::2, :70].contiguous(), options))


@pytest.mark.parametrize("dtype", DTYPES)
def test_looks_at_a_row(monkeypatch, dtype):
    """Most often one confirms the cutoff; all that 16 bits can say takes eight."""
    looks = []
    weigh = cutoff._weigh

    def counted(row, vocabulary, lanes, starts, highest, sharpness, in_lanes, LANES):
        looks.append(bool(in_lanes))
        return weigh(
            row, vocabulary, lanes, starts, highest, sharpness, in_lanes, LANES
        )

    if not INTERPRETED:
        pytest.skip("a compiled kernel cannot be looked into")
    monkeypatch.setattr(cutoff, "_weigh", counted)
    logits = torch.randn(1, 20_000, generator=torch.Generator().manual_seed(5)) * 3
    cutoffs_of(logits.to(dtype), [RowOptions(top_k=20)])
    assert looks.count(False) == 1
    looks.clear()
    one_lane = torch.zeros(1, 3 * 4096).to(dtype)
    one_lane[0, ::4096] = torch.tensor([3.0, 2.0, 1.0]).to(dtype)
    cutoffs_of(one_lane, [RowOptions(top_k=2)])
    bits = torch.finfo(dtype).bits
    assert 1 < looks.count(False) <= bits / 2
