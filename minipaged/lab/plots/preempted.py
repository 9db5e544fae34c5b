"""Lab: a run in which requests are preempted: a lane for each, and their blocks."""

from collections.abc import Collection, Iterator, Mapping
from itertools import groupby

from minipaged.draw.bands import Drawn
from minipaged.draw.lanes import Lane
from minipaged.draw.palette import line_colour, theme
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.sheet import Sheet
from minipaged.draw.tones import FOUND, NOTHING, free, soft, strong
from minipaged.draw.tones import KEPT as KEPT_ROOM
from minipaged.lab.measure.step_log import Steps
from minipaged.lab.plots.render import Figure, render
from minipaged.lab.plots.steps import add_steps

HIGH = 96.0  # pixels: a full pool
CHIP = 18.0  # pixels of a sign that says whose blocks these are
KEPT = "in CPU memory"  # where its blocks are: nothing is computed again
LOST = "away"  # with no blocks at all


def plot_preemptions(
    steps: Steps,
    title: str,
    num_blocks: int,
    unfinished: Collection[str] = (),
    kept: Mapping[str, int] | None = None,
) -> Figure:
    """A lane for each name, from step to step; below, who holds the pool's blocks.

    steps: for each step and each name, how many tokens it computes, and how many blocks
    it holds; see StepLog. A name that was served, and then is not, was preempted: its
    lane is dashed until it is back. Strong is a prompt that is computed, or what
    was lost, with the number of tokens; soft is one token a step. unfinished: names
    that had not ended when the log was cut off. kept: for each name, how many blocks
    are kept for it from its start on; those that it does not hold yet are hatched.
    """
    run = Picture(title, widest=len(steps) * HIGH)
    names = list(dict.fromkeys(name for step in steps for name in step))
    add_steps(run, len(steps))
    kinds: set[str] = set()
    for name in names:
        tokens = [step.get(name, (0, 0))[0] for step in steps]
        last = max(at for at, number in enumerate(tokens) if number)
        is_cut = name in unfinished
        cells = list(_cells(name, tokens if is_cut else tokens[: last + 1], tokens))
        ends = "" if is_cut else f"ends, step {last + 1}"
        run.lane(name, "", cells, height=22.0, is_bold=True, aside=ends)
        kinds |= {cell.word or ("" if cell.above else "decodes") for cell in cells}

    def draw(sheet: Sheet, x: float, y: float, width: float) -> None:
        _draw_blocks(sheet, steps, names, num_blocks, pool)
        if kept:
            _draw_kept(sheet, steps, kept, num_blocks, pool)

    run.space()
    pool = run.lane("blocks", height=HIGH)
    pool.bar(0, len(steps), NOTHING)
    pool.level(1.0, f"pool: {num_blocks}", color=theme().ink, linewidth=1.6)
    run.add(Drawn(0.0, draw))
    first = names[0]
    signs = [(free(), "waits")] * ("waits" in kinds)
    signs.append((strong(first), "computes so many tokens: a prompt, or what was lost"))
    signs += [(soft(first), "a token a step")] * ("decodes" in kinds)
    signs += [(FOUND, "preempted, until it is back")] * bool({KEPT, LOST} & kinds)
    if kept:
        signs.append(
            (KEPT_ROOM, "no block yet, but kept for its prompt and a token more")
        )
    run.legend(*signs)
    return render(run.scene())


def _cells(name: str, shown: list[int], numbers: list[int]) -> Iterator[Cell]:
    """What somebody does in each step: so many tokens, one, or none."""
    at = 0
    for kind, run in groupby(shown, key=lambda number: min(number, 2)):
        steps = list(run)
        is_first, at = at == 0, at + len(steps)
        if kind == 2:
            yield from (Cell("", strong(name), above=str(n)) for n in steps)
        elif kind == 1:
            yield Cell("", soft(name), len(steps))
        elif is_first:
            yield Cell("waits", free(), len(steps))
        else:
            is_kept = at < len(numbers) and numbers[at] == 1
            word = KEPT if is_kept else LOST
            yield Cell(word, NOTHING, len(steps), "dashed", short=LOST)


def _draw_kept(
    sheet: Sheet,
    steps: Steps,
    kept: Mapping[str, int],
    num_blocks: int,
    pool: Lane,
) -> None:
    """Above what is held: the blocks that nobody else may take."""
    for at, step in enumerate(steps):
        held = sum(number for _, number in step.values())
        more = sum(max(0, kept.get(n, 0) - own) for n, (_, own) in step.items())
        top = pool.y + HIGH - HIGH * (held + more) / num_blocks
        sheet.empty(pool.place(at), top, pool.unit_now, HIGH * more / num_blocks)


def _draw_blocks(
    sheet: Sheet,
    steps: Steps,
    names: list[str],
    num_blocks: int,
    pool: Lane,
) -> None:
    """How many blocks each holds in each step, one upon the other."""
    rows = [[step.get(name, (0, 0))[1] for name in names] for step in steps]
    signed = {place for at in range(len(names)) for place in _widest(rows, at)}
    at = 0
    for held, run in groupby(rows):
        stop = at + len(list(run))
        top, x, right = pool.y + HIGH, pool.place(at), pool.place(stop)
        for row, (name, number) in enumerate(zip(names, held, strict=True)):
            high = HIGH * number / num_blocks
            if number:
                sheet.box(x, top - high, right - x, high, soft(name))
                edge = (x, top - high), (right, top - high)
                sheet.line(*edge, color=line_colour(name), linewidth=1.2)
                if right - x > CHIP + 2 and high > 16 and (row, at) in signed:
                    corner = (x + right - CHIP) / 2, top - high / 2 - 7
                    sheet.cells(*corner, [CHIP], 14, [strong(name)], [name])
            top -= high
        at = stop
    ends = pool.place(0), pool.place(len(steps))
    sheet.line(*((end, pool.y + HIGH) for end in ends))


def _widest(rows: list[list[int]], lane: int) -> Iterator[tuple[int, int]]:
    """Each time that it holds blocks: the step where they stay longest as they are."""
    best, found, at = 0, 0, 0
    for held, run in groupby([*rows, [0] * len(rows[0])]):
        count = len(list(run))
        if held[lane] and count > best:
            best, found = count, at
        if best and not held[lane]:
            yield lane, found
            best = 0
        at += count
