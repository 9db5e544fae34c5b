"""Many replicas under one clock: routed, dying, coming back."""

from math import inf

import pytest

from minipaged.lab import StepClock
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.prefix_cache import PrefixCache
from minipaged.scheduling.preemption import PreemptingScheduler
from minipaged.scheduling.routing import (
    POLICIES,
    LeastLoaded,
    PrefixAware,
    RoundRobin,
    chain_hashes,
)
from minipaged.simulate.cluster import Cluster, Death, random_deaths, simulate_cluster
from minipaged.simulate.cluster_report import wait_of
from minipaged.simulate.loop import Replica, simulate
from minipaged.simulate.router import ROUTERS, simulate_replicas
from minipaged.simulate.shared_prefixes import (
    TEXT,
    applications,
    repeated,
    shared_texts,
)
from minipaged.simulate.traces import Asked, arrivals, poisson_trace, wmt_like


def replica(num_blocks=600, runs_ahead=False):
    pool = BlockPool(num_blocks, 16)
    scheduler = PreemptingScheduler(pool, PrefixCache(pool))
    return Replica(scheduler, StepClock(0.02, 1e-4), runs_ahead)


TALK = applications(60, 20.0, pause=2.0, system_tokens=128, rounds=(2, 4))


def assert_each_is_answered_once(report, trace):
    """As long as it was asked for, and never before it was asked."""
    assert sorted(one.number for one in report.answers) == [*range(len(trace))]
    for one in report.answers:
        asked = trace[one.number]
        served = one.served
        assert (served.arrival, served.output) == (asked.arrival, *asked.lengths)
        assert served.arrival < served.first_token <= served.end
        assert served.prompt == len(asked.prompt) > served.cached
    assert report.num_resent == sum(one.tries - 1 for one in report.answers)
    sent = sum(life.num_sent for life in report.lives)
    assert sent == len(trace) + report.num_resent


@pytest.mark.parametrize("runs_ahead", [False, True])
@pytest.mark.parametrize("name", POLICIES)
def test_a_single_replica_is_appendix_f_s_server(name, runs_ahead):
    one = replica(runs_ahead=runs_ahead)
    alone = simulate(one.scheduler, arrivals(TALK), one.costs, runs_ahead)
    report = simulate_cluster(
        lambda: replica(runs_ahead=runs_ahead), 1, TALK, POLICIES[name]()
    )
    assert_each_is_answered_once(report, TALK)
    assert {one.served for one in report.answers} == set(alone.served)
    (life,) = report.lives
    assert life.steps == alone.timeline


def test_round_robin_is_appendix_f_s_too():
    trace = poisson_trace(wmt_like(200), 100.0)
    own = [replica() for _ in range(5)]
    simulate_replicas(own, arrivals(trace), ROUTERS["round-robin"]())
    report = simulate_cluster(replica, 5, trace, RoundRobin())
    assert [life.steps for life in report.lives] == [one.report.timeline for one in own]


@pytest.mark.parametrize("name", POLICIES)
def test_each_is_answered_once_whoever_dies(name):
    deaths = random_deaths(12, 8, within=8.0, away=1.0, seed=3)
    assert len(deaths) == 12
    report = simulate_cluster(replica, 8, TALK, POLICIES[name](), deaths)
    assert_each_is_answered_once(report, TALK)
    assert report.num_resent > 0 and len(report.lives) == 8 + 12
    calm = simulate_cluster(replica, 8, TALK, POLICIES[name]())
    assert_each_is_answered_once(calm, TALK)
    assert calm.num_resent == 0 and report.hit_rate < calm.hit_rate


@pytest.mark.parametrize("seed", range(20))
def test_a_random_death_loses_nobody(seed):
    (death,) = random_deaths(1, 2, within=4.0, away=0.5, seed=seed)
    report = simulate_cluster(
        replica, 2, TALK, PrefixAware(), [death, Death(5.0, 1 - death.replica, inf)]
    )
    assert_each_is_answered_once(report, TALK)


