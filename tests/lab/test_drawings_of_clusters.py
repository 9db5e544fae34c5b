"""Appendix H's drawings of replicas: who serves, how evenly, what is handed over."""

from functools import cache

import pytest

from helpers.drawn import texts
from helpers.readable import readable_in_all_themes
from minipaged.lab import StepClock
from minipaged.lab.plots.cluster import plot_cluster
from minipaged.lab.plots.handed import plot_handed
from minipaged.lab.plots.routing import plot_routing
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.prefix_cache import PrefixCache
from minipaged.scheduling.preemption import PreemptingScheduler
from minipaged.scheduling.routing import POLICIES, LeastLoaded, PrefixAware
from minipaged.simulate.apart import decoder, simulate_apart
from minipaged.simulate.cluster import simulate_cluster
from minipaged.simulate.loop import Replica
from minipaged.simulate.shared_prefixes import shared_texts

COSTS = StepClock(0.02, 1e-4)
TRACE = shared_texts(60, 20.0, texts=5, text_tokens=64, answer=6.0)
CHAIN = [1, 2, 3, 4, 5]
LOADS = {0: 9, 1: 5, 2: 1, 3: 4}


def replica():
    pool = BlockPool(400, 16)
    return Replica(PreemptingScheduler(pool, PrefixCache(pool)), COSTS)


@cache
def reports():
    return {
        name: simulate_cluster(replica, 64, TRACE, make())
        for name, make in POLICIES.items()
    }


@cache
def apart():
    decodes = 2, lambda: Replica(decoder(400, 16), COSTS)
    return simulate_apart((2, replica), decodes, TRACE, 1000, 1e6)


def routing():
    policy = PrefixAware(otherwise=LeastLoaded())
    policy.sent(0, [1, 2, 3, 4])
    policy.sent(1, [1, 2, 3])
    policy.sent(2, [9])
    words = ["system", "system", "user", "answer", "user"]
    chosen = policy.choose(LOADS, CHAIN)
    return plot_routing(policy, CHAIN, LOADS, chosen, words, "title")


DRAWINGS = {
    "routing": routing,
    "cluster": lambda: plot_cluster(reports(), "title"),
    "handed": lambda: plot_handed(apart(), range(8), "title"),
}
test_it_can_be_read = readable_in_all_themes(DRAWINGS)


def test_the_longest_prefix_within_the_limit_serves():
    figure = routing()
    rows = {row.label: row for row in figure.scene.rows}
    assert rows["replica 0"].words == ["system", "system", "user", "answer", ""]
    assert rows["replica 1"].words == ["system", "system", "user", "", ""]
    assert {*rows["replica 2"].words} == {""}
    said = texts(figure)
    assert said.count("overloaded") == said.count("serves it") == 1
    assert tuple(rows["replica 1"].values) == ("5", "7.5")


def test_each_replica_has_a_bar_and_each_router_its_numbers():
    scene = DRAWINGS["cluster"]().scene
    for row in scene.rows:
        report = reports()[row.label]
        assert len(row.words) == 64
        assert row.values[0] == f"{report.hit_rate:.0%}"


def test_lanes_are_as_long_as_the_requests_took():
    scene = DRAWINGS["handed"]().scene
    answers = {answer.number: answer.served for answer in apart().cluster.answers}
    links = {transfer.number: transfer.replica for transfer in apart().transfers}
    first = min(answers[number].arrival for number in range(8))
    labels = [row.label for row in scene.rows[:8]]
    own = sorted(range(8), key=lambda number: links[number])  # in turn on each link
    assert labels == [f"link {links[number]}, request {number}" for number in own]
    assert {*map(links.get, range(8))} == {0, 1}
    for number, row in zip(own, scene.rows, strict=False):
        assert sum(cell.wide for cell in row.cells) == pytest.approx(
            answers[number].end - first
        )
