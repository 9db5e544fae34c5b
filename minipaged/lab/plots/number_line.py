"""Lab: which numbers a type has, as lines on an axis."""

from collections.abc import Mapping, Sequence
from fractions import Fraction

from minipaged.draw.picture import Picture
from minipaged.lab.plots.render import Figure, render


def plot_number_line(types: Mapping[str, Sequence[float]], title: str) -> Figure:
    """A lane for each type, an upright line at each of its numbers above 0.

    Each doubling takes as much room as the next. Triangles point to the smallest and to
    the largest number.
    """
    picture = Picture(title)
    for name, numbers in types.items():
        seen = [number for number in numbers if number > 0]
        lane = picture.lane(name)
        for number in seen:
            lane.line(number, linewidth=1.0, reach=0.0)
        lane.point(min(seen), str(Fraction(min(seen))))
        lane.point(max(seen), f"{max(seen):g}")
    picture.axis(
        "numbers above 0; all doublings have the same width", is_logarithmic=True
    )
    return render(picture.scene())
