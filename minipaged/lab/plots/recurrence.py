"""Lab: attention over blocks, one after another: what is known after each of them."""

import math
from collections.abc import Sequence
from itertools import pairwise

import torch

from minipaged.draw.letters import PART, fit, lines_of, signed, visible, width_of
from minipaged.draw.palette import BAD, GOOD, sequence_colour
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import Tone, soft, strong
from minipaged.lab.plots.recurrence_steps import (
    Step,
    Triple,
    Weight,
    steps_of,
    weights_of,
)
from minipaged.lab.plots.render import Figure, render

LABEL, WEIGHTS = 104.0, 252.0  # pixels from left to right: of the words, of the bars
MAXIMUM, FACTOR = 382.0, 450.0  # where the middles of these columns are
SUM, SUM_WIDTH = 506.0, 72.0
OUTPUT, OUTPUT_WIDTH = 628.0, 72.0  # numbers stand to the right of the bars
TOP, ROW, BARS = 58.0, 122.0, 68.0  # above the rows; of a row; of a weight of 1
MOST_NUMBERS = 12  # logits that have their numbers above them


def plot_recurrence(
    logits: Sequence[torch.Tensor],
    states: Sequence[Triple],
    title: str,
    name: str = "A",
    words: Sequence[str] = (),
    blocks: Sequence[int] = (),
    dims: Sequence[int] = (0, 1, 2),
) -> Figure:
    """One row per block: the weights, the maximum, the factor, the sum, the output.

    A token's bar is as high as its weight; below it stands its logit when it is new.
    Shown is what the states say, right or wrong: a factor that is not e^(old maximum -
    new maximum) is marked, and heavy frames show what is right. Bars have the same
    scale with and without the rescale: the sums that nobody rescales fill their column.

    logits: one tensor for each block. states: (maximum, sum of weights, weighted
    values) after each block. words: of the tokens. blocks: their ids. dims: which of
    the weighted values are drawn.
    """
    sheet, steps = Sheet(title), steps_of(logits, states, list(dims))
    some = "one" if len(dims) == 1 else f"{len(dims)}"
    of_output = f"{some} of {len(states[0][2])} numbers"
    _draw_headings(sheet, of_output if len(states[0][2]) > 1 else "weighted values")
    is_right = all(step.factor == step.expected for step in steps)
    rows = weights_of(logits, steps)
    for row, step in enumerate(steps):
        y = TOP + row * ROW
        if row:
            sheet.line((0, y - 22), (SPAN, y - 22), alpha=0.5)
        start = sum(map(len, logits[:row]))
        own_words = words[start : start + len(logits[row])]
        label = f"block {blocks[row]}" if blocks else f"block {row}"
        _draw_label(sheet, y, label, own_words)
        width = WEIGHTS / sum(map(len, logits))
        _draw_weights(sheet, y, rows[row], logits[row], width, name, is_right)
        _draw_maximum(sheet, y, step.maximum)
        if row:
            _draw_factor(sheet, y, step, steps[row - 1].maximum)
    _draw_sums(sheet, steps, name, is_right)
    _draw_outputs(sheet, steps, name, is_right)
    bottom = TOP + len(steps) * ROW
    sheet.line((0, bottom - 22), (SPAN, bottom - 22), alpha=0.5)
    _draw_result(sheet, bottom, steps[-1], is_right)
    signs = [(strong(name), "new: this block's part")]
    signs += [(soft(name), "what was there" + ", rescaled" * is_right)]
    x = sheet.legend(0, bottom + 26, signs)
    if not is_right or any(step.is_resized for step in steps):
        _draw_frame(sheet, x + 2, bottom + 22, 14, 8, is_right)
        said = "its size before" if is_right else "the correct size"
        sheet.write(x + 24, bottom + 26, said, color=sheet.look.quiet)
        x += 24 + width_of(said) + 20
    if not is_right:
        _draw_aim(sheet, x + 2, bottom + 20, 12)
        sheet.write(x + 12, bottom + 26, "the correct end", color=sheet.look.quiet)
    return render(sheet.finish(bottom + 36))


def _draw_headings(sheet: Sheet, remark_of_output: str) -> None:
    for x, part, remark, style in (
        (LABEL, "weights e^(x − m)", "below them: the new logits x", {}),
        (MAXIMUM, "m", "largest x", {"ha": "center"}),
        (FACTOR, "factor", "of s and o", {"ha": "center"}),
        (SUM, "s", "their sum", {}),
        (OUTPUT, "o", remark_of_output, {}),
    ):
        sheet.write(x, 8, part, PART, **style)
        sheet.write(x, 25, remark, color=sheet.look.quiet, **style)


