"""Lab: the check of appendix A's last exercise: a scheduler that keeps its promise."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from minipaged.lab.check.diagnose import diagnose, which
from minipaged.lab.check.verdict import Attempt, Rejected, attempted, exercise, many
from minipaged.memory.block_pool import BlockPool
from minipaged.scheduling.request import Request
from minipaged.scheduling.scheduler import Scheduler
from minipaged.simulate.without_model import steps

Plan = dict[str, int]  # how many tokens of whom


@dataclass
class Case:
    """Requests (name, prompt, new) that come before a step, and the server's size."""

    num_blocks: int
    block_size: int
    budget: int
    coming: list[list[tuple[str, int, int]]]

    def steps(self, count: int) -> list[list[tuple[str, int, int]]]:
        """Who comes before each of so many steps."""
        return [*self.coming, *[[]] * count][:count]


@exercise
def batching(attempt: Attempt) -> Callable[[], str]:
    """A class (num_blocks, block_size, budget) with add(name, prompt, new) and step().

    Compared with the package's scheduler, plan by plan.
    """
    cases = [_random_case(Random(seed), seed) for seed in range(40)]
    for case in cases:
        right = _package_plans(case)
        found = _plans_of(attempt, case, len(right))
        attempt.num_cases += 1
        if found != right:
            pairs = enumerate(zip(found, right, strict=True))
            step = next(number for number, (one, other) in pairs if one != other)
            flaw = which(SCHEDULER_FLAWS, [((case, len(right)), found)])
            diagnose(
                _tell(case, step), found[step], right[step], {flaw: True}, write=str
            )
    total = sum(len(_package_plans(case)) for case in cases)
    return lambda: f"{many(total, 'plan')} are those of the package's scheduler"


def _tell(case: Case, step: int) -> str:
    size = f"{case.num_blocks} blocks of {case.block_size}, budget {case.budget}"
    who = {n: (p, k) for own in case.coming[: step + 1] for n, p, k in own}
    return f"{size}; so far (prompt, new): {who}; step {step + 1}"


def _random_case(draw: Random, seed: int) -> Case:
    size, names = draw.choice([1, 4, 16]), iter("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    coming: list[list[tuple[str, int, int]]] = []
    for _ in range(draw.randint(1, 12)):
        count = draw.choice([0, 1, 1, 2])
        coming.append(
            [
                (next(names), draw.randint(1, 40), draw.randint(1, 12))
                for _ in range(count)
            ]
        )
    longest = max((p + n for own in coming for _, p, n in own), default=1)
    blocks = -(-longest // size) + draw.randint(0, 3 * longest // size + 2)
    return Case(blocks, size, draw.choice([8, 16, 64]) + 16, coming)


def _package_plans(case: Case) -> list[Plan]:
    """What the package's scheduler plans, without a model."""
    pool = BlockPool(case.num_blocks, case.block_size)
    real, names, plans = Scheduler(pool, max_tokens=case.budget), {}, []
    planned = steps(real)
    for own in case.steps(len(case.coming) + 400):
        for name, prompt, new in own:
            request = Request([0] * prompt, new)
            names[request] = name
            real.add(request)
        works = next(planned).works
        if not works and len(plans) > len(case.coming):
            return plans
        plans.append({names[work.request]: work.num_tokens for work in works})
    raise AssertionError("it never ends")


def _plans_of(attempt: Attempt, case: Case, count: int) -> list[Plan]:
    """What the attempt plans in so many steps; a token that is 0 is left out."""
    size = case.num_blocks, case.block_size, case.budget
    call = f"{attempt.name}{size}"
    made, plans = attempted(call, attempt.function, *size), []
    for number, coming in enumerate(case.steps(count)):
        for asked in coming:
            attempted(f"add{asked}", made.add, *asked)
        plan = attempted(f"step(), number {number + 1},", made.step)
        if not isinstance(plan, dict):
            raise Rejected(f"step() must return a dict, name to tokens; got {plan!r}")
        plans.append({name: n for name, n in plan.items() if n})
    return plans


class Model:
    """A right scheduler in few lines; the flaw plants a usual mistake."""

    def __init__(self, num_blocks: int, block_size: int, budget: int, flaw: str = ""):
        self.free, self.size, self.budget = num_blocks, block_size, budget
        self.flaw = flaw
        self.waiting: list[list] = []
        self.running: list[list] = []  # name, prompt, new, computed, blocks

    def add(self, name: str, prompt: int, new: int) -> None:
        """It waits."""
        last = prompt + new - (self.flaw != "last")
        promised = prompt if self.flaw == "eager" else last
        up = 0 if self.flaw == "down" else self.size - 1
        self.waiting.append([name, prompt, new, 0, (promised + up) // self.size])

    def step(self) -> Plan:
        """Plan and count."""
        skips = self.flaw == "skips"
        for one in self.waiting if skips else list(self.waiting):
            if one[4] > self.free:
                if self.flaw == "overtakes":
                    continue
                break
            if self.flaw == "static" and any(other[3] for other in self.running):
                break
            self.waiting.remove(one)
            self.running.append(one)
            self.free -= one[4]
        counts = self.plan()
        plan = {o[0]: n for o, n in zip(self.running, counts, strict=True) if n}
        for one, count in zip(self.running, counts, strict=True):
            one[3] += count
        for one in self.running if skips else list(self.running):
            if one[3] >= one[1] + one[2] - (self.flaw != "late"):
                self.running.remove(one)
                self.free += 0 if self.flaw == "keeps" else one[4]
        return plan

    def plan(self) -> list[int]:
        """How many tokens each who runs computes."""
        plan, left = [0] * len(self.running), self.budget
        is_prompt = [computed < prompt for _, prompt, _, computed, _ in self.running]
        prompts_first = self.flaw == "prompts_first"
        for at in sorted(
            range(len(plan)), key=lambda at: is_prompt[at] != prompts_first
        ):
            _, prompt, _, computed, _ = self.running[at]
            wanted = max(1, prompt - computed)
            if self.flaw == "whole" and wanted > left:
                continue
            plan[at] = min(wanted, self.budget if self.flaw == "per_prompt" else left)
            left -= 0 if self.flaw == "per_prompt" else plan[at]
        return plan


def _with(flaw: str) -> Callable[[Case, int], list[Plan]]:
    """What a scheduler with this flaw plans in so many steps."""

    def planned(case: Case, count: int) -> list[Plan]:
        model, plans = Model(case.num_blocks, case.block_size, case.budget, flaw), []
        for asked in case.steps(count):
            for one in asked:
                model.add(*one)
            plans.append(model.step())
        return plans

    return planned


SCHEDULER_FLAWS = {
    "prompts come last: whoever decodes must not wait for them": _with("prompts_first"),
    "the budget is for a whole step: what one takes, the others lack": (
        _with("per_prompt")
    ),
    "a prompt that does not fit into the budget is computed in part": _with("whole"),
    "first come, first served: nobody overtakes the first who waits": (
        _with("overtakes")
    ),
    "who waits starts as soon as there is room, not when all have ended": (
        _with("static")
    ),
    "promise the worst case, not only the prompt's blocks": _with("eager"),
    "a part-filled block counts, too: round up": _with("down"),
    "the last token of an answer is never computed: it needs no slot": _with("last"),
    "who has the last token has ended: out at once, in the same step": _with("late"),
    "who ends gives the promised blocks back": _with("keeps"),
    "removing from a list skips the next one; go through a copy": _with("skips"),
}
