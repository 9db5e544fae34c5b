"""Lab: attention over all at once, and mistakes that are known by their result."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

TOLERANCE = 1e-5  # the inputs are float64, and the values about 1


class Inputs(NamedTuple):
    """What one token attends with and to: q [..., D]; k and v [tokens, KV heads, D]."""

    q: Tensor
    k: Tensor
    v: Tensor
    scale: float | None = None  # D ** -0.5

    def scaled(self) -> tuple[Tensor, Tensor]:
        """Logits [heads, tokens] and values [heads, tokens, D]."""
        rows = self.q.reshape(-1, self.q.shape[-1])
        group = len(rows) // self.k.shape[1]
        k, v = (x.repeat_interleave(group, dim=1) for x in (self.k, self.v))
        scale = self.q.shape[-1] ** -0.5 if self.scale is None else self.scale
        return torch.einsum("hd,thd->ht", rows, k) * scale, v.transpose(0, 1)

    def attention(self, over: int = 1) -> Tensor:
        """Softmax over all positions; as q, in [..., D]."""
        logits, v = self.scaled()
        return (torch.softmax(logits, over)[:, None] @ v).view(self.q.shape)


def near(found: Tensor, wrong: Tensor) -> bool:
    """Are they equal but for rounding?"""
    return bool((found - wrong).abs().max() < TOLERANCE)


def misread(seen: Inputs, size: int, others: Mapping[str, Inputs]) -> dict[str, Tensor]:
    """What usual mistakes give, or some `others`, in blocks of this size."""
    q, k, v, _ = seen
    tiled = torch.arange(k.shape[1]).repeat(q.numel() // q.shape[-1] // k.shape[1])
    by_turns = q.view(-1, k.shape[1], q.shape[-1]).transpose(0, 1).reshape(q.shape)
    twice = (torch.cat([x[:size], x]) for x in (k, v))
    mistakes = {
        "right but for the scale": Inputs(q, k, v, 1.0),
        "scaled by how many heads there are: take q.shape[-1]": (
            Inputs(q, k, v, len(q) ** -0.5)
        ),
        "right if query heads took turns; the first ones share KV head 0": (
            Inputs(by_turns, k, v)
        ),
        "right if query heads took turns; but neighbours share one": (
            Inputs(q, k[:, tiled], v[:, tiled])
        ),
        "right if the last token did not count": Inputs(q, k[:-1], v[:-1]),
        "right if the first block did not count": Inputs(q, k[size:], v[size:]),
        "right if the first block counted twice": Inputs(q, *twice),
        **others,
    }
    return {
        f"it is {name}": wrong.attention()
        for name, wrong in mistakes.items()
        if len(wrong.k)
    }


def misdivided(seen: Inputs, sizes: list[int]) -> dict[str, Tensor]:
    """What it gives if the division is missing, or if each block has one of its own.

    sizes: how many tokens of each block are seen.
    """
    logits, values = seen.scaled()
    shape = seen.q.shape
    total = (logits - logits.amax(1, keepdim=True)).exp().sum(1)
    undivided = seen.attention() * total.view(*shape[:-1], 1)
    mistakes = {"it is o; divide it by s at the end": undivided}
    if len(sizes) > 1:
        parts = zip(logits.split(sizes, 1), values.split(sizes, 1), strict=True)
        means = [(torch.softmax(x, 1)[:, None] @ part)[:, 0] for x, part in parts]
        mean = "it is the mean of the blocks' attentions; divide only once, at the end"
        mistakes[mean] = torch.stack(means).mean(0).view(shape)
    return mistakes


def has_one_maximum(found: Tensor, seen: Inputs) -> bool:
    """Is it what follows if heads that share K and V, or all heads, share m?

    Of the other heads all weights become 0, and so does their sum.
    """
    logits, _ = seen.scaled()
    of_head = found.isnan().view(len(logits), -1).all(1)
    for num_groups in (1, seen.k.shape[1]):
        grouped = logits.view(num_groups, -1, logits.shape[1])
        weights = (grouped - grouped.amax((1, 2), keepdim=True)).exp()
        is_lost = weights.sum(2).flatten() == 0  # of each head
        if is_lost.any() and torch.equal(is_lost, of_head):
            return True
    return False


# What is done to the past's sum and output when the maximum rises by `rise`, and by
# what the new block is lowered: by the running maximum, or by its own.
Rule = Callable[[Tensor], tuple[Tensor | int, Tensor | int]]
RULES: Mapping[str, tuple[Rule, bool]] = {
    "what was summed before is never rescaled": (lambda rise: (1, 1), False),
    "each block is lowered by its own maximum, and nothing is rescaled": (
        lambda rise: (1, 1),
        True,
    ),
    "the new block is lowered by its own maximum, not by the running one": (
        lambda rise: ((-rise).exp(), (-rise).exp()[:, None]),
        True,
    ),
    "the sum of the weights is rescaled, and the weighted values are not": (
        lambda rise: ((-rise).exp(), 1),
        False,
    ),
    "the weighted values are rescaled, and the sum of the weights is not": (
        lambda rise: (1, (-rise).exp()[:, None]),
        False,
    ),
    "the rescale is upside down: it is e^(old maximum - new maximum)": (
        lambda rise: (rise.exp(), rise.exp()[:, None]),
        False,
    ),
}


def misscaled(logits: Tensor, values: Tensor, sizes: list[int]) -> dict[str, Tensor]:
    """Attention in one pass over blocks of these sizes, by broken rules: [heads, D].

    logits: [heads, tokens]. values: [heads, tokens, D].
    """
    return {said: _walk(logits, values, sizes, *rule) for said, rule in RULES.items()}


def _walk(
    logits: Tensor, values: Tensor, sizes: list[int], rule: Rule, by_own: bool
) -> Tensor:
    maximum, total, weighted = None, 0, 0
    for x, v in zip(logits.split(sizes, 1), values.split(sizes, 1), strict=True):
        own = x.amax(dim=1)
        highest = own if maximum is None else torch.maximum(maximum, own)
        weights = (x - (own if by_own else highest)[:, None]).exp()
        of_sum, of_values = (0, 0) if maximum is None else rule(highest - maximum)
        total = total * of_sum + weights.sum(1)
        weighted = weighted * of_values + (weights[:, None] @ v)[:, 0]
        maximum = highest
    return weighted / total[:, None]
