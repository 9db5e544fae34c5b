"""Lab: checks of appendix F's exercises: a price, arrivals, the rate sustained."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import inf, isclose
from random import Random
from statistics import fmean, pstdev
from typing import Any

from minipaged.lab.check.diagnose import compare, is_list, want
from minipaged.lab.check.verdict import Attempt, Rejected, exercise, many, short

# --- the price of a step --------------------------------------------------------------


@exercise
def step_price(attempt: Attempt) -> Callable[[], str]:
    """(works, weights, per_token, per_key) -> seconds of the step."""
    draw = Random(0)
    cases = [
        ([(20, 21), (8, 12)], 8.0, 3.0, 0.5),
        ([(20, 21)], 8.0, 3.0, 0.5),
        ([(0, 12), (99, 100)], 8.0, 1.0, 0.25),
    ]
    for _ in range(40):
        works = []
        for _ in range(draw.randint(1, 6)):
            start = draw.randint(0, 60)
            count = draw.choice([1, 1, draw.randint(2, 40)])
            works.append((start, start + count))
        cases.append((works, draw.choice([1.0, 16.0]), 0.5, 0.125))
    compare(attempt, cases, _price, PRICE_FLAWS, read=_number, same=_is_close)
    return lambda: "the same form as `Server.step_seconds`, without blocks that move"


def _number(found: Any) -> float:
    want("a number of seconds", found, isinstance(found, int | float))
    return found


def _is_close(found: float, right: float) -> bool:
    return isclose(found, right, rel_tol=1e-9)


def _tokens(works: Sequence[tuple[int, int]]) -> int:
    return sum(stop - start for start, stop in works)


def _price(
    works: Sequence[tuple[int, int]],
    weights: float,
    per_token: float,
    per_key: float,
    choose: Callable[[float, float], float] = max,
    keys: Callable[[int, int], int] = lambda start, stop: stop,
) -> float:
    """The right price; the options plant mistakes."""
    read = sum(keys(start, stop) for start, stop in works)
    return choose(weights, per_token * _tokens(works)) + per_key * read


PRICE_FLAWS: dict[str, Callable[..., float]] = {
    "reading the weights and computing overlap: take the longer of the two": (
        lambda *case: _price(*case, choose=lambda a, b: a + b)
    ),
    "the step takes the longer of reading and computing, not the shorter": (
        lambda *case: _price(*case, choose=min)
    ),
    "the weights are read in every step, even for a single token": (
        lambda *case: _price(*case, choose=lambda a, b: b)
    ),
    "a step with many tokens takes longer than reading the weights": (
        lambda *case: _price(*case, choose=lambda a, b: a)
    ),
    "K and V of all positions before are read, too: `stop`, not only the new": (
        lambda *case: _price(*case, keys=lambda start, stop: stop - start)
    ),
    "new tokens attend to themselves: `stop` positions are read, not `start`": (
        lambda *case: _price(*case, keys=lambda start, stop: start)
    ),
    "K and V are read once for a sequence, not once for each of its tokens": (
        lambda *case: _price(*case, keys=lambda start, stop: stop * (stop - start))
    ),
    "K and V are read besides: `per_key` counts, too": (
        lambda *case: _price(*case, keys=lambda start, stop: 0)
    ),
    "weights are read once for all sequences of the step": (
        lambda works, weights, *costs: _price(works, len(works) * weights, *costs)
    ),
}

# --- arrivals -------------------------------------------------------------------------

COUNT = 4000


@exercise
def poisson_moments(attempt: Attempt) -> Callable[[], str]:
    """(count, rate, chance) -> moments of a Poisson process, from 0 on."""
    for rate, seed in ((1.0, 0), (8.0, 1), (0.25, 2)):
        # Not a copy of the generator: the words name the rate, not its state.
        call = f"{attempt.name}({COUNT}, {rate:g}, Random({seed}))"
        attempt.num_cases += 1
        found = attempt.function(COUNT, rate, Random(seed))
        want("a list of moments", found, is_list(found))
        _judge_moments(call, list(found), rate)
    first, again, other = (attempt.function(5, 1.0, Random(n)) for n in (3, 3, 4))
    if first != again or first == other:
        raise Rejected(
            "draw from `chance`, so that a seed gives the same moments again"
        )
    return lambda: _what_waits(attempt.function)


def _judge_moments(call: str, moments: list[float], rate: float) -> None:
    """Raise Rejected unless they look like a Poisson process of this rate."""
    if len(moments) != COUNT:
        raise Rejected(f"{call}: {many(len(moments), 'moment')}, expected {COUNT:,}")
    if moments != sorted(moments):
        raise Rejected(
            f"{call}: the moments do not ascend; a gap is the time since the request "
            "before, so add the gaps up"
        )
    gaps = [late - early for early, late in pairwise([0.0, *moments])]
    mean, spread = fmean(gaps), pstdev(gaps)
    if not 0.9 < mean * rate < 1.1:
        said = f"{call}: the mean gap is {mean:.3g} s, expected about {1 / rate:.3g}"
        if rate != 1 and 0.9 < mean / rate < 1.1:
            said += "; `rate` requests a second are gaps of 1 / rate seconds"
        raise Rejected(said)
    if not 0.9 < spread / mean < 1.1:
        said = "a queue needs crowds" if spread < mean else "they crowd too much"
        raise Rejected(
            f"{call}: gaps vary by {spread / mean:.2f} of their mean; of a Poisson "
            f"process by 1.00, for its gaps are exponential; {said}"
        )


def _what_waits(moments_of: Callable[..., Sequence[float]]) -> str:
    """A server that takes 0.8 seconds, at such moments: how long does one wait?"""
    free_at, waits = 0.0, []
    for moment in moments_of(COUNT, 1.0, Random(0)):
        waits.append(max(0.0, free_at - moment))
        free_at = max(free_at, moment) + 0.8
    return (
        "a server that needs 0.8 s for each, at 1 a second: one waits "
        f"{fmean(waits):.1f} s in the mean; at even gaps nobody would"
    )


# --- the rate sustained ---------------------------------------------------------------

NEAR = 1.05  # the answer's room: the limit is passed at so many times its rate
MOST_CALLS = 40


class _Latency:
    """Latency over the rate, as of a queue; counts how often it is asked."""

    def __init__(self, most: float, base: float):
        self.most, self.base = most, base  # the rate that cannot be passed; at rest
        self.num_calls = 0

    def __call__(self, rate: float) -> float:
        self.num_calls += 1
        if self.num_calls > MOST_CALLS:
            raise Rejected(
                f"latency was asked for the {self.num_calls}th time (rate {rate:.4g}); "
                f"{MOST_CALLS} must be enough, for each is a simulation: double or "
                "halve until the limit lies between two rates, then halve the gap"
            )
        if not rate > 0:
            raise Rejected(f"latency({short(rate)}): a rate is more than 0")
        return self.of(rate)

    def of(self, rate: float) -> float:
        """The latency at this rate."""
        return self.base / (1 - rate / self.most) if rate < self.most else inf

    def passes(self, limit: float) -> float:
        """The rate at which the latency is the limit."""
        return self.most * (1 - self.base / limit)


@exercise
def sustained(attempt: Attempt) -> Callable[[], str]:
    """(latency, limit) -> the largest rate with at most this latency, within 5 %."""
    draw = Random(0)
    servers = [(5.0, 0.02), (0.02, 0.05), (900.0, 0.01)]
    servers += [(10 ** draw.uniform(-2, 3), draw.uniform(0.01, 0.1)) for _ in range(30)]
    calls = []
    for most, base in servers:
        latency, limit = _Latency(most, base), 0.2
        call = f"{attempt.name}(latency, {limit}), where it passes at a rate of "
        right = latency.passes(limit)
        found = attempt.shared(latency, limit)
        want("a rate", found, isinstance(found, int | float))
        calls.append(latency.num_calls)
        if latency.of(found) > limit:
            raise Rejected(
                f"{call}{right:.4g}: got {found:.4g}, but there the latency is "
                f"{latency.of(found):.3g}: return the lower of the last two rates"
            )
        if latency.of(NEAR * found) <= limit:
            raise Rejected(
                f"{call}{right:.4g}: got {found:.4g}, and {NEAR:g} times that holds "
                "the limit, too: halve the gap more often"
            )
    return lambda: (
        f"{max(calls)} calls at most, {min(calls)} at least: so many simulations"
    )
