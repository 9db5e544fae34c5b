"""Live replicas and their simulation, as stored: it can be simulated again."""

import pytest

from minipaged.lab import measured_replicas
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.prefix_cache import PrefixCache
from minipaged.scheduling.preemption import PreemptingScheduler
from minipaged.scheduling.routing import PrefixAware, RoundRobin
from minipaged.simulate.cluster import simulate_cluster
from minipaged.simulate.fit import FittedCosts
from minipaged.simulate.loop import Replica
from minipaged.simulate.shared_prefixes import applications, repeated

STORED = measured_replicas()
COSTS = FittedCosts(STORED["costs"], STORED["free_tokens"])
TRACE = applications(**STORED["trace"])


def replica():
    pool = BlockPool(STORED["num_blocks"], STORED["block_size"])
    limits = {"max_tokens": 2048, "max_sequences": 256}
    return Replica(PreemptingScheduler(pool, PrefixCache(pool), **limits), COSTS)


@pytest.mark.parametrize("router", ["round-robin", "prefix"])
def test_the_simulation_comes_out_again(router):
    prefix = PrefixAware(STORED["factor"], STORED["spare"], STORED["num_blocks"])
    policy = {"round-robin": RoundRobin(), "prefix": prefix}[router]
    report = simulate_cluster(replica, STORED["replicas"], TRACE, policy)
    told = STORED["routers"][router]["simulated"]
    assert len(report.answers) == STORED["requests"] == len(TRACE)
    assert report.hit_rate == pytest.approx(told["hit_rate"], abs=0.005)
    mean = 1000 * report.wait("time_to_first_token").mean + STORED["outside_ms"]
    assert mean == pytest.approx(told["ttft_ms"]["mean"], rel=0.02)


def test_ratios_are_those_of_the_rows():
    turns, prefix = (STORED["routers"][name] for name in ("round-robin", "prefix"))
    for side in ("live", "simulated"):
        hits = prefix[side]["hit_rate"] / turns[side]["hit_rate"]
        first = prefix[side]["ttft_ms"]["mean"] / turns[side]["ttft_ms"]["mean"]
        assert STORED["ratios"]["hit_rate"][side] == pytest.approx(hits, abs=1e-3)
        assert STORED["ratios"]["ttft"][side] == pytest.approx(first, abs=1e-3)
    for ratio in STORED["ratios"].values():
        off = ratio["simulated"] / ratio["live"] - 1
        assert ratio["off"] == pytest.approx(off, abs=1e-3)


def test_what_was_measured_is_what_is_claimed():
    """No answer was wrong; no router found more than there was."""
    assert STORED["wrong"] == 0
    most = repeated(TRACE, STORED["block_size"])
    assert STORED["repeated"] == pytest.approx(most, abs=1e-3)
    for sides in STORED["routers"].values():
        assert 0 < sides["live"]["hit_rate"] <= most
        assert sides["live"]["balance"] <= STORED["factor"]
