"""Right and wrong attempts at appendix F's exercises."""

from minipaged.simulate.costs import load_of


def step_price(works, weights, per_token, per_key):
    """With a loop, unlike the solution in the notebook."""
    seconds, tokens = 0.0, 0
    for start, stop in works:
        seconds += per_key * stop
        tokens += stop - start
    return seconds + (weights if weights > per_token * tokens else per_token * tokens)


def host_seconds(server, plan, per_sequence):
    """With the step's load, unlike the solution in the notebook."""
    return per_sequence * load_of(plan).num_sequences + server.step_seconds(plan)


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


def host_of(count):
    """A host that works so often in a step."""

    def attempt(server, plan, per_sequence):
        return server.step_seconds(plan) + per_sequence * count(plan)

    return attempt


def only_the_host(server, plan, per_sequence):
    return per_sequence * len(plan.works)


def overlaps(server, plan, per_sequence):
    return max(server.step_seconds(plan), per_sequence * len(plan.works))


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
    "host_seconds": [
        (host_of(lambda plan: 0), "each sequence of the step takes its time"),
        (host_of(lambda plan: 1), "not once for the step"),
        (host_of(lambda plan: plan.num_tokens), "not for each of its tokens"),
        (host_of(lambda p: len({w.request for w in p.works})), "count the plan's"),
        (host_of(lambda p: sum(w.num_logits > 0 for w in p.works)), "without logits"),
        (only_the_host, "what the server itself takes"),
        (overlaps, "the two do not overlap"),
        (lambda *case: None, "is a return missing?"),
        (lambda *case: [host_seconds(*case)], "expected a number of seconds"),
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
