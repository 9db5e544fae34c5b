"""Lab: the shapes in one turn of the kernel's loop: what is multiplied by what."""

from typing import NamedTuple

from minipaged.draw.letters import COUNT, DPI, SMALL
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import KEPT, NOTHING, soft, strong
from minipaged.lab.plots.render import Figure, render

# How long an axis is drawn, in pixels: the same wherever it occurs.
ROWS, TILE, DIM = 96.0, 116.0, 160.0
VECTOR, THICK = 18.0, 9.0  # of a vector across; of the marked position
TOP, SPACE = 38.0, 36.0  # above K; between what stands above and what has rows
STEP = TOP + DIM + SPACE  # the upper edge of what is made of this tile, with its rows
KEYS, BEFORE = STEP - SPACE - TILE, STEP + ROWS + 54  # of K and V; of the row below
Q, LOGITS, MAXIMUM, WEIGHTS, WEIGHTED = 0.0, 184.0, 344.0, 404.0, 584.0
RESCALE, TIMES, ADDED = 432.0, 570.0, 724.0  # a vector; "×"; an arrow upwards
FORMULAS, LINE, REMARK = BEFORE + ROWS + 82, 20.0, 500.0  # below all; where remarks are
MONO = {"family": "monospace"}
LETTER = 0.602 * SMALL * DPI / 72  # pixels of a letter, all alike
NOT_DRAWN = "total"
STEPS = (  # what is made, how, and a remark
    ("logits", "tl.dot(q, tl.trans(k)) * scale", "each head with each position"),
    (
        "new_maximum",
        "tl.maximum(maximum, tl.max(logits, 1))",
        "axis 1: along a row, all positions",
    ),
    ("weights", "tl.exp2(logits - new_maximum[:, None])", "at most 1"),
    ("rescale", "tl.exp2(maximum - new_maximum)", "1 where the maximum stays"),
    (
        "weighted",
        "weighted * rescale[:, None] + tl.dot(weights, v)",
        "of all tiles so far",
    ),
    (NOT_DRAWN, "total * rescale + tl.sum(weights, 1)", "likewise, not drawn"),
)


class Shape(NamedTuple):
    """A matrix: where it lies, how large it is drawn, and how many numbers it has."""

    x: float
    y: float
    width: float
    height: float
    name: str
    shape: tuple[int, ...]
    is_old: bool = False  # of the tiles before

    @property
    def area(self) -> tuple[float, float, float, float]:
        """The upper left corner, the width, the height."""
        return self.x, self.y, self.width, self.height


def plot_step_shapes(group: int, rows: int, tile: int, dim: int, title: str) -> Figure:
    """One tile's logits, their maximum, its weights, and the weighted values.

    A product stands to the right of the one matrix and below the other, as on paper. An
    axis is equally long wherever it occurs. Filled is a query head, which is a row
    everywhere; framed is a position. The numbers are those of the formulas below.

    In the row below is what the tiles before have left. What they weighted is rescaled
    before this tile's is added: their maximum may have been lower. The total, which is
    rescaled alike, has a formula only.

    group: query heads of a KV head. rows: those of the matrices, as many as the matrix
    units want. tile: positions. dim: numbers in a head.
    """
    sheet, marked = Sheet(title), min(1, group - 1)
    k = Shape(Q, KEYS, DIM, TILE, "k", (tile, dim))
    k_trans = Shape(LOGITS, TOP, TILE, DIM, "tl.trans(k)", (dim, tile))
    v = Shape(WEIGHTED, KEYS, DIM, TILE, "v", (tile, dim))
    for part in (k, k_trans, v):
        sheet.box(*part.area, soft("A"), sheet.look.rim)
        _frame_position(sheet, part, is_column=part is k_trans)
        _write_name(sheet, part, part.y - 28)
    for part in (
        Shape(Q, STEP, DIM, ROWS, "q", (rows, dim)),
        Shape(LOGITS, STEP, TILE, ROWS, "logits", (rows, tile)),
        Shape(MAXIMUM, STEP, VECTOR, ROWS, "new_maximum", (rows,)),
        Shape(WEIGHTS, STEP, TILE, ROWS, "weights", (rows, tile)),
        Shape(WEIGHTED, STEP, DIM, ROWS, "weighted", (rows, dim)),
        Shape(MAXIMUM, BEFORE, VECTOR, ROWS, "maximum", (rows,), is_old=True),
        Shape(RESCALE, BEFORE, VECTOR, ROWS, "rescale", (rows,)),
        Shape(WEIGHTED, BEFORE, DIM, ROWS, "weighted", (rows, dim), is_old=True),
    ):
        _draw_rows(sheet, part, group, marked)
        # Below new_maximum, an arrow comes from the one before.
        is_below = part.name != "new_maximum"
        _write_name(sheet, part, part.y + (part.height + 14 if is_below else -28))
    _draw_arrows(sheet, k, (marked + 0.5) * ROWS / rows)
    _draw_legend(sheet, BEFORE + 24, rows - group, f"one query head of {group}")
    _write_formulas(sheet)
    return render(sheet.finish(FORMULAS + LINE * (len(STEPS) - 1) + 12))


