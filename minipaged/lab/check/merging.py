"""Lab: the check of lesson 6's merge kernel: splits that become one result."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from minipaged.lab.check.diagnose import telling, why
from minipaged.lab.check.guard import GUARD
from minipaged.lab.check.kernel import ask_about, launch
from minipaged.lab.check.misread import misscaled
from minipaged.lab.check.verdict import Attempt, Rejected, exercise, many

TOLERANCE = 1e-4  # of float32, with values about 1


@exercise
def merge_splits(attempt: Attempt) -> Callable[[], str] | None:
    """A kernel (out, means, logs, num_splits, DIM, SPLITS), a program for each head."""
    generator = torch.Generator().manual_seed(0)
    for heads, num_splits, dim, middle, spread, empty in (
        (2, 4, 16, 0, 1, []),
        (1, 1, 16, 0, 1, []),
        (3, 5, 32, 0, 1, []),
        (2, 33, 16, 0, 3, []),
        (2, 7, 64, 0, 300, []),
        (2, 6, 16, -2000, 2, []),
        (2, 6, 16, 2000, 2, []),
        (3, 7, 16, 0, 1, [(0, 6), (1, 0), (1, 3)]),
        (2, 3, 16, 0, 1, [(1, 0), (1, 1), (1, 2)]),
    ):
        shape = heads, num_splits
        means = torch.randn(*shape, dim, generator=generator)
        logs = middle + spread * torch.randn(shape, generator=generator)
        for place in empty:
            means[place], logs[place] = 0.0, -torch.inf
        width = max(2, 1 << (num_splits - 1).bit_length())
        story = f"{many(heads, 'head')}, {many(num_splits, 'split')}, "
        story += f"SPLITS={width}, DIM={dim}"
        story += f", logs about {middle}" if middle else ""
        story += ", logs hundreds apart" if spread > 100 else ""
        some = f", {len(empty)} of the {heads * num_splits} splits without positions"
        story += some if empty else ""
        out = torch.full((heads, dim), float(GUARD))
        arguments = out, means, logs, num_splits, dim, width
        try:
            launched = launch(attempt, story, (heads,), *arguments)
        except Rejected as rejected:
            if "the place wrong?" in str(rejected):
                said = "if nothing lacks a mask: a head's logs and means lie "
                said += "num_splits apart, not SPLITS"
                raise Rejected(f"{rejected} ({said})") from None
            raise
        with telling(story):
            _merged(launched[0].double(), means.double(), logs.double(), width)
    return ask_about(attempt, *arguments)


def _merged(found: Tensor, means: Tensor, logs: Tensor, width: int) -> None:
    """Compare with the mean over all positions, weighted by e^log."""
    weights = logs.softmax(1).nan_to_num(0.0)
    right = torch.einsum("hs,hsd->hd", weights, means)
    if (found == GUARD).all(1).any():
        raise Rejected("a head's result was not stored")
    if not found.isfinite().all():
        head = int((~found.isfinite()).any(1).nonzero()[0])
        if logs[head].isinf().all():
            said = "all splits are empty; is -inf subtracted from -inf, or 0 / 0?"
        elif logs[head].isinf().any():
            said = "-inf minus -inf is NaN: is that the first maximum of a loop?"
        else:
            said = "exp overflows, or all weights are 0: lower by the largest log first"
        raise Rejected(f"head {head} is {found[head, 0]:.3g}; {said}")
    error = (found - right).abs().max().item()
    if error > TOLERANCE:
        said = why(found, _wrong_merges(means, logs, width), _same)
        raise Rejected(f"off by up to {error:.2g}{said}")


_same = partial(torch.allclose, atol=TOLERANCE, rtol=1e-4)


def _wrong_merges(means: Tensor, logs: Tensor, width: int) -> dict[str, Any]:
    """Results of usual mistakes, and what to say of them."""
    rows = means.shape[1]
    seen = logs.isfinite()[..., None]

    def weighted(by: Tensor) -> Tensor:
        return torch.einsum("hs,hsd->hd", by, means)

    of_seen = (means * seen).sum(1) / seen.sum(1)
    powers = (logs - logs.amax(1, keepdim=True)).exp().nan_to_num(0.0)
    padded = torch.nn.functional.pad(logs, (0, width - rows)).softmax(1)[:, :rows]
    all_but_last = torch.nn.functional.pad(logs[:, :-1].softmax(1), (0, 1))
    of_two = (logs * math.log(2)).softmax(1).nan_to_num(0.0)
    wrong: dict[str, Any] = {
        "all weights became 0: lower by the largest log first": 0 * means[:, 0],
        "every split counts the same; it must count by e^(its log)": (
            lambda found: _same(found, means.mean(1)) or _same(found, of_seen)
        ),
        "the weights are powers of 2, but the logs are natural ones: tl.exp": (
            weighted(of_two)
        ),
        "it is the sum; divide by the sum of the weights": weighted(powers),
        "the weights are right, the divisor is not; divide by their sum": (
            weighted(powers) / rows
        ),
        "the weights count in the total only: multiply each mean by its weight, too": (
            means.sum(1) / powers.sum(1, keepdim=True)
        ),
        "each split counts by its log; it must count by e^(its log)": (
            weighted(logs / logs.sum(1, keepdim=True))
        ),
        "places behind the last split count, too: load their logs as -inf": (
            weighted(padded)
        ),
        "the last split does not count": weighted(all_but_last),
        "only the first split counts": means[:, 0],
    }
    if rows > 1 and seen.all():
        wrong |= misscaled(logs, means, [1] * rows)
    last = "whose means and logs does program h read? Each has num_splits of them"
    return wrong | {last: True}
