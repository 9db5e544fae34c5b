"""Lab: a sum that is spread over threads, beside one that a matrix unit builds."""

from collections.abc import Mapping

from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch

from minipaged.lab.plots.palette import BAD, GOOD
from minipaged.lab.plots.signs import PART, SPAN, Sheet, counted, width_of
from minipaged.lab.plots.tones import behind_words, soft, strong

NUMBERS = 3, 1, 4, 1, 5, 9, 2, 6  # invented: the sum of each thread's products
THREADS, THREADS_WIDTH = 118.0, 356.0  # pixels: where the threads begin; of all
TOP, BOX, GAP, STEEP = 74.0, 24.0, 35.0, 5.0  # above the boxes; of one; between rows
VERDICT = 27.0  # pixels above what a panel says of its exchanges
PANEL, UNIT, UNIT_WIDTH = 528.0, 616.0, SPAN - 616.0  # the right panel; the unit
LONG, THICK = 58.0, 16.0  # pixels of a query and a key, along and across
IN_LINE, LINE = 4, 17.0  # numbers in a line of the unit, and pixels to the next
WARP = 32  # threads
STRIP, STRIP_STEP, APART = 16.0, 54.0, 10.0  # of a strip; to the next; between warps
BAR, BAR_STEP = 18.0, 27.0  # pixels of a bar, and from one to the next


