"""Lab: checks of appendix F's exercises: a price, a host, the rate sustained."""

from collections.abc import Callable, Sequence
from math import inf, isclose
from random import Random
from typing import Any, NamedTuple

from minipaged.lab.check.diagnose import compare, tell, want
from minipaged.lab.check.verdict import Attempt, Rejected, exercise, short
from minipaged.memory.block_pool import BlockPool
from minipaged.scheduling.plan import Plan
from minipaged.scheduling.preemption import PreemptingScheduler
from minipaged.simulate.loop import simulate
from minipaged.simulate.paper import BASIC
from minipaged.simulate.report import Report
from minipaged.simulate.script import BeamScript, Script
from minipaged.simulate.servers import OPT_13B, OPT_66B, Server
from minipaged.simulate.systems import SYSTEMS
from minipaged.simulate.traces import arrivals

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

# --- the host -------------------------------------------------------------------------

PER_SEQUENCE = 300e-6  # seconds, in the reward: of a slow host


@exercise
def host_seconds(attempt: Attempt) -> Callable[[], str]:
    """(server, plan, per_sequence) -> seconds, with so many for each sequence."""
    answers = []
    for server in (OPT_13B, OPT_66B):
        for plan in _plans():
            for per_sequence in (0.0, 0.0625, 0.25):
                found = attempt.shared(server, plan, per_sequence)
                _number(found)
                answers.append(((server, plan, per_sequence), found))
    tell(_call_of(attempt), answers, _with_host, HOST_FLAWS, same=_is_close)
    return lambda: _gains(attempt.function)


def _plans() -> list[Plan]:
    """Of two samples of a prompt that is computed in parts, and of a beam search."""
    scheduler = PreemptingScheduler(BlockPool(64, 16), max_tokens=48)
    scheduler.add(Script([3, 5]).request([1] * 70))
    scheduler.add(BeamScript(4, 4).request([2] * 20))
    scheduler.add(Script([2]).request([3] * 9))
    plans = []
    while (plan := scheduler.schedule()).works:
        plans.append(Plan([*plan.works], [*plan.copies]))
        for request in dict.fromkeys(w.request for w in plan.works if w.num_logits):
            request.strategy.say(request)
        scheduler.commit(plan)
    return plans


def _call_of(attempt: Attempt) -> Callable[..., str]:
    def call(server: Server, plan: Plan, per_sequence: float) -> str:
        tokens = [work.num_tokens for work in plan.works]
        return f"{attempt.name}({server.name}, a step of {tokens}, {per_sequence:g})"

    return call


def _with_host(
    server: Server,
    plan: Plan,
    per_sequence: float,
    count: Callable[[Plan], int] = lambda plan: len(plan.works),
) -> float:
    """The right seconds; the option plants mistakes."""
    return server.step_seconds(plan) + per_sequence * count(plan)


HOST_FLAWS: dict[str, Callable[..., float]] = {
    "each sequence of the step takes its time": (
        lambda *case: _with_host(*case, count=lambda plan: 0)
    ),
    "the host works for each sequence, not once for the step": (
        lambda *case: _with_host(*case, count=lambda plan: 1)
    ),
    "the host works once for a sequence, not for each of its tokens": (
        lambda *case: _with_host(*case, count=lambda plan: plan.num_tokens)
    ),
    "two samples of a request are two sequences: count the plan's works": (
        lambda *case: _with_host(*case, count=lambda p: len({w[0] for w in p.works}))
    ),
    "a part of a prompt without logits is a sequence of the step, too": (
        lambda *case: _with_host(
            *case, count=lambda plan: sum(work.num_logits > 0 for work in plan.works)
        )
    ),
    "what the server itself takes counts, too": (
        lambda server, plan, per_sequence: per_sequence * len(plan.works)
    ),
    "the host works before the GPU does: add its time, the two do not overlap": (
        lambda server, plan, per_sequence: max(
            server.step_seconds(plan), per_sequence * len(plan.works)
        )
    ),
}


class _Host(NamedTuple):
    """A cost model by the reader's function."""

    seconds: Callable[..., float]
    per_sequence: float

    def step_seconds(self, plan: Plan, moved_blocks: int = 0) -> float:
        """What the reader's function says of the paper's OPT-13B."""
        return self.seconds(OPT_13B, plan, self.per_sequence)


def _gains(seconds: Callable[..., float]) -> str:
    """Alpaca, and more of it than any system can serve: vLLM beside Orca (Oracle)."""
    trace = BASIC["OPT-13B, Alpaca"].trace(minutes=0.5, rate=250.0)
    gains = []
    for per_sequence in (0.0, PER_SEQUENCE):
        costs = _Host(seconds, per_sequence)
        ours, oracle = (
            _throughput(simulate(SYSTEMS[name](OPT_13B), arrivals(trace), costs))
            for name in ("vLLM", "Orca (Oracle)")
        )
        gains.append(ours / oracle)
    return (
        f"overloaded with Alpaca, vLLM answers {gains[0]:.2f} times the tokens of Orca "
        f"(Oracle);\n  if each sequence takes the host {1e6 * PER_SEQUENCE:.0f} µs, "
        f"{gains[1]:.2f} times"
    )


def _throughput(report: Report) -> float:
    """Tokens of answers a second, while anybody waits."""
    busy = max(moment.end for moment in report.timeline if moment.waiting)
    return sum(one.output for one in report.served if one.end <= busy) / busy


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
