"""Lab: many launches in rows, by what each is short of; a dot for each."""

import statistics
from collections.abc import Mapping, Sequence

from minipaged.draw.palette import line_colour
from minipaged.draw.picture import Picture
from minipaged.draw.tones import Sign
from minipaged.lab.plots.render import Figure, render

FAST = 80.0  # percent of the best


def plot_sieve(speeds: Mapping[str, Sequence[float]], title: str) -> Figure:
    """A row for each group, a dot for each launch: its speed, in % of the best.

    Up and down says nothing: dots are spread so that each can be seen. The longer line
    is the median. At the right, how many are to the right of FAST.
    """
    picture = Picture(title)
    picture.heads(f"{FAST:.0f} % or more")
    for name, values in speeds.items():
        many = f"{len(values):,} launch" + "es" * (len(values) != 1)
        share = sum(value >= FAST for value in values) / len(values)
        lane = picture.lane(name, many, values=(f"{share:.0%}",), height=52.0)
        lane.dots(values, Sign("o", line_colour(0), 3.2), are_many=True)
        lane.line(statistics.median(values))
    said = "speed, in % of the best launch of its batch; line: median"
    picture.axis(said, highest=100.0)
    return render(picture.scene())
