"""Lab: a run in which requests are preempted: a lane for each, and their blocks."""

from collections.abc import Collection, Iterator, Mapping
from itertools import groupby

from matplotlib.figure import Figure

from minipaged.draw.letters import PART, width_of
from minipaged.draw.palette import line_colour
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import KEPT as KEPT_ROOM
from minipaged.draw.tones import free, soft, strong
from minipaged.lab.measure.step_log import Steps
from minipaged.lab.plots.render import render

LEFT, RIGHT, TOP = 84.0, 100.0, 40.0  # pixels beside the lanes, and above
LANE, HEIGHT = 42.0, 22.0  # pixels from lane to lane, and of a lane
HIGH = 96.0  # pixels: a full pool
CHIP = 18.0  # pixels of a sign that says whose blocks these are
AWAY = {"linestyle": "--", "linewidth": 1.4}  # the rim of a lane without blocks
KEPT = "in CPU memory"  # where its blocks are: nothing is computed again
LOST = "away"  # with no blocks at all
AWAY_FROM = {KEPT, LOST}


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
    sheet = Sheet(title)
    lanes = list(dict.fromkeys(name for step in steps for name in step))
    width = (SPAN - LEFT - RIGHT) / len(steps)
    _draw_axis(sheet, len(steps), width)
    kinds: set[str] = set()
    for row, name in enumerate(lanes):
        numbers = [step.get(name, (0, 0))[0] for step in steps]
        is_cut = name in unfinished
        kinds |= _draw_lane(sheet, name, numbers, TOP + row * LANE, width, is_cut)
    y = TOP + len(lanes) * LANE + 10
    _draw_blocks(sheet, steps, lanes, num_blocks, y, width)
    if kept:
        _draw_kept(sheet, steps, kept, num_blocks, y + HIGH, width)
    _draw_legend(sheet, lanes[0], kinds, y + HIGH + 34)
    if kept:
        words = [(KEPT_ROOM, "no block yet, but kept for its prompt and a token more")]
        sheet.legend(0, y + HIGH + 56, words)
    return render(sheet.finish(y + HIGH + 44 + 22 * bool(kept)))


def _draw_legend(sheet: Sheet, first: str, kinds: set[str], y: float) -> None:
    """What occurs in the lanes."""
    signs = [(free(), "waits")] * ("waits" in kinds)
    signs += [(strong(first), "computes so many tokens: a prompt, or what was lost")]
    signs += [(soft(first), "a token a step")] * ("decodes" in kinds)
    x = sheet.legend(0, y, signs)
    if AWAY_FROM & kinds:
        sheet.box(x, y - 6, 18, 12, rim=sheet.look.ink, **AWAY)
        words = "preempted, until it is back"
        sheet.write(x + 24, y, words, color=sheet.look.quiet)


def _draw_axis(sheet: Sheet, num_steps: int, width: float) -> None:
    """The numbers of the steps, from 1."""
    sheet.write(LEFT - 12, 12, "step", ha="right", color=sheet.look.quiet)
    every = next(n for n in (1, 5, 10, 20, 50, 100, 1000) if num_steps <= 12 * n)
    for number in sorted({1, *range(every, num_steps + 1, every)}):
        if number == 1 or (number - 1) * width > 24:
            x = LEFT + (number - 0.5) * width
            sheet.write(x, 12, str(number), ha="center", color=sheet.look.quiet)