def plot_exchanges(
    counts: Mapping[str, tuple[int, int]],
    title: str,
    num_threads: int = 8,
    dim: int = 128,
    spread: Mapping[str, int] | None = None,
) -> Figure:
    """A logit by threads, which exchange their sums, and by a matrix unit; then counts.

    At the left, a row of boxes is what the threads hold. Between two rows each thread
    adds what its partner holds: a thread next to it, then one two apart, then four.
    Heavy lines lead to the first thread's logit, thin ones to those of the others. At
    the right, a unit sums the same numbers inside itself. The numbers are invented.

    This is an example. Below it are strips that show which threads hold the products
    of a real logit: a box is a thread, and warps stand apart. Then a bar for each
    count of exchanges in the code for one tile: those for its logits, and the others.

    counts: both, by what needs them. num_threads: 4, 8 or 16. dim: products of
    a logit, of which each thread has equally many. spread: threads that share a logit,
    by what has it so.
    """
    if num_threads not in (4, 8, 16) or dim % num_threads:
        said = f"{dim} products, {num_threads} threads"
        raise ValueError(f"{said}; choose 4, 8 or 16 that divide the products")
    spread = spread or {}
    for name, shared_by in spread.items():
        if shared_by < 2 or shared_by.bit_count() > 1 or dim % shared_by:
            said = f"{name}: {shared_by} threads, {dim} products"
            raise ValueError(f"{said}; choose 2, 4, 8, ... that divide the products")
    sheet, rows = Sheet(title), sums_by_round(num_threads)
    tops = _tops(len(rows))
    _draw_threads(sheet, rows, tops, dim // num_threads)
    _draw_unit(sheet, rows, tops[-1], dim)
    x, bottom = (THREADS + THREADS_WIDTH + PANEL) / 2, tops[-1] + BOX
    sheet.line((x, 0), (x, bottom), alpha=0.5)
    bottom = _draw_spread(sheet, bottom + 36, spread, dim) if spread else bottom + 36
    sheet.finish(_draw_counts(sheet, bottom, counts))
    return sheet.figure


def sums_by_round(num_threads: int) -> list[list[int]]:
    """What each thread holds: at first, and after each exchange."""
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
    width = THREADS_WIDTH / count
    sheet.write(0, 8, f"By threads: a smaller example, {count} threads", PART)
    said = f"{counted(last, 'exchange')} for a logit"
    sheet.write(0, VERDICT, said, PART, color=BAD)
    sheet.write(0, TOP - 16, "thread", color=sheet.look.quiet)
    sheet.write(0, TOP + BOX / 2, f"sums {counted(products, 'product')}")
    for thread in range(count):
        style = {"ha": "center", "color": sheet.look.quiet}
        sheet.write(_middle(thread, count), TOP - 16, str(thread), **style)
    for number in range(last):
        top, below = tops[number] + BOX, tops[number + 1]
        _draw_exchange(sheet, (top, below), 2**number, count)
        remark = f"{2**number} apart"
        sheet.label(top, below - top, f"exchange {number + 1}", remark)
    for number, (held, y) in enumerate(zip(rows, tops, strict=True)):
        tone, gap = strong(0) if number == last else soft(0), min(4.0, width / 10)
        for thread, total in enumerate(held):
            x = _middle(thread, count) - width / 2 + gap
            sheet.cells(x, y, [width - 2 * gap], BOX, [tone], [str(total)])
    sheet.write(0, tops[-1] + BOX / 2, "the logit", PART)


def _draw_exchange(
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
        arrow = {"arrowstyle": "-|>", "mutation_scale": head, "shrinkA": 0}
        line = FancyArrowPatch(start, end, **arrow, shrinkB=0, **style)
        sheet.axes.add_artist(line)


def _draw_unit(sheet: Sheet, rows: list[list[int]], y: float, dim: int) -> None:
    """A query and a key go in, their logit comes out; y: the top of the last row."""
    quiet, middle = {"color": sheet.look.quiet}, UNIT + UNIT_WIDTH / 2
    sheet.write(PANEL, 8, "By a matrix unit", PART)
    sheet.write(PANEL, VERDICT, "no exchange for a logit", PART, color=GOOD)
    top, bottom = TOP - 22 + LONG + 22, y - 26
    level = (top + bottom) / 2
    sheet.box(middle - THICK / 2, TOP - 22, THICK, LONG, soft(0), sheet.look.rim)
    sheet.write(middle - THICK / 2 - 8, TOP - 22 + LONG / 2, "a key", ha="right")
    sheet.box(PANEL, level - THICK / 2, LONG, THICK, soft(0), sheet.look.rim)
    sheet.write(PANEL, level - THICK - 4, "a query")
    sheet.write(PANEL, level + THICK + 4, f"{dim} numbers", **quiet)
    for start, end in (
        ((middle, TOP - 20 + LONG), (middle, top - 1)),
        ((PANEL + LONG + 2, level), (UNIT - 1, level)),
        ((middle, bottom + 1), (middle, y - 1)),
    ):
        is_upright = start[0] == end[0]
        sheet.arrow(start, end, is_followed=True, is_upright=is_upright)
    sheet.box(UNIT, top, UNIT_WIDTH, bottom - top, rim=sheet.look.ink, linewidth=1.6)
    lines = _lines_of_sum(rows[0])
    first = level - LINE * len(lines) / 2
    sheet.write(middle, first, "the sum, inside:", ha="center", **quiet)
    for number, said in enumerate(lines):
        sheet.write(middle, first + LINE * (number + 1), said, ha="center")
    (total,) = set(rows[-1])
    width = THREADS_WIDTH / 8 - 8
    sheet.cells(middle - width / 2, y, [width], BOX, [strong(0)], [str(total)])
    sheet.write(PANEL, y + BOX / 2, "the logit", PART)


def _lines_of_sum(numbers: list[int]) -> list[str]:
    """The sum as it is written, a few numbers in a line."""
    starts = range(0, len(numbers), IN_LINE)
    lines = [" + ".join(map(str, numbers[at : at + IN_LINE])) for at in starts]
    return [lines[0], *(f"+ {line}" for line in lines[1:])]


def _draw_spread(sheet: Sheet, y: float, spread: Mapping[str, int], dim: int) -> float:
    """A strip of all threads that share a logit, for each; where the next part begins.

    All strips are equally long, as they are of equally many products.
    """
    said = f"Who holds the {dim} products of a logit"
    sheet.write(0, y, said, PART)
    beside = width_of(said, PART) + 12
    sheet.write(beside, y, "a box is a thread", color=sheet.look.quiet)
    y += 25
    for name, num_threads in spread.items():
        who, then = _said_of(num_threads, dim)
        sheet.headline(y, name, who, then, BAD)
        num_warps = -(-num_threads // WARP)
        room = SPAN - APART * (num_warps - 1)
        gap = min(4.0, room / num_threads / 3)
        step = (room + gap) / num_threads
        for thread in range(num_threads):
            x = thread * step + thread // WARP * APART
            sheet.box(x, y + 13, step - gap, STRIP, behind_words(soft(0)))
        y += STRIP_STEP
    return y + 8


def _said_of(num_threads: int, dim: int) -> tuple[str, str]:
    """What threads that share a logit hold, and the exchanges that this needs."""
    num_warps, products = num_threads // WARP, dim // num_threads
    hold = f"hold {products if products > 1 else 'one'} each"
    if num_warps <= 1:
        who = f"{counted(num_threads, 'thread')} {hold}"
        return who, counted(num_threads.bit_length() - 1, "exchange")
    who = f"{num_threads} threads, in {num_warps} warps, {hold}"
    in_warp = counted(WARP.bit_length() - 1, "exchange")
    return who, f"{in_warp} in each warp, then between the warps"


def _draw_counts(
    sheet: Sheet, y: float, counts: Mapping[str, tuple[int, int]]
) -> float:
    """A bar for each of them, in two parts; where the legend below them ends."""
    said = "Exchanges in the code for one tile"
    remark = "one: all threads of a warp at once, as between two rows of the example"
    sheet.write(0, y, said, PART)
    sheet.write(width_of(said, PART) + 12, y, remark, color=sheet.look.quiet)
    left, most = max(map(width_of, counts)) + 14, max(1, *map(sum, counts.values()))
    longest = SPAN - left - width_of(f"{most:,}", PART, bold=True) - 8
    tones, y = [strong(0), soft(0)], y + 18
    for name, parts in counts.items():
        sheet.write(0, y + BAR / 2, name)
        x = left
        for part, tone in zip(parts, tones, strict=True):
            sheet.box(x, y, longest * part / most, BAR, tone)
            x += longest * part / most
        words = f"{sum(parts):,}"
        sheet.write(x + 8, y + BAR / 2, words, PART, weight="bold")
        y += BAR_STEP
    signs = zip(tones, ("for logits", "for the rest of the step"), strict=True)
    sheet.legend(0, y + 8, list(signs))
    return y + 16
