"""Replicas behind a router."""

import pytest

from minipaged.lab import StepClock
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.prefix_cache import PrefixCache
from minipaged.scheduling.preemption import PreemptingScheduler
from minipaged.simulate.loop import Arrival, Replica, simulate
from minipaged.simulate.report import merged
from minipaged.simulate.router import (
    ROUTERS,
    least_loaded,
    prefix_aware,
    simulate_replicas,
)
from minipaged.simulate.script import Script
from minipaged.simulate.traces import arrivals, conversations, poisson_trace, wmt_like


def replicas(count, num_blocks=400):
    pools = [BlockPool(num_blocks, 16) for _ in range(count)]
    return [
        Replica(PreemptingScheduler(pool, PrefixCache(pool)), StepClock(0.02, 1e-4))
        for pool in pools
    ]


@pytest.mark.parametrize("name", ROUTERS)
def test_a_single_replica_is_the_server_itself(name):
    trace = poisson_trace(wmt_like(60), 20.0)
    (one,) = replicas(1)
    alone = simulate(one.scheduler, arrivals(trace), one.costs)
    (routed,) = simulate_replicas(replicas(1), arrivals(trace), ROUTERS[name]())
    assert routed.served == alone.served and routed.timeline == alone.timeline


@pytest.mark.parametrize("name", ROUTERS)
def test_all_are_served_and_more_replicas_serve_sooner(name):
    trace = poisson_trace(wmt_like(200), 200.0)
    latencies = []
    for count in (1, 3):
        report = merged(
            simulate_replicas(replicas(count), arrivals(trace), ROUTERS[name]())
        )
        assert sorted(one.arrival for one in report.served) == [
            one.arrival for one in trace
        ]
        latencies.append(report.summary("latency").mean)
    assert latencies[1] < latencies[0]


def test_steps_say_whose_they_are_and_how_many_they_preempted():
    trace = poisson_trace(wmt_like(100), 1000.0)
    reports = simulate_replicas(
        replicas(2, num_blocks=40), arrivals(trace), least_loaded()
    )
    steps = merged(reports).timeline
    assert [step.end for step in steps] == sorted(step.end for step in steps)
    for number, report in enumerate(reports):
        own = [step for step in steps if step.replica == number]
        assert len(own) == len(report.timeline)
        assert sum(step.preemptions for step in own) == report.preemptions > 1


def test_of_equally_long_prefixes_the_least_loaded_replica_s_is_taken():
    own = replicas(3)
    prompt = [7] * 40
    for replica in own[:2]:
        replica.add(Arrival(0.0, Script([1]).request(prompt)))
        replica.run_until()
    own[0].add(Arrival(9.0, Script([1]).request([1])))
    request = Script([1]).request(prompt)
    assert prefix_aware()(own, request) == 1
    assert prefix_aware()(own, Script([1]).request([8] * 40)) == 1
    own[1].add(Arrival(9.0, Script([1]).request([1])))
    assert prefix_aware()(own, request) == 0
    assert prefix_aware()(own, Script([1]).request([8] * 40)) == 2


def test_turns():
    own = replicas(3)
    simulate_replicas(
        own, arrivals(poisson_trace(wmt_like(9), 5.0)), ROUTERS["round-robin"]()
    )
    assert [len(each.report.served) for each in own] == [3, 3, 3]


def test_the_least_loaded_takes_over_from_a_busy_one():
    """Long answers at every second request: turns would give them all to one."""
    coming = [
        Arrival(0.1 * n, Script([2 if n % 2 else 400]).request([n] * 20))
        for n in range(40)
    ]
    own = replicas(2)
    simulate_replicas(own, coming, least_loaded())
    long = [sum(one.output == 400 for one in each.report.served) for each in own]
    assert min(long) >= 8


def test_prefixes_are_found_where_they_lie():
    """A conversation stays where its past is; others find less of it."""
    trace = conversations(40, rate=0.4)
    shares = {}
    for name, router in ROUTERS.items():
        own = replicas(4, num_blocks=4000)
        report = merged(simulate_replicas(own, arrivals(trace), router()))
        shares[name] = report.share_cached
    assert shares["prefix-aware"] > 1.5 * max(
        shares["round-robin"], shares["least-loaded"]
    )


def test_a_prefix_does_not_overload_a_replica():
    trace = poisson_trace(wmt_like(100), 1000.0, prefix=341)
    counts = {}
    for slack in (2, 1000):
        own = replicas(2, num_blocks=4000)
        simulate_replicas(own, arrivals(trace), prefix_aware(slack))
        counts[slack] = min(len(each.report.served) for each in own)
    assert counts[1000] < 10 < 35 < counts[2]