def _draw_label(sheet: Sheet, y: float, label: str, words: Sequence[str]) -> None:
    """The block's id, and below it its words, as many in a line as fit."""
    lines = lines_of(" ".join(map(visible, words)), LABEL - 12, 3)
    middle = y + BARS / 2 - 9 * len(lines)
    sheet.write(0, middle, label, PART)
    for line, text in enumerate(lines):
        text, size = fit(text, LABEL - 8)
        sheet.write(0, middle + 18 * (line + 1), text, size, color=sheet.look.quiet)


def _draw_weights(
    sheet: Sheet,
    y: float,
    weights: Sequence[Weight],
    new: torch.Tensor,
    width: float,
    name: str,
    is_right: bool,
) -> None:
    """A bar for each token so far; a frame where it was, or where it should be.

    new: the logits of the last block. width: pixels of a bar.
    """
    ground, num_old, num_bars = y + BARS, len(weights) - len(new), WEIGHTS / width
    for at, (before, now, right) in enumerate(weights):
        x, tone = LABEL + at * width, soft(name) if at < num_old else strong(name)
        height = now * BARS
        _draw_bar(sheet, x + 1, ground - height, width - 2, height, tone)
        if at >= num_old and num_bars <= MOST_NUMBERS:
            said = signed(float(new[at - num_old]), 1)
            sheet.write(x + width / 2, ground + 9, said, 8, ha="center")
        framed = before if is_right else right
        if at < num_old and not math.isclose(framed, now, rel_tol=1e-3, abs_tol=0.02):
            height = framed * BARS
            style = _frame_of(sheet, is_right)
            sheet.box(x + 1, ground - height, width - 2, height, **style)
    sheet.line((LABEL, ground), (LABEL + WEIGHTS, ground))


def _draw_maximum(sheet: Sheet, y: float, maximum: float) -> None:
    """A dotted line at the weight 1, which is that of the largest logit."""
    dots = {"linestyle": ":", "color": sheet.look.ink, "linewidth": 1.2}
    sheet.line((LABEL, y), (MAXIMUM - 22, y), **dots)
    sheet.write(LABEL - 4, y, "1", ha="right", color=sheet.look.quiet)
    said = _signed(maximum, 1)
    sheet.write(MAXIMUM, y, said, PART, ha="center", weight="bold")


def _draw_factor(sheet: Sheet, y: float, step: Step, old: float) -> None:
    """What the past was multiplied by; in red, and with the right one, if wrong."""
    is_right, factor = step.factor == step.expected, step.factor
    bold = {"weight": "bold", "ha": "center"}
    wrong = {} if is_right else {"color": BAD}
    y, said = y + BARS / 2 - 9, "× 0" if not factor else f"× {factor:.2f}"
    sheet.write(FACTOR, y, said, PART, **bold, **wrong)
    if not is_right:
        y += 17
        wanted, size = fit(f"should be × {step.expected:.2f}", 92)
        sheet.write(FACTOR, y, wanted, size, ha="center", **wrong)
        return
    why, size = fit(f"e^({_signed(old, 2)} − {_signed(step.maximum, 2)})", 92)
    style = {"ha": "center", "color": sheet.look.quiet}
    sheet.write(FACTOR, y + 18, why, size, **style)


def _draw_result(sheet: Sheet, y: float, step: Step, is_right: bool) -> None:
    """o / s after the last step; and what it should be, if that is another."""
    said = "The result, o / s:"
    sheet.write(0, y, said, PART)
    x = width_of(said, PART) + 10
    found, wanted = (
        ", ".join(_signed(number / total, 3) for number in output)
        for total, output in (step.after, step.right)
    )
    if is_right:
        sheet.write(x, y, found, PART, weight="bold")
        return
    sheet.write(x, y, found, PART, weight="bold", color=BAD)
    x += width_of(found, PART, bold=True) + 20
    sheet.write(x, y, "should be:", PART)
    x += width_of("should be:", PART) + 10
    sheet.write(x, y, wanted, PART, weight="bold", color=GOOD)


