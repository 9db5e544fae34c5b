"""Lab: which numbers a type has, as lines on an axis; and where tensors lie there."""

from collections.abc import Mapping, Sequence
from fractions import Fraction

from minipaged.draw.picture import Picture
from minipaged.draw.tones import sign_of
from minipaged.lab.plots.render import Figure, render


def plot_number_line(
    types: Mapping[str, Sequence[float]],
    title: str,
    tensors: Mapping[str, Sequence[float]] | None = None,
    marks: Sequence[float] = (),
    hues: Sequence[int] = (),
) -> Figure:
    """A lane for each type, an upright line at each of its numbers above 0.

    Each doubling takes as much room as the next. Triangles point to the smallest and to
    the largest number, or lines through all lanes stand at `marks`. tensors: a lane for
    each, a faint dot for each number that is not 0, whatever its sign. hues: of these
    lanes, for example (0, 1, 0) if the first and the third have one; else each its own.
    """
    picture = Picture(title)
    for name, numbers in types.items():
        seen = [number for number in numbers if number > 0]
        lane = picture.lane(name)
        for number in seen:
            lane.line(number, linewidth=1.0, reach=0.0)
        if not marks:
            lane.point(min(seen), _word(min(seen)))
            lane.point(max(seen), _word(max(seen)))
    for number, (name, numbers) in enumerate((tensors or {}).items()):
        sizes = [abs(size) for size in numbers if size]
        sign = sign_of(hues[number] if hues else number)
        picture.lane(name).dots(sizes, sign, are_many=True)
    words = "numbers above 0" if not tensors else "numbers, without their signs"
    picture.axis(
        f"{words}; all doublings have the same width",
        is_logarithmic=True,
        marks={mark: _word(mark) for mark in marks},
        ticks=() if marks else None,
    )
    return render(picture.scene())


def _word(number: float) -> str:
    """Small powers of two as fractions: 1/64."""
    return str(Fraction(number)) if number < 1 else f"{number:g}"
