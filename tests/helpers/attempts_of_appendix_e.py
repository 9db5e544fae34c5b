"""Right and wrong attempts at appendix E's exercises."""

from functools import partial

# --- 1: prompt lookup -----------------------------------------------------------------


def lookup(tokens, num_tokens, max_ngram):
    """From the first place on, unlike the solution in the notebook."""
    for length in range(max_ngram, 0, -1):
        last = tokens[len(tokens) - length :]
        at = 0
        while length < len(tokens) and at + length < len(tokens):
            if tokens[at : at + length] == last:
                return tokens[at + length :][:num_tokens]
            at += 1
    return []


def flawed_lookup(tokens, num_tokens, max_ngram, **flaw):
    """The flaw is named."""
    lengths = [*range(min(max_ngram, len(tokens) - 1), 0, -1)]
    if "shortest" in flaw:
        lengths.reverse()
    if "never fewer" in flaw:
        lengths = [length for length in lengths if length == max_ngram]
    for length in lengths:
        last = tokens[-length:]
        stop = len(tokens) - length
        stop = stop + 1 if "itself" in flaw else stop
        stop = stop - length + 1 if "apart" in flaw else stop
        places = [at for at in range(stop) if tokens[at : at + length] == last]
        if "latest" in flaw or "itself" in flaw:
            places.reverse()
        for at in places:
            start = at + length * ("with found" not in flaw)
            return tokens[start:] if "uncut" in flaw else tokens[start:][:num_tokens]
    return []


def with_flaw(function, name):
    return partial(function, **{name: True})


# --- 2: a guess that was drawn --------------------------------------------------------


def taken(p, q, guess, number, draw):
    """Without a division, unlike the solution in the notebook."""
    if number * q[guess] < p[guess]:
        return guess
    weights = []
    for token in range(len(p)):
        lacking = p[token] - q[token]
        weights.append(lacking if lacking > 0 else 0.0)
    return draw(weights)


def lacking(p, q):
    return [max(a - b, 0) for a, b in zip(p, q, strict=True)]


def as_if_not_drawn(p, q, guess, number, draw):
    return guess if number < p[guess] else draw(lacking(p, q))


def upside_down(p, q, guess, number, draw):
    return guess if number * p[guess] < q[guess] else draw(lacking(p, q))


def anew_from_p(p, q, guess, number, draw):
    return guess if number * q[guess] < p[guess] else draw(p)


def anew_without_the_guess(p, q, guess, number, draw):
    rest = [share if token != guess else 0 for token, share in enumerate(p)]
    return guess if number * q[guess] < p[guess] else draw(rest)


def anew_from_q(p, q, guess, number, draw):
    return guess if number * q[guess] < p[guess] else draw(lacking(q, p))


def takes_all(p, q, guess, number, draw):
    return guess


def takes_none(p, q, guess, number, draw):
    return draw(lacking(p, q))


def the_likeliest(p, q, guess, number, draw):
    return guess if p[guess] == max(p) else p.index(max(p))


def below_zero(p, q, guess, number, draw):
    weights = [a - b for a, b in zip(p, q, strict=True)]
    return guess if number * q[guess] < p[guess] else draw(weights)


# --- 3: what is kept of a step's branches ---------------------------------------------


class Kept:
    """The flaws are in subclasses."""

    def __init__(self, tables, branches, choices, num_known):
        self.tables, self.branches, self.choices = tables, branches, choices
        self.num_known = num_known

    def run(self):
        best = self.best()
        tokens = self.tokens(best)
        self.let_go(best)
        self.tables[best].truncate(self.room(best))
        return self.tables[best], tokens

    def num_right(self, branch):
        count = 0
        for guess, choice in zip(self.branches[branch], self.choices[branch]):  # noqa: B905
            if guess != choice:
                break
            count += 1
        return count

    def best(self):
        """The first of those that are right for longest."""
        best = 0
        for branch in range(len(self.branches)):
            if self.num_right(branch) > self.num_right(best):
                best = branch
        return best

    def tokens(self, best):
        return self.choices[best][: self.num_right(best) + 1]

    def room(self, best):
        return self.num_known + self.num_right(best)

    def let_go(self, best):
        for number, table in enumerate(self.tables):
            if number != best:
                table.free()


def kept(tables, branches, choices, num_known):
    """By counting, unlike the solution in the notebook."""
    return Kept(tables, branches, choices, num_known).run()


class KeepsAll(Kept):
    """No fork is freed."""

    def let_go(self, best):
        pass


class KeepsTheRoom(Kept):
    """Room of wrong guesses stays."""

    def room(self, best):
        return self.tables[best].num_tokens


class RoomForTheNewest(Kept):
    def room(self, best):
        count = super().room(best)
        return min(count + 1, self.tables[best].num_tokens)


class TooLittleRoom(Kept):
    def room(self, best):
        return self.num_known


class TheFirst(Kept):
    """The answer's own guesses, whatever the others say."""

    def best(self):
        return 0


class TheLast(Kept):
    """Of several that are right for longest."""

    def best(self):
        counts = [self.num_right(branch) for branch in range(len(self.branches))]
        return max(range(len(counts)), key=lambda n: (counts[n], n))


class NoTokenMore(Kept):
    def tokens(self, best):
        return super().tokens(best)[:-1]


class AllChoices(Kept):
    def tokens(self, best):
        return self.choices[best]


class FreesItself(Kept):
    def let_go(self, best):
        for table in self.tables:
            table.free()


class ReturnsTokens(Kept):
    def run(self):
        return super().run()[1]


def run_of(kind):
    """An attempt of this class, as a function."""

    def attempt(tables, branches, choices, num_known):
        return kind(tables, branches, choices, num_known).run()

    return attempt


# What the check must say of each fault.
FAULTS = {
    "lookup": [
        (with_flaw(flawed_lookup, "latest"), "the first place counts"),
        (with_flaw(flawed_lookup, "shortest"), "look for max_ngram tokens first"),
        (with_flaw(flawed_lookup, "never fewer"), "look for fewer"),
        (with_flaw(flawed_lookup, "itself"), "the last tokens stand at the end"),
        (with_flaw(flawed_lookup, "apart"), "may overlap the end"),
        (with_flaw(flawed_lookup, "with found"), "not these tokens"),
        (with_flaw(flawed_lookup, "uncut"), "num_tokens guesses at most"),
        (lambda *case: 5, "expected a list of tokens"),
    ],
    "taken": [
        (as_if_not_drawn, "of a guess that was not drawn"),
        (upside_down, "p / q, not q / p"),
        (anew_from_p, "not from p"),
        (anew_without_the_guess, "p without the guess"),
        (anew_from_q, "p - q, not q - p"),
        (takes_all, "a guess may be refused"),
        (takes_none, "a guess may be taken"),
        (the_likeliest, "the likeliest token is not the only right one"),
        (below_zero, "weights are not negative"),
        (lambda *case: 0.5, "expected a token"),
    ],
    "kept": [
        (run_of(KeepsAll), "free the tables of the other branches"),
        (run_of(KeepsTheRoom), "all but the newest"),
        (run_of(RoomForTheNewest), "all but the newest"),
        (run_of(TooLittleRoom), "all but the newest"),
        (run_of(TheFirst), "another branch is right for longer"),
        (run_of(TheLast), "the first of those"),
        (run_of(NoTokenMore), "the model's own"),
        (run_of(AllChoices), "a text that never was"),
        (run_of(FreesItself), "raised TableFreed"),
        (run_of(ReturnsTokens), "a pair"),
    ],
}
