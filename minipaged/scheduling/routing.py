"""Appendix H: which replica serves a request: the same policies live and simulated.

A policy knows replicas by their names only, and what it is told: how many requests each
has, and what it sent to whom. So it needs no torch, no network, and no lock: one thread
or coroutine asks it.
"""

from array import array
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from random import Random
from typing import Protocol

from xxhash import xxh64_intdigest

FACTOR = 1.5  # times the mean load: what a prefix is worth
SPARE = 4  # requests that a replica may always have: so few hardly slow each other
CAPACITY = 100_000  # hashes of blocks that are remembered of each replica

Name = Hashable  # of a replica: a number in a simulation, Ray's id in a cluster


def chain_hashes(
    tokens: Sequence[int], block_size: int, salt: bytes = b""
) -> list[int]:
    """A hash of each full block; it stands for all tokens up to the block's end.

    The same hashes as in a PrefixCache: so equal prompts with different salts have no
    hash in common, because their replica would not share their blocks either.

    For example, of 10 tokens in blocks of 4: two hashes.
    """
    chain_hash = xxh64_intdigest(salt)
    chain = []
    for start in range(0, len(tokens) - block_size + 1, block_size):
        block_tokens = array("q", tokens[start : start + block_size]).tobytes()
        chain_hash = xxh64_intdigest(chain_hash.to_bytes(8, "little") + block_tokens)
        chain.append(chain_hash)
    return chain


class Policy(Protocol):
    """Chooses a replica for each request.

    loads: how many requests each living replica has, running and waiting, by its name.
    chain: `chain_hashes` of the prompt.
    """

    def choose(self, loads: Mapping[Name, float], chain: Sequence[int] = ()) -> Name:
        """The name of the replica that should serve it; ValueError if there is none."""

    def sent(self, name: Name, chain: Sequence[int]) -> None:
        """The request was sent there: its blocks will be in that replica's cache."""

    def forget(self, name: Name) -> None:
        """The replica is gone: if one of this name comes back, its cache is empty."""


class Forgetful:
    """A policy that needs no memory of what was sent: the loads are enough."""

    def sent(self, name: Name, chain: Sequence[int]) -> None:
        """Nothing is remembered."""

    def forget(self, name: Name) -> None:
        """Nothing was remembered."""


class RoundRobin(Forgetful):
    """One after the other, whatever their loads are."""

    def __init__(self) -> None:
        """Begin with the first."""
        self._turn = 0

    def choose(self, loads: Mapping[Name, float], chain: Sequence[int] = ()) -> Name:
        """The next in the order of `loads`."""
        names = _names(loads)
        name = names[self._turn % len(names)]
        self._turn += 1
        return name


class LeastLoaded(Forgetful):
    """The replica with fewest requests; of several, the first."""

    def choose(self, loads: Mapping[Name, float], chain: Sequence[int] = ()) -> Name:
        """The name of the smallest load."""
        return min(_names(loads), key=loads.__getitem__)


class PowerOfTwo(Forgetful):
    """Of two drawn at random, the less loaded one.

    Two loads are asked, not all, and yet the longest queue is nearly as short as with
    `LeastLoaded`. With many routers, whose knowledge is a little old, it is better: the
    replica that was least loaded a moment ago does not get all that comes.
    Source: Mitzenmacher, The Power of Two Choices, 2001.
    """

    def __init__(self, seed: int = 0):
        """`seed`: of the draws."""
        self._chance = Random(seed)

    def choose(self, loads: Mapping[Name, float], chain: Sequence[int] = ()) -> Name:
        """The less loaded one of two different ones, if there are two."""
        names = _names(loads)
        drawn = self._chance.sample(names, min(2, len(names)))
        return min(drawn, key=loads.__getitem__)


class PrefixAware:
    """The replica that holds the longest prefix, unless it is overloaded.

    What a replica holds is not asked. It is guessed from what was sent there, as far as
    it is remembered: the `capacity` hashes that were used last. A replica's own cache
    forgets in the same order, so give the number of its blocks.

    A replica is overloaded if it has `factor` times the mean of all loads, or more, and
    at least `spare` requests. Of those that hold equally much, even nothing,
    `otherwise` chooses.

    Source: the bound is that of consistent hashing with bounded loads (Mirrokni,
    Thorup and Zadimoghaddam, 2016).
    """

    def __init__(
        self,
        factor: float = FACTOR,
        spare: int = SPARE,
        capacity: int = CAPACITY,
        otherwise: Policy | None = None,
    ):
        """Nothing was sent yet. `otherwise`: PowerOfTwo, if it is not given."""
        if factor < 1:
            raise ValueError(
                f"factor must be 1 or more, got {factor}: if each replica had less "
                "than the mean, none could serve the next request"
            )
        self.factor = factor
        self.spare = spare
        self.capacity = capacity
        self._otherwise = PowerOfTwo() if otherwise is None else otherwise
        # By replica; the hash that was used last is the last.
        self._known: dict[Name, OrderedDict[int, None]] = {}

    def limit(self, loads: Mapping[Name, float]) -> float:
        """A replica with fewer requests than this may serve the next one.

        For example, 4 replicas have 19 requests, and the factor is 1.5: with the next
        one, they have 5 on average, so the limit is 7.5, and no replica comes to have
        more than 8. The least loaded replica is always below the limit.
        """
        mean = (sum(loads.values()) + 1) / len(loads)
        return max(self.spare, self.factor * mean)

    def num_known(self, name: Name, chain: Sequence[int]) -> int:
        """How many of the chain's first blocks this replica was sent before."""
        known = self._known.get(name, ())
        return next(
            (at for at, chain_hash in enumerate(chain) if chain_hash not in known),
            len(chain),
        )

    def choose(self, loads: Mapping[Name, float], chain: Sequence[int] = ()) -> Name:
        """The one that knows most of the chain, of those that are not overloaded."""
        _names(loads)
        limit = self.limit(loads)
        found = {
            name: self.num_known(name, chain)
            for name, load in loads.items()
            if load < limit
        }
        most = max(found.values())
        best = {name: loads[name] for name in found if found[name] == most}
        return self._otherwise.choose(best, chain)

    def sent(self, name: Name, chain: Sequence[int]) -> None:
        """Remember the chain; the hashes that were unused longest are forgotten."""
        known = self._known.setdefault(name, OrderedDict())
        # The end first: so the beginning, which others may share, is forgotten last.
        for chain_hash in reversed(chain):
            known[chain_hash] = None
            known.move_to_end(chain_hash)
        while len(known) > self.capacity:
            known.popitem(last=False)
        self._otherwise.sent(name, chain)

    def forget(self, name: Name) -> None:
        """It holds nothing any more."""
        self._known.pop(name, None)
        self._otherwise.forget(name)


POLICIES: dict[str, Callable[[], Policy]] = {
    "round-robin": RoundRobin,
    "power-of-two": PowerOfTwo,
    "least-loaded": LeastLoaded,
    "prefix": PrefixAware,
}


def _names(loads: Mapping[Name, float]) -> list[Name]:
    if not loads:
        raise ValueError("no replica is alive; wait until one has come back")
    return list(loads)
