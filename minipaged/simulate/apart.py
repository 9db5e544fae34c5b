"""Appendix H: prefill and decode apart: some replicas compute prompts, others answer.

A replica that computes a prompt says the first token. Then K and V of the prompt go
over its link to a replica that only decodes. Nobody who decodes waits for the prompt of
another; but bytes must be moved, and each part has fewer replicas.

Source: DistServe (Zhong et al., 2024), Splitwise (Patel et al., 2024).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from minipaged.memory.block_pool import BlockPool
from minipaged.scheduling.preemption import PreemptingScheduler, Swapped
from minipaged.scheduling.request import Request
from minipaged.scheduling.routing import LeastLoaded, Policy
from minipaged.simulate.cluster import simulate_cluster
from minipaged.simulate.cluster_report import Answer, ClusterReport
from minipaged.simulate.loop import Arrival, Replica
from minipaged.simulate.script import Script
from minipaged.simulate.shared_prefixes import SAID
from minipaged.simulate.traces import Asked


class Transfer(NamedTuple):
    """K and V of a prompt on their way."""

    number: int  # of the request, in the trace
    replica: int  # whose link it is
    ready: float  # seconds: when the prompt was computed
    start: float  # when the link was free
    end: float
    num_bytes: int

    @property
    def waited(self) -> float:
        """Seconds behind other transfers of the same link."""
        return self.start - self.ready


class ApartReport(NamedTuple):
    """What users saw, and what was moved.

    cluster: the replicas that decode are numbered after those that prefill. A second
    token that was late, because K and V were on their way, is a pause like any other.
    """

    cluster: ClusterReport
    transfers: list[Transfer]


class FromElsewhere:
    """In the place of a swap space: K and V come over a link, and none go out.

    A preempted request is computed again, because this has no room.
    """

    num_moved = 0  # blocks over the host's link: none

    def __init__(self, block_size: int):
        """Full from the start."""
        self.pool = BlockPool(1, block_size)
        self.pool.allocate()

    def load(self, places: Sequence[int], block_ids: Sequence[int]) -> None:
        """The blocks have their content already, when the request comes."""


@dataclass(frozen=True, slots=True)
class Handed(Asked):
    """A request whose prompt is computed: K, V and the first token come with it."""

    block_size: int = 16

    def arrive(self) -> Arrival:
        """A new Request that begins with its second token."""
        (length,) = self.lengths
        request = Request(self.prompt, length, Script([length - 1]))
        request.answers[0].append(SAID)
        num_blocks = -(-len(self.prompt) // self.block_size)
        places = [*range(num_blocks)]
        request.swapped = Swapped(request.answers, [places], [len(self.prompt)])
        return Arrival(self.arrival, request)


def decoder(num_blocks: int, block_size: int, **limits: float) -> PreemptingScheduler:
    """A scheduler that takes requests which are `Handed`."""
    pool = BlockPool(num_blocks, block_size)
    return PreemptingScheduler(pool, swap_space=FromElsewhere(block_size), **limits)


def transfers_of(
    answers: Sequence[Answer], kv_bytes: int, bandwidth: float
) -> list[Transfer]:
    """One after another over the link of the replica that computed the prompt.

    kv_bytes: of a token. bandwidth: bytes a second. In the order of the trace.
    """
    free_at: dict[int, float] = {}
    found = []
    for answer in sorted(answers, key=lambda each: (each.served.end, each.number)):
        ready = answer.served.end
        start = max(ready, free_at.get(answer.replica, 0.0))
        num_bytes = answer.served.prompt * kv_bytes
        end = start + num_bytes / bandwidth
        free_at[answer.replica] = end
        found.append(
            Transfer(answer.number, answer.replica, ready, start, end, num_bytes)
        )
    return sorted(found)


def simulate_apart(
    prefill: tuple[int, Callable[[], Replica]],
    decode: tuple[int, Callable[[], Replica]],
    trace: Sequence[Asked],
    kv_bytes: int,
    bandwidth: float,
    policy: Policy | None = None,
) -> ApartReport:
    """Serve this trace: each prompt at one place, each answer at another.

    prefill, decode: how many replicas, and how they are made; the latter over a
    `decoder`. policy: of the router before those that prefill, by default the least
    loaded; before those that decode, it is the least loaded always.
    """
    num_prefill, make_prefill = prefill
    num_decode, make_decode = decode
    prompts = [replace(asked, lengths=(1,)) for asked in trace]
    policy = LeastLoaded() if policy is None else policy
    first = simulate_cluster(make_prefill, num_prefill, prompts, policy)
    by_number = {answer.number: answer for answer in first.answers}
    longer = [by_number[at] for at, each in enumerate(trace) if each.lengths[0] > 1]
    transfers = transfers_of(longer, kv_bytes, bandwidth)
    block_size = make_decode().scheduler.pool.block_size
    arriving = sorted(transfers, key=lambda each: (each.end, each.number))
    handed = [
        Handed(one.end, asked.prompt, asked.lengths, block_size=block_size)
        for one in arriving
        for asked in [trace[one.number]]
    ]
    second = simulate_cluster(make_decode, num_decode, handed, LeastLoaded())
    answers = [by_number[at] for at, each in enumerate(trace) if each.lengths[0] == 1]
    for answer in second.answers:
        number = arriving[answer.number].number
        before = by_number[number].served
        answers.append(
            Answer(
                number,
                num_prefill + answer.replica,
                1,
                max(answer.pause, answer.served.first_token - before.first_token),
                before._replace(
                    end=answer.served.end,
                    output=before.output + answer.served.output,
                    preemptions=before.preemptions + answer.served.preemptions,
                ),
            )
        )
    answers.sort(key=lambda answer: answer.served.end)
    lives = first.lives + [
        life._replace(replica=num_prefill + life.replica) for life in second.lives
    ]
    return ApartReport(ClusterReport(answers, lives, 0), transfers)