def _draw_sums(sheet: Sheet, steps: Sequence[Step], name: str, is_right: bool) -> None:
    """A bar for each step, and between them how the one shrinks into the next."""
    longest = max(
        total
        for step in steps
        for total, _ in (step.before, step.after, step.right, step.unscaled)
    )
    unit = SUM_WIDTH / longest
    height, middles = 24.0, [TOP + row * ROW + BARS / 2 for row in range(len(steps))]
    for (above, below), step in zip(pairwise(middles), steps[1:], strict=True):
        ends = step.before[0] * unit, step.kept[0] * unit
        xs = (SUM, SUM + ends[0], SUM + ends[1], SUM)
        top, low = above + height / 2 + 2, below - height / 2 - 2
        corners = zip(xs, (top, top, low, low), strict=True)
        sheet.area(*corners, face=sequence_colour(name), alpha=0.14)
    for middle, step in zip(middles, steps, strict=True):
        numbers = step.before[0], step.kept[0], step.after[0], step.right[0]
        area = SUM, middle - height / 2, unit, height
        _draw_growth(sheet, area, numbers, step.is_resized, name, is_right)


def _draw_outputs(
    sheet: Sheet, steps: Sequence[Step], name: str, is_right: bool
) -> None:
    """The same for each number of the output, which may be negative."""
    ends = [
        number
        for step in steps
        for _, numbers in step[3:]  # from before on
        for number in numbers
    ]
    unit = OUTPUT_WIDTH / max(max(*ends, 0.0) - min(*ends, 0.0), 1e-9)
    zero, height = OUTPUT - min(*ends, 0.0) * unit, 12.0
    for row, step in enumerate(steps):
        count = len(step.after[1])
        y = TOP + row * ROW + BARS / 2 - 10 * count + 4
        values = step.before[1], step.kept[1], step.after[1], step.right[1]
        for numbers in zip(*values, strict=True):
            area = zero, y, unit, height
            _draw_growth(sheet, area, numbers, step.is_resized, name, is_right)
            y += 20


def _draw_growth(
    sheet: Sheet,
    area: tuple[float, float, float, float],
    numbers: tuple[float, float, float, float],
    is_resized: bool,
    name: str,
    is_right: bool,
) -> None:
    """What is kept of a number, what is new, and a line where the two should end.

    area: where zero lies, the upper edge, pixels of 1.0, height. numbers: before,
    kept, after, and what is right. If all is right, a frame shows the size before.
    """
    x, y, unit, height = area
    before, kept, after, right = numbers
    _draw_bar(sheet, x, y, kept * unit, height, soft(name))
    _draw_bar(sheet, x + kept * unit, y, (after - kept) * unit, height, strong(name))
    is_off = not math.isclose(after, right, rel_tol=1e-3, abs_tol=1e-6)
    shown = before if is_right and is_resized else right if is_off else 0.0
    if is_off and not is_right:
        _draw_aim(sheet, x + right * unit, y, height)
    elif shown:
        left = min(x, x + shown * unit)
        _draw_frame(sheet, left, y, abs(shown) * unit, height, is_right)
    end = x + max(0.0, kept, after, shown) * unit
    colour = {"color": BAD} if is_off else {}
    sheet.write(end + 6, y + height / 2, _signed(after, 2), **colour)


def _draw_bar(
    sheet: Sheet, x: float, y: float, width: float, height: float, tone: Tone
) -> None:
    """To the left if the width is negative; what was there before has a rim."""
    if width:
        rim = tone.line or "none"
        sheet.box(min(x, x + width), y, abs(width), height, tone, rim)


def _draw_aim(sheet: Sheet, x: float, y: float, height: float) -> None:
    """Across a bar, where it should end."""
    sheet.line((x, y - 4), (x, y + height + 4), linewidth=2.4)


def _draw_frame(
    sheet: Sheet, x: float, y: float, width: float, height: float, is_right: bool
) -> None:
    """Around a bar: its size before, or the right size of a wrong one."""
    sheet.box(x, y - 2, width, height + 4, **_frame_of(sheet, is_right))


def _frame_of(sheet: Sheet, is_right: bool) -> dict[str, object]:
    """Dashed: the size before. A heavy line: the right size of what is wrong."""
    line = {"linestyle": "--", "linewidth": 0.8} if is_right else {"linewidth": 1.8}
    return {"rim": sheet.look.ink, **line}


def _signed(number: float, digits: int) -> str:
    """With so many digits behind the point; fewer if there are two before it."""
    said = f"{number:.{digits}f}" if abs(number) < 9.995 else f"{number:.4g}"
    return said.replace("-", "−")
