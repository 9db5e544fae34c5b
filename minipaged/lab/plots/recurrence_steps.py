"""Lab: what each block does to m, s and o, read off the states after each of them."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch

Triple = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


class Step(NamedTuple):
    """What one block did to m, s and o, as it follows from before and after."""

    maximum: float
    factor: float  # what the past was multiplied by
    expected: float  # what it should have been: e^(old maximum - new maximum)
    before: tuple[float, list[float]]  # the sum and the output
    kept: tuple[float, list[float]]  # what is left of them
    after: tuple[float, list[float]]
    right: tuple[float, list[float]]  # what they should be then
    unscaled: tuple[float, list[float]]  # what they would be without any rescale

    @property
    def is_resized(self) -> bool:
        """Was there a past, and does it count more or less now?"""
        return self.before[0] > 0 and self.factor != 1.0


def steps_of(
    logits: Sequence[torch.Tensor], states: Sequence[Triple], dims: list[int]
) -> list[Step]:
    """What each block added follows from its logits; the rest is what was kept."""
    steps = []
    old, total, output = -math.inf, 0.0, [0.0] * len(dims)
    right = unscaled = total, output
    for part, (m, total_now, o) in zip(logits, states, strict=True):
        maximum, after = float(m), (float(total_now), o[dims].tolist())
        added = float((part - maximum).exp().sum())
        expected = math.exp(old - maximum) if old < maximum else 1.0
        factor = (after[0] - added) / total if total else 0.0
        for exact in (1.0, expected):  # but for rounding
            if math.isclose(factor, exact, rel_tol=1e-3, abs_tol=1e-6):
                factor = exact
        kept = factor * total, [factor * number for number in output]
        new = (
            after[0] - kept[0],
            [a - k for a, k in zip(after[1], kept[1], strict=True)],
        )
        right = _added(right, expected, new)
        unscaled = _added(unscaled, 1.0, new)
        before = total, output
        steps.append(
            Step(maximum, factor, expected, before, kept, after, right, unscaled)
        )
        old, (total, output) = maximum, after
    return steps


class Weight(NamedTuple):
    """What a token counts: before the block was read, after it, and if all is right."""

    before: float
    now: float
    right: float


def weights_of(
    logits: Sequence[torch.Tensor], steps: Sequence[Step]
) -> list[list[Weight]]:
    """After each block, the weights of all tokens so far."""
    rows: list[list[Weight]] = []
    for part, step in zip(logits, steps, strict=True):
        past = rows[-1] if rows else []
        row = [
            Weight(now, now * step.factor, right * step.expected)
            for _, now, right in past
        ]
        new = (part - step.maximum).exp().tolist()
        rows.append([*row, *(Weight(0.0, weight, weight) for weight in new)])
    return rows


def _added(
    past: tuple[float, list[float]], factor: float, new: tuple[float, list[float]]
) -> tuple[float, list[float]]:
    """The past times the factor, and what is new."""
    pairs = zip(past[1], new[1], strict=True)
    return past[0] * factor + new[0], [old * factor + more for old, more in pairs]
