"""Lab: threads of a warp that hand each other their sums."""

from matplotlib.figure import Figure

from minipaged.draw.letters import PART, counted
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import soft, strong
from minipaged.lab.plots.render import render

NUMBERS = 3, 1, 4, 1, 5, 9, 2, 6  # invented: the sum of each thread's products
THREADS, THREADS_WIDTH = 118.0, SPAN - 118.0  # pixels: where the threads begin; of all
TOP, BOX, WIDEST = 62.0, 24.0, 46.0  # above the boxes; of a box: high, and wide at most
GAP, STEEP = 36.0, 9.0  # from a row to the next, and how much more after each


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
    sheet, rows = Sheet(title), sums_by_round(num_threads)
    tops = _tops(len(rows))
    _draw_threads(sheet, rows, tops, dim // num_threads)
    return render(sheet.finish(tops[-1] + BOX))


def sums_by_round(num_threads: int) -> list[list[int]]:
    """What each thread holds: at first, and after each shuffle."""
    rows = [[NUMBERS[thread % len(NUMBERS)] for thread in range(num_threads)]]
    apart = 1
    while apart < num_threads:
        held = rows[-1]
        rows.append([held[at] + held[at ^ apart] for at in range(num_threads)])
        apart *= 2
    return rows


def _tops(num_rows: int) -> list[float]:
    """The upper edges of the rows of boxes; farther apart where arrows reach far."""
    tops = [TOP]
    for number in range(num_rows - 1):
        tops.append(tops[-1] + BOX + GAP + STEEP * number)
    return tops


def _middle(thread: int, count: int) -> float:
    """Of the boxes of a thread, from the left."""
    return THREADS + (thread + 0.5) * THREADS_WIDTH / count


def _draw_threads(
    sheet: Sheet, rows: list[list[int]], tops: list[float], products: int
) -> None:
    """Arrows, over them the boxes; what a row is, at its left."""
    count, last = len(rows[0]), len(rows) - 1
    width = min(WIDEST, 0.8 * THREADS_WIDTH / count)
    sheet.write(0, 8, f"{count} threads share a sum", PART)
    sheet.write(SPAN, 8, counted(last, "shuffle"), PART, ha="right")
    sheet.write(0, TOP - 16, "thread", color=sheet.look.quiet)
    said = f"sum of {products}" if products > 1 else "a product"
    sheet.write(0, TOP + BOX / 2, said)
    for thread in range(count):
        style = {"ha": "center", "color": sheet.look.quiet}
        sheet.write(_middle(thread, count), TOP - 16, str(thread), **style)
    for number in range(last):
        top, below = tops[number] + BOX, tops[number + 1]
        _draw_shuffle(sheet, (top, below), 2**number, count)
        remark = f"{2**number} apart"
        sheet.label(top, below - top, f"shuffle {number + 1}", remark)
    for number, (held, y) in enumerate(zip(rows, tops, strict=True)):
        tone = strong(0) if number == last else soft(0)
        for thread, total in enumerate(held):
            x = _middle(thread, count) - width / 2
            sheet.cells(x, y, [width], BOX, [tone], [str(total)])
    sheet.write(0, tops[-1] + BOX / 2, "the sum", PART)


def _draw_shuffle(
    sheet: Sheet, ends: tuple[float, float], apart: int, count: int
) -> None:
    """Each thread keeps what it holds, and takes what its partner holds."""
    (top, below), side = ends, min(8.0, THREADS_WIDTH / count / 6)
    look = sheet.look
    thin = {"linewidth": 0.8, "color": look.rim, "alpha": 0.7}, 7
    heavy = {"linewidth": 2.0, "color": look.ink}, 11
    # The heavy ones, which the first thread needs, lie over the thin ones.
    for thread in sorted(range(count), key=lambda thread: thread % (2 * apart) == 0):
        style, head = heavy if thread % (2 * apart) == 0 else thin
        x, partner = _middle(thread, count), thread ^ apart
        sheet.line((x, top), (x, below), **style)
        start = _middle(partner, count), top
        end = x + (side if partner > thread else -side), below
        sheet.line(start, end, head=head, layer=1, **style)
