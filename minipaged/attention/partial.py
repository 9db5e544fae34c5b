"""Lesson 5: attention over some of the positions, so that parts can be merged."""

from dataclasses import dataclass
from types import EllipsisType

import torch


@dataclass(frozen=True, slots=True)
class Partial:
    """What attention over a part of the context leaves behind for each query.

    Two partials over different positions `merge` into a partial over both. Order and
    brackets do not matter: several programs may read blocks in any order, and merge
    their partials in the end. A partial over no positions (`nothing`) changes nothing.

    Weights are exp(logit - maximum): at most 1, so nothing overflows, whatever the
    logits. Source: Milakov and Gimelshein, "Online normalizer calculation for softmax".
    """

    maximum: torch.Tensor  # [..., rows]: the largest logit; -inf if none was seen
    total: torch.Tensor  # [..., rows]: the sum of the weights
    weighted: torch.Tensor  # [..., rows, value_dim]: the sum of weight x value

    @classmethod
    def nothing(cls, *shape: int, like: torch.Tensor) -> "Partial":
        """The partial over no positions, of shape [..., rows, value_dim]."""
        maximum = like.new_full(shape[:-1], float("-inf"))
        return cls(maximum, like.new_zeros(shape[:-1]), like.new_zeros(shape))

    @classmethod
    def of(
        cls,
        logits: torch.Tensor,
        values: torch.Tensor,
        maximum: torch.Tensor | None = None,
    ) -> "Partial":
        """The partial over the positions with these logits and values.

        Args:
            logits: [..., rows, P], -inf where a row does not see a position.
            values: [..., P, value_dim], without NaN, even where no row sees them.
            maximum: [..., rows], no smaller than any logit; the largest if not given.
        """
        if maximum is None:
            maximum = logits.amax(dim=-1)
        weights = (logits - _finite(maximum)[..., None]).exp_()
        return cls(maximum, weights.sum(dim=-1), weights @ values)

    def merge(self, other: "Partial") -> "Partial":
        """The partial over the positions of both, rescaled to the larger maximum."""
        maximum = torch.maximum(self.maximum, other.maximum)
        finite = _finite(maximum)
        ours, theirs = (self.maximum - finite).exp_(), (other.maximum - finite).exp_()
        # addcmul_ adds a product in place: other.total * theirs, and so on.
        total = (self.total * ours).addcmul_(other.total, theirs)
        ours, theirs = ours[..., None], theirs[..., None]
        weighted = (self.weighted * ours).addcmul_(other.weighted, theirs)
        return Partial(maximum, total, weighted)

    def result(self) -> torch.Tensor:
        """The attention [..., rows, value_dim]; zeros in rows that saw nothing."""
        saw_nothing = self.total == 0
        return self.weighted / (self.total + saw_nothing)[..., None]

    def __getitem__(self, index: tuple[slice, ...] | EllipsisType) -> "Partial":
        """Some of the rows, as views."""
        return Partial(self.maximum[index], self.total[index], self.weighted[index])

    def __setitem__(
        self, index: tuple[slice, ...] | EllipsisType, other: "Partial"
    ) -> None:
        """Write into some of the rows."""
        self.maximum[index] = other.maximum
        self.total[index] = other.total
        self.weighted[index] = other.weighted


def _finite(maximum: torch.Tensor) -> torch.Tensor:
    """The maximum, made safe to subtract: -inf minus -inf would be NaN, not -inf."""
    return maximum.clamp_min(torch.finfo(maximum.dtype).min)
