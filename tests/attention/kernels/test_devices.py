"""With several GPUs, kernels run on the one that holds the cache."""

import pytest
import torch

from helpers.attention_cases import make_case, moved, oracle
from minipaged.attention.kernels.attention import triton_attention
from minipaged.attention.kernels.cache import TritonKVCache
from minipaged.attention.kernels.setup import triton

OTHER = "cuda:1"
pytestmark = pytest.mark.skipif(
    torch.cuda.device_count() < 2, reason="wants a second GPU"
)


@pytest.fixture
def launches(monkeypatch):
    """The GPU of each launch. A wrong one would reach the memory, but not wait for it.

    So results alone do not tell, unless that GPU happens to be busy.
    """
    seen = []
    driver = triton.runtime.driver.active
    stream_of = driver.get_current_stream

    def note(device):
        seen.append(device)
        return stream_of(device)

    monkeypatch.setattr(driver, "get_current_stream", note)
    return seen


@pytest.mark.parametrize("lengths", [[(5, 9), (0, 1)], [(7, 2)], [(3000, 1)]], ids=str)
def test_attention(launches, lengths):
    case = moved(make_case(lengths), OTHER)
    out = case.attend(triton_attention)
    assert (out.cpu() - oracle(case)).abs().max() < 3e-5
    assert set(launches) == {1}


def test_writing_and_copying(launches):
    cache = TritonKVCache([(2, 16, 16)], num_blocks=6, block_size=2, device=OTHER)
    slots, new = torch.tensor([5, 1]).to(OTHER), torch.randn(2, 2, 16).to(OTHER)
    cache.write(0, slots, new, -new)
    assert torch.equal(cache.keys[0].flatten(0, 1)[slots], new)
    cache.copy([(2, 4), (0, 1)])
    assert torch.equal(cache.values[0][4, 1], -new[0])
    assert launches == [1, 1]
