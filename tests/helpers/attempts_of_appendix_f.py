"""Right and wrong attempts at appendix F's exercises."""

from itertools import accumulate


def step_price(works, weights, per_token, per_key):
    """With a loop, unlike the solution in the notebook."""
    seconds, tokens = 0.0, 0
    for start, stop in works:
        seconds += per_key * stop
        tokens += stop - start
    return seconds + (weights if weights > per_token * tokens else per_token * tokens)


def poisson_moments(count, rate, chance):
    """With `accumulate`, unlike the solution in the notebook."""
    return [*accumulate(chance.expovariate(rate) for _ in range(count))]


def sustained(latency, limit):
    """By factors that shrink, unlike the solution in the notebook."""
    rate, factor = 1.0, 2.0
    while latency(rate) > limit:
        rate /= 16
    while factor > 1.01:
        if latency(rate * factor) <= limit:
            rate *= factor
            factor **= 2
        else:
            factor **= 0.5
    return rate


# --- what is wrong --------------------------------------------------------------------


def priced(choose=max, keys=lambda start, stop: stop):
    """A price with another choice of the two, or other keys."""

    def attempt(works, weights, per_token, per_key):
        tokens = sum(stop - start for start, stop in works)
        read = sum(keys(*work) for work in works)
        return choose(weights, per_token * tokens) + per_key * read

    return attempt


def for_each_sequence(works, weights, per_token, per_key):
    return step_price(works, len(works) * weights, per_token, per_key)


def even_gaps(count, rate, chance):
    return [number / rate for number in range(1, count + 1)]


def uniform_gaps(count, rate, chance):
    return [*accumulate(chance.uniform(0, 2 / rate) for _ in range(count))]


def only_gaps(count, rate, chance):
    return [chance.expovariate(rate) for _ in range(count)]


def the_inverse(count, rate, chance):
    return [*accumulate(chance.expovariate(1 / rate) for _ in range(count))]


def clumps(count, rate, chance):
    """Three at a time."""
    firsts = poisson_moments(-(-count // 3), rate / 3, chance)
    return [moment for moment in firsts for _ in range(3)][:count]


def forgets_the_seed(count, rate, chance):
    from random import Random

    return poisson_moments(count, rate, Random(0))


def one_too_few(count, rate, chance):
    return poisson_moments(count - 1, rate, chance)


def step_by_step(latency, limit):
    rate = 0.01
    while latency(rate + 0.01) <= limit:
        rate += 0.01
    return rate


def from_one_on(latency, limit):
    """Never tries a rate below 1."""
    low, high = 1.0, 2.0
    while latency(high) <= limit:
        low, high = high, 2 * high
    for _ in range(8):
        middle = (low + high) / 2
        low, high = (middle, high) if latency(middle) <= limit else (low, middle)
    return low


def bracket(latency, limit):
    low = 1.0
    while latency(low) > limit:
        low /= 2
    while latency(2 * low) <= limit:
        low *= 2
    return low, 2 * low


def the_upper_one(latency, limit):
    low, high = bracket(latency, limit)
    for _ in range(6):
        middle = (low + high) / 2
        low, high = (middle, high) if latency(middle) <= limit else (low, middle)
    return high


def too_coarse(latency, limit):
    return bracket(latency, limit)[0]


def from_zero(latency, limit):
    return latency(0)


# What the check must say of each fault.
FAULTS = {
    "step_price": [
        (priced(lambda a, b: a + b), "take the longer of the two"),
        (priced(min), "not the shorter"),
        (priced(lambda a, b: b), "even for a single token"),
        (priced(lambda a, b: a), "takes longer than reading the weights"),
        (priced(keys=lambda start, stop: stop - start), "all positions before"),
        (priced(keys=lambda start, stop: start), "not `start`"),
        (priced(keys=lambda a, b: b * (b - a)), "not once for each of its tokens"),
        (priced(keys=lambda *work: 0), "`per_key` counts, too"),
        (for_each_sequence, "once for all sequences"),
        (lambda *case: None, "is a return missing?"),
        (lambda *case: 7.0, "got 7, expected 31.5"),
        (lambda *case: [step_price(*case)], "expected a number of seconds"),
    ],
    "poisson_moments": [
        (even_gaps, "gaps vary by 0.00 of their mean"),
        (uniform_gaps, "its gaps are exponential"),
        (only_gaps, "add the gaps up"),
        (the_inverse, "gaps of 1 / rate seconds"),
        (clumps, "they crowd too much"),
        (forgets_the_seed, "draw from `chance`"),
        (one_too_few, "3,999 moments, expected 4,000"),
        (lambda *case: 7, "returned 7, expected a list of moments"),
    ],
    "sustained": [
        (step_by_step, "40 must be enough"),
        (from_one_on, "return the lower of the last two rates"),
        (the_upper_one, "return the lower of the last two rates"),
        (too_coarse, "halve the gap more often"),
        (from_zero, "a rate is more than 0"),
        (lambda *case: None, "is a return missing?"),
        (lambda *case: bracket(*case), "expected a rate"),
    ],
}
