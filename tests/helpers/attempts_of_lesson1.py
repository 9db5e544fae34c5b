"""Right and wrong attempts at lesson 1's cache: views, copies, and what moves."""

import torch


class ReservedCache:
    """In one tensor of all slots, unlike the solution in the notebook."""

    def __init__(self, num_slots, num_heads, head_dim):
        self.memory = torch.full((2, num_slots, num_heads, head_dim), torch.nan)
        self.num_tokens = 0

    def write(self, keys, values):
        start, stop = self.num_tokens, self.num_tokens + keys.shape[1]
        if stop > self.memory.shape[1]:
            raise ValueError("full")
        self.memory[0, start:stop] = keys.transpose(0, 1)
        self.memory[1, start:stop] = values.transpose(0, 1)
        self.num_tokens = stop
        return tuple(self.memory[:, :stop].transpose(1, 2))


class ReturnsACopy(ReservedCache):
    """Stores as it should, and hands out clones of its slots."""

    def write(self, keys, values):
        return [tensor.clone() for tensor in super().write(keys, values)]


class KeepsItsSlotsInADict(ReservedCache):
    """Its slots are in a dict, and what it hands out is made contiguous."""

    def __init__(self, num_slots, num_heads, head_dim):
        super().__init__(num_slots, num_heads, head_dim)
        self.memory = {"both": [self.memory]}

    def write(self, keys, values):
        kept, (self.memory,) = self.memory, self.memory["both"]
        try:
            found = super().write(keys, values)
        finally:
            self.memory = kept
        return [tensor.contiguous() for tensor in found]


class MovesItsSlots(ReservedCache):
    """As many slots as reserved, but all of them move in each write."""

    def write(self, keys, values):
        self.memory = self.memory.clone()
        return super().write(keys, values)


class MovesAndReturnsACopy(ReturnsACopy):
    """The same, and what it hands out is a copy, too."""

    def write(self, keys, values):
        self.memory = self.memory.clone()
        return super().write(keys, values)


class ShiftsItsTokens(ReservedCache):
    """The newest token comes first in its slots, so the others move up."""

    def write(self, keys, values):
        size = keys.shape[1]
        if self.num_tokens + size > self.memory.shape[1]:
            raise ValueError("full")
        self.memory = self.memory.copy_(self.memory.roll(size, 1))
        self.memory[0, :size] = keys.transpose(0, 1).flip(0)
        self.memory[1, :size] = values.transpose(0, 1).flip(0)
        self.num_tokens += size
        return tuple(self.memory[:, : self.num_tokens].flip(1).transpose(1, 2))


class KeepsPieces(ReservedCache):
    """A tensor for each write, laid end to end for the reader: nothing is reserved."""

    def __init__(self, num_slots, num_heads, head_dim):
        self.num_slots, self.num_tokens, self.pieces = num_slots, 0, []

    def write(self, keys, values):
        if self.num_tokens + keys.shape[1] > self.num_slots:
            raise ValueError("full")
        self.num_tokens += keys.shape[1]
        self.pieces.append((keys.clone(), values.clone()))
        return [torch.cat(tensors, 1) for tensors in zip(*self.pieces, strict=True)]


RETURN_COPIES = [ReturnsACopy, KeepsItsSlotsInADict]
MOVED = [MovesItsSlots, MovesAndReturnsACopy, ShiftsItsTokens, KeepsPieces]
