"""Lab: who computes how much in which step, as bars in time."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from matplotlib.figure import Figure

from minipaged.draw.letters import LEAST, counted, fit, width_of
from minipaged.draw.palette import BAD, GOOD
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import KEPT, Tone, free, others, soft, strong
from minipaged.lab.plots.render import render

Steps = Sequence[Mapping[str, int]]  # of each step: how many tokens a user computes

LEFT, RIGHT = 92.0, 74.0  # pixels beside the bars
BAR, LANE = 22.0, 27.0  # pixels of a bar, and from one to the next
HEAD, AXIS, APART = 26.0, 30.0, 22.0  # of a panel: above its bars, below, to the next
HIGH = 52.0  # pixels: the most tokens of a step
SIGNS = 19.0  # pixels above a place where somebody leaves it to another
CHANGE = "v"  # a triangle


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
    sheet, y = Sheet(title), 0.0
    step = _step_width(runs)
    least = min(map(len, runs.values()))
    for name, steps in runs.items():
        idle, whole = _idle(steps, asked, places), len(steps) * places
        verdict = f"{counted(len(steps), 'step')}, {idle} of {whole} places idle"
        is_best = len(steps) == least and len(runs) > 1
        sheet.headline(y + 6, name, "", verdict, GOOD if is_best else BAD)
        y += HEAD
        spans = _spans(steps, asked, places)
        changes = _changes(spans)
        signed = {hands[0][0] for hands in changes.values()}
        tops = []
        for place in range(places):
            tops.append(y + SIGNS * (place in signed))
            quiet = {"ha": "right", "color": sheet.look.quiet}
            sheet.write(LEFT - 12, tops[-1] + BAR / 2, f"place {place + 1}", **quiet)
            sheet.empty(LEFT, tops[-1], len(steps) * step, BAR)
            y = tops[-1] + LANE
        for user, (place, first, last) in spans.items():
            area = LEFT + first * step, tops[place], (last - first) * step, BAR
            sheet.box(*area, strong(user))
            sheet.box(*area, rim=sheet.look.rim)
            if area[2] > width_of(user, bold=True) + 2:
                sheet.word(*area, user, strong(user))
        _draw_changes(sheet, changes, tops, step)
        _draw_axis(sheet, y, len(steps), step)
        y += AXIS + APART
    y -= APART - 12
    signs = [(KEPT, "idle: nobody is there, or who is there has ended")]
    x = sheet.legend(0, y, signs)
    if any(_changes(_spans(steps, asked, places)) for steps in runs.values()):
        _draw_sign(sheet, x + 6, y)
        words = "a place changes hands: one retires, another is admitted"
        sheet.write(x + 18, y, words, color=sheet.look.quiet)
    return render(sheet.finish(y + 10))


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


def _draw_changes(
    sheet: Sheet,
    changes: Mapping[int, list[tuple[int, str, str]]],
    tops: Sequence[float],
    step: float,
) -> None:
    """A sign above the topmost place, with words if they fit before the next sign."""
    for first, hands in changes.items():
        x, place = LEFT + first * step, hands[0][0]
        y = tops[place] - SIGNS / 2 + 1
        _draw_sign(sheet, x, y)
        gone, come = (", ".join(hand[at] for hand in hands) for at in (1, 2))
        words = f"{gone} out{',' if len(hands) == 1 else ';'} {come} in"
        nexts = [at for at, others in changes.items() if others[0][0] == place]
        after = min((at for at in nexts if at > first), default=None)
        end = SPAN if after is None else LEFT + after * step - 8
        if x + 10 + width_of(words) < end:
            sheet.write(x + 10, y, words)


def _draw_sign(sheet: Sheet, x: float, y: float) -> None:
    """A triangle that points down."""
    sheet.dots([(x, y)], CHANGE, size=6, linewidth=0)


def _idle(steps: Steps, asked: Mapping[str, Asked], places: int) -> int:
    """Places, over all steps, that compute nothing that anybody wants."""
    spans = _spans(steps, asked, places).values()
    return len(steps) * places - sum(last - first for _, first, last in spans)


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
    sheet, y = Sheet(title), 0.0
    step = _step_width(runs)
    most = max(sum(one.values()) for steps in runs.values() for one in steps)
    for name, steps in runs.items():
        if name:
            remark = counted(len(steps), "step")
            if budget is not None:
                largest = max(sum(one.values()) for one in steps)
                remark += f", at most {largest} tokens in one"
            sheet.headline(y + 6, name, remark, "", sheet.look.ink)
            y += HEAD
        for user, wants in asked.items():
            _draw_lane(sheet, user, wants, steps, y, step)
            y += LANE
        if budget is not None:
            y = _draw_tokens(sheet, steps, y, step, most, budget)
        _draw_axis(sheet, y, len(steps), step)
        y += AXIS + APART
    y -= APART - 14
    user = next(iter(asked))
    signs = [(free(), "waits"), (strong(user), "prefill"), (soft(user), "decode")]
    if any(_pauses(steps, one) for steps in runs.values() for one in asked):
        signs.append((KEPT, "pauses"))
    if budget is not None:
        signs.append((others(), "tokens of a step"))
    if budget is not None and most > budget:
        signs.append((Tone(BAD), "more than the budget"))
    sheet.legend(0, y, signs)
    words = "beside a name: tokens of the prompt + of the answer; "
    words += "in a box: how many of the prompt this step computes"
    sheet.write(0, y + 21, words, color=sheet.look.quiet)
    return render(sheet.finish(y + 31))


def _pauses(steps: Steps, user: str) -> bool:
    """Does she compute nothing in a step between her first and her last one?"""
    at_work = [at for at, one in enumerate(steps) if one.get(user)]
    return len(at_work) < at_work[-1] - at_work[0] + 1


def _draw_lane(
    sheet: Sheet, user: str, wants: Asked, steps: Steps, y: float, step: float
) -> None:
    """From the arrival to the last token; a prefill with its number of tokens."""
    sheet.write(0, y + BAR / 2, user, weight="bold")
    quiet = {"ha": "right", "color": sheet.look.quiet}
    sheet.write(LEFT - 12, y + BAR / 2, f"{wants.prompt} + {wants.new}", **quiet)
    at_work = [at for at, one in enumerate(steps) if one.get(user)]
    start = min(int(-(-wants.arrival // 1)), at_work[0])
    if start < at_work[0]:
        sheet.wait(LEFT + start * step, y, (at_work[0] - start) * step, BAR)
    done = 0
    for at in range(at_work[0], at_work[-1] + 1):
        x, count = LEFT + at * step, steps[at].get(user, 0)
        gap = 1.0 if step > 6 else 0.0
        if not count:
            sheet.empty(x, y, step, BAR)
            continue
        tone = _tone(user, done, wants)
        sheet.box(x, y, step - gap, BAR, tone)
        if tone.line and gap:  # on dark pages a soft face alone is hardly seen
            sheet.box(x, y, step - gap, BAR, rim=tone.line)
        if done < wants.prompt and width_of(str(count), LEAST) < step - 4:
            sheet.word(x, y, step, BAR, str(count), tone)
        done += count
    end = LEFT + (at_work[-1] + 1) * step
    sheet.write(end + 5, y + BAR / 2, f"step {at_work[-1] + 1}")


def _tone(user: str, done: int, wants: Asked) -> Tone:
    if done >= wants.to_compute:
        return others()
    return strong(user) if done < wants.prompt else soft(user)


def _draw_tokens(
    sheet: Sheet, steps: Steps, y: float, step: float, most: int, budget: int
) -> float:
    """How many tokens each step computes, upwards; where the axis is."""
    counts = [sum(one.values()) for one in steps]
    top = max(most, budget)
    ground = y + max(36.0, HIGH * max(*counts, budget) / top) + 16
    quiet = {"ha": "right", "color": sheet.look.quiet}
    sheet.write(LEFT - 12, ground - 24, "tokens", **quiet)
    sheet.write(LEFT - 12, ground - 9, "of a step", **quiet)
    line = ground - HIGH * budget / top
    for at, count in enumerate(counts):
        high, x = HIGH * count / top, LEFT + at * step
        tone = Tone(BAD) if count > budget else others()
        sheet.box(x, ground - high, step - (1.0 if step > 6 else 0.0), high, tone)
        if width_of(str(count), LEAST) < step - 2:
            words, size = fit(str(count), step - 2)
            above = ground - high - 7
            if abs(above - line) < 9:  # not on the line at the budget
                above = line - 8
            sheet.write(x + step / 2, above, words, size, ha="center")
    style = {"color": sheet.look.ink, "linewidth": 1.4, "linestyle": "--"}
    end = LEFT + len(steps) * step
    sheet.line((LEFT, line), (end, line), **style)
    sheet.write(end + 6, line, f"budget {budget}")
    return ground


def _step_width(runs: Mapping[str, Steps]) -> float:
    return min(34.0, (SPAN - LEFT - RIGHT) / max(map(len, runs.values())))


def _draw_axis(sheet: Sheet, y: float, count: int, step: float) -> None:
    """A line with the numbers of the steps, from 1."""
    sheet.line((LEFT, y), (LEFT + count * step, y))
    every = next(n for n in (1, 5, 10, 20, 50, 100, 1000) if n * step >= 24)
    for number in sorted({1, *range(every, count + 1, every)}):
        if number == 1 or (number - 1) * step > 24:
            x = LEFT + (number - 0.5) * step
            style = {"ha": "center", "color": sheet.look.quiet}
            sheet.write(x, y + 12, str(number), **style)
    x = LEFT + count * step + 8
    sheet.write(x, y + 12, "step", color=sheet.look.quiet)
