"""Lab: who computes how much in which step, as bars in time."""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import NamedTuple

from minipaged.draw.letters import counted
from minipaged.draw.palette import BAD, GOOD, theme
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import KEPT, Sign, Tone, free, others, soft, strong
from minipaged.lab.plots.render import Figure, render
from minipaged.lab.plots.steps import add_steps

Steps = Sequence[Mapping[str, int]]  # of each step: how many tokens a user computes

BAR, HIGH, WIDEST = 20.0, 52.0, 34.0  # pixels: of a lane; of the most tokens; of a step


class Asked(NamedTuple):
    """What a user asks for, in numbers of tokens, and when."""

    prompt: int
    new: int  # tokens of the answer
    arrival: float = 0.0

    @property
    def to_compute(self) -> int:
        """Tokens until the answer is there: its last one is chosen, not computed."""
        return self.prompt + self.new - 1


def plot_places(
    runs: Mapping[str, Steps], asked: Mapping[str, Asked], title: str, places: int
) -> Figure:
    """A panel for each run: who has which place of the batch, and when it is idle.

    A user takes the first place that is free, and keeps it as long as the steps name
    her. What she computes after her last token is idle, and hatched; so is a place that
    nobody has. A sign marks each step before which places change hands. All panels have
    the same scale.
    """
    picture, have_changed = Picture(title, WIDEST), False
    least, most = min(map(len, runs.values())), max(map(len, runs.values()))
    for name, steps in runs.items():
        spans, whole = _spans(steps, asked, places), len(steps) * places
        idle = whole - sum(last - first for _, first, last in spans.values())
        verdict = f"{counted(len(steps), 'step')}, {idle} of {whole} places idle"
        is_best = len(steps) == least and len(runs) > 1
        picture.headline(name, "", verdict, GOOD if is_best else BAD)
        changes = _changes(spans)
        have_changed |= bool(changes)
        for place in range(places):
            lane, end = picture.lane(f"place {place + 1}", height=BAR), 0
            for user, (where, first, last) in spans.items():
                if where == place:
                    lane.bar(end, first, KEPT)
                    lane.bar(first, last, strong(user), user)
                    end = last
            lane.bar(end, len(steps), KEPT)
            for first, hands in changes.items():
                if hands[0][0] == place:
                    gone, come = (
                        ", ".join(hand[at] for hand in hands) for at in (1, 2)
                    )
                    comma = "," if len(hands) == 1 else ";"
                    lane.point(first, f"{gone} out{comma} {come} in")
        add_steps(picture, len(steps), most)
    signs = [(KEPT, "idle: nobody is there, or who is there has ended")]
    words = "a place changes hands: one retires, another is admitted"
    signs += [(Sign("v", theme().ink), words)] * have_changed
    picture.legend(*signs)
    return render(picture.scene())


def _changes(
    spans: Mapping[str, tuple[int, int, int]],
) -> dict[int, list[tuple[int, str, str]]]:
    """Of each step before which places change hands: place, who goes, who comes."""
    holder, changes = {}, {}
    for user, (place, first, _) in sorted(spans.items(), key=lambda one: one[1][1]):
        if place in holder:
            changes.setdefault(first, []).append((place, holder[place], user))
        holder[place] = user
    return {first: sorted(hands) for first, hands in changes.items()}


def _spans(
    steps: Steps, asked: Mapping[str, Asked], places: int
) -> dict[str, tuple[int, int, int]]:
    """Of each user: her place, her first step, and the step after her last token."""
    free_places, place_of, left = list(range(places)), {}, {}
    spans: dict[str, tuple[int, int, int]] = {}
    for at, step in enumerate(steps):
        for user in [one for one in place_of if one not in step]:
            free_places = sorted([*free_places, place_of.pop(user)])
        for user, count in step.items():
            if user not in place_of:
                place_of[user] = free_places.pop(0)
                left.setdefault(user, asked[user].to_compute)
                spans.setdefault(user, (place_of[user], at, at))
            if left[user] > 0:
                spans[user] = (*spans[user][:2], at + 1)
            left[user] -= count
    return spans


def plot_gantt(
    runs: Mapping[str, Steps],
    asked: Mapping[str, Asked],
    title: str,
    budget: int | None = None,
) -> Figure:
    """A panel for each run, a lane for each user: waits, prefills, decodes, pauses.

    Arrivals are counted in steps. With a `budget`: below the lanes, how many tokens
    each step computes, and a line at the budget; steps above it are marked. All panels
    have the same scale.
    """
    picture = Picture(title, WIDEST)
    most = max(sum(one.values()) for steps in runs.values() for one in steps)
    longest = max(map(len, runs.values()))
    for name, steps in runs.items():
        counts = [sum(one.values()) for one in steps]
        remark = counted(len(steps), "step")
        if budget is not None:
            remark += f", at most {max(counts)} tokens in one"
        if name:
            picture.headline(name, remark)
        for user, wants in asked.items():
            _add_lane(picture, user, wants, steps)
        if budget is not None:
            _add_tokens(picture, counts, most, budget)
        add_steps(picture, len(steps), longest)
    user = next(iter(asked))
    signs = [(free(), "waits"), (strong(user), "prefill"), (soft(user), "decode")]
    if any(_pauses(steps, one) for steps in runs.values() for one in asked):
        signs.append((KEPT, "pauses"))
    if budget is not None:
        signs.append((others(), "tokens of a step"))
    if budget is not None and most > budget:
        signs.append((Tone(BAD), "more than the budget"))
    picture.legend(*signs)
    words = "beside a name: tokens of the prompt + of the answer; "
    words += "in a box: how many of the prompt this step computes"
    picture.text(words)
    return render(picture.scene())


def _pauses(steps: Steps, user: str) -> bool:
    """Does she compute nothing in a step between her first and her last one?"""
    at_work = [at for at, one in enumerate(steps) if one.get(user)]
    return len(at_work) < at_work[-1] - at_work[0] + 1


def _add_lane(picture: Picture, user: str, wants: Asked, steps: Steps) -> None:
    """From the arrival to the last token; a prefill with its number of tokens."""
    at_work = [at for at, one in enumerate(steps) if one.get(user)]
    lane = picture.lane(
        f"{user}  {wants.prompt} + {wants.new}",
        aside=f"step {at_work[-1] + 1}",
        height=BAR,
    )
    if wants.arrival < at_work[0]:
        lane.bar(ceil(wants.arrival), at_work[0], free(), "waits")
    done = 0
    for at in range(at_work[0], at_work[-1] + 1):
        count = steps[at].get(user, 0)
        tone = strong(user) if done < wants.prompt else soft(user)
        if done >= wants.to_compute:
            tone = others()
        is_prefill = count and done < wants.prompt
        lane.bar(at, at + 1, tone if count else KEPT, str(count) if is_prefill else "")
        done += count


def _add_tokens(
    picture: Picture, counts: Sequence[int], most: int, budget: int
) -> None:
    """How many tokens each step computes, upwards, and a line at the budget."""
    top = max(most, budget)
    cells = [
        Cell("", Tone(BAD) if count > budget else others(), high=count / top)
        for count in counts
    ]
    picture.space(0)
    lane = picture.lane("", "", cells, height=HIGH, apart=2.0)
    numbers = [Cell(below=str(count)) for count in counts]
    picture.lane("tokens", "", numbers, height=0.0, apart=2.0)
    style = {"color": theme().ink, "linewidth": 1.4, "linestyle": "--"}
    lane.level(budget / top, f"budget {budget}", **style)
