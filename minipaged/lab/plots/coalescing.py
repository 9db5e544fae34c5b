"""Lab: the numbers that a warp reads, and the stretches in which memory gives them."""

from collections.abc import Mapping, Sequence

from minipaged.draw.palette import BAD, GOOD, line_colour
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import free, soft, strong
from minipaged.lab.plots.render import Figure, render

THREADS, NUMBER, STRETCH = 32, 4, 64  # of a warp; bytes of each, and of a stretch
LEAST = 0.1  # of a stretch: how wide a number that lies alone is drawn
HEIGHT = 24.0  # pixels of a row


def plot_coalescing(apart: Mapping[str, int], title: str) -> Figure:
    """A panel for each way to read: threads above, below them stretches of memory.

    An arrow leads from the threads that read the same stretch to this stretch, which
    comes as a whole. What a thread has asked for is strong, the rest of the
    stretch comes in vain. All panels show as much memory, at one scale.

    apart: by name, how many bytes lie from one thread's number to the next one's.
    """
    picture = Picture(title)
    num_stretches = -(-THREADS * max(*apart.values(), NUMBER) // STRETCH)
    for name, distance in apart.items():
        readers: dict[int, list[int]] = {}  # by stretch, the threads that read there
        for thread in range(THREADS):
            readers.setdefault(thread * distance // STRETCH, []).append(thread)
        used, moved = NUMBER * THREADS, len(readers) * STRETCH
        said = f"{len(readers)} stretches: {used:,} of {moved:,} bytes are used"
        picture.headline(name, "", said, GOOD if used == moved else BAD)
        cells = [Cell(str(thread), soft(0)) for thread in range(THREADS)]
        style = {"fills": True, "height": HEIGHT}
        warp = picture.row("a warp", f"{THREADS} threads", cells, **style)
        step = distance / STRETCH
        number = max(NUMBER / STRETCH, min(LEAST, step / 2))
        stretches = []
        for stretch in range(num_stretches):
            starts = [n * step - stretch for n in readers.get(stretch, ())]
            stretches.append(_stretch(starts, number))
        style |= {"gap": 2.0, "rim": "none"}
        remark = f"{STRETCH} bytes each"
        memory = picture.blocks("memory", remark, stretches, **style)
        for stretch, threads in readers.items():
            read = warp[threads[0] : threads[-1] + 1]
            picture.under(read, "", line_colour(0))
            picture.link(read, memory.block(stretch), line_colour(0))
    signs = [(strong(0), "what a thread has asked for")]
    signs += [(soft(0), "comes with it, in vain"), (free(), "a stretch that stays")]
    picture.legend(*signs)
    return render(picture.scene())


def _stretch(starts: Sequence[float], number: float) -> list[Cell]:
    """The numbers that threads have asked for, and between them the rest."""
    if not starts:
        return [Cell("", free())]
    cells, end = [], 0.0
    for start in starts:
        cells += [Cell("", soft(0), start - end), Cell("", strong(0), number)]
        end = start + number
    return [cell for cell in [*cells, Cell("", soft(0), 1 - end)] if cell.wide > 1e-9]
