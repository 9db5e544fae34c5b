"""The kernel that sums over ranks: here, each rank runs it after the others' part."""

import pytest
import torch

from minipaged.attention.kernels.setup import INTERPRETED
from minipaged.model.one_shot import sum_in_one_launch

pytestmark = pytest.mark.skipif(not INTERPRETED, reason="a rank would wait for ever")
PROGRAMS, ROOM, START = 4, 1 << 14, 1024


class Ranks:
    """The memory of some ranks, all on the CPU, and what their programs have begun."""

    def __init__(self, count):
        size = START + 2 * PROGRAMS * ROOM
        self.memory = [torch.zeros(size, dtype=torch.uint8) for _ in range(count)]
        self.addresses = torch.tensor([m.data_ptr() for m in self.memory])
        self.begun = [torch.zeros(PROGRAMS, dtype=torch.int32) for _ in range(count)]

    def sum(self, tensors):
        """What each rank gets.

        First, each runs as if the others' flags were there already. Its sum is wrong
        then, but its own numbers lie where the others will look for them.
        """
        count = len(tensors)
        flags = [m[: 4 * PROGRAMS * count].view(torch.int32) for m in self.memory]
        for rank, x in enumerate(tensors):
            begun = self.begun[rank].clone()
            before = flags[rank].clone()
            flags[rank].fill_(2**31 - 1).sub_(2**30)
            self._run(x, begun, rank)
            flags[rank].copy_(before)
        return [self._run(x, self.begun[rank], rank) for rank, x in enumerate(tensors)]

    def _run(self, x, begun, rank):
        return sum_in_one_launch(x, self.addresses, begun, START, ROOM, rank)


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sums(count, dtype):
    """Of several sizes, one after the other: not all programs take part in each."""
    ranks = Ranks(count)
    for number, size in enumerate((5, 3000, 1024, 1, 4096, 2049, 7)):
        draw = torch.Generator().manual_seed(number)
        parts = [torch.randn(size, generator=draw).to(dtype) for _ in range(count)]
        right = torch.stack(parts).float().sum(0).to(dtype)
        outs = ranks.sum(parts)
        assert all(torch.equal(out, outs[0]) for out in outs)
        torch.testing.assert_close(outs[0], right)


def test_a_rank_waits_for_the_others():
    """The flags that it raises are those for which the other one waits."""
    ranks = Ranks(2)
    ranks.sum([torch.ones(3000), torch.ones(3000)])
    for rank in range(2):
        flags = ranks.memory[rank][: 4 * PROGRAMS * 2].view(torch.int32)
        # [program, rank]: the other one's have begun a sum, those that took part.
        assert flags.view(-1, 2)[:, 1 - rank].tolist() == [1, 1, 1, 0]
        assert ranks.begun[rank].tolist() == [1, 1, 1, 0]


def test_the_next_sum_does_not_write_where_a_late_rank_still_reads():
    ranks = Ranks(2)
    places = [m[START:].view(PROGRAMS, 2, ROOM) for m in ranks.memory]
    ranks.sum([torch.full((9,), 3.0), torch.zeros(9)])
    kept = places[0].clone()
    ranks.sum([torch.full((9,), 5.0), torch.zeros(9)])
    changed = (places[0] != kept).any(-1)
    assert changed.sum() == 1 and kept[changed].sum() == 0
