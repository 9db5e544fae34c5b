"""Lab: when users get their tokens, and how long they pause."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from minipaged.draw.palette import BAD, line_colour
from minipaged.draw.picture import Picture
from minipaged.draw.tones import Tone, free
from minipaged.lab.plots.render import Figure, render


def plot_token_times(
    runs: Mapping[str, Mapping[str, Sequence[float]]],
    title: str,
    arrivals: Mapping[str, float] | None = None,
) -> Figure:
    """A panel for each run, a lane for each user: when she gets her tokens.

    runs: the moments of each user's tokens, by run, in seconds. The longest pause
    between two tokens of one user is marked, and each of her pauses that is as long.
    arrivals: when users come who then wait for their first token.
    """
    picture, drawn = Picture(title), []
    air = 0.005 * max(own[-1] for one in runs.values() for own in one.values())
    for name, users in runs.items():
        pauses = {user: _longest_pauses(own) for user, own in users.items()}
        worst = max(pauses, key=lambda user: pauses[user][0])
        length, starts = pauses[worst]
        drawn.append(worst)
        said = f"{length:,.0f}" if length >= 100 else f"{round(length, 3):.3g}"
        times = f", {len(starts)} times" if len(starts) > 1 else ""
        picture.headline(name, verdict=f"longest pause: {said} seconds{times}")
        for user, own in users.items():
            lane = picture.lane(user, is_bold=True, height=20.0)
            if user in (arrivals or {}):
                lane.bar(arrivals[user], own[0], free(), "waits")
            for start in starts if user == worst and length > 3 * air else ():
                lane.bar(start + air, start + length - air, Tone(BAD))
            for moment in own:
                lane.line(moment, line_colour(user), 1.4, reach=0)
    picture.axis("seconds")
    user = next(iter(next(iter(runs.values()))))
    names = " and ".join(dict.fromkeys(drawn))
    signs = [
        (Tone(line_colour(user)), "a token"),
        (Tone(BAD), f"the longest pause, drawn for {names}"),
    ]
    signs += [(free(), "waits for the first token")] * bool(arrivals)
    picture.legend(*signs)
    return render(picture.scene())


def _longest_pauses(moments: Sequence[float]) -> tuple[float, list[float]]:
    """Between two tokens: how long, and when each one that is as long begins."""
    pauses = [(after - before, before) for before, after in pairwise(moments)]
    longest = max((length for length, _ in pauses), default=0.0)
    return longest, [at for length, at in pauses if length > 0.999 * longest > 0]
