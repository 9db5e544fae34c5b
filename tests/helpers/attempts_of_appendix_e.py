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


# --- 2: guesses that were drawn -------------------------------------------------------


def lacking(p, q):
    return [max(a - b, 0) for a, b in zip(p, q, strict=True)]


class Taken:
    """The flaws are in subclasses."""

    def __init__(self, p, q, guesses, numbers, draw):
        self.p, self.q, self.guesses, self.numbers = p, q, guesses, numbers
        self.draw = draw

    def run(self):
        tokens = []
        for place in range(len(self.guesses)):
            if not self.takes(place, self.guesses[place], self.numbers[place]):
                return tokens + self.anew(self.p[place], self.q[place], place)
            tokens.append(self.guesses[place])
        return tokens + self.one_more()

    def takes(self, place, guess, number):
        """Without a division, unlike the solution in the notebook."""
        return number * self.q[place][guess] < self.p[place][guess]

    def anew(self, p, q, place):
        return [self.draw(lacking(p, q))]

    def one_more(self):
        return [self.draw(self.p[len(self.guesses)])]


def taken(p, q, guesses, numbers, draw):
    return Taken(p, q, guesses, numbers, draw).run()


def taken_as_plain_ints(p, q, guesses, numbers, draw):
    """What is drawn may be a tensor, so int() is a fair thing to write."""
    return [int(token) for token in taken(p, q, guesses, numbers, draw)]


def taken_drawn_before(p, q, guesses, numbers, draw):
    """A draw that is of no use does no harm."""
    more = draw(p[-1])
    found = taken(p, q, guesses, numbers, draw)
    return [*found[:-1], more] if len(found) > len(guesses) else found


class AsIfNotDrawn(Taken):
    def takes(self, place, guess, number):
        return number < self.p[place][guess]


class UpsideDown(Taken):
    def takes(self, place, guess, number):
        return number * self.p[place][guess] < self.q[place][guess]


class AnewFromP(Taken):
    def anew(self, p, q, place):
        return [self.draw(p)]


class AnewWithoutTheGuess(Taken):
    def anew(self, p, q, place):
        guess = self.guesses[place]
        rest = [share if token != guess else 0 for token, share in enumerate(p)]
        return [self.draw(rest)]


class AnewFromQ(Taken):
    def anew(self, p, q, place):
        return [self.draw(lacking(q, p))]


class BelowZero(Taken):
    def anew(self, p, q, place):
        return [self.draw([a - b for a, b in zip(p, q, strict=True)])]


class TakesAll(Taken):
    def takes(self, place, guess, number):
        return True


class TakesNone(Taken):
    def takes(self, place, guess, number):
        return False


class GoesOn(Taken):
    """Guesses after a refused one count, too."""

    def run(self):
        tokens = []
        for place, guess in enumerate(self.guesses):
            if self.takes(place, guess, self.numbers[place]):
                tokens.append(guess)
            else:
                tokens += self.anew(self.p[place], self.q[place], place)
        return tokens + self.one_more()


class NothingAnew(Taken):
    def anew(self, p, q, place):
        return []


class NothingMore(Taken):
    def one_more(self):
        return []


class TheDrawnAlone(Taken):
    def run(self):
        return super().run()[-1:]


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


def taken_by(kind):
    """An attempt of this class, as a function."""

    def attempt(p, q, guesses, numbers, draw):
        return kind(p, q, guesses, numbers, draw).run()

    return attempt


def run_of(kind):
    """An attempt of this class, as a function."""

    def attempt(tables, branches, choices, num_known):
        return kind(tables, branches, choices, num_known).run()

    return attempt


# Other ways that are right, too.
ALSO_RIGHT = [("taken", taken_as_plain_ints), ("taken", taken_drawn_before)]

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
        (taken_by(AsIfNotDrawn), "of a guess that was not drawn"),
        (taken_by(UpsideDown), "p / q, not q / p"),
        (taken_by(AnewFromP), "not from p"),
        (taken_by(AnewWithoutTheGuess), "p without the guess"),
        (taken_by(AnewFromQ), "p - q, not q - p"),
        (taken_by(BelowZero), "weights are not negative"),
        (taken_by(TakesAll), "a guess may be refused"),
        (taken_by(TakesNone), "a guess may be taken"),
        (taken_by(GoesOn), "after a refused guess nothing counts"),
        (taken_by(NothingAnew), "a token is drawn in its place"),
        (taken_by(NothingMore), "if all guesses are taken, one token more"),
        (taken_by(TheDrawnAlone), "are new tokens, too"),
        (lambda *case: 0, "expected a list of tokens"),
        (lambda *case: [0.5], "expected a list of tokens"),
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
