"""Lab: when users get their tokens, and how long they pause."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from matplotlib.figure import Figure

from minipaged.draw.palette import BAD, line_colour
from minipaged.draw.scales import scale_of
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import Tone, free
from minipaged.lab.plots.gantt import APART, BAR, HEAD, LANE, LEFT, RIGHT
from minipaged.lab.plots.render import render


def plot_token_times(
    runs: Mapping[str, Mapping[str, Sequence[float]]],
    title: str,
    unit: str = "seconds",
    factor: float = 1.0,
    arrivals: Mapping[str, float] | None = None,
) -> Figure:
    """A panel for each run, a lane for each user: when she gets her tokens.

    runs: the moments of each user's tokens, by run. The longest pause between two
    tokens of one user is marked, and each of her pauses that is as long. factor:
    moments times it are in `unit`. arrivals: when users come who then wait for their
    first token.
    """
    sheet, y, arrivals, drawn = Sheet(title), 0.0, arrivals or {}, []
    ends = [own[-1] for users in runs.values() for own in users.values()]
    scale = scale_of([0.0, *ends], LEFT, SPAN - LEFT - RIGHT, False, (0.0, max(ends)))
    for name, users in runs.items():
        pauses = {user: _longest_pauses(own) for user, own in users.items()}
        worst = max(pauses, key=lambda user: pauses[user][0])
        length, starts = pauses[worst]
        drawn.append(worst)
        number = length * factor
        said = f"{number:,.0f}" if number >= 100 else f"{round(number, 3):.3g}"
        times = f", {len(starts)} times" if len(starts) > 1 else ""
        verdict = f"longest pause: {said} {unit}{times}"
        sheet.headline(y + 6, name, "", verdict, sheet.look.ink)
        y += HEAD
        for user, own in users.items():
            sheet.write(LEFT - 12, y + BAR / 2, user, ha="right", weight="bold")
            sheet.line((LEFT, y + BAR), (SPAN - RIGHT, y + BAR), alpha=0.5)
            if user in arrivals:
                left, right = scale.x(arrivals[user]), scale.x(own[0])
                sheet.wait(left, y + 3, right - left - 3, BAR - 3)
            thin = Tone(line_colour(user))
            for moment in own:
                sheet.box(scale.x(moment) - 1, y + 3, 2, BAR - 3, thin)
            for start in starts if user == worst else ():
                left, right = scale.x(start), scale.x(start + length)
                if right - left > 14:
                    sheet.box(left + 3, y + 3, right - left - 6, BAR - 3, Tone(BAD))
            y += LANE
        y += APART
    y -= 6
    for tick in scale.ticks:
        words = f"{tick * factor:g}"
        sheet.write(scale.x(tick), y, words, ha="center", color=sheet.look.quiet)
    sheet.write(SPAN, y, unit, ha="right", color=sheet.look.quiet)
    y += 24
    user = next(iter(next(iter(runs.values()))))
    names = " and ".join(dict.fromkeys(drawn))
    signs = [
        (Tone(line_colour(user)), "a token"),
        (Tone(BAD), f"the longest pause, drawn for {names}"),
    ]
    signs += [(free(), "waits for the first token")] * bool(arrivals)
    sheet.legend(0, y, signs)
    return render(sheet.finish(y + 10))


def _longest_pauses(moments: Sequence[float]) -> tuple[float, list[float]]:
    """Between two tokens: how long, and when each one that is as long begins."""
    pauses = [(after - before, before) for before, after in pairwise(moments)]
    longest = max((length for length, _ in pauses), default=0.0)
    return longest, [at for length, at in pauses if length > 0.999 * longest > 0]
