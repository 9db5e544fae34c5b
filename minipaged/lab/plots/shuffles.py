"""Lab: threads of a warp that hand each other their sums."""

from matplotlib.figure import Figure

from minipaged.draw.letters import counted
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import soft, strong
from minipaged.lab.plots.render import render

NUMBERS = 3, 1, 4, 1, 5, 9, 2, 6  # invented: the sum of each thread's products


def plot_shuffles(title: str, num_threads: int = 8, dim: int = 128) -> Figure:
    """A few threads share a sum, and hand each other their parts in shuffles.

    A row of boxes is what the threads hold. Between two rows each thread adds what its
    partner holds: a thread next to it, then one two apart, then four. Heavy lines lead
    to the first thread's sum, thin ones to those of the others. The numbers are
    invented.

    num_threads: 4, 8 or 16. dim: products that are summed, of which each thread has
    equally many.
    """
    if num_threads not in (4, 8, 16) or dim % num_threads:
        said = f"{dim} products, {num_threads} threads"
        raise ValueError(f"{said}; choose 4, 8 or 16 that divide the products")
    picture, rows = Picture(title), sums_by_round(num_threads)
    shuffles = len(rows) - 1
    what = f"{num_threads} threads share a sum"
    picture.headline(what, verdict=counted(shuffles, "shuffle"))
    products = dim // num_threads
    each = f"sum of {products}" if products > 1 else "a product"
    above = None
    for number, held in enumerate(rows):
        apart, is_last = 2 ** (number - 1), number == shuffles
        tone = strong(0) if is_last else soft(0)
        name = f"shuffle {number}" + ": the sum" * is_last
        cells = [Cell(str(total), tone) for total in held]
        if not number:
            cells = [cell._replace(above=str(n)) for n, cell in enumerate(cells)]
        label = (name, f"{apart} apart") if number else ("threads", each)
        row = picture.row(*label, cells, gap=24.0, fills=True)
        for thread in range(num_threads) if above else ():
            is_followed = thread % (2 * apart) == 0
            for source in (thread, thread ^ apart):
                picture.link(above[source], row[thread], is_followed=is_followed)
        above = row
    return render(picture.scene())


def sums_by_round(num_threads: int) -> list[list[int]]:
    """What each thread holds: at first, and after each shuffle."""
    rows = [[NUMBERS[thread % len(NUMBERS)] for thread in range(num_threads)]]
    apart = 1
    while apart < num_threads:
        held = rows[-1]
        rows.append([held[at] + held[at ^ apart] for at in range(num_threads)])
        apart *= 2
    return rows