def test_a_request_is_sent_again_only_so_often():
    """Three replicas die one after another, and it is on each of them."""
    trace = [Asked(0.0, [1] * 8, (3,)), Asked(0.0, [2] * 8, (3,))]
    deaths = [Death(0.01 + 0.02 * place, place, inf) for place in range(3)]
    for resends, answered in ((0, [1]), (2, [1]), (3, [0, 1]), (inf, [0, 1])):
        policy = Scripted(0, 3, 1, 2, 3)
        report = simulate_cluster(replica, 4, trace, policy, deaths, resends=resends)
        assert sorted(one.number for one in report.answers) == answered
        assert report.num_resent == min(resends, 3)


@pytest.mark.parametrize("runs_ahead", [False, True])
def test_who_dies_says_nothing_more(runs_ahead):
    """Steps of 20 ms: a token at 0.02, 0.04, 0.06; it dies in the third step."""
    trace = [Asked(0.0, [1] * 8, (3,)), Asked(0.0, [2] * 8, (2,))]
    report = simulate_cluster(
        lambda: replica(runs_ahead=runs_ahead),
        2,
        trace,
        Scripted(0, 0, 1),
        [Death(0.05, 0, inf)],
    )
    assert_each_is_answered_once(report, trace)
    second, first = report.answers
    assert (first.tries, second.tries) == (2, 1) and first.replica == 1
    assert first.served.first_token > 0.05  # from the start, after the death
    assert first.served.arrival == 0.0  # but she has waited since then
    assert all(step.end <= 0.05 for step in report.lives[0].steps)
    assert len(report.lives[0].steps) == 2


class Scripted:
    """Sends the requests to these replicas, one after another."""

    def __init__(self, *places):
        self.places = iter(places)

    def choose(self, loads, chain=()):
        return next(self.places)

    def sent(self, name, chain):
        pass

    def forget(self, name):
        pass


def test_who_comes_back_remembers_nothing():
    prompt = [7] * 64
    trace = [Asked(float(at), prompt, (2,)) for at in range(4)]
    policy = Scripted(0, 0, 0, 0)
    report = simulate_cluster(replica, 2, trace, policy, [Death(1.5, 0, 1.8)])
    found = {one.number: one.served.cached for one in report.answers}
    assert found == {0: 0, 1: 48, 2: 0, 3: 48}


def test_while_nobody_is_alive_requests_wait():
    trace = [Asked(1.0, [1], (1,))]
    deaths = [Death(0.5, 0, 3.0), Death(0.6, 1, 4.0)]
    report = simulate_cluster(replica, 2, trace, PrefixAware(), deaths)
    ((answer),) = report.answers
    assert answer.replica == 0 and 3.0 < answer.served.first_token < 3.1
    assert answer.served.time_to_first_token > 2.0
    with pytest.raises(RuntimeError, match="1 requests were never answered"):
        simulate_cluster(replica, 1, trace, PrefixAware(), [Death(0.5, 0, inf)])


@pytest.mark.parametrize("name", POLICIES)
def test_the_same_again(name):
    deaths = random_deaths(5, 4, within=8.0, away=1.0)
    runs = [
        simulate_cluster(replica, 4, TALK, POLICIES[name](), deaths) for _ in range(2)
    ]
    assert runs[0] == runs[1]


def test_the_dead_do_not_die_again():
    deaths = random_deaths(50, 3, within=10.0, away=5.0, seed=1)
    for at, death in enumerate(deaths):
        earlier = [one for one in deaths[:at] if one.replica == death.replica]
        assert all(one.back <= death.moment for one in earlier)


def test_prefix_aware_finds_what_repeats_and_turns_do_not():
    hits = {
        name: simulate_cluster(replica, 8, TALK, make()).hit_rate
        for name, make in POLICIES.items()
    }
    assert hits["prefix"] > 1.5 * max(hits["round-robin"], hits["least-loaded"])
    assert hits["prefix"] > 0.8 * repeated(TALK)
    assert max(hits.values()) <= repeated(TALK)


class NoHashes(PrefixAware):
    """Planted: it sees no prompt."""

    def num_known(self, name, chain):
        """Nothing is known."""
        return 0


class NeverForgets(PrefixAware):
    """Planted: a replica that comes back is believed to hold what it held."""

    def forget(self, name):
        """Nothing is forgotten."""


