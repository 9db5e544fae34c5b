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

    To compute it takes about as long as the device needs to read the tensors.
    """

    def __init__(self, tensors: Iterable[Tensor]):
        """The tensors lie on the CPU, on one other device, or on both."""
        self._on_cpu: list[Tensor] = []
        self._others: list[Tensor] = []
        for tensor in tensors:
            (self._on_cpu if tensor.is_cpu else self._others).append(tensor)
        self._in_words = None
        if any(tensor.is_cuda for tensor in self._others) and find_spec("triton"):
            self._prepare_kernel()

    def _prepare_kernel(self) -> None:
        """Let our kernel sum the tensors that it can read, if it can be compiled."""
        from minipaged.attention.kernels.setup import INTERPRETED
        from minipaged.model.checksum_kernel import SumsOfWords, is_in_words

        words = [tensor for tensor in self._others if is_in_words(tensor)]
        if INTERPRETED or not words:  # an interpreter reads the CPU's memory only
            return
        with suppress(Exception):  # no compiler, or a GPU that Triton does not know
            in_words = SumsOfWords(words)
            in_words.now()
            self._others = [x for x in self._others if not is_in_words(x)]
            self._in_words = in_words

    def now(self) -> list[int]:
        """The checksum now: a list of numbers that is another if any bit is another."""
        hashes = [xxh3_64_intdigest(_bytes(x).numpy()) for x in self._on_cpu]
        sums = [] if self._in_words is None else [self._in_words.now()]
        for tensor in self._others:
            sums += _sums(tensor)
        if sums:  # all on one device, so only one copy waits
            hashes.append(xxh3_64_intdigest(torch.cat(sums).cpu().numpy()))
        return hashes


def checksum(tensors: Iterable[Tensor]) -> list[int]:
    """The present checksum of these tensors."""
    return Checksum(tensors).now()


def _bytes(tensor: Tensor) -> Tensor:
    return tensor.detach().reshape(-1).view(torch.uint8)


def _sums(tensor: Tensor) -> Iterator[Tensor]:
    """Sums of its numbers, taken as integers, over columns and over rows of 1,024.

    A number that changes also changes two sums. With sums of one kind alone, some
    changes might be missed, such as numbers of a row that change places. Numbers beyond
    the last whole row stay as they are. For example: 2,050 numbers give 1,024 sums of
    columns, 2 sums of rows, and 2 numbers.
    """
    flat = tensor.detach().reshape(-1)
    numbers = flat.view(_INTEGERS.get(flat.element_size(), torch.uint8))
    whole = len(numbers) // _WIDTH * _WIDTH
    rows = numbers[:whole].view(-1, _WIDTH)
    for dim in (0, 1):
        yield rows.sum(dim, dtype=torch.int64)
    yield numbers[whole:].to(torch.int64)
