"""Lab: checks of appendix H's exercises on routers: a bound, a choice, a memory."""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from minipaged.lab.check.diagnose import compare, diagnose, want
from minipaged.lab.check.lesson3 import because
from minipaged.lab.check.verdict import Attempt, Rejected, attempted, exercise
from minipaged.scheduling.routing import PrefixAware

# --- may it serve one more? -----------------------------------------------------------


@exercise
def may_serve(attempt: Attempt) -> Callable[[], str]:
    """(load, loads, factor, spare) -> may a replica with this load get the next one?"""
    draw = Random(0)
    cases = [
        (7, [7, 4, 4, 4], 1.5, 1),
        (8, [8, 4, 4, 3], 1.5, 1),
        (0, [0, 0, 0], 1.0, 1),
        (1, [1, 1, 1, 1], 1.0, 1),
        (3, [3, 0, 0, 0], 1.5, 4),
        (4, [4, 0, 0, 0], 1.5, 4),
        (3, [3, 1, 1, 1], 2.0, 1),
    ]
    for _ in range(60):
        loads = [draw.randrange(9) for _ in range(draw.randint(1, 6))]
        factor = draw.choice([1.0, 1.25, 1.5, 2.0])
        cases.append((draw.choice(loads), loads, factor, draw.choice([1, 1, 4])))
    compare(attempt, cases, _may_serve, MAY_FLAWS, read=_truth)
    return lambda: "the rule of `PrefixAware.limit`: the least loaded may always serve"


def _truth(found: Any) -> bool:
    want("True or False", found, isinstance(found, bool))
    return found


def _may_serve(
    load: int,
    loads: Sequence[int],
    factor: float,
    spare: int,
    coming: int = 1,
    both: Callable[[float, float], float] = max,
    within: Callable[[float, float], bool] = lambda load, limit: load < limit,
) -> bool:
    """The right rule; the options plant mistakes."""
    mean = (sum(loads) + coming) / len(loads)
    return within(load, both(spare, factor * mean))


MAY_FLAWS: dict[str, Callable[..., bool]] = {
    "the request that comes counts in the mean, or an idle cluster serves nobody": (
        lambda *case: _may_serve(*case, coming=0)
    ),
    "a replica that has reached the limit is full": (
        lambda *case: _may_serve(*case, within=lambda load, limit: load <= limit)
    ),
    "up to `spare` requests are always allowed: the limit is the larger of the two": (
        lambda *case: _may_serve(*case, both=min)
    ),
    "the mean is over all replicas": (
        lambda load, loads, factor, spare: load < max(spare, factor * (sum(loads) + 1))
    ),
    "compare with the mean of all loads, not with the least of them": (
        lambda load, loads, factor, spare: load < max(spare, factor * (min(loads) + 1))
    ),
    "`spare` is missing: a few requests may always stay together": (
        lambda load, loads, factor, spare: _may_serve(load, loads, factor, 0)
    ),
}

# --- the choice -----------------------------------------------------------------------

Known = Mapping[str, set[int]]
Loads = Mapping[str, int]


@exercise
def route(attempt: Attempt) -> Callable[[], str]:
    """(chain, known, loads, limit) -> the name of the replica that serves."""
    draw = Random(1)
    cases: list[tuple[list[int], Known, Loads, float]] = [
        ([1, 2, 3], {"a": {1}, "b": {1, 2}, "c": set()}, {"a": 0, "b": 2, "c": 0}, 4),
        ([1, 2, 3], {"a": {1}, "b": {1, 2}, "c": set()}, {"a": 0, "b": 4, "c": 0}, 4),
        ([1, 2, 3], {"a": {2, 3}, "b": {1}, "c": set()}, {"a": 0, "b": 1, "c": 0}, 4),
        ([9], {"a": {1}, "b": {2}, "c": {3}}, {"a": 2, "b": 0, "c": 1}, 4),
        ([1, 2], {"a": {1, 2}, "b": {1, 2}, "c": {1}}, {"a": 2, "b": 1, "c": 0}, 4),
        ([], {"a": {1}, "b": {2}}, {"a": 1, "b": 0}, 4),
        ([1], {"a": {1}, "gone": {1}}, {"a": 3, "b": 0}, 4),
        ([1], {"a": {1, 7, 8, 9}, "b": {1}}, {"a": 1, "b": 0}, 4),
    ]
    for _ in range(60):
        names = "abcd"[: draw.randint(1, 4)]
        chain = [1, 2, 3, 4][: draw.randint(0, 4)]
        known = {
            name: {*draw.sample(range(1, 7), draw.randint(0, 5))} for name in names
        }
        loads = {name: draw.randrange(5) for name in names}
        limit = draw.choice([min(loads.values()) + 0.5, 3.0, 9.0])
        if all(load >= limit for load in loads.values()):
            continue
        cases.append((chain, known, loads, limit))
    compare(attempt, cases, _route, ROUTE_FLAWS, read=_name, hints=ROUTE_HINTS)
    return lambda: "as `PrefixAware.choose`, with the least loaded in case of a tie"


ROUTE_HINTS = {
    "'gone'": "gone is dead: `known` may still name it, `loads` does not",
    "'b'": "b was never sent anything, so `known` has no set for it",
}


