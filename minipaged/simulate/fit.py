"""Appendix F: costs of steps from steps that were measured, by least squares."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from minipaged.scheduling.plan import Plan
from minipaged.simulate.costs import StepLoad, load_of

GROUPS = ("fit", "test")  # of a stored file
SIZES = ("num_slots", "max_length", "block_size")


class Measured(NamedTuple):
    """A step that was measured."""

    load: StepLoad
    seconds: float


@dataclass(frozen=True)
class FittedCosts:
    """So many seconds for a step, for each token, key that is read, and so on.

    Tokens up to `free_tokens` cost nothing: the weights are read meanwhile anyway. What
    the host does is part of the costs of a step and of a sequence.

    Attributes: seconds (by name: "step", and the fields of StepLoad); free_tokens.
    """

    seconds: Mapping[str, float]
    free_tokens: int = 0

    def step_seconds(self, plan: Plan, moved_blocks: int = 0) -> float:
        """The sum over all that the plan does."""
        return self.seconds_of(load_of(plan, moved_blocks))

    def seconds_of(self, load: StepLoad) -> float:
        """The sum over all that a step does."""
        amounts = _amounts(load, self.free_tokens)
        return sum(self.seconds.get(name, 0.0) * amounts[name] for name in amounts)

    def error(self, steps: Iterable[Measured]) -> float:
        """Of the estimates, relative, in the mean; to be asked of steps not fitted."""
        return fmean(abs(self.seconds_of(load) / took - 1) for load, took in steps)


def fit(steps: Sequence[Measured]) -> FittedCosts:
    """The costs that explain these steps best; none is negative.

    Relative errors count, so that short steps weigh as much as long ones. Whatever no
    step has done costs nothing. `free_tokens` is the number of tokens in one of the
    steps, or 0, whichever explains most. Raises ValueError without steps.
    """
    if not steps:
        raise ValueError("no steps to fit; measure some")
    tries = sorted({0, *(load.num_tokens for load, _ in steps)})
    found = [_fit(steps, free_tokens) for free_tokens in tries]
    return min(found, key=lambda costs: _squares(costs, steps))


class Stored(NamedTuple):
    """What benchmarks.gpu.step_costs has stored of a model on a machine."""

    fitted: list[Measured]  # steps to fit
    test: list[Measured]  # others, to test the fit
    num_slots: int  # token positions of the pool
    max_length: int  # positions of the model
    block_size: int


@dataclass(frozen=True)
class FittedServer:
    """A measured server, in the place of one of the paper's."""

    name: str
    costs: FittedCosts
    num_slots: int
    max_length: int
    block_size: int

    def step_seconds(self, plan: Plan, moved_blocks: int = 0) -> float:
        """What a step takes by the fit."""
        return self.costs.step_seconds(plan, moved_blocks)


def read_steps(path: str | Path) -> Stored:
    """Read a file by benchmarks.gpu.step_costs.

    {"num_slots": 320000, "max_length": 40960, "block_size": 16,
     "fit": [{"num_tokens": 64, ..., "seconds": 0.0031}, ...], "test": [...]}

    Raises ValueError for any other file.
    """
    text = Path(path).read_text("utf-8")
    try:
        stored = json.loads(text)
        groups = [[_measured(**row) for row in stored[name]] for name in GROUPS]
        return Stored(*groups, *(stored[name] for name in SIZES))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path} is not as benchmarks.gpu.step_costs writes it, with "
            f"{', '.join(GROUPS + SIZES)}: {error}"
        ) from error


def fitted_server(path: str | Path) -> FittedServer:
    """A server that costs what was measured."""
    fitted, _, *sizes = read_steps(path)
    return FittedServer(Path(path).stem, fit(fitted), *sizes)


def _measured(*, seconds: float, **amounts: float) -> Measured:
    if seconds <= 0:
        raise ValueError("a step takes more than 0 seconds")
    return Measured(StepLoad(**amounts), seconds)


def _amounts(load: StepLoad, free_tokens: int) -> dict[str, float]:
    paid = max(0, load.num_tokens - free_tokens)
    return {"step": 1, **load._asdict(), "num_tokens": paid}


def _squares(costs: FittedCosts, steps: Sequence[Measured]) -> float:
    return fsum((costs.seconds_of(load) / took - 1) ** 2 for load, took in steps)


def _fit(steps: Sequence[Measured], free_tokens: int) -> FittedCosts:
    """Costs for this number of free tokens: drop the most negative until none is."""
    rows = [_amounts(load, free_tokens) for load, _ in steps]
    names = [name for name in rows[0] if any(row[name] for row in rows)]
    while True:
        # Divided by what the step took: the right side is 1, and errors are relative.
        scaled = [
            [row[name] / took for name in names]
            for row, (_, took) in zip(rows, steps, strict=True)
        ]
        seconds = dict(zip(names, least_squares(scaled), strict=True))
        worst = min(names, key=seconds.__getitem__)
        if seconds[worst] >= 0:
            return FittedCosts(seconds, free_tokens)
        names.remove(worst)


def least_squares(rows: Sequence[Sequence[float]]) -> list[float]:
    """The x for which all sums of row times x come closest to 1.

    By the normal equations, whose columns are scaled to be of like size, and Gauss's
    elimination. A column that depends on others gets 0.
    """
    size = len(rows[0])
    scales = [fsum(row[at] ** 2 for row in rows) ** 0.5 or 1.0 for at in range(size)]
    columns = [[row[at] / scales[at] for row in rows] for at in range(size)]
    table = [[fsum(map(float.__mul__, a, b)) for b in columns] for a in columns]
    right = [fsum(column) for column in columns]
    pivots = []
    for at in range(size):
        if table[at][at] < 1e-9:  # what others leave of it: of 1, at first
            continue
        pivots.append(at)
        for other in range(size):
            if other != at and (factor := table[other][at] / table[at][at]):
                table[other] = [
                    a - factor * b for a, b in zip(table[other], table[at], strict=True)
                ]
                right[other] -= factor * right[at]
    found = {at: right[at] / table[at][at] / scales[at] for at in pivots}
    return [found.get(at, 0.0) for at in range(size)]
