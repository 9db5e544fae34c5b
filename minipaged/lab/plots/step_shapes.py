"""Lab: the shapes in one turn of the kernel's loop: what is multiplied by what."""

from typing import NamedTuple

from matplotlib.figure import Figure

from minipaged.lab.plots.signs import Sheet
from minipaged.lab.plots.tones import KEPT, NOTHING, soft, strong

# How long an axis is drawn, in pixels: the same wherever it occurs.
ROWS, TILE, DIM = 112.0, 120.0, 168.0
VECTOR, THICK = 18.0, 9.0  # of a vector across; of the marked position
TOP = 34.0
KEYS = TOP + DIM - TILE  # where K begins, so that it ends beside its transpose
STEP = TOP + DIM + 34  # the upper edge of everything that has rows
Q, LOGITS, MAXIMUM, WEIGHTS, WEIGHTED = 0.0, 184.0, 364.0, 440.0, 576.0
MONO = {"family": "monospace"}


class Shape(NamedTuple):
    """A matrix: where it lies, how large it is drawn, and how many numbers it has."""

    x: float
    y: float
    width: float
    height: float
    name: str
    shape: tuple[int, ...]

    @property
    def area(self) -> tuple[float, float, float, float]:
        """The upper left corner, the width, the height."""
        return self.x, self.y, self.width, self.height


def plot_step_shapes(
    group: int, rows: int, tile: int, dim: int, title: str, name: str = "A"
) -> Figure:
    """One tile's logits, their maximum, its weights, and the weighted values.

    A product stands to the right of the one matrix and below the other, as on paper. An
    axis is equally long wherever it occurs. Filled is a query head, which is a row
    everywhere; framed is a position.

    What was weighted before is rescaled first: its maximum may have been lower.

    group: query heads of a KV head. rows: those of the matrices, as many as the matrix
    units want. tile: positions. dim: numbers in a head.
    """
    sheet, marked = Sheet(title), min(1, group - 1)
    k = Shape(Q, KEYS, DIM, TILE, "k", (tile, dim))
    k_trans = Shape(LOGITS, TOP, TILE, DIM, "tl.trans(k)", (dim, tile))
    for part in (k, k_trans, Shape(WEIGHTED, KEYS, DIM, TILE, "v", (tile, dim))):
        sheet.box(*part.area, soft(name), sheet.look.rim)
        _frame_position(sheet, part, is_column=part is k_trans)
        _write_name(sheet, part, part.y - 12)
    for part in (
        Shape(Q, STEP, DIM, ROWS, "q", (rows, dim)),
        Shape(LOGITS, STEP, TILE, ROWS, "logits", (rows, tile)),
        Shape(MAXIMUM, STEP, VECTOR, ROWS, "maximum", (rows,)),
        Shape(WEIGHTS, STEP, TILE, ROWS, "weights", (rows, tile)),
        Shape(WEIGHTED, STEP, DIM, ROWS, "weighted", (rows, dim)),
    ):
        _draw_rows(sheet, part, group, marked, name)
        _write_name(sheet, part, STEP + ROWS + 14)
    _explain(sheet, k, k_trans, STEP + (marked + 0.5) * ROWS / rows)
    _draw_legend(
        sheet, STEP + ROWS + 92, rows - group, f"one query head of {group}", name
    )
    sheet.finish(STEP + ROWS + 102)
    return sheet.figure


def _frame_position(sheet: Sheet, part: Shape, is_column: bool) -> None:
    """The same position in K, in its transpose, in the logits, in V."""
    style = {"rim": sheet.look.ink, "linewidth": 1.8}
    x, y, width, height = part.area
    if is_column:
        sheet.box(x + 0.6 * width, y, THICK, height, **style)
    else:
        sheet.box(x, y + 0.6 * height, width, THICK, **style)


def _draw_rows(sheet: Sheet, part: Shape, group: int, marked: int, name: str) -> None:
    """A row for each query head, one of them filled; those of nobody hatched."""
    each = part.height / part.shape[0]
    for row in range(group):
        tone = (strong if row == marked else soft)(name)
        sheet.box(part.x, part.y + row * each, part.width, each - 0.6, tone)
    used = group * each
    sheet.empty(part.x, part.y + used, part.width, part.height - used)
    sheet.box(*part.area, rim=sheet.look.rim)
    if part.name in ("logits", "weights"):
        _frame_position(sheet, part, is_column=True)


def _write_name(sheet: Sheet, part: Shape, y: float) -> None:
    """The name and the shape, in the middle of the part."""
    said, middle = f"{part.name} {list(part.shape)}", part.x + part.width / 2
    sheet.write(middle, y, said, ha="center", **MONO)


def _explain(sheet: Sheet, k: Shape, k_trans: Shape, row: float) -> None:
    """The code that makes each part; arrows along the filled row."""
    y, quiet = k.y + k.height / 2, {"color": sheet.look.quiet}
    sheet.arrow((k.x + k.width + 2, y), (k_trans.x - 2, y))
    middle = MAXIMUM + VECTOR / 2 - 4
    for x, side, lines in (
        (LOGITS, "left", ("= tl.dot(q,", "  tl.trans(k))")),
        (middle, "center", ("= tl.maximum(", "maximum,", "tl.max(logits, 1))")),
        (WEIGHTS, "left", ("= tl.exp2(logits", "  - maximum)")),
        (WEIGHTED, "left", ("= rescale * weighted", "+ tl.dot(weights, v)")),
    ):
        for line, said in enumerate(lines):
            height = STEP + ROWS + 34 + 16 * line
            sheet.write(x, height, said, ha=side, **quiet, **MONO)
    middle = (LOGITS + TILE + WEIGHTED) / 2
    for line, said in enumerate(("axis 1 runs along a row,", "over all positions")):
        sheet.write(middle, STEP - 46 + 16 * line, said, ha="center", **quiet)
    sheet.arrow((LOGITS + TILE + 4, row), (MAXIMUM - 3, row))
    sheet.arrow((MAXIMUM + VECTOR + 4, row), (WEIGHTS - 3, row))


def _draw_legend(sheet: Sheet, y: float, unused: int, which: str, name: str) -> None:
    x = sheet.legend(0, y, [(strong(name), which)])
    framed = {"rim": sheet.look.ink, "linewidth": 1.8}
    x = sheet.legend(x, y, [(NOTHING, "a position")], **framed)
    if unused:
        sheet.legend(x, y, [(KEPT, f"{unused} rows that no head needs")])
