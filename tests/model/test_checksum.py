"""Checksums of weights: any bit counts, whatever its tensor's type and strides."""

import pytest
import torch

from minipaged.attention.kernels.setup import INTERPRETED
from minipaged.model.checksum import _sums, checksum
from minipaged.model.checksum_kernel import SumsOfWords, is_in_words

TYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn,
    torch.int8, torch.uint8, torch.bool, torch.complex64,
]  # fmt: skip
DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


def sums(tensors):
    """As on a GPU, where there may be none."""
    return [part.tolist() for tensor in tensors for part in _sums(tensor)]


def words(tensors):
    """The kernel, interpreted where there is no GPU, for what it can read."""
    if not INTERPRETED and any(tensor.is_cpu for tensor in tensors):
        pytest.skip("compiled, the kernel reads a GPU's memory only")
    of = [SumsOfWords([x]).now() if is_in_words(x) else _sums(x) for x in tensors]
    return [[part.tolist() for part in parts] for parts in of]


@pytest.mark.parametrize("of", [checksum, sums, words])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("device", DEVICES)
def test_any_number_counts(of, dtype, device):
    for shape in ((), (1,), (7,), (3000,), (30, 100), (2, 30, 50), (5000, 1)):
        tensor = torch.zeros(shape, device=device).to(dtype)
        before = of([tensor])
        assert of([tensor.clone()]) == before
        for at in {0, tensor.numel() // 2, tensor.numel() - 1}:
            bits = tensor.clone().view(-1).view(torch.uint8)
            bits[at * tensor.element_size()] ^= 1
            assert of([bits.view(dtype)]) != before


@pytest.mark.parametrize("of", [checksum, sums, words])
@pytest.mark.parametrize("device", DEVICES)
def test_what_keeps_a_sum_is_noticed_too(of, device):
    torch.manual_seed(0)
    tensor = torch.randn(64, 1024, device=device)
    tensor[3, :512], tensor[3, 512:] = 1.0, -1.0  # a sum of bits that signs leave
    before = of([tensor])
    for change in (
        lambda one: one.__setitem__(3, -one[3]),
        lambda one: one.__setitem__([5, 6], one[[6, 5]]),
        lambda one: one.__setitem__((5, [8, 9]), one[5, [9, 8]]),
    ):
        changed = tensor.clone()
        change(changed)
        assert of([changed]) != before


@pytest.mark.parametrize("device", DEVICES)
def test_strides_empty_tensors_and_those_of_inference_mode(device):
    tensor = torch.randn(30, 20, device=device)
    apart = tensor.T.contiguous().T
    assert checksum([apart]) == checksum([apart.clone()])
    apart[3, 4] += 1
    assert checksum([apart]) != checksum([tensor])
    assert checksum([tensor[:0], tensor]) == checksum([tensor[:0], tensor.clone()])
    with torch.inference_mode():
        inside = tensor.clone()
    assert checksum([inside]) == checksum([tensor])


@pytest.mark.parametrize("device", DEVICES if INTERPRETED else ["cuda"])
def test_pieces_of_several_tensors(device):
    """Longer than a program reads; every word counts, and which tensor it is in."""
    one, two = torch.randn(200_000, device=device), torch.randn(5, device=device)
    sums = SumsOfWords([one, two])
    before = sums.now()
    assert len(before) == 5 and torch.equal(sums.now(), before)
    for tensor, at in ((one, 0), (one, 65_535), (one, 65_536), (one, -1), (two, 4)):
        kept = tensor[at].clone()
        tensor[at] += 1
        assert (sums.now() != before).sum() == 1
        tensor[at] = kept
    one *= -1  # signs alone
    assert not torch.equal(sums.now(), before)
