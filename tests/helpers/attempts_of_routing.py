"""Right and wrong attempts at appendix H's exercises on routers."""

from itertools import takewhile


def may_serve(load, loads, factor, spare):
    """In whole numbers, unlike the solution in the notebook."""
    return load < spare or load * len(loads) < factor * (sum(loads) + 1)


def route(chain, known, loads, limit):
    """By sorting, unlike the solution in the notebook."""
    names = sorted(loads, key=loads.get)
    open_ones = [name for name in names if loads[name] < limit]

    def depth(name):
        own = known.get(name, set())
        return len([*takewhile(lambda chain_hash: chain_hash in own, chain)])

    return sorted(open_ones, key=depth, reverse=True)[0]


class Remembered:
    """With moments, unlike the solution in the notebook."""

    def __init__(self, capacity):
        self.capacity, self.now, self.used = capacity, 0, {}

    def sent(self, chain):
        for chain_hash in reversed(chain):
            self.now += 1
            self.used[chain_hash] = self.now
        for oldest in sorted(self.used, key=self.used.get)[: -self.capacity]:
            del self.used[oldest]

    def num_known(self, chain):
        return len([*takewhile(self.used.__contains__, chain)])


# --- what is wrong --------------------------------------------------------------------


def limited(coming=1, pick=max, equal=False, over=len):
    """A bound that errs in one thing."""

    def attempt(load, loads, factor, spare):
        limit = pick(spare, factor * (sum(loads) + coming) / over(loads))
        return load <= limit if equal else load < limit

    return attempt


def beside_the_least(load, loads, factor, spare):
    return load < max(spare, factor * (min(loads) + 1))


def without_spare(load, loads, factor, spare):
    return load < factor * (sum(loads) + 1) / len(loads)


def a_number(load, loads, factor, spare):
    return max(spare, factor * (sum(loads) + 1) / len(loads)) - load


def routed(is_open=lambda load, limit: load < limit, tie=-1, depth=None):
    """A choice that errs in one thing."""

    def attempt(chain, known, loads, limit):
        def rank(name):
            own = known.get(name, set())
            count = len([*takewhile(lambda each: each in own, chain)])
            return (depth(chain, own) if depth else count), tie * loads[name]

        return max([name for name in loads if is_open(loads[name], limit)], key=rank)

    return attempt


def routed_depth(chain, own):
    return len([*takewhile(own.__contains__, chain)])


def needs_all_to_be_known(chain, known, loads, limit):
    return min((name for name in loads if chain[0] in known[name]), key=loads.get)


class ForgetsTheStart(Remembered):
    """The start of a chain is its oldest part."""

    def sent(self, chain):
        super().sent(chain[::-1])


class NeverForgets(Remembered):
    """Without a bound."""

    def sent(self, chain):
        for chain_hash in chain:
            self.used[chain_hash] = 0


class OldestFirst(Remembered):
    """What is sent again is as old as before."""

    def sent(self, chain):
        new = [chain_hash for chain_hash in chain if chain_hash not in self.used]
        super().sent(new)


class CountsAll(Remembered):
    """Also behind a hash that is missing."""

    def num_known(self, chain):
        return sum(chain_hash in self.used for chain_hash in chain)


class AskingIsUsing(Remembered):
    """What was asked for is as new as what was sent."""

    def num_known(self, chain):
        count = super().num_known(chain)
        self.sent(chain[:count])
        return count


class AskingIsUsingForwards(AskingIsUsing):
    """The same, and the last hash that was asked for is the newest."""

    def num_known(self, chain):
        count = Remembered.num_known(self, chain)
        self.sent(chain[:count][::-1])
        return count


class OnlySent:
    """Half of it is written."""

    def __init__(self, capacity):
        pass

    def sent(self, chain):
        pass

    def num_known(self, chain):
        raise NotImplementedError


FAULTS = {
    "may_serve": [
        (limited(coming=0), "the request that comes counts"),
        (limited(equal=True), "has reached the limit is full"),
        (limited(pick=min), "the larger of the two"),
        (limited(over=lambda loads: 1), "the mean is over all replicas"),
        (beside_the_least, "not with the least of them"),
        (without_spare, "`spare` is missing"),
        (a_number, "expected True or False"),
    ],
    "route": [
        (routed(is_open=lambda load, limit: True), "at its limit is full"),
        (routed(tie=0), "the least loaded serves"),
        (routed(tie=1), "the least loaded serves"),
        (routed(depth=lambda chain, own: 0), "only if nobody knows more"),
        (routed(depth=lambda chain, own: len(own)), "most blocks of any prompt"),
        (
            routed(depth=lambda chain, own: sum(each in own for each in chain)),
            "ends at the first block that is missing",
        ),
        (needs_all_to_be_known, "got 'a', expected 'b'"),
        (lambda chain, known, loads, limit: None, "got None"),
        (
            lambda chain, known, loads, limit: max(
                (name for name in loads if loads[name] < limit),
                key=lambda name: (routed_depth(chain, known[name]), -loads[name]),
            ),
            "b was never sent anything",
        ),
        (
            lambda chain, known, loads, limit: max(
                (name for name in known if loads[name] < limit),
                key=lambda name: (routed_depth(chain, known[name]), -loads[name]),
            ),
            "gone is dead",
        ),
    ],
    "remembered": [
        (ForgetsTheStart, "the end is forgotten first"),
        (NeverForgets, "the end is forgotten first"),
        (OldestFirst, "1 was used again"),
        (CountsAll, "ends at the first hash that is missing"),
        (AskingIsUsing, "to ask is not to use"),
        (AskingIsUsingForwards, "num_known([2, 3]), num_known([9, 2]), sent([7])"),
        (AskingIsUsingForwards, "to ask is not to use"),
        (OnlySent, "num_known"),
    ],
}
