"""Lab: who waits, joins and ends: a lane for each prompt of a run."""

from collections.abc import Sequence
from itertools import groupby
from string import ascii_uppercase

from matplotlib.figure import Figure

from minipaged.lab.measure.watch import Moment
from minipaged.lab.plots.signs import PART, SPAN, Sheet, width_of
from minipaged.lab.plots.tones import free, others, soft, strong
from minipaged.scheduling.plan import Work

LEFT, RIGHT, TOP = 100.0, 100.0, 30.0  # pixels beside the lanes, and above
LANE, HEIGHT = 34.0, 22.0  # pixels from lane to lane, and of a lane


def plot_lanes(
    moments: Sequence[Moment], title: str, names: Sequence[str] = ascii_uppercase
) -> Figure:
    """One lane for each prompt, from step to step: it waits, prefills, decodes, ends.

    moments: of a run of `generate`, from `watch`. names: of the prompts, in the order
    in which they start. Below, how many blocks the sequences hold.
    """
    sheet = Sheet(title)
    step = (SPAN - LEFT - RIGHT) / len(moments)
    lanes: dict[object, list[tuple[int, Work]]] = {}
    for at, moment in enumerate(moments):
        for work in moment.works:
            lanes.setdefault(work.request, []).append((at, work))
    _draw_axis(sheet, len(moments), step)
    for row, (name, lane) in enumerate(zip(names, lanes.values(), strict=False)):
        _draw_lane(sheet, name, lane, TOP + row * LANE, step)
    y = TOP + len(lanes) * LANE + 8
    _draw_blocks(sheet, [moment.num_blocks for moment in moments], y, step)
    signs = [(free(), "waits"), (strong("A"), "prefill"), (soft("A"), "decode")]
    sheet.legend(0, y + 70, signs)
    sheet.finish(y + 80)
    return sheet.figure


def _draw_axis(sheet: Sheet, num_steps: int, step: float) -> None:
    """The numbers of the steps, from 1."""
    quiet = {"color": sheet.look.quiet, "ha": "center"}
    sheet.write(LEFT - 12, 12, "step", ha="right", color=sheet.look.quiet)
    every = next(n for n in (1, 5, 10, 20, 50, 100, 1000) if num_steps <= 12 * n)
    for number in sorted({1, *range(every, num_steps + 1, every)}):
        if number == 1 or (number - 1) * step > 24:
            sheet.write(LEFT + (number - 0.5) * step, 12, str(number), **quiet)


def _draw_lane(
    sheet: Sheet,
    name: str,
    lane: Sequence[tuple[int, Work]],
    y: float,
    step: float,
) -> None:
    """A prompt waits until its first work, and ends with its last one."""
    (first, work), (last, _) = lane[0], lane[-1]
    prompt = f"{work.sequence.num_prompt_tokens} tokens"
    sheet.write(0, y + HEIGHT / 2, name, PART, weight="bold")
    sheet.write(LEFT - 12, y + HEIGHT / 2, prompt, ha="right", color=sheet.look.quiet)
    x = LEFT + first * step
    if first:
        sheet.box(LEFT, y, x - LEFT, HEIGHT, free(), sheet.look.rim)
        if x - LEFT > width_of("waits") + 8:
            middle = (LEFT + x) / 2, y + HEIGHT / 2
            sheet.write(*middle, "waits", ha="center", color=sheet.look.quiet)
    for is_prefill, run in groupby(lane, key=lambda step: _is_prefill(step[1])):
        steps = [at for at, _ in run]
        tone = strong(name) if is_prefill else soft(name)
        sheet.box(LEFT + steps[0] * step, y, len(steps) * step, HEIGHT, tone)
    end = LEFT + (last + 1) * step
    sheet.write(end + 6, y + HEIGHT / 2, f"ends, step {last + 1}")


def _is_prefill(work: Work) -> bool:
    return work.start < work.sequence.num_prefill_tokens


def _draw_blocks(sheet: Sheet, counts: Sequence[int], y: float, step: float) -> None:
    """How many blocks are held in each step."""
    most = max(counts)
    sheet.write(LEFT - 12, y + 8, f"most: {most}", ha="right")
    sheet.write(LEFT - 12, y + 26, "blocks held", ha="right", color=sheet.look.quiet)
    sheet.line((LEFT, y + 50), (SPAN - RIGHT, y + 50))
    x = LEFT
    for count, run in groupby(counts):
        width, high = len(list(run)) * step, 48.0 * count / most
        sheet.box(x, y + 50 - high, width, high, others())
        x += width
