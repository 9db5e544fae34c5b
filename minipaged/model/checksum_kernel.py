"""Appendix D: a checksum of a GPU's weights, in one launch."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from minipaged.attention.kernels.setup import tl, triton

_WORDS = 1 << 16  # of 4 bytes: how many a program reads
_TILE = 4096


@triton.jit
def _checksum_kernel(
    sums,  # [pieces]
    pieces,  # [pieces, 2]: each piece's address, and its number of words
    TILE: tl.constexpr,
):
    piece = tl.program_id(0)
    words = tl.load(pieces + 2 * piece).to(tl.pointer_type(tl.int32))
    length = tl.load(pieces + 2 * piece + 1).to(tl.int32)
    total = tl.zeros([TILE], tl.int64)
    for start in range(0, length, TILE):
        at = start + tl.arange(0, TILE)
        word = tl.load(words + at, mask=at < length, other=0)
        mixed = _mix(word.to(tl.uint32, bitcast=True) ^ _mix(at.to(tl.uint32)))
        total += mixed.to(tl.int64)
    tl.store(sums + piece, tl.sum(total, 0))


@triton.jit
def _mix(x):
    """A different number for each x: if a bit of x changes, about half of its bits do.

    Source: lowbias32, from Chris Wellons' search for integer hashes.
    """
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)


def is_in_words(tensor: Tensor) -> bool:
    """Can the tensor be read as a row of whole words?"""
    whole = tensor.nbytes % 4 == 0 and tensor.data_ptr() % 4 == 0
    return whole and tensor.nbytes > 0 and tensor.is_contiguous()


class SumsOfWords:
    """Sums the words of tensors that stay where they are, on one device."""

    def __init__(self, tensors: Sequence[Tensor]):
        """Note the addresses of at least one tensor, each of which `is_in_words`."""
        pieces = []
        for tensor in tensors:
            starts = np.arange(0, tensor.nbytes // 4, _WORDS)
            lengths = np.minimum(tensor.nbytes // 4 - starts, _WORDS)
            pieces.append(np.stack([tensor.data_ptr() + 4 * starts, lengths], axis=1))
        self._pieces = torch.from_numpy(np.concatenate(pieces)).to(tensors[0].device)

    def now(self) -> Tensor:
        """[pieces] int64: a piece's sum changes if a word changes or moves."""
        count = len(self._pieces)
        sums = torch.empty(count, dtype=torch.int64, device=self._pieces.device)
        with torch.cuda.device_of(sums):
            _checksum_kernel[(count,)](sums, self._pieces, TILE=_TILE, num_warps=8)
        return sums
