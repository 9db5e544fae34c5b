"""Right and wrong attempts at appendix D's exercises."""


def graph_size(new_tokens, most, sizes):
    """With loops, unlike the solution in the notebook."""
    if len(new_tokens) > most:
        return None
    if set(new_tokens) == {1}:
        rows = 8
        while rows < len(new_tokens):
            rows += 8
        return rows
    for size in sizes:
        if sum(new_tokens) <= size:
            return size
    return None


class Graphed:
    """With a new place for each call's rows behind a mask, unlike the solution."""

    def __init__(self, capture, compute, example):
        self.rows = example * 0
        self.result = None
        self.replay, self.result = capture(self.run_of(compute))

    def run_of(self, compute):
        return lambda: compute(self.rows)

    def __call__(self, x):
        count, most = len(x), len(self.rows)
        if count > most:
            raise ValueError("too many rows")
        self.rows[:count] = x
        self.rows[count:] = 0
        self.replay()
        return self.result[:count] + 0


def answers_ahead(device, most, eos):
    """With an object for the flights, unlike the solution in the notebook."""
    return Ahead(device, most, eos).run()


class Ahead:
    """The flaws are in subclasses."""

    def __init__(self, device, most, eos):
        self.device, self.most, self.eos = device, most, eos
        self.told = {user: [] for user in most}
        self.left, self.ended, self.flights = dict(most), set(), []

    def run(self):
        while self.start() or self.flights:
            self.start()
            self.land()
        return self.told

    def start(self):
        users = self.who_may()
        if users and len(self.flights) < 2:
            self.device.launch(users)
            self.flights.append(users)
            for user in users:
                self.left[user] -= 1
        return users

    def who_may(self):
        return [u for u in self.most if u not in self.ended and self.left[u] > 0]

    def land(self):
        for user, token in zip(self.flights.pop(0), self.device.read(), strict=True):
            if self.wants(user, token):
                self.told[user].append(token)
            if token == self.eos:
                self.ended.add(user)

    def wants(self, user, token):
        return user not in self.ended


# --- what is wrong --------------------------------------------------------------------


def rounds_down(new_tokens, most, sizes):
    if len(new_tokens) > most:
        return None
    if max(new_tokens) == 1:
        return len(new_tokens) // 8 * 8
    return next((size for size in sizes if size >= sum(new_tokens)), None)


