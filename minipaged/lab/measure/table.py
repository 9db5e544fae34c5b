"""Lab: a table as lines of text."""

from collections.abc import Iterable, Sequence


def table(
    heads: Sequence[str], rows: Iterable[Sequence[object]], left: int = 1
) -> list[str]:
    """The heads, and a line for each row of cells; two spaces between columns.

    The first `left` columns are aligned to the left, the others to the right. A column
    is as wide as its widest cell; blanks in a head make it wider.
    """
    lines = [[str(cell) for cell in line] for line in (heads, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    sides = "<" * left + ">" * (len(widths) - left)
    places = [f"{{:{side}{width}}}" for side, width in zip(sides, widths, strict=True)]
    return ["  ".join(places).format(*line).rstrip() for line in lines]
