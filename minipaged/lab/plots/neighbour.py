"""Lab: a store without a mask, and the neighbour in memory whom it hits."""

from collections.abc import Sequence

from minipaged.draw.palette import BAD, line_colour, theme
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import NOTHING, Tone, soft, strong
from minipaged.lab.plots.render import Figure, render


def plot_neighbour(
    before: Sequence[float],
    after: Sequence[float],
    size: int,
    tile: int,
    title: str,
) -> Figure:
    """A memory before and after a launch; between them, where each program stores.

    The first `size` places are A's, for whom the kernel was launched; what follows is
    B's, the neighbour's. A place of B that has changed has a thick rim, above it stands
    which program reached it.

    before, after: [N] each. tile: the places of a program.
    """
    if len(before) != len(after):
        raise ValueError(f"{len(before)} places before, but {len(after)} after")
    first, second = "AB"
    hit = [n for n in range(size, len(before)) if before[n] != after[n]]
    programs = [range(n, n + tile) for n in range(0, size, tile)]
    tones = [
        strong(first) if n < size or n in hit else soft(second)
        for n in range(len(after))
    ]
    old = [soft(first if n < size else second) for n in range(len(before))]
    reached = [
        soft(first)._replace(line=BAD) if n >= size else soft(first)
        for n in range(programs[-1].stop)
    ]

    picture = Picture(title)
    memory = picture.row("before", "the memory", _cells(before, old), is_bold=True)
    place = picture.row(
        "place", "no mask", _cells(range(len(reached)), reached), is_bold=True
    )
    now = picture.row("after", "the memory", _cells(after, tones), is_bold=True)
    picture.over(memory[:size], f"{first}: {size} numbers", line_colour(first))
    picture.over(memory[size:], f"{second}: {len(before) - size}", line_colour(second))
    for number, (start, stop) in enumerate((p.start, p.stop) for p in programs):
        picture.over(place[start:stop], f"program {number}", "none")
        picture.frame(place[start:stop], theme().ink)
        picture.link(place[start : min(stop, size)], now[start : min(stop, size)])
        if stop > size:
            picture.link(place[size:stop], now[size:stop], BAD, is_followed=True)
    for at in hit:
        picture.frame(now[at], BAD)
    picture.legend(
        (strong(first), f"stored for {first}"),
        (NOTHING, f"stored over {second}'s", BAD),
        verdict=f"{len(hit)} of {second}'s {len(before) - size} numbers are lost",
        colour=BAD,
    )
    return render(picture.scene())


def _cells(numbers: Sequence[float], tones: Sequence[Tone]) -> list[Cell]:
    return [
        Cell(f"{number:g}", tone) for number, tone in zip(numbers, tones, strict=True)
    ]
