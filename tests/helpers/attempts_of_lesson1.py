"""Right and wrong attempts at lesson 1's kinds of slots, and at its cache."""

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


def four_kinds(prompt, answer, steps, reservation, piece):
    """By a list of all slots, unlike the solution in the notebook."""
    slots = ["held"] * (prompt + steps)
    slots += ["reserved"] * (prompt + answer - 1 - len(slots))
    slots += ["internal"] * (reservation - len(slots))
    slots += ["external"] * (piece - len(slots))
    return tuple(map(slots.count, ("held", "reserved", "internal", "external")))


def but_for(**wrong):
    """The right numbers, but for those that are computed wrong."""
    names = ("held", "reserved", "internal", "external")

    def attempt(prompt, answer, steps, reservation, piece):
        right = four_kinds(prompt, answer, steps, reservation, piece)
        case = (prompt, answer, steps, reservation, piece, *right)
        return tuple(
            wrong[name](*case) if name in wrong else number
            for name, number in zip(names, right, strict=True)
        )

    return attempt


def counts_the_last_token(prompt, answer, *rest):
    """As if the last token of an answer needed a slot."""
    return four_kinds(prompt, answer + 1, *rest)


def counts_the_chosen_token(prompt, answer, steps, *rest):
    """As if prefill stored the token that it chooses."""
    held, reserved, *lost = four_kinds(prompt, answer, steps, *rest)
    return held + 1, reserved - 1, *lost


def forgets_the_steps(prompt, answer, steps, *rest):
    return four_kinds(prompt, answer, 0, *rest)


def rounds_nothing_up(prompt, answer, steps, reservation, piece):
    """As if the whole piece were reserved."""
    return four_kinds(prompt, answer, steps, piece, piece)


def knows_no_end(prompt, answer, steps, reservation, piece):
    """All that is empty is reserved."""
    held = prompt + steps
    return held, reservation - held, 0, piece - reservation


FOUR_KINDS = {
    counts_the_last_token: "reserved: got 40, expected 39; the last token of an answer",
    counts_the_chosen_token: "token states: got 27, expected 26; the last token has",
    forgets_the_steps: "token states: got 21, expected 26; each decode step stores",
    rounds_nothing_up: "internal: got 63, expected 7; what the allocator adds is in no",
    knows_no_end: "reserved: got 46, expected 39; some of these are for after",
    but_for(held=lambda p, a, *_: p + a): "at the end; how many are now?",
    but_for(reserved=lambda p, a, *_: a): "got 45, expected 39; slots that are filled",
    but_for(reserved=lambda p, a, *_: a - 1): "slots that are filled wait no longer",
    but_for(internal=lambda p, a, s, r, *_: r - p - a): "got 6, expected 7; the last",
    but_for(internal=lambda p, a, s, r, *_: r - p - s): "some of these wait for tokens",
    but_for(external=lambda *_: 0): "got 0, expected 56; what the allocator adds to",
    but_for(external=lambda p, a, s, r, size, *_: size - p - a + 1): "is internal",
    but_for(external=lambda p, a, s, r, size, *_: size): "must add up to 128",
    lambda *case: [float(number) for number in four_kinds(*case)]: "counted in ints",
    lambda *case: four_kinds(*case)[:3]: "got [26, 39, 7], expected [26, 39, 7, 56]",
    lambda *case: sum(four_kinds(*case)): "got 128, expected [26, 39, 7, 56]",
}
OFTEN_RIGHT = [  # some cases do not notice
    lambda p, a, *rest: four_kinds(p, max(a, 2), *rest),  # an answer of one token
    lambda p, a, s, *rest: four_kinds(p, a, max(s, 1), *rest),  # no decode step
    lambda p, a, s, r, size: four_kinds(p, a, s, r, max(size, r + 1)),  # none added
    lambda p, a, s, *rest: four_kinds(p, a, min(s, 1), *rest),  # the lesson's moment
]
WRONG = {"four_kinds": [*FOUR_KINDS, *OFTEN_RIGHT]}
NAMED = {"four_kinds": [*FOUR_KINDS.items()]}
