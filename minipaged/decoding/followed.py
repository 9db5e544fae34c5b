"""Appendix E: which guesses are right, found where they are: on the device."""

from typing import NamedTuple

import torch
from torch import Tensor


class Followed(NamedTuple):
    """What a step's guesses have come to, of each of S sequences; all [S] int64."""

    newest: Tensor  # the token after the last right guess
    before: Tensor  # the token before it
    num_wrong: Tensor  # guesses


def follow_all(computed: Tensor, chosen: Tensor, num_guesses: Tensor) -> Followed:
    """Follow all guesses at once, without waiting: see `scheduling.guesses.follow`.

    computed: [S, k + 1], a sequence's newest token and its guesses, of which it may
    have fewer than k: num_guesses, [S]. chosen: [S, k + 1], the tokens that were chosen
    after each of these. For example: computed is [4, 5, 7, 9] and chosen [5, 7, 8, 1].
    Guesses 5 and 7 are right and 9 is not, so the newest token is 8, and 7 the token
    before it.
    """
    number = torch.arange(computed.shape[1] - 1, device=computed.device)
    is_right = (chosen[:, :-1] == computed[:, 1:]) & (number < num_guesses[:, None])
    num_right = is_right.long().cumprod(1).sum(1)
    at = num_right[:, None]
    return Followed(
        newest=chosen.gather(1, at)[:, 0],
        before=computed.gather(1, at)[:, 0],
        num_wrong=num_guesses - num_right,
    )
