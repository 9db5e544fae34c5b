"""Lab: a sum that threads exchange, and sums that a matrix unit makes inside itself."""

from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch

from minipaged.lab.plots.palette import BAD, GOOD
from minipaged.lab.plots.signs import PART, SPAN, Point, Sheet, counted, width_of
from minipaged.lab.plots.tones import free, soft, strong

NUMBERS = 3, 1, 4, 1, 5, 9, 2, 6  # invented: the sum of each thread's products
THREADS, THREADS_WIDTH = 118.0, SPAN - 118.0  # pixels: where the threads begin; of all
TOP, BOX, WIDEST = 62.0, 24.0, 46.0  # above the boxes; of a box: high, and wide at most
GAP, STEEP = 36.0, 9.0  # from a row to the next, and how much more after each
UNIT_ROWS = 16  # of each matrix that a unit multiplies; columns of the other
QUERY, KEY = 1, 11  # the row and the column whose logit is marked
LONG, PITCH = 128.0, 6.0  # pixels: along a query or a key; from one to the next
WIDE = PITCH * UNIT_ROWS  # pixels of all queries, or of all keys
MIDDLE = 92.0  # how high the middle of all matrices lies
QUERIES, KEYS, UNIT, LOGITS = 0.0, 186.0, 367.0, SPAN - WIDE  # where they begin
UNIT_WIDTH, UNIT_HEIGHT = 198.0, 76.0


def plot_exchanges(title: str, num_threads: int = 8, dim: int = 128) -> Figure:
    """A few threads share a logit, and hand each other their sums.

    A row of boxes is what the threads hold. Between two rows each thread adds what its
    partner holds: a thread next to it, then one two apart, then four. Heavy lines lead
    to the first thread's logit, thin ones to those of the others. The numbers are
    invented.

    num_threads: 4, 8 or 16. dim: products of a logit, of which each thread has equally
    many.
    """
    if num_threads not in (4, 8, 16) or dim % num_threads:
        said = f"{dim} products, {num_threads} threads"
        raise ValueError(f"{said}; choose 4, 8 or 16 that divide the products")
    sheet, rows = Sheet(title), sums_by_round(num_threads)
    tops = _tops(len(rows))
    _draw_threads(sheet, rows, tops, dim // num_threads)
    sheet.finish(tops[-1] + BOX)
    return sheet.figure


def plot_unit(title: str, dim: int = 128, group: int = UNIT_ROWS) -> Figure:
    """Queries and keys go into a matrix unit, and all their logits come out.

    A row of queries and a column of keys are filled, and so is their logit. The unit
    makes the products and sums them, so threads exchange nothing.

    dim: numbers in a query, and in a key. group: queries that there are; the other rows
    are empty.
    """
    sheet, shape = Sheet(title), (UNIT_ROWS, dim)
    corner = QUERIES, MIDDLE - WIDE / 2
    _draw_matrix(sheet, "queries", shape, corner, row=QUERY, filled=group)
    _draw_matrix(sheet, "keys", shape[::-1], (KEYS, MIDDLE - LONG / 2), column=KEY)
    corner, shape = (LOGITS, MIDDLE - WIDE / 2), (UNIT_ROWS, UNIT_ROWS)
    _draw_matrix(sheet, "logits", shape, corner, QUERY, KEY, filled=group)
    between, below = (QUERIES + LONG + KEYS) / 2, MIDDLE + WIDE / 2 + 11
    sheet.write(between, MIDDLE, "×", 13, ha="center")
    sheet.legend(QUERIES, below, [(strong(0), f"a query: {dim} numbers")])
    sheet.legend(KEYS + WIDE + 9, below, [(strong(0), "a key")])
    sheet.legend(LOGITS, below, [(strong(0), "their logit")])
    if empty := UNIT_ROWS - group:
        sheet.legend(UNIT, below, [(free(), f"{empty} rows that no head needs")])
    _draw_unit(sheet, dim)
    sheet.finish(MIDDLE + LONG / 2 + 4)
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
    width = min(WIDEST, 0.8 * THREADS_WIDTH / count)
    sheet.write(0, 8, f"{count} threads share a logit", PART)
    said = f"{counted(last, 'exchange')} for a logit"
    sheet.write(SPAN, 8, said, PART, ha="right", color=BAD)
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
        tone = strong(0) if number == last else soft(0)
        for thread, total in enumerate(held):
            x = _middle(thread, count) - width / 2
            sheet.cells(x, y, [width], BOX, [tone], [str(total)])
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


def _draw_matrix(
    sheet: Sheet,
    name: str,
    shape: tuple[int, int],
    corner: Point,
    row: int | None = None,
    column: int | None = None,
    filled: int = UNIT_ROWS,
) -> None:
    """Its rows, its columns, or its numbers as boxes, and above it name and shape.

    row, column: which box is marked. Without a column, boxes are whole rows; without a
    row, whole columns. filled: rows that are not empty.
    """
    (left, top), num_rows = corner, 1 if row is None else UNIT_ROWS
    num_columns = 1 if column is None else UNIT_ROWS
    width = PITCH if column is not None else LONG
    height = PITCH if row is not None else LONG
    for at in range(num_rows * num_columns):
        y, x = divmod(at, num_columns)
        is_marked = (y, x) == (row or 0, column or 0)
        area = left + x * width, top + y * height, width - 1, height - 1
        tone = strong(0) if is_marked else soft(0)
        sheet.box(*area, tone if y < filled else free())
    said, x = str(list(shape)), left + num_columns * width / 2
    wide = width_of(name, PART) + 7 + width_of(said)
    sheet.write(x - wide / 2, 10, name, PART)
    sheet.write(x + wide / 2, 10, said, ha="right", color=sheet.look.quiet)


def _draw_unit(sheet: Sheet, dim: int) -> None:
    """What it does, and does not; an arrow leads in, and one out."""
    for left, right in ((KEYS + WIDE, UNIT), (UNIT + UNIT_WIDTH, LOGITS)):
        sheet.arrow((left + 8, MIDDLE), (right - 6, MIDDLE), is_followed=True)
    top, style = MIDDLE - UNIT_HEIGHT / 2, {"ha": "center"}
    x, said = UNIT + UNIT_WIDTH / 2, "no exchange between threads"
    sheet.box(UNIT, top, UNIT_WIDTH, UNIT_HEIGHT, rim=sheet.look.ink, linewidth=1.6)
    sheet.write(x, MIDDLE - 20, "a matrix unit", PART, weight="bold", **style)
    sheet.write(x, MIDDLE + 2, f"for each logit {dim} products,", **style)
    sheet.write(x, MIDDLE + 19, "summed inside", **style)
    sheet.write(x, top - 17, said, PART, color=GOOD, **style)
