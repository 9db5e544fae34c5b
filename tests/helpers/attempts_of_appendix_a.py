"""Right and wrong attempts at appendix A's exercises."""


def static_steps(answers, places):
    """Batch after batch, unlike the solution in the notebook."""
    steps = idle = 0
    while answers:
        longest = max(answers[:places])
        steps += longest
        idle += longest * places - sum(answers[:places])
        answers = answers[places:]
    return [steps, idle]


def turns(waiting, running, places):
    """With a line for each user, unlike the solution in the notebook."""
    lines, come = {}, []
    for at, user in enumerate(waiting):
        lines.setdefault(user, []).append(at)
    load = {user: running.count(user) for user in lines}
    for _ in range(min(len(waiting), places - len(running))):
        user = min((u for u in lines if lines[u]), key=lambda u: (load[u], lines[u][0]))
        come.append(lines[user].pop(0))
        load[user] += 1
    return come


class Promising:
    """With an object for each request, unlike the solution in the notebook."""

    def __init__(self, num_blocks, block_size, budget):
        self.free, self.block_size, self.budget = num_blocks, block_size, budget
        self.line, self.inside = [], []

    def add(self, name, prompt, new):
        self.line.append({"name": name, "prompt": prompt, "new": new, "done": 0})

    def step(self):
        self.let_in()
        plan = self.plan()
        for one in self.inside:
            one["done"] += plan.get(one["name"], 0)
        self.let_out()
        return plan

    def worst(self, one):
        return -(-(one["prompt"] + one["new"] - 1) // self.block_size)

    def let_in(self):
        while self.line and self.worst(self.line[0]) <= self.free:
            self.free -= self.worst(self.line[0])
            self.inside.append(self.line.pop(0))

    def plan(self):
        plan, left = {}, self.budget
        for is_prompt in (False, True):
            for one in self.inside:
                if (one["done"] < one["prompt"]) == is_prompt:
                    count = min(left, max(1, one["prompt"] - one["done"]))
                    plan[one["name"]] = count
                    left -= count
        return plan

    def let_out(self):
        for one in [one for one in self.inside if self.has_ended(one)]:
            self.inside.remove(one)
            self.free += self.worst(one)

    def has_ended(self, one):
        return one["done"] >= one["prompt"] + one["new"] - 1


# --- what is wrong --------------------------------------------------------------------


class Overtakes(Promising):
    """Whoever fits goes in."""

    def let_in(self):
        for one in list(self.line):
            if self.worst(one) <= self.free:
                self.free -= self.worst(one)
                self.inside.append(one)
                self.line.remove(one)


class WaitsForAll(Promising):
    """A static batch."""

    def let_in(self):
        if not self.inside:
            super().let_in()


class PromisesThePrompt(Promising):
    def worst(self, one):
        return -(-one["prompt"] // self.block_size)


class PromisesTheLast(Promising):
    """A slot for the last token, too."""

    def worst(self, one):
        return -(-(one["prompt"] + one["new"]) // self.block_size)


class RoundsDown(Promising):
    def worst(self, one):
        return (one["prompt"] + one["new"] - 1) // self.block_size


class StaysAStep(Promising):
    """Computes the last token of the answer, too."""

    def has_ended(self, one):
        return one["done"] >= one["prompt"] + one["new"]


class KeepsBlocks(Promising):
    def let_out(self):
        self.inside = [one for one in self.inside if not self.has_ended(one)]


class PromptsFirst(Promising):
    def plan(self):
        plan, left = {}, self.budget
        for one in sorted(self.inside, key=lambda one: one["done"] >= one["prompt"]):
            count = min(left, max(1, one["prompt"] - one["done"]))
            plan[one["name"]] = count
            left -= count
        return plan


class ForgetsTheBudget(Promising):
    def plan(self):
        wanted = {o["name"]: max(1, o["prompt"] - o["done"]) for o in self.inside}
        return {name: min(n, self.budget) for name, n in wanted.items()}


class CutsNoPrompt(Promising):
    def plan(self):
        plan, left = {}, self.budget
        for one in sorted(self.inside, key=lambda one: one["done"] < one["prompt"]):
            count = max(1, one["prompt"] - one["done"])
            if count <= left:
                plan[one["name"]] = count
                left -= count
        return plan


class PlansOnly(Promising):
    """Counts nothing as computed."""

    def step(self):
        self.let_in()
        return self.plan()


class ReturnsAList(Promising):
    def step(self):
        return list(super().step().items())


class Raises(Promising):
    def step(self):
        return {self.line[0]["name"]: 1}


def each_alone(answers, places):
    """Only places with a user count."""
    steps = idle = 0
    while answers:
        batch, answers = answers[:places], answers[places:]
        steps += max(batch)
        idle += max(batch) * len(batch) - sum(batch)
    return steps, idle


def continuous(answers, places):
    ends = [0] * places
    for answer in answers:
        ends.sort()
        ends[0] += answer
    return max(ends), max(ends) * places - sum(answers)


def empties_the_list(answers, places):
    steps = 0
    while answers:
        count = min(places, len(answers))
        steps += max([answers.pop(0) for _ in range(count)])
    return steps, steps * places - sum(answers)


def the_first_costs_nothing(answers, places):
    """As if the last token took no step."""
    return static_steps([answer - 1 for answer in answers], places)


class SkipsTheNext(Promising):
    """Removes from the list that it goes through."""

    def let_out(self):
        for one in self.inside:
            if self.has_ended(one):
                self.inside.remove(one)
                self.free += self.worst(one)

    def let_in(self):
        for one in self.line:
            if self.worst(one) > self.free:
                break
            self.line.remove(one)
            self.free -= self.worst(one)
            self.inside.append(one)


def as_they_came(waiting, running, places):
    return [at for at, _ in enumerate(waiting) if at < places - len(running)]


def counts_once(waiting, running, places):
    """Sorted at the start, though each who comes in changes who has the fewest."""
    order = sorted(range(len(waiting)), key=lambda at: running.count(waiting[at]))
    return order[: places - len(running)]


def a_new_round(waiting, running, places):
    """In turn, whoever runs already."""
    rounds = [(waiting[:at].count(user), at) for at, user in enumerate(waiting)]
    return [at for _, at in sorted(rounds)][: places - len(running)]


def fewest_wait(waiting, running, places):
    order = sorted(range(len(waiting)), key=lambda at: waiting.count(waiting[at]))
    return order[: places - len(running)]


def the_last_of_equals(waiting, running, places):
    """<= where < is right."""
    come, load = [], {user: running.count(user) for user in waiting}
    while len(come) < min(len(waiting), places - len(running)):
        best = None
        for at, user in enumerate(waiting):
            is_here = at in come
            if not is_here and (best is None or load[user] <= load[waiting[best]]):
                best = at
        come.append(best)
        load[waiting[best]] += 1
    return come


def by_the_alphabet(waiting, running, places):
    come, load = [], {user: running.count(user) for user in waiting}
    left = list(enumerate(waiting))
    while left and len(come) < places - len(running):
        at, user = min(left, key=lambda one: (load[one[1]], one[1], one[0]))
        left.remove((at, user))
        come.append(at)
        load[user] += 1
    return come


def one_for_each(waiting, running, places):
    firsts = {waiting.index(user): user for user in waiting}
    order = sorted(firsts, key=lambda at: (running.count(firsts[at]), at))
    return order[: places - len(running)]


def all_places(waiting, running, places):
    """Lets in as many as there are places, free or not."""
    return turns(waiting, running, places + len(running))


def pops(waiting, running, places):
    """Indices in a list that gets shorter."""
    come, running = [], list(running)
    while waiting and len(running) < places:
        at = min(range(len(waiting)), key=lambda n: running.count(waiting[n]))
        come.append(at)
        running.append(waiting.pop(at))
    return come


def users(waiting, running, places):
    return [waiting[at] for at in turns(waiting, running, places)]


# What the check must say of each fault.
FAULTS = {
    "static_steps": [
        (each_alone, "places without a user are idle, too"),
        (continuous, "that is continuous batching"),
        (lambda *case: static_steps(*case)[::-1], "the other way round"),
        (lambda a, p: static_steps(sorted(a), p), "the order of the list"),
        (
            lambda a, p: (max(a), max(a) * p - sum(a)),
            "only so many places",
        ),
        (lambda a, p: 7, "return two numbers, got 7"),
        (empties_the_list, "its sum is 0"),
        (the_first_costs_nothing, "n tokens take n steps"),
        (lambda answers, places: (max(answers), 0), "got (10, 0), expected (16, 20)"),
        (lambda a, p: static_steps(a, p)[0], "return two numbers, got 16"),
        (lambda answers, places: (sum(answers), 0), "got (28, 0), expected (16, 20)"),
        (lambda a, p: (-(-sum(a) // p), 0), "got (10, 0), expected (16, 20)"),
    ],
    "turns": [
        (as_they_came, "that is first come, first served"),
        (counts_once, "who was just let in runs, too"),
        (a_new_round, "those who run already count, too"),
        (fewest_wait, "not of whom the fewest wait"),
        (the_last_of_equals, "whoever came first: the smallest index"),
        (by_the_alphabet, "not the first in the alphabet"),
        (one_for_each, "also a second time"),
        (all_places, "those who run have places"),
        (pops, "it must not get shorter on the way"),
        (lambda *case: sorted(turns(*case)), "in which they come in"),
        (users, "return indices of `waiting`, not users"),
        (lambda *case: None, "return a list of indices, got None"),
        (lambda *case: len(turns(*case)), "return a list of indices, got 2"),
        (lambda *case: [], "got [], expected [4, 0]"),
        (lambda *case: turns(*case)[::-1], "got [0, 4], expected [4, 0]"),
        (lambda w, r, places: turns(w, r, places - 1), "got [4], expected [4, 0]"),
        (lambda w, r, places: turns(w, r, places + 1), "got [4, 0, 1], expected"),
        (lambda *case: turns(*case)[:1], "got [4], expected [4, 0]"),
        (lambda waiting, running, p: turns(waiting, [], p), "got [0, 4, 1], expected"),
        (lambda waiting, *_: dict.fromkeys(waiting), "a list of indices, got {'A'"),
    ],
    "batching": [
        (Overtakes, "nobody overtakes"),
        (PromisesThePrompt, "promise the worst case"),
        (PromisesTheLast, "it needs no slot"),
        (RoundsDown, "round up"),
        (StaysAStep, "out at once"),
        (SkipsTheNext, "removing from a list skips the next one"),
        (KeepsBlocks, "gives the promised blocks back"),
        (PromptsFirst, "prompts come last"),
        (ForgetsTheBudget, "the budget is for a whole step"),
        (CutsNoPrompt, "computed in part"),
        (WaitsForAll, "not when all have ended"),
        (ReturnsAList, "step() must return a dict"),
        (Raises, "step(), number 1, raised IndexError"),
        (PlansOnly, "step 3: got {'A': 33}, expected {'A': 1}"),
        (lambda *size: None, "has no attribute 'step'"),
    ],
}
