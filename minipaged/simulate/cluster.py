"""Appendix H: many replicas under one clock: a router, deaths, and what users saw.

Each replica is appendix F's: the real scheduler, pool and prefix cache, with a cost
model in place of the model. The router is a policy of `scheduling.routing`, the same
that serves live. As it does live, it knows only how many requests each replica has, and
what it sent where.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from itertools import count
from math import inf
from random import Random
from typing import NamedTuple

from minipaged.scheduling.observer import Observer
from minipaged.scheduling.plan import Plan
from minipaged.scheduling.request import Request
from minipaged.scheduling.routing import Policy, chain_hashes
from minipaged.simulate.cluster_report import Answer, ClusterReport, Life
from minipaged.simulate.loop import Arrival, Replica
from minipaged.simulate.report import Served
from minipaged.simulate.traces import Asked


class Death(NamedTuple):
    """A replica dies, and comes back with an empty cache."""

    moment: float  # seconds
    replica: int
    back: float  # the moment of its return; infinite: never


def random_deaths(
    times: int, replicas: int, within: float, away: float, seed: int = 0
) -> list[Death]:
    """So many deaths, at random moments in `within` seconds, of random replicas.

    Each stays away for `away` seconds. Nobody dies who is dead already.
    """
    chance = Random(seed)
    found: list[Death] = []
    for moment in sorted(chance.uniform(0, within) for _ in range(times)):
        dead = {death.replica for death in found if death.back > moment}
        living = [place for place in range(replicas) if place not in dead]
        if living:
            found.append(Death(moment, chance.choice(living), moment + away))
    return found


class _Sent(NamedTuple):
    """A request on its way: which one of the trace it is, and how often it was sent."""

    number: int
    tries: int


class _Watch(Observer):
    """One life of a replica: it notes when each request got its tokens."""

    def __init__(self, replica: Replica):
        self.replica = replica
        self.sent: dict[Request, _Sent] = {}
        self.first: dict[Request, float] = {}
        self.latest: dict[Request, float] = {}
        self.pause: dict[Request, float] = defaultdict(float)
        self.end: dict[Request, float] = {}
        replica.scheduler.observers.append(self)

    def committed(self, plan: Plan) -> None:
        """Called by the scheduler, at the end of a step: tokens have come."""
        now = self.replica.now
        for request in dict.fromkeys([w.request for w in plan.works if w.num_logits]):
            self.first.setdefault(request, now)
            waited = now - self.latest.get(request, now)
            self.pause[request] = max(self.pause[request], waited)
            self.latest[request] = now
            if not request.live:
                self.end[request] = now

    def lost(self, moment: float) -> list[_Sent]:
        """Those without an answer when it dies: what ends later is never sent."""
        return [
            sent
            for request, sent in self.sent.items()
            if self.end.get(request, inf) > moment
        ]

    def answers(
        self, place: int, trace: Sequence[Asked], moment: float
    ) -> list[Answer]:
        """Of all requests that were answered until then."""
        return [
            Answer(
                number,
                place,
                tries,
                self.pause[request],
                Served(
                    arrival=trace[number].arrival,
                    first_token=self.first[request],
                    end=self.end[request],
                    prompt=len(request.prompt),
                    output=request.strategy.num_said,
                    cached=request.num_cached_tokens,
                    preemptions=request.num_restarts,
                ),
            )
            for request, (number, tries) in self.sent.items()
            if self.end.get(request, inf) <= moment
        ]


class Cluster:
    """Replicas behind a router.

    make: makes a replica with an empty cache. policy: says who serves whom; to be made
    anew for each run, because it remembers what it has sent. hashes: the router's, of a
    prompt, a block size and a salt. resends: how often a request is sent again at most;
    one that has lost its replica once more is never answered.
    """

    def __init__(
        self,
        make: Callable[[], Replica],
        replicas: int,
        policy: Policy,
        hashes: Callable[[Sequence[int], int, bytes], list[int]] = chain_hashes,
        resends: float = inf,
    ):
        """All replicas are alive, and idle."""
        self._make = make
        self._policy = policy
        self._hashes = hashes
        self._resends = resends
        self._alive = {place: _Watch(make()) for place in range(replicas)}
        self._lives: list[Life] = []
        self._answers: list[Answer] = []
        self._held: list[_Sent] = []  # while no replica is alive
        self._num_resent = 0

    def serve(
        self,
        trace: Sequence[Asked],
        deaths: Iterable[Death] = (),
        progress: Callable[[Iterable[Asked]], Iterable[Asked]] = iter,
    ) -> ClusterReport:
        """Answer every request of the trace, unless `resends` forbids it.

        trace: in the order of arrival. Who dies loses its cache and all its requests;
        the router notices at once, and sends these requests again, from the start.
        Their users have waited since they asked: latencies count from then. When no
        replica is alive, requests wait until one comes back; RuntimeError if none does.
        progress: a bar around the trace, for example `minipaged.progress.progress_bar`.
        """
        self._trace = trace
        order = count()
        events: list[tuple[float, int, Callable[[float], None]]] = []
        for death in deaths:
            heappush(events, (death.moment, next(order), self._die(death.replica)))
            if death.back < inf:
                heappush(events, (death.back, next(order), self._return(death.replica)))
        for number, asked in enumerate(progress(trace)):
            while events and events[0][0] <= asked.arrival:
                self._happens(events)
            self._run_until(asked.arrival)
            self._send(asked.arrival, _Sent(number, 1))
        while events:
            self._happens(events)
        if self._held:
            raise RuntimeError(
                f"{len(self._held)} requests were never answered: no replica is alive; "
                "let one come back"
            )
        for place in list(self._alive):
            self._alive[place].replica.run_until()
            self._end(place, inf)
        return ClusterReport(
            sorted(self._answers, key=lambda answer: answer.served.end),
            self._lives,
            self._num_resent,
        )

    def _happens(self, events: list) -> None:
        moment, _, event = heappop(events)
        self._run_until(moment)
        event(moment)

    def _run_until(self, moment: float) -> None:
        for watch in self._alive.values():
            watch.replica.run_until(moment)

    def _send(self, moment: float, sent: _Sent) -> None:
        """Let the policy choose among the living, and tell it what was done."""
        if not self._alive:
            self._held.append(sent)
            return
        _, request = self._trace[sent.number].arrive()
        alive = {place: self._alive[place].replica for place in sorted(self._alive)}
        loads = {place: replica.num_requests for place, replica in alive.items()}
        block_size = next(iter(alive.values())).scheduler.pool.block_size
        hashes = self._hashes(request.prompt, block_size, request.salt)
        place = self._policy.choose(loads, hashes)
        self._policy.sent(place, hashes)
        self._alive[place].sent[request] = sent
        alive[place].add(Arrival(moment, request))

    def _die(self, place: int) -> Callable[[float], None]:
        def die(moment: float) -> None:
            if place not in self._alive:
                return
            lost = self._alive[place].lost(moment)
            self._end(place, moment)
            del self._alive[place]
            self._policy.forget(place)
            for number, tries in lost:
                if tries <= self._resends:
                    self._num_resent += 1
                    self._send(moment, _Sent(number, tries + 1))

        return die

    def _return(self, place: int) -> Callable[[float], None]:
        def come_back(moment: float) -> None:
            if place in self._alive:
                return
            self._alive[place] = _Watch(self._make())
            held, self._held = self._held, []
            for sent in held:
                self._send(moment, sent)

        return come_back

    def _end(self, place: int, moment: float) -> None:
        """Note what this life has done until then."""
        watch = self._alive[place]
        self._answers += watch.answers(place, self._trace, moment)
        steps = [step for step in watch.replica.report.timeline if step.end <= moment]
        self._lives.append(Life(place, len(watch.sent), steps))


def simulate_cluster(
    make: Callable[[], Replica],
    replicas: int,
    trace: Sequence[Asked],
    policy: Policy,
    deaths: Iterable[Death] = (),
    progress: Callable[[Iterable[Asked]], Iterable[Asked]] = iter,
    resends: float = inf,
) -> ClusterReport:
    """Serve this trace with so many replicas behind a router of this policy."""
    cluster = Cluster(make, replicas, policy, resends=resends)
    return cluster.serve(trace, deaths, progress)
