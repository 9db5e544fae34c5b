"""Lab: from a number to pixels, with round numbers where a reader looks for them."""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

LEAST_APART, LEAST_ABOVE = 42.0, 28.0  # pixels from tick to tick, across and upwards
ENOUGH, FARTHEST_APART = 4, 110.0  # ticks; pixels on average; else there are more
FACTORS = (
    (1, 2, 5),
    (1, 1.5, 2, 3, 5, 7),
    (*(n / 10 for n in range(10, 20)), *range(2, 10)),
)
SHORT = 2.5  # from the lowest to the highest number, at most so many times

Limits = tuple[float | None, float | None]


class Scale(NamedTuple):
    """An axis from left to right, or upwards if `width` is negative; round `ticks`."""

    left: float
    width: float
    lowest: float
    highest: float
    is_logarithmic: bool
    ticks: tuple[float, ...]

    def x(self, number: float) -> float:
        """Where a number lies, in pixels."""
        low, high = self._even(self.lowest), self._even(self.highest)
        return self.left + self.width * (self._even(number) - low) / (high - low)

    def _even(self, number: float) -> float:
        return math.log(number) if self.is_logarithmic else number


def scale_of(
    numbers: Iterable[float],
    left: float,
    width: float,
    is_logarithmic: bool,
    limits: Limits | None = None,
) -> Scale:
    """A scale for these numbers; an even one begins at 0 if they are near it.

    limits: the lowest and the highest number, whatever the others are; or None.
    """
    numbers = list(numbers)
    lowest, highest = min(numbers), max(numbers)
    if is_logarithmic:
        low, high = lowest / 1.08, highest * 1.08
    else:
        spread = (highest - lowest) or abs(highest) or 1.0
        low, high = lowest - 0.06 * spread, highest + 0.06 * spread
        if 0 <= lowest < 0.5 * highest:
            low = 0.0
    first, last = limits or (None, None)
    low, high = low if first is None else first, high if last is None else last
    scale = Scale(left, width, low, high, is_logarithmic, ())
    if is_logarithmic:
        return scale._replace(ticks=tuple(_round_factors(scale)))
    near = LEAST_APART if width > 0 else LEAST_ABOVE
    return scale._replace(ticks=tuple(_round_steps(low, high, abs(width) / near)))


def _round_steps(low: float, high: float, most: float) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten."""
    step = 10.0 ** math.floor(math.log10((high - low) / max(most, 1)))
    step *= next((n for n in (1, 2, 5) if (high - low) / (n * step) <= most), 10)
    first = math.ceil(low / step - 1e-9)
    return [round(n * step, 10) for n in range(first, int(high / step + 1e-9) + 1)]


def _round_factors(scale: Scale) -> list[float]:
    """Few digits if that makes enough; over a short way, equal steps."""
    near = LEAST_APART if scale.width > 0 else LEAST_ABOVE
    if scale.highest < SHORT * scale.lowest:
        for most in range(int(abs(scale.width) / near), 0, -1):
            ticks = _round_steps(scale.lowest, scale.highest, most)
            places = [scale.x(tick) for tick in ticks]
            if ticks and all(abs(b - a) >= near for a, b in pairwise(places)):
                return ticks
    best: list[float] = []
    for factors in FACTORS:
        ticks = _thinned(scale, factors, near)
        if len(ticks) > len(best):
            best = ticks
        if len(best) >= ENOUGH and len(best) * FARTHEST_APART >= abs(scale.width):
            break
    return best


def _thinned(scale: Scale, factors: Sequence[float], near: float) -> list[float]:
    """The ticks of these factors that do not stand too near to a rounder one."""
    low, high = scale.lowest, scale.highest
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = {round(factor * 10.0**power, 10) for power in powers for factor in factors}
    kept: list[float] = []
    for tick in sorted(ticks, key=_roundness):
        is_far = all(abs(scale.x(tick) - scale.x(one)) >= near for one in kept)
        if low <= tick <= high and is_far:
            kept.append(tick)
    return sorted(kept)


def _roundness(tick: float) -> tuple[int, float]:
    """Powers of ten first, then what has few digits, even ones before odd ones."""
    digits = f"{tick:.10g}".replace(".", "").strip("0")
    order = {"1": 0, "2": 1, "5": 1, "3": 2, "7": 3, "15": 3}
    return order.get(digits, 4 + len(digits)), tick
