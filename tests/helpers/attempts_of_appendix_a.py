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


def step_plan(running, budget):
    """By places in the list, unlike the solution in the notebook."""
    plan, left = [0] * len(running), budget
    for is_prompt in (False, True):
        for at, (computed, prompt) in enumerate(running):
            if (computed < prompt) == is_prompt:
                plan[at] = min(left, max(1, prompt - computed))
                left -= plan[at]
    return plan


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
        states = [(one["done"], one["prompt"]) for one in self.inside]
        counts = step_plan(states, self.budget)
        return {o["name"]: n for o, n in zip(self.inside, counts, strict=True)}

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


WRONG = {
    "static_steps": [
        lambda answers, places: (max(answers), 0),
        lambda answers, places: static_steps(sorted(answers), places),
        lambda answers, places: static_steps(answers, places)[::-1],
        lambda answers, places: static_steps(answers, places)[0],
        lambda answers, places: (sum(answers), 0),
        lambda answers, places: (-(-sum(answers) // places), 0),
    ],
    "step_plan": [
        lambda running, budget: [min(budget, max(1, p - c)) for c, p in running],
        lambda running, budget: [1] * len(running),
        lambda running, budget: sum(step_plan(running, budget)),
        lambda running, budget: step_plan(running, budget)[:-1],
        lambda running, budget: step_plan(running, budget - 1),
        lambda running, budget: step_plan([(c - 1, p) for c, p in running], budget),
    ],
    "batching": [
        Overtakes,
        WaitsForAll,
        PromisesThePrompt,
        PromisesTheLast,
        RoundsDown,
        StaysAStep,
        KeepsBlocks,
        PromptsFirst,
        ForgetsTheBudget,
        CutsNoPrompt,
        PlansOnly,
        ReturnsAList,
        Raises,
        lambda *size: None,
    ],
}


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


def one_token_late(running, budget):
    """`>` in place of `>=`."""
    plan = [1 if computed > prompt else 0 for computed, prompt in running]
    left = budget - sum(plan)
    for at, (computed, prompt) in enumerate(running):
        if not computed > prompt:
            plan[at] = min(left, prompt - computed)
            left -= plan[at]
    return plan


def in_the_lists_order(running, budget):
    plan = []
    for computed, prompt in running:
        plan.append(min(budget, max(1, prompt - computed)))
        budget -= plan[-1]
    return plan


def decodes_as_they_come(running, budget):
    plan = []
    for computed, prompt in running:
        number = 1 if computed >= prompt else min(budget, prompt - computed)
        budget -= number
        plan.append(number)
    return plan


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


def prompts_first(running, budget):
    plan = [0] * len(running)
    for at in sorted(
        range(len(running)), key=lambda at: running[at][0] >= running[at][1]
    ):
        computed, prompt = running[at]
        plan[at] = min(budget, max(1, prompt - computed))
        budget -= plan[at]
    return plan


def whole_prompts(running, budget):
    plan = [int(computed >= prompt) for computed, prompt in running]
    left = budget - sum(plan)
    for at, (computed, prompt) in enumerate(running):
        if 0 < prompt - computed <= left:
            plan[at] = prompt - computed
            left -= plan[at]
    return plan


def decodes_are_free(running, budget):
    plan = [int(computed >= prompt) for computed, prompt in running]
    for at, (computed, prompt) in enumerate(running):
        if computed < prompt:
            plan[at] = min(budget, prompt - computed)
            budget -= plan[at]
    return plan


def from_the_start(running, budget):
    """Whole prompts, whatever is computed of them."""
    begun = [(c if c >= p else 0, p) for c, p in running]
    return step_plan(begun, budget)


NAMED = {
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
    ],
    "step_plan": [
        (in_the_lists_order, "come first, wherever they stand"),
        (decodes_as_they_come, "before it is shared out"),
        (prompts_first, "prompts come last"),
        (WRONG["step_plan"][0], "for all of them together"),
        (whole_prompts, "computed in part, not left out"),
        (decodes_are_free, "costs a token of the budget, too"),
        (from_the_start, "is not computed again"),
        (one_token_late, "has computed exactly the prompt decodes already"),
        (lambda running, budget: [], "a number of tokens for each of 4, got []"),
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
    ],
}
