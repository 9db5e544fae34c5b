"""Lab: programs of a decode step that ask for the same K and V."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from minipaged.draw.letters import PART, counted, width_of
from minipaged.draw.palette import BAD, GOOD, line_colour
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import soft, strong
from minipaged.lab.plots.render import render
from minipaged.memory.block_table import BlockTable

PANEL, GAP = 350.0, 8.0  # pixels of a panel; between programs
VERDICT, MEMORY, FIRST = 27.0, 48.0, 116.0  # above it, above K and V, above programs
HEIGHT, EDGE = 24.0, 7.0  # of a box; from a program's frame to its heads
CAPTION = 18.0  # pixels from the programs to how many they are
MANY = 8  # with more query heads they stand close


def plot_programs(
    contexts: Mapping[str, int | BlockTable],
    num_heads: int,
    num_kv_heads: int,
    title: str,
) -> Figure:
    """At the left a program for each query head, at the right one for each KV head.

    Drawn is the first sequence, with the query heads that share its KV head 0; an arrow
    is a program that asks for all K and V of it. A program is a frame, in it its query
    heads. Below is how many programs there are for each sequence and KV head.

    contexts: the tokens of each sequence, by name, or its table.
    """
    name, held = next(iter(contexts.items()))
    num_tokens = held if isinstance(held, int) else held.num_tokens
    group, sheet = num_heads // num_kv_heads, Sheet(title)
    each, together = [[head] for head in range(group)], [[*range(group)]]
    panels = {"query": (0.0, each), "KV": (SPAN - PANEL, together)}
    for kind, (x, programs) in panels.items():
        verdict = f"{group} times" if len(programs) > 1 else "once"
        colour = BAD if len(programs) > 1 else GOOD
        sheet.write(x, 8, f"A program for each {kind} head", PART)
        sheet.write(x, VERDICT, f"K and V are asked for {verdict}", PART, color=colour)
        said = f"{name}, KV head 0: K and V of {counted(num_tokens, 'token')}"
        sheet.cells(x, MEMORY, [PANEL], HEIGHT, [strong(name)], [said])
        bottom = _draw_programs(sheet, x, name, programs)
        said, y = counted(len(programs), "program"), bottom + CAPTION
        sheet.write(x, y, said, PART)
        beside = x + width_of(said, PART) + 12
        sheet.write(beside, y, "for each sequence and KV head", color=sheet.look.quiet)
    return render(sheet.finish(bottom + CAPTION + 10))


def _draw_programs(
    sheet: Sheet, left: float, name: str, programs: Sequence[Sequence[int]]
) -> float:
    """A frame for each, with its query heads, and an arrow to it; where they end."""
    is_crowded = sum(map(len, programs)) > MANY
    gap, edge = (2.0, 2.0) if is_crowded else (GAP, EDGE)
    wide = (PANEL + gap) / len(programs) - gap
    start = left + PANEL / 2, MEMORY + HEIGHT + 2
    for number, heads in enumerate(programs):
        x = left + number * (wide + gap)
        # All begin at one place: each program reads all of it.
        end = x + wide / 2, FIRST - 2
        sheet.arrow(start, end, line_colour(name), is_upright=True)
        high = HEIGHT + 2 * edge
        sheet.box(x, FIRST, wide, high, rim=sheet.look.ink, linewidth=1.6)
        step = (wide - 2 * edge + gap) / len(heads)
        for at, head in enumerate(heads):
            place, said = (x + edge + at * step, FIRST + edge), _named(head, step - 14)
            sheet.cells(*place, [step - gap], HEIGHT, [soft(name)], [said])
    return FIRST + high


def _named(head: int, width: float) -> str:
    """A query head by its name, or its number if there is no room, or not at all."""
    tries = f"head {head}", str(head), ""
    return next(said for said in tries if width_of(said) <= width or not said)