def _frame_position(sheet: Sheet, part: Shape, is_column: bool) -> None:
    """The same position in K, in its transpose, in the logits, in V."""
    style = {"rim": sheet.look.ink, "linewidth": 1.8}
    x, y, width, height = part.area
    if is_column:
        sheet.box(x + 0.6 * width, y, THICK, height, **style)
    else:
        sheet.box(x, y + 0.6 * height, width, THICK, **style)


def _draw_rows(sheet: Sheet, part: Shape, group: int, marked: int) -> None:
    """A row for each query head, one of them filled; those of nobody hatched."""
    each = part.height / part.shape[0]
    for row in range(group):
        tone = (strong if row == marked else soft)("A")
        sheet.box(part.x, part.y + row * each, part.width, each - 0.6, tone)
    used = group * each
    sheet.empty(part.x, part.y + used, part.width, part.height - used)
    sheet.box(*part.area, rim=sheet.look.rim)
    if part.name in ("logits", "weights"):
        _frame_position(sheet, part, is_column=True)


def _write_name(sheet: Sheet, part: Shape, y: float) -> None:
    """In the middle of the part: its name, below it its shape; its formula's number."""
    numbers = {made: number for number, (made, *_) in enumerate(STEPS, start=1)}
    middle = part.x + part.width / 2
    left = middle - len(part.name) * LETTER / 2
    if part.name in numbers and not part.is_old:
        left += LETTER
        style = {"ha": "right", "weight": "bold"}
        sheet.write(left - LETTER, y, str(numbers[part.name]), **style, **MONO)
    sheet.write(left, y, part.name, **MONO)
    sheet.write(middle, y + 16, str(list(part.shape)), ha="center", **MONO)
    if part.is_old:
        style = {"ha": "center", "color": sheet.look.quiet}
        sheet.write(middle, y + 33, "of the tiles before", **style)


def _draw_arrows(sheet: Sheet, k: Shape, row: float) -> None:
    """From each part to what is made of it, along the filled row."""
    now, before = STEP + row, BEFORE + row
    middle = k.y + k.height / 2
    sheet.arrow((k.x + k.width + 3, middle), (LOGITS - 3, middle))
    for start, end in (
        (Q + DIM, LOGITS),
        (LOGITS + TILE, MAXIMUM),
        (MAXIMUM + VECTOR, WEIGHTS),
        (WEIGHTS + TILE, WEIGHTED),
    ):
        sheet.arrow((start + 3, now), (end - 3, now))
    for x, start, end in (
        (LOGITS + TILE / 2, STEP - SPACE + 3, STEP - 3),
        (WEIGHTED + DIM / 2, STEP - SPACE + 3, STEP - 3),
        (MAXIMUM + 4, BEFORE - 3, STEP + ROWS + 3),
        (ADDED, BEFORE - 3, STEP + ROWS + 3),
    ):
        sheet.arrow((x, start), (x, end), is_upright=True)
    sheet.arrow((MAXIMUM + VECTOR + 3, before), (RESCALE - 3, before))
    start = MAXIMUM + VECTOR - 4, STEP + ROWS + 3
    sheet.arrow(start, (RESCALE + VECTOR / 2, BEFORE - 3), is_upright=True)
    sheet.arrow((RESCALE + VECTOR + 3, before), (TIMES - 9, before))
    sheet.write(TIMES, before, "×", COUNT, ha="center")
    sheet.write(ADDED + 12, STEP + ROWS + 14, "+", COUNT, ha="center")


def _write_formulas(sheet: Sheet) -> None:
    """A line for each, below the drawing, with the numbers of the parts."""
    sheet.line((0, FORMULAS - 14), (SPAN, FORMULAS - 14), alpha=0.5)
    for line, (made, formula, remark) in enumerate(STEPS):
        y = FORMULAS + line * LINE
        if made != NOT_DRAWN:
            sheet.write(0, y, str(line + 1), weight="bold", **MONO)
        sheet.write(2 * LETTER, y, f"{made} = {formula}", **MONO)
        sheet.write(REMARK, y, remark, color=sheet.look.quiet)


def _draw_legend(sheet: Sheet, y: float, unused: int, which: str) -> None:
    """A line for each sign, where the row below has room."""
    sheet.legend(0, y, [(strong("A"), which)])
    framed = {"rim": sheet.look.ink, "linewidth": 1.8}
    sheet.legend(0, y + 24, [(NOTHING, "a position")], **framed)
    if unused:
        sheet.legend(0, y + 48, [(KEPT, f"{unused} rows that no head needs")])