def _draw_lane(
    sheet: Sheet, name: str, numbers: list[int], y: float, width: float, is_cut: bool
) -> set[str]:
    """What somebody does in each step: so many tokens, or none; what occurred."""
    sheet.write(0, y + HEIGHT / 2, name, PART, weight="bold")
    last = max(at for at, number in enumerate(numbers) if number)
    shown = numbers if is_cut else numbers[: last + 1]
    at, kinds, free_from = 0, set(), 0.0
    for kind, run in groupby(shown, key=lambda number: min(number, 2)):
        steps = list(run)
        x, wide = LEFT + at * width, len(steps) * width
        is_first, at = at == 0, at + len(steps)
        if kind == 0:
            is_kept = at < len(numbers) and numbers[at] == 1
            words = "waits" if is_first else KEPT if is_kept else LOST
            kinds.add(words)
            _draw_gap(sheet, name, words, x, y, wide)
        elif kind == 1:
            kinds.add("decodes")
            sheet.box(x, y, wide, HEIGHT, soft(name))
        for number in steps if kind == 2 else ():
            sheet.box(x, y, width - 0.8 * (width > 4), HEIGHT, strong(name))
            half = width_of(str(number)) / 2
            if x + width / 2 - half > free_from:
                middle = x + width / 2, y - 8
                sheet.write(*middle, str(number), ha="center")
                free_from = x + width / 2 + half + 4
            x += width
    if not is_cut:
        end = LEFT + (last + 1) * width
        sheet.write(end + 6, y + HEIGHT / 2, f"ends, step {last + 1}")
    return kinds


def _draw_gap(
    sheet: Sheet, name: str, words: str, x: float, y: float, wide: float
) -> None:
    """It waits for its start; or all its blocks were taken."""
    if words == "waits":
        sheet.box(x, y, wide, HEIGHT, free(), sheet.look.rim)
    else:
        rim = {"rim": line_colour(name), **AWAY}
        sheet.box(x + 3, y + 1, wide - 6, HEIGHT - 2, **rim)
    for fitting in (words, "away"):
        if wide > width_of(fitting) + 10:
            place = x + wide / 2, y + HEIGHT / 2
            sheet.write(*place, fitting, ha="center", color=sheet.look.quiet)
            return


def _draw_kept(
    sheet: Sheet,
    steps: Steps,
    kept: Mapping[str, int],
    num_blocks: int,
    ground: float,
    width: float,
) -> None:
    """Above what is held: the blocks that nobody else may take."""
    for at, step in enumerate(steps):
        held = sum(number for _, number in step.values())
        more = sum(max(0, kept.get(n, 0) - own) for n, (_, own) in step.items())
        top = ground - HIGH * (held + more) / num_blocks
        sheet.empty(LEFT + at * width, top, width, HIGH * more / num_blocks)


def _draw_blocks(
    sheet: Sheet,
    steps: Steps,
    lanes: list[str],
    num_blocks: int,
    y: float,
    width: float,
) -> None:
    """How many blocks each holds in each step, one upon the other."""
    ground = y + HIGH
    sheet.write(0, y + HIGH / 2, "blocks", color=sheet.look.quiet)
    rows = [[step.get(name, (0, 0))[1] for name in lanes] for step in steps]
    signed = {place for at in range(len(lanes)) for place in _widest(rows, at)}
    at = 0
    for held, run in groupby(rows):
        count = len(list(run))
        top, x = ground, LEFT + at * width
        for lane, (name, number) in enumerate(zip(lanes, held, strict=True)):
            high = HIGH * number / num_blocks
            if number:
                sheet.box(x, top - high, count * width, high, soft(name))
                edge = (x, top - high), (x + count * width, top - high)
                sheet.line(*edge, color=line_colour(name), linewidth=1.2)
                is_clear = count * width > CHIP + 4 and high > 16
                if is_clear and (lane, at) in signed:
                    corner = x + (count * width - CHIP) / 2, top - high / 2 - 7
                    sheet.cells(*corner, [CHIP], 14, [strong(name)], [name])
            top -= high
        at += count
    sheet.line((LEFT, ground), (SPAN - RIGHT, ground))
    full = {"color": sheet.look.ink, "linewidth": 1.6}
    sheet.line((LEFT, y), (SPAN - RIGHT, y), **full)
    sheet.write(SPAN - RIGHT + 6, y, f"pool: {num_blocks}")


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
