"""Lab: threads of a warp that hand each other their sums."""

from minipaged.draw.letters import counted
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import soft, strong
from minipaged.lab.plots.render import Figure, render

NUMBERS = 3, 1, 4, 1, 5, 9, 2, 6  # invented: the sum of each thread's products


def plot_shuffles(title: str, num_threads: int = 8, dim: int = 128) -> Figure:
    """A few threads share a sum, and hand each other their parts in shuffles.

    A row of boxes is what the threads hold. Between two rows each thread adds what its
    partner holds: a thread next to it, then one two apart, then four. Heavy arrows lead
    to the first thread's sum, thin ones to those of the others. The numbers are
    invented.

    num_threads: 4, 8 or 16. dim: products that are summed, of which each thread has
    equally many.
    """
    if num_threads not in (4, 8, 16) or dim % num_threads:
        said = f"{dim} products, {num_threads} threads"
        raise ValueError(f"{said}; choose 4, 8 or 16 that divide the products")
    picture, rounds = Picture(title), sums_by_round(num_threads)
    verdict = counted(len(rounds) - 1, "shuffle")
    picture.headline(f"{num_threads} threads share a sum", verdict=verdict)
    products, rows = dim // num_threads, []
    each = f"sum of {products}" if products > 1 else "a product"
    for number, held in enumerate(rounds):
        apart, is_last = 2 ** (number - 1), number == len(rounds) - 1
        words = f"shuffle {number}" + ": the sum" * is_last, f"{apart} apart"
        tone = strong(0) if is_last else soft(0)
        cells = [Cell(str(total), tone) for total in held]
        if not number:
            words = "thread", each
            cells = [cell._replace(above=str(n)) for n, cell in enumerate(cells)]
        rows.append(picture.row(*words, cells, gap=20.0, fills=True))
        for thread in range(num_threads) if number else ():
            is_followed = thread % (2 * apart) == 0
            for source in (thread, thread ^ apart):
                style = {"is_followed": is_followed, "is_straight": True}
                picture.link(rows[-2][source], rows[-1][thread], **style)
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
