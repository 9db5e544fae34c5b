"""Appendix E: guesses that were drawn themselves: taken, or drawn anew."""

import torch
from torch import Tensor

from minipaged.decoding.draw import NO_TOKEN, probabilities_of


def take_or_draw_anew(scores: Tensor, guesses: list[int], drafted: Tensor) -> Tensor:
    """The token of each row: the guess, if it is taken, else another; [k + 1] int64.

    scores: [k + 1, vocabulary], of the model, after the processors. drafted: [k,
    vocabulary], the probabilities q from which the k guesses were drawn.

    With p, the model's probabilities, guess t is taken with probability min(1, p(t) /
    q(t)). Else the token is drawn from max(p - q, 0): from what q has too little of. So
    each token has the probability p. A row counts only if all guesses before it are
    taken; no guess stands in the last row, and its token is drawn from p.

    Source: Leviathan et al., Fast Inference from Transformers via Speculative Decoding,
    algorithm 1.
    """
    p, wrong = probabilities_of(scores)
    count = len(guesses)
    at = torch.tensor(guesses, device=p.device)[:, None]
    ratio = p[:count].gather(1, at) / drafted.gather(1, at)
    is_taken = torch.rand_like(ratio) < ratio
    lacking = (p[:count] - drafted).clamp(min=0)
    # If p and q are the same, nothing is lacking, and every guess is taken.
    lacking = torch.where(lacking.sum(1, keepdim=True) > 0, lacking, p[:count])
    others = torch.multinomial(torch.cat([lacking, p[count:]]), 1)
    others[:count] = torch.where(is_taken, at, others[:count])
    return others.masked_fill_(wrong, NO_TOKEN)[:, 0]
