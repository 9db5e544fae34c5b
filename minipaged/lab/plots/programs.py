"""Lab: which programs a decode step has, and whose K and V each of them reads."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from minipaged.lab.plots.palette import BAD, GOOD, line_colour
from minipaged.lab.plots.signs import PART, SPAN, Sheet, counted, fit
from minipaged.lab.plots.tones import behind_words, others, soft, strong
from minipaged.memory.block_table import BlockTable

LEFT, GAP = 124.0, 8.0  # pixels beside the programs; between KV heads
MEMORY, FIRST = 26.0, 82.0  # from a panel's top to its K and V, and to its programs
ROW, HEIGHT = 30.0, 22.0  # from sequence to sequence, and of a box
BETWEEN = 34.0  # from panel to panel


def plot_programs(
    contexts: Mapping[str, int | BlockTable],
    num_heads: int,
    num_kv_heads: int,
    title: str,
) -> Figure:
    """A program for each query head, and below a program for each KV head.

    Above the programs lie K and V of the first sequence, a box for each KV head; the
    arrows are the reads. The numbers in the boxes are those of the programs along the
    first axis of the grid, those at the left along the second.

    contexts: the tokens of each sequence, by name, or its table.
    """
    tokens = {
        name: held if isinstance(held, int) else held.num_tokens
        for name, held in contexts.items()
    }
    sheet, first = Sheet(title), next(iter(tokens))
    y = _draw_panel(sheet, 0, tokens, num_kv_heads, num_heads // num_kv_heads)
    y = _draw_panel(sheet, y + BETWEEN, tokens, num_kv_heads, 1)
    said, numbers = (
        f"reads K and V of {first}'s KV head 0",
        "in the boxes: program_id(0)",
    )
    signs = [(strong(first), said), (behind_words(others()), "another program")]
    sheet.legend(0, y + 24, signs)
    sheet.write(SPAN, y + 24, numbers, ha="right", color=sheet.look.quiet)
    sheet.finish(y + 32)
    return sheet.figure


def _draw_panel(
    sheet: Sheet, y: float, tokens: Mapping[str, int], num_kv_heads: int, group: int
) -> float:
    """All programs, those of a KV head side by side; where the panel ends."""
    quiet, first = {"color": sheet.look.quiet}, next(iter(tokens))
    what = f"A program for each {'query' if group > 1 else 'KV'} head"
    programs = counted(len(tokens) * num_kv_heads * group, "program")
    said = f"K and V are asked for {f'{group} times' if group > 1 else 'once'}"
    colour = BAD if group > 1 else GOOD
    sheet.headline(y + 8, what, programs, said, colour)
    sheet.write(0, y + MEMORY + HEIGHT / 2, f"K and V of {first}", PART)
    step = (SPAN - LEFT + GAP) / num_kv_heads
    wide, each = step - GAP, (step - GAP) / group
    for head in range(num_kv_heads):
        x, tone = LEFT + head * step, (soft if head else strong)(first)
        for program in range(group):
            middle = x + (program + 0.5) * each
            start, end = y + MEMORY + HEIGHT + 2, y + FIRST - 2
            style = {"colour": None if head else line_colour(first)}
            # All begin at one place: each program reads the whole head.
            way = (x + wide / 2, start), (middle, end)
            sheet.arrow(*way, is_upright=True, **style)
        name, _ = fit(f"KV head {head}", wide - 8)
        name = name if "…" not in name else str(head)
        sheet.cells(x, y + MEMORY, [wide], HEIGHT, [tone], [name])
    sheet.write(0, y + FIRST - 10, "program_id(1)", **quiet)
    for row, (name, number) in enumerate(tokens.items()):
        at = y + FIRST + row * ROW
        sheet.write(0, at + HEIGHT / 2, str(row), **quiet)
        sheet.write(22, at + HEIGHT / 2, name, PART, weight="bold")
        said, size = fit(f"{number:,} tokens", LEFT - 54)
        sheet.write(LEFT - 12, at + HEIGHT / 2, said, size, ha="right", **quiet)
        for head in range(num_kv_heads):
            ids = range(head * group, (head + 1) * group)
            is_followed = not head and not row
            tones = [(strong if is_followed else soft)(name)] * group
            words = list(map(str, ids)) if each > 16 else []
            sheet.cells(LEFT + head * step, at, [each] * group, HEIGHT, tones, words)
    return y + FIRST + len(tokens) * ROW - (ROW - HEIGHT)
