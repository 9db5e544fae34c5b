"""Lab: which numbers a type has, as lines on an axis."""

from collections.abc import Mapping, Sequence

from minipaged.draw.picture import Picture
from minipaged.lab.plots.render import Figure, render


def plot_number_line(
    types: Mapping[str, Sequence[float]], highest: float, title: str
) -> Figure:
    """A lane for each type, an upright line at each of its numbers from 0 to `highest`.

    A triangle points to its last number, if the axis has it.
    """
    picture = Picture(title)
    for name, numbers in types.items():
        seen = [number for number in numbers if 0 <= number <= highest]
        lane = picture.lane(name, f"{len(seen)} numbers here")
        for number in seen:
            lane.line(number, linewidth=1.0, reach=0.0)
        if (last := max(numbers)) <= highest:
            lane.point(last, f"the last: {last:g}")
    picture.axis("numbers", highest=highest)
    return render(picture.scene())
