"""Appendix F: several replicas of a server, and a router that says who serves whom."""

from collections.abc import Callable, Iterable, Sequence
from itertools import count

from minipaged.scheduling.request import Request
from minipaged.simulate.loop import Arrival, Replica
from minipaged.simulate.report import Report

# Given the replicas as they are at the arrival, which of them serves the request?
Router = Callable[[Sequence[Replica], Request], int]

SLACK = 4  # requests more than the least loaded, for the sake of a prefix


def round_robin() -> Router:
    """One after the other."""
    numbers = count()
    return lambda replicas, request: next(numbers) % len(replicas)


def least_loaded() -> Router:
    """The one with fewest requests, running and waiting."""
    return lambda replicas, request: _least_loaded(replicas)


def prefix_aware(slack: int = SLACK) -> Router:
    """The one that finds most of the prompt in its cache, if it is not overloaded.

    It may have `slack` requests more than the least loaded one. Of replicas that find
    equally much, even nothing, the least loaded one serves. The caches themselves are
    asked, where a real router can only guess what they hold.
    """

    def choose(replicas: Sequence[Replica], request: Request) -> int:
        most = replicas[_least_loaded(replicas)].num_requests + slack
        open_ones = [
            place for place, each in enumerate(replicas) if each.num_requests <= most
        ]

        def rank(place: int) -> tuple[int, int]:
            replica = replicas[place]
            return _num_found(replica, request), -replica.num_requests

        return max(open_ones, key=rank)

    return choose


ROUTERS = {
    "round-robin": round_robin,
    "least-loaded": least_loaded,
    "prefix-aware": prefix_aware,
}


def simulate_replicas(
    replicas: Sequence[Replica], arrivals: Iterable[Arrival], router: Router
) -> list[Report]:
    """Serve all requests; a report of each replica, in order.

    At an arrival, all replicas have made the steps that began before it.
    """
    for arrival in arrivals:
        for replica in replicas:
            replica.run_until(arrival.moment)
        replicas[router(replicas, arrival.request)].add(arrival)
    for replica in replicas:
        replica.run_until()
    return [replica.report for replica in replicas]


def _least_loaded(replicas: Sequence[Replica]) -> int:
    return min(range(len(replicas)), key=lambda place: replicas[place].num_requests)


def _num_found(replica: Replica, request: Request) -> int:
    cache = replica.scheduler.prefix_cache
    return 0 if cache is None else len(cache.find(request.prompt, request.salt))