def always_one_more(new_tokens, most, sizes):
    if len(new_tokens) > most:
        return None
    if max(new_tokens) == 1:
        return (len(new_tokens) // 8 + 1) * 8
    return next((size for size in sizes if size >= sum(new_tokens)), None)


def mixed(new_tokens, most, sizes, count):
    if len(new_tokens) > most:
        return None
    if max(new_tokens) == 1:
        return -(-len(new_tokens) // 8) * 8
    return next((size for size in sizes if count(size)), None)


def by_the_longest(new, most, sizes):
    return mixed(new, most, sizes, lambda size: size >= max(new))


def by_sequences(new, most, sizes):
    return mixed(new, most, sizes, lambda size: size >= len(new))


def one_is_too_many(new, most, sizes):
    return mixed(new, most, sizes, lambda size: size > sum(new))


def sizes_for_all(new, most, sizes):
    if len(new) > most:
        return None
    return next((size for size in sizes if size >= sum(new)), None)


def rows_for_all(new, most, sizes):
    if len(new) > most or sum(new) > max(sizes):
        return None
    return -(-sum(new) // 8) * 8


def no_limit(new, most, sizes):
    return graph_size(new, len(new), sizes)


def no_limit_for_prompts(new, most, sizes):
    return graph_size(new, most if max(new) == 1 else len(new), sizes)


def the_largest_for_what_is_larger(new, most, sizes):
    found = graph_size(new, most, sizes)
    is_large = len(new) <= most and max(new) > 1
    return sizes[-1] if found is None and is_large else found


class Rebinds(Graphed):
    """Puts another tensor into the variable."""

    def __call__(self, x):
        if len(x) > len(self.rows):
            raise ValueError("too many rows")
        self.rows = x
        self.replay()
        return self.result[: len(x)].clone()


class LeavesOldRows(Graphed):
    def __call__(self, x):
        if len(x) > len(self.rows):
            raise ValueError("too many rows")
        self.rows[: len(x)] = x
        self.replay()
        return self.result[: len(x)].clone()


class ReturnsThePlace(Graphed):
    def __call__(self, x):
        super().__call__(x)
        return self.result[: len(x)]


class ReturnsPadding(Graphed):
    def __call__(self, x):
        super().__call__(x)
        return self.result.clone()


class TakesTheExample(Graphed):
    """Its place is the caller's tensor."""

    def __init__(self, capture, compute, example):
        super().__init__(capture, compute, example)
        self.rows = example
        self.replay, self.result = capture(lambda: compute(example))


class KeepsTheExample(Graphed):
    """The same, captured once."""

    def __init__(self, capture, compute, example):
        self.rows = example
        self.replay, self.result = capture(lambda: compute(example))


class IsEager(Graphed):
    def __init__(self, capture, compute, example):
        super().__init__(capture, compute, example)
        self.compute = compute

    def __call__(self, x):
        if len(x) > len(self.rows):
            raise ValueError("too many rows")
        return self.compute(x)


class CapturesAgain(Graphed):
    def __init__(self, capture, compute, example):
        super().__init__(capture, compute, example)
        self.capture, self.compute = capture, compute

    def __call__(self, x):
        if len(x) > len(self.rows):
            raise ValueError("too many rows")
        return self.capture(lambda: self.compute(x))[1]


class TakesAnyNumber(Graphed):
    def __call__(self, x):
        return super().__call__(x[: len(self.rows)])


class FailsInTorch(Graphed):
    """More rows raise what torch raises."""

    def __call__(self, x):
        if len(x) > len(self.rows):
            raise RuntimeError("sizes differ")
        return super().__call__(x)


class NeverReplays(Graphed):
    def __call__(self, x):
        if len(x) > len(self.rows):
            raise ValueError("too many rows")
        self.rows[: len(x)] = x
        return self.result[: len(x)].clone()


class SpoilsTheRows(Graphed):
    def __call__(self, x):
        found = super().__call__(x)
        x.zero_()
        return found


class KeepsWhatFollows(Ahead):
    """The token after eos is taken."""

    def wants(self, user, token):
        return True


class DropsTheEnd(Ahead):
    """Eos itself is left out."""

    def wants(self, user, token):
        return user not in self.ended and token != self.eos


class InTurns(Ahead):
    """Reads before it starts the next."""

    def run(self):
        while self.start():
            self.land()
        return self.told


class CountsWhatWasRead(Ahead):
    """Launches one token too many: it looks at the answers."""

    def who_may(self):
        told = self.told
        return [
            u for u in self.most if u not in self.ended and len(told[u]) < self.most[u]
        ]


class NeverEnds(Ahead):
    """Launches for those whose end was read, up to their limit."""

    def who_may(self):
        return [u for u in self.most if self.left[u] > 0]


class ThreeInFlight(Ahead):
    def start(self):
        users = self.who_may()
        if users:
            self.device.launch(users)
            self.flights.append(users)
            for user in users:
                self.left[user] -= 1
        return users


class ByRow(Ahead):
    """Gives tokens to the users of the latest launch, row by row."""

    def land(self):
        latest = self.flights[-1]
        self.flights.pop(0)
        for user, token in zip(latest, self.device.read(), strict=False):
            if self.wants(user, token):
                self.told[user].append(token)
            if token == self.eos:
                self.ended.add(user)


class LeavesTheLast(Ahead):
    """Ends when nothing can be started, with a step in flight."""

    def run(self):
        self.start()
        while self.start():
            self.land()
        return self.told


class TellsOnlySome(Ahead):
    def run(self):
        told = super().run()
        return {user: own for user, own in told.items() if len(own) > 1}


class LaunchesNobody(Ahead):
    def start(self):
        users = super().start()
        if not users:
            self.device.launch([])
        return users


class LaunchesTwice(Ahead):
    def who_may(self):
        return super().who_may() * 2


class LaunchesOneUser(Ahead):
    """A step for each user, as long as she may need a token."""

    def who_may(self):
        return super().who_may()[:1]


class ReadsOnceMore(Ahead):
    def run(self):
        super().run()
        self.device.read()


class ReturnsALine(Ahead):
    def run(self):
        return list(super().run().values())


def run_of(kind):
    """An attempt of this class, as a function."""

    def attempt(device, most, eos):
        return kind(device, most, eos).run()

    return attempt


# What the check must say of each fault.
FAULTS = {
    "graph_size": [
        (rounds_down, "round up"),
        (always_one_more, "with nothing left over"),
        (by_the_longest, "take the sum"),
        (by_sequences, "its sequences do not say how many"),
        (one_is_too_many, "a graph for exactly so many tokens"),
        (sizes_for_all, "the graphs have 8, 16, 24, ... rows"),
        (rows_for_all, "as many tokens as `sizes` says"),
        (no_limit, "more than `most` sequences"),
        (no_limit_for_prompts, "a mixed step has `most` sequences at most, too"),
        (the_largest_for_what_is_larger, "runs eagerly: return None"),
        (lambda *case: 8, "got 8, expected 16"),
        (lambda *case: str(graph_size(*case)), "got 16, expected 16"),
    ],
    "graphed": [
        (Rebinds, "copy the rows to the captured place"),
        (NeverReplays, "copy the rows to the captured place, and replay"),
        (LeavesOldRows, "set them to zero"),
        (ReturnsThePlace, "return a clone"),
        (ReturnsPadding, "cut off the rows that only fill up"),
        (TakesTheExample, "`capture` was called 2 times, not once"),
        (KeepsTheExample, "wrote into the caller's example"),
        (IsEager, "called compute: that is eager"),
        (CapturesAgain, "captured again"),
        (TakesAnyNumber, "raise ValueError"),
        (FailsInTorch, "raise ValueError, not RuntimeError"),
        (SpoilsTheRows, "changed the caller's rows"),
        (lambda *case: 7, "cannot be called: got 7"),
        (lambda capture, *case: capture(lambda: None)[1], "cannot be called: got None"),
        (lambda *case: lambda x: x, "`capture` was called 0 times"),
    ],
    "answers_ahead": [
        (run_of(KeepsWhatFollows), "drop it"),
        (run_of(DropsTheEnd), "eos is a part of the answer"),
        (run_of(InTurns), "the device is idle meanwhile"),
        (run_of(CountsWhatWasRead), "to count them, nothing has to be read"),
        (run_of(NeverEnds), "has said eos, and that was read before"),
        (run_of(ThreeInFlight), "two steps are in flight already"),
        (run_of(ByRow), "in the order of the launch that is read"),
        (run_of(LeavesTheLast), "was not read"),
        (run_of(TellsOnlySome), "a user is missing"),
        (run_of(LaunchesNobody), "a step without users"),
        (run_of(LaunchesTwice), "once at most"),
        (run_of(LaunchesOneUser), "may need a token, too"),
        (run_of(ReadsOnceMore), "no step is in flight"),
        (run_of(ReturnsALine), "expected a dict"),
        (lambda *case: {}, "a user is missing"),
    ],
}
