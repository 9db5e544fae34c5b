"""Which replica serves a request."""

import random
import subprocess
import sys
from collections import Counter

import pytest

from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable
from minipaged.memory.prefix_cache import PrefixCache
from minipaged.scheduling.routing import (
    POLICIES,
    LeastLoaded,
    PowerOfTwo,
    PrefixAware,
    RoundRobin,
    chain_hashes,
)


@pytest.mark.parametrize("length", [0, 1, 3, 4, 5, 8, 11])
@pytest.mark.parametrize("salt", [b"", b"user A"])
def test_the_hashes_are_those_of_the_prefix_cache(length, salt):
    tokens = [*range(length)]
    pool = BlockPool(8, 4)
    cache = PrefixCache(pool)
    table = BlockTable(pool)
    table.append(length)
    cache.publish(tokens, table.block_ids, salt)
    published = [cache.content(block_id) for block_id in table.block_ids]
    expected = [content.chain_hash for content in published if content]
    assert chain_hashes(tokens, 4, salt) == expected
    assert len(expected) == length // 4


def test_salts_have_no_hash_in_common():
    tokens = [*range(40)]
    a, b = (set(chain_hashes(tokens, 4, salt)) for salt in (b"A", b"B"))
    assert len(a) == len(b) == 10 and not a & b


def test_a_hash_stands_for_its_whole_past():
    first, second = chain_hashes([1, 2, 3, 4], 2), chain_hashes([9, 2, 3, 4], 2)
    assert not {*first} & {*second}
    assert chain_hashes([1, 2, 9, 9], 2)[0] == first[0]


@pytest.mark.parametrize("name", POLICIES)
def test_a_replica_that_lives_is_chosen_and_the_same_seed_chooses_the_same(name):
    def choices():
        policy = POLICIES[name]()
        chance = random.Random(0)
        found = []
        for _ in range(200):
            loads = {
                place: chance.randrange(20) for place in chance.sample(range(9), 5)
            }
            chain = chain_hashes([chance.randrange(3) for _ in range(12)], 4)
            found.append(policy.choose(loads, chain))
            assert found[-1] in loads
            policy.sent(found[-1], chain)
            if chance.random() < 0.1:
                policy.forget(found[-1])
        return found

    assert choices() == choices()


@pytest.mark.parametrize("name", POLICIES)
def test_without_a_replica_it_says_so(name):
    with pytest.raises(ValueError, match="no replica is alive"):
        POLICIES[name]().choose({}, [1])


@pytest.mark.parametrize("name", POLICIES)
def test_names_may_be_anything(name):
    assert POLICIES[name]().choose({"replica#7": 3}, [1]) == "replica#7"


def test_turns_ignore_loads():
    policy = RoundRobin()
    assert [policy.choose({"a": 9, "b": 0}) for _ in range(4)] == ["a", "b", "a", "b"]


def test_the_least_loaded():
    assert LeastLoaded().choose({"a": 2, "b": 1, "c": 1}) == "b"


def test_of_two_the_less_loaded():
    """The most loaded of three is never chosen; the least loaded twice in three."""
    policy = PowerOfTwo()
    counts = Counter(policy.choose({"a": 5, "b": 1, "c": 3}) for _ in range(3000))
    assert set(counts) == {"b", "c"}
    assert counts["b"] == pytest.approx(2000, abs=100)


def test_the_longest_prefix_wins():
    policy = PrefixAware()
    policy.sent("a", [1, 2])
    policy.sent("b", [1, 2, 3])
    policy.sent("c", [3])
    loads = {"a": 0, "b": 3, "c": 0}
    assert policy.choose(loads, [1, 2, 3, 4]) == "b"
    assert [policy.num_known(name, [1, 2, 3, 4]) for name in "abcd"] == [2, 3, 0, 0]


def test_the_bound_is_a_bound_and_holds():
    """19 requests on 4 replicas, factor 1.5: none comes to have more than 8."""
    policy = PrefixAware(factor=1.5, spare=1)
    policy.sent("a", [1, 2])
    policy.sent("b", [1])
    assert policy.limit({"a": 7, "b": 4, "c": 4, "d": 4}) == 7.5
    assert policy.choose({"a": 7, "b": 4, "c": 4, "d": 4}, [1, 2]) == "a"
    assert policy.choose({"a": 8, "b": 4, "c": 4, "d": 3}, [1, 2]) == "b"
    assert policy.choose({"a": 8, "b": 8, "c": 0, "d": 3}, [1, 2]) in "cd"


@pytest.mark.parametrize("factor", [1.0, 1.25, 2.0])
def test_whoever_asks_for_one_prefix_cannot_overload_its_replica(factor):
    policy = PrefixAware(factor=factor, spare=1)
    loads = dict.fromkeys(range(8), 0)
    for count in range(1, 200):
        name = policy.choose(loads, [1, 2, 3])
        policy.sent(name, [1, 2, 3])
        loads[name] += 1
        assert max(loads.values()) < factor * count / 8 + 1


def test_a_few_requests_may_stay_together():
    policy = PrefixAware(factor=1.5, spare=4)
    policy.sent("a", [1])
    assert policy.choose({"a": 3, "b": 0, "c": 0}, [1]) == "a"
    assert policy.choose({"a": 4, "b": 0, "c": 0}, [1]) != "a"


def test_what_is_found_nowhere_goes_to_the_less_loaded():
    policy = PrefixAware(otherwise=LeastLoaded())
    policy.sent("a", [1])
    assert policy.choose({"a": 1, "b": 0, "c": 2}, [7]) == "b"
    for name in "bc":
        policy.sent(name, [1])
    assert policy.choose({"a": 1, "b": 2, "c": 0}, [1]) == "c"


def test_a_replica_that_comes_back_holds_nothing():
    policy = PrefixAware(otherwise=LeastLoaded())
    policy.sent("a", [1, 2])
    policy.forget("a")
    policy.forget("never there")
    assert policy.num_known("a", [1, 2]) == 0
    assert policy.choose({"a": 1, "b": 0}, [1, 2]) == "b"


def test_memory_is_bounded_and_the_end_of_a_chain_is_forgotten_first():
    policy = PrefixAware(capacity=3)
    policy.sent("a", [1, 2, 3])
    policy.sent("a", [7])
    assert policy.num_known("a", [1, 2, 3]) == 2 and policy.num_known("a", [7]) == 1
    policy.sent("a", [1])  # used again: what is older goes first
    policy.sent("a", [8, 9])
    assert policy.num_known("a", [1]) == 1 and policy.num_known("a", [7]) == 0


def test_a_factor_below_one_is_refused():
    with pytest.raises(ValueError, match="1 or more"):
        PrefixAware(factor=0.9)


def test_it_needs_no_torch():
    code = (
        "import sys; import minipaged.scheduling.routing;"
        "print({'torch', 'numpy', 'transformers', 'ray'} & set(sys.modules))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert result.stdout.strip() == "set()", result.stderr
