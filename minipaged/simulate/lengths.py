"""Appendix F: made-up lengths: log-normal, clipped, and of a mean that is given."""

from functools import cache
from math import exp
from random import Random
from statistics import NormalDist


class LogNormal:
    """Whole numbers from 1 to `limit`, log-normal but for the clipping, of this mean.

    sigma: the standard deviation of the logarithm, before the clipping.
    """

    def __init__(self, mean: float, sigma: float, limit: int):
        """Clipping lowers the mean: the median is raised until the mean is right."""
        self.limit = limit
        self._inverse = NormalDist(sigma=sigma).inv_cdf
        self._median = _median(mean, sigma, limit)

    def at(self, quantile: float) -> int:
        """The number that so large a share lies below; quantile: between 0 and 1."""
        return _clipped(self._median * exp(self._inverse(quantile)), self.limit)

    def draw(self, count: int, chance: Random) -> list[int]:
        """So many, one of each of `count` equally likely bands, shuffled.

        Each number is as likely as before, yet the sample's mean hardly varies, in
        spite of the heavy tail.
        """
        bands = chance.sample(range(count), count)
        return [self.at((band + chance.random()) / count) for band in bands]


@cache
def _median(mean: float, sigma: float, limit: int) -> float:
    """The median before the clipping, for which the mean after it is right."""
    inverse = NormalDist(sigma=sigma).inv_cdf
    shape = [exp(inverse((at + 0.5) / 10_000)) for at in range(10_000)]
    low, high = 0.0, float(limit)
    for _ in range(50):
        middle = (low + high) / 2
        total = sum([_clipped(middle * each, limit) for each in shape])
        low, high = (middle, high) if total / 10_000 < mean else (low, middle)
    return low


def _clipped(number: float, limit: int) -> int:
    return min(max(round(number), 1), limit)