def test_wrong_policies_are_seen():
    """No hashes: few hits. No bound: one replica has all. No salt: wrong beliefs."""
    right = simulate_cluster(replica, 8, TALK, PrefixAware())
    blind = simulate_cluster(replica, 8, TALK, NoHashes())
    assert blind.hit_rate < 0.8 * right.hit_rate
    burst = shared_texts(300, 200.0, texts=1, text_tokens=128)
    bounded = simulate_cluster(replica, 8, burst, PrefixAware())
    greedy = simulate_cluster(replica, 8, burst, PrefixAware(factor=inf))
    assert greedy.balance == pytest.approx(8.0) and bounded.balance < 1.6
    assert greedy.wait("latency").p99 > 1.5 * bounded.wait("latency").p99
    salted = applications(60, 20.0, pause=2.0, systems=1, system_tokens=128, salts=8)
    aware = simulate_cluster(replica, 8, salted, PrefixAware())
    saltless = Cluster(
        replica, 8, PrefixAware(), lambda tokens, size, salt: chain_hashes(tokens, size)
    ).serve(salted)
    assert saltless.hit_rate < 0.95 * aware.hit_rate
    assert_each_is_answered_once(saltless, salted)


def test_a_policy_must_forget_the_dead():
    """Replica 0 held the text, died and came back; 1 holds it now."""
    trace = [Asked(float(at), [TEXT] * 64 + [at], (2,)) for at in range(6)]
    deaths = [Death(1.5, 0, 2.5)]
    found = {}
    for policy in (
        PrefixAware(otherwise=LeastLoaded()),
        NeverForgets(otherwise=LeastLoaded()),
    ):
        report = simulate_cluster(replica, 2, trace, policy, deaths)
        places = {one.number: one.replica for one in report.answers}
        cold = [one.number for one in report.answers if not one.served.cached]
        found[type(policy)] = places[5], cold
    assert found == {PrefixAware: (1, [0, 2]), NeverForgets: (0, [0, 2, 3])}


def test_loads_add_up():
    report = simulate_cluster(replica, 4, TALK, LeastLoaded())
    present = sum(one.served.latency for one in report.answers) / report.seconds
    assert sum(report.loads.values()) == pytest.approx(present, rel=0.1)
    assert report.tokens_per_second == pytest.approx(
        sum(asked.lengths[0] for asked in TALK) / report.seconds
    )
    assert 1 <= report.balance <= 4


def test_waits():
    assert wait_of([*range(10)]) == pytest.approx((4.5, 4.5, 8.91))
    assert wait_of([2.0]) == (2.0, 2.0, 2.0)


def test_the_longest_pause_between_tokens():
    """A long prompt comes while she decodes: that step takes 20 + 20 ms."""
    trace = [Asked(0.0, [1], (9,)), Asked(0.07, [2] * 200, (1,))]
    report = simulate_cluster(replica, 1, trace, RoundRobin())
    pauses = {one.number: one.pause for one in report.answers}
    assert pauses[0] == pytest.approx(0.0401, abs=1e-4) and pauses[1] == 0.0


def test_applications_share_their_system_prompts_and_their_pasts():
    trace = applications(40, 5.0, systems=3, system_tokens=64)
    assert [one.arrival for one in trace] == sorted(one.arrival for one in trace)
    assert len({one.prompt[0] for one in trace}) == 3
    by_chat = {}
    for one in trace:
        before = by_chat.get(one.chat)
        if before:
            said = before.prompt + [-1] * before.lengths[0]
            assert one.prompt[: len(said)] == said
        by_chat[one.chat] = one
    assert len(by_chat) == 40


def test_texts_are_asked_for_by_zipf_s_law():
    trace = shared_texts(4000, 100.0, texts=4, text_tokens=1)
    counts = [sum(one.prompt[0] == TEXT + rank for one in trace) for rank in range(4)]
    whole = sum(1 / rank for rank in range(1, 5))
    for rank, asked in enumerate(counts, start=1):
        assert asked / 4000 == pytest.approx(1 / rank / whole, abs=0.03)


def test_what_repeats():
    trace = [Asked(0.0, [1] * 40, (9,)), Asked(1.0, [1] * 40, (1,))]
    assert repeated(trace) == 32 / 80
    other = trace[1].__class__(1.0, [1] * 40, (1,), salt=b"B")
    assert repeated([trace[0], other]) == 0.0
    said = Asked(1.0, [1] * 40 + [-1] * 8 + [5], (1,))  # the answer is in the block
    assert repeated([trace[0], said]) == 48 / 89
