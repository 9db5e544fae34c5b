"""Lab: the blocks that lesson 5's exercises read; what was given is taken back."""

import torch


class Blocks:
    """A sequence's blocks, to be read one at a time: `read(j)` gives its K and V.

    There is memory for one block: what an earlier call gave turns into NaN. So do the
    slots that no token was written to.
    """

    def __init__(
        self,
        k: torch.Tensor,
        v: torch.Tensor,
        block_size: int,
        empty: float = torch.nan,
        is_forgotten: bool = True,
    ):
        self.block_size, self._all = block_size, (k, v)
        self._is_forgotten = is_forgotten  # what was given, at the next call
        size = -len(k) % block_size  # slots without a token
        tail = k.new_full((size, *k.shape[1:]), empty)
        self._k, self._v = (torch.cat([x, tail]).split(block_size) for x in (k, v))
        self.num_in_last = block_size - size  # tokens of the last block
        self._given: tuple[torch.Tensor, ...] = ()
        self.reads: list[int] = []

    def __call__(self, block: int) -> tuple[torch.Tensor, torch.Tensor]:
        if not 0 <= block < len(self._k):
            raise IndexError(f"no block {block}: they are 0 to {len(self._k) - 1}")
        for given in self._given * self._is_forgotten:
            given.fill_(torch.nan)
        self.reads.append(int(block))
        self._given = self._k[block].clone(), self._v[block].clone()
        return self._given

    def milder(self, **mercy: float) -> "Blocks":
        """The same blocks, to be read anew; mercy: `empty`, `is_forgotten`."""
        return Blocks(*self._all, self.block_size, **mercy)

    @property
    def block_bytes(self) -> int:
        """K and V of a block."""
        return self._k[0].nbytes + self._v[0].nbytes

    def __repr__(self) -> str:
        return "read"
