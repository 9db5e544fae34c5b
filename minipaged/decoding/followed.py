"""Appendix E: which guesses are right, found where they are: on the device."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from minipaged.model.persistent_inputs import to_device_once


class Followed(NamedTuple):
    """What a step's guesses have come to, of each of S sequences; int64."""

    newest: Tensor  # [2, S]: the token after the last right guess; the one before it
    num_wrong: Tensor  # [S]: guesses


def follow_all(
    computed: Tensor, chosen: Tensor, rows: list[range], places: list[range]
) -> Followed:
    """Follow all guesses at once, without waiting: see `scheduling.guesses.follow`.

    computed, chosen: int64, tokens that a step has computed, and those that were chosen
    after them, perhaps in another order. rows, places: of each sequence's tokens in
    these; of its newest token, and of its guesses. For example: a sequence has computed
    4, 5, 7 and 9, and after them 5, 7, 8 and 1 were chosen. Guesses 5 and 7 are right
    and 9 is not, so the newest token is 8, and 7 the token before it; num_wrong is 1.
    """
    most = max(map(len, rows)) - 1
    numbers = np.array(
        [
            [row.start for row in rows],
            [place.start for place in places],
            [len(row) - 1 for row in rows],
        ]
    )
    on_device = to_device_once(numbers.tobytes(), chosen.device).view(3, -1)
    if chosen.is_cuda:
        from minipaged.decoding.followed_kernel import follow_rows

        found = follow_rows(computed, chosen, on_device, most)
    else:
        found = follow_each(computed, chosen, on_device, most)
    return Followed(found[:2], found[2])


def follow_each(computed: Tensor, chosen: Tensor, numbers: Tensor, most: int) -> Tensor:
    """As `follow_all`, from numbers on the device.

    numbers: [3, S] int64, where each sequence's tokens begin among those computed, and
    among those chosen; and how many guesses it has: `most` at most. Returns [3, S]: the
    newest tokens, those before, and how many guesses are wrong.
    """
    first, first_chosen, num_guesses = numbers[..., None]
    number = torch.arange(most + 1, device=chosen.device).minimum(num_guesses)
    computed = computed[first + number]
    chosen = chosen[first_chosen + number]
    is_guess = number[:, 1:] > number[:, :-1]
    is_right = is_guess & (chosen[:, :-1] == computed[:, 1:])
    num_right = is_right.long().cumprod(1).sum(1, keepdim=True)
    newest, before = chosen.gather(1, num_right), computed.gather(1, num_right)
    return torch.cat([newest, before, num_guesses - num_right], dim=1).T.contiguous()