def _name(found: Any) -> str:
    want("a replica's name", found, isinstance(found, str))
    return found


def _depth(chain: Sequence[int], known: set[int]) -> int:
    count = 0
    while count < len(chain) and chain[count] in known:
        count += 1
    return count


def _anywhere(chain: Sequence[int], known: set[int]) -> int:
    return sum(each in known for each in chain)


def _route(
    chain: Sequence[int],
    known: Known,
    loads: Loads,
    limit: float,
    depth: Callable[[Sequence[int], set[int]], int] = _depth,
    tie: int = -1,
    is_open: Callable[[float, float], bool] = lambda load, limit: load < limit,
) -> str:
    """The right choice; the options plant mistakes."""
    names = [name for name in loads if is_open(loads[name], limit)]
    return max(
        names,
        key=lambda name: (depth(chain, known.get(name, set())), tie * loads[name]),
    )


ROUTE_FLAWS: dict[str, Callable[..., str]] = {
    "a replica at its limit is full, whatever it holds": (
        lambda *case: _route(*case, is_open=lambda load, limit: True)
    ),
    "a prefix ends at the first block that is missing: what comes later is of no use": (
        lambda *case: _route(*case, depth=_anywhere)
    ),
    "of replicas that know equally much, the least loaded serves": (
        [
            lambda *case: _route(*case, tie=0),
            lambda *case: _route(*case, tie=1),
        ]
    ),
    "the longest prefix serves, not the one who holds most blocks of any prompt": (
        lambda *case: _route(*case, depth=lambda chain, known: len(known))
    ),
    "the least loaded serves only if nobody knows more of the prompt": (
        lambda *case: _route(*case, depth=lambda chain, known: 0)
    ),
}

# --- what was sent --------------------------------------------------------------------


@exercise
def remembered(attempt: Attempt) -> Callable[[], str]:
    """A class with sent and num_known over at most `capacity` hashes."""
    story = _Story(attempt, 3)
    story.send([])
    story.ask([1], "nothing was sent yet")
    story.send([1, 2, 3])
    story.ask([1, 2, 3, 4], "all three are known")
    story.ask([2, 3], "2 and 3 were sent too: each hash stands for its whole past")
    story.ask([9, 2], "a prefix ends at the first hash that is missing")
    story.send([7])
    story.ask(
        [1, 2, 3], "of a chain, the end is forgotten first: others share the start"
    )
    story.ask([7], "what was just sent is known")
    story.send([1])
    story.send([8, 9])
    story.ask([1, 2], "1 was used again, so it is newer than 2 and 7")
    story.ask([7], "7 was unused longest")
    story.send([4, 5, 6, 10])
    story.ask([4, 5, 6, 10], "a chain may be longer than the memory: its start stays")
    story.ask([], "a prompt may be shorter than a block")
    for seed in range(30):
        draw = Random(seed)
        capacity = draw.randint(1, 6)
        story = _Story(attempt, capacity)
        for _ in range(20):
            first = draw.randrange(3)
            chain = [10 * first + at for at in range(draw.randint(0, 4))]
            if draw.random() < 0.5:
                story.send(chain)
            else:
                story.ask(chain, "the hash that was unused longest is forgotten")
    return lambda: "as `PrefixAware` remembers, for each replica"


class _Story:
    """The reader's memory, and the right one beside it."""

    def __init__(self, make: Callable[[int], Any], capacity: int):
        self.make, self.capacity = make, capacity
        self.memory = make(capacity)
        self.right = PrefixAware(capacity=capacity)
        self.events: list[tuple[str, list[int]]] = []  # a method, and its chain

    def send(self, chain: list[int]) -> None:
        """These hashes were sent."""
        self._do(self.memory, "sent", chain)
        self.right.sent("", chain)
        self.events.append(("sent", chain))

    def ask(self, chain: list[int], why: str) -> None:
        """Is `num_known` right? why: what is forgotten if it is not."""
        found = self._do(self.memory, "num_known", chain)
        right = self.right.num_known("", chain)
        events = [event for event in self.events if event[0] == "sent"][-4:]
        if found != right and self._unasked(chain) == right:
            events = self.events[-8:]
            why = "to ask is not to use: `num_known` changes nothing"
        after = ", ".join(f"{name}({said})" for name, said in events) or "nothing"
        what = f"capacity {self.capacity}, after {after}: num_known({chain})"
        with because(why):
            diagnose(what, found, right)
        self.events.append(("num_known", chain))

    def _unasked(self, chain: list[int]) -> Any:
        """What a new memory answers that was sent the same, and asked nothing."""
        memory = self.make(self.capacity)
        for name, sent in self.events:
            if name == "sent":
                self._do(memory, name, sent)
        return self._do(memory, "num_known", chain)

    def _do(self, memory: Any, name: str, chain: list[int]) -> Any:
        if not hasattr(memory, name):
            raise Rejected(f"it has no method {name}")
        try:
            return attempted(f"{name}({chain})", getattr(memory, name), [*chain])
        except NotImplementedError as error:
            if str(error) or not self.events:
                raise
            raise Rejected(f"{name} is not written yet") from None
