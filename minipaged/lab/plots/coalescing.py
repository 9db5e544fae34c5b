"""Lab: the numbers that a warp reads, and the stretches in which memory gives them."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from minipaged.draw.palette import BAD, GOOD, line_colour
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import free, soft, strong
from minipaged.lab.plots.render import render

NUMBER = 4  # bytes that a thread reads
LEAST = 0.15  # of a stretch: a number that lies alone is drawn as wide


def plot_coalescing(
    apart: Mapping[str, int],
    title: str,
    stretch_bytes: int = 64,
    num_threads: int = 32,
) -> Figure:
    """A panel for each way to read: threads above, below them stretches of memory.

    An arrow leads from the threads that read the same stretch to this stretch, which
    comes as a whole. What a thread has asked for is strong, the rest of the
    stretch comes in vain. All panels show as much memory, at one scale.

    apart: by name, how many bytes lie from one thread's number to the next one's.
    """
    picture = Picture(title)
    num_stretches = -(-num_threads * max(*apart.values(), NUMBER) // stretch_bytes)
    for name, distance in apart.items():
        readers: dict[int, list[int]] = {}
        for thread in range(num_threads):
            readers.setdefault(thread * distance // stretch_bytes, []).append(thread)
        used, moved = NUMBER * num_threads, len(readers) * stretch_bytes
        said = f"{len(readers)} stretches: {used:,} of {moved:,} bytes are used"
        picture.headline(name, "", said, GOOD if used == moved else BAD)
        cells = [Cell(str(thread), soft(0)) for thread in range(num_threads)]
        warp = picture.row("a warp", f"{num_threads} threads", cells, fills=True)
        memory = picture.lane("memory", f"{stretch_bytes} bytes each", fills=True)
        number = max(NUMBER / stretch_bytes, min(LEAST, distance / stretch_bytes / 2))
        first = []  # of the cells of each stretch
        for stretch in range(num_stretches):
            first.append(len(memory.cells))
            end = stretch
            for thread in readers.get(stretch, ()):
                start = thread * distance / stretch_bytes
                memory.bar(end, start, soft(0))
                memory.bar(start, end := start + number, strong(0))
            memory.bar(end, stretch + 1, soft(0) if stretch in readers else free())
        first.append(len(memory.cells))
        for stretch, threads in readers.items():
            read = warp[threads[0] : threads[-1] + 1]
            picture.under(read, "", line_colour(0))
            whole = memory[first[stretch] : first[stretch + 1]]
            picture.link(read, whole, line_colour(0))
    signs = [(strong(0), "what a thread has asked for")]
    signs += [(soft(0), "comes with it, in vain"), (free(), "a stretch that stays")]
    picture.legend(*signs)
    return render(picture.scene())
