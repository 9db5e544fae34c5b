"""Lab: probabilities side by side on a line, and the random number that draws one."""

from collections.abc import Sequence

from minipaged.draw.picture import Picture
from minipaged.draw.tones import soft, strong
from minipaged.lab.plots.render import Figure, render


def plot_drawn(shares: Sequence[float], number: float, title: str) -> Figure:
    """A line of length 1: each token has a part as long as it is probable.

    A triangle stands at the random number. The token that it draws is strong.
    """
    picture = Picture(title)
    line, start = picture.lane("token", "", is_bold=True), 0.0
    for token, share in enumerate(shares):
        stop = start + share
        tone = strong(token) if start <= number < stop else soft(token)
        line.bar(start, stop, tone, str(token))
        start = stop
    line.point(number, f"{number:g}")
    picture.axis("the probabilities so far, added up")
    return render(picture.scene())
