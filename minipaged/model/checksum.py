"""Lesson 2: a checksum of all numbers of a model's weights (the border)."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib.util import find_spec

import torch
from torch import Tensor
from xxhash import xxh3_64_intdigest

_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_WIDTH = 1024


class Checksum:
    """A checksum of tensors that stay where they are. It changes if any number does.

    It takes about as long as the device needs to read them.
    """

    def __init__(self, tensors: Iterable[Tensor]):
        """On the CPU, or on one other device."""
        self._on_cpu: list[Tensor] = []
        self._others: list[Tensor] = []
        for tensor in tensors:
            (self._on_cpu if tensor.is_cpu else self._others).append(tensor)
        self._in_words = None
        if any(each.is_cuda for each in self._others) and find_spec("triton"):
            self._take_in_words()

    def _take_in_words(self) -> None:
        """Sum in one launch what a kernel of ours can read, if it can be compiled."""
        from minipaged.attention.kernels.setup import INTERPRETED
        from minipaged.model.checksum_kernel import SumsOfWords, is_in_words

        words = [each for each in self._others if is_in_words(each)]
        if INTERPRETED or not words:  # an interpreter reads the CPU's memory only
            return
        with suppress(Exception):  # no compiler, or a GPU that Triton does not know
            in_words = SumsOfWords(words)
            in_words.now()
            self._others = [each for each in self._others if not is_in_words(each)]
            self._in_words = in_words

    def now(self) -> list[int]:
        """Numbers that are others if any bit of the tensors is another."""
        hashes = [xxh3_64_intdigest(_bytes(one).numpy()) for one in self._on_cpu]
        sums = [] if self._in_words is None else [self._in_words.now()]
        for tensor in self._others:
            sums += _sums(tensor)
        if sums:  # all on one device; to copy them waits, once
            hashes.append(xxh3_64_intdigest(torch.cat(sums).cpu().numpy()))
        return hashes


def checksum(tensors: Iterable[Tensor]) -> list[int]:
    """Numbers that are others if any bit of these tensors is another."""
    return Checksum(tensors).now()


def _bytes(tensor: Tensor) -> Tensor:
    return tensor.detach().reshape(-1).view(torch.uint8)


def _sums(tensor: Tensor) -> Iterator[Tensor]:
    """Of rows and of columns of its numbers, taken as integers, in rows of 1,024.

    A number that changes, changes two sums. So do numbers that change places, and rows
    whose signs are turned round: by one kind of sums alone they might be missed.
    """
    flat = tensor.detach().reshape(-1)
    numbers = flat.view(_INTEGERS.get(flat.element_size(), torch.uint8))
    whole = len(numbers) // _WIDTH * _WIDTH
    rows = numbers[:whole].view(-1, _WIDTH)
    for dim in (0, 1):
        yield rows.sum(dim, dtype=torch.int64)
    yield numbers[whole:].to(torch.int64)
