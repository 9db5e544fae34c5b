"""Lab: attention over blocks, one after another: what is known after each of them."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import torch

from minipaged.draw.letters import PART, fit, lines_of, signed, visible, width_of
from minipaged.draw.marks import Scene
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
    steps = steps_of(logits, states, list(dims))
    is_right = all(step.factor == step.expected for step in steps)
    drawing = _Drawing(Sheet(title), steps, name, is_right)
    some = "one" if len(dims) == 1 else f"{len(dims)}"
    of_output = f"{some} of {len(states[0][2])} numbers"
    drawing.draw_headings(of_output if len(states[0][2]) > 1 else "weighted values")
    for row, weights in enumerate(weights_of(logits, steps)):
        start = sum(map(len, logits[:row]))
        own_words = words[start : start + len(logits[row])]
        drawing.draw_label(row, blocks[row] if blocks else row, own_words)
        drawing.draw_weights(row, weights, logits[row], sum(map(len, logits)))
        drawing.draw_maximum(row)
        if row:
            drawing.draw_factor(row)
    drawing.draw_sums()
    drawing.draw_outputs()
    drawing.draw_result()
    return render(drawing.draw_legend())


class _Drawing(NamedTuple):
    """The columns of all steps: what they say, or what is wrong with it."""

    sheet: Sheet
    steps: Sequence[Step]
    name: str
    is_right: bool

    @property
    def bottom(self) -> float:
        """Where the last row ends."""
        return TOP + len(self.steps) * ROW

    def draw_headings(self, remark_of_output: str) -> None:
        """What the columns are."""
        for x, part, remark, style in (
            (LABEL, "weights e^(x − m)", "below them: the new logits x", {}),
            (MAXIMUM, "m", "largest x", {"ha": "center"}),
            (FACTOR, "factor", "of s and o", {"ha": "center"}),
            (SUM, "s", "their sum", {}),
            (OUTPUT, "o", remark_of_output, {}),
        ):
            self.sheet.write(x, 8, part, PART, **style)
            self.sheet.write(x, 25, remark, color=self.sheet.look.quiet, **style)

    def draw_label(self, row: int, block: int, words: Sequence[str]) -> None:
        """The block's id, and below it its words, as many in a line as fit."""
        sheet, y = self.sheet, TOP + row * ROW
        if row:
            sheet.line((0, y - 22), (SPAN, y - 22), alpha=0.5)
        lines = lines_of(" ".join(map(visible, words)), LABEL - 12, 3)
        middle = y + BARS / 2 - 9 * len(lines)
        sheet.write(0, middle, f"block {block}", PART)
        for line, text in enumerate(lines):
            text, size = fit(text, LABEL - 8)
            sheet.write(0, middle + 18 * (line + 1), text, size, color=sheet.look.quiet)

    def draw_weights(
        self, row: int, weights: Sequence[Weight], new: torch.Tensor, num_bars: int
    ) -> None:
        """A bar for each token so far; a frame where it was, or where it should be.

        new: the logits of this block. num_bars: of all blocks together.
        """
        sheet, ground, width = self.sheet, TOP + row * ROW + BARS, WEIGHTS / num_bars
        num_old = len(weights) - len(new)
        for at, (before, now, right) in enumerate(weights):
            is_old, x, height = at < num_old, LABEL + at * width, now * BARS
            tone = soft(self.name) if is_old else strong(self.name)
            self._draw_bar(x + 1, ground - height, width - 2, height, tone)
            if not is_old and num_bars <= MOST_NUMBERS:
                said = signed(float(new[at - num_old]), 1)
                sheet.write(x + width / 2, ground + 9, said, 8, ha="center")
            framed = before if self.is_right else right
            if is_old and not math.isclose(framed, now, rel_tol=1e-3, abs_tol=0.02):
                height = framed * BARS
                sheet.box(x + 1, ground - height, width - 2, height, **self._frame)
        sheet.line((LABEL, ground), (LABEL + WEIGHTS, ground))

    def draw_maximum(self, row: int) -> None:
        """A dotted line at the weight 1, which is that of the largest logit."""
        sheet, y = self.sheet, TOP + row * ROW
        dots = {"linestyle": ":", "color": sheet.look.ink, "linewidth": 1.2}
        sheet.line((LABEL, y), (MAXIMUM - 22, y), **dots)
        sheet.write(LABEL - 4, y, "1", ha="right", color=sheet.look.quiet)
        said = _signed(self.steps[row].maximum, 1)
        sheet.write(MAXIMUM, y, said, PART, ha="center", weight="bold")

    def draw_factor(self, row: int) -> None:
        """What the past was multiplied by; in red, and with the right one, if wrong."""
        sheet, step, y = self.sheet, self.steps[row], TOP + row * ROW + BARS / 2 - 9
        is_right, bold = step.factor == step.expected, {"weight": "bold"}
        wrong = {} if is_right else {"color": BAD}
        said = f"× {step.factor:.2f}" if step.factor else "× 0"
        sheet.write(FACTOR, y, said, PART, ha="center", **bold, **wrong)
        if not is_right:
            wanted, size = fit(f"should be × {step.expected:.2f}", 92)
            sheet.write(FACTOR, y + 17, wanted, size, ha="center", **wrong)
            return
        old, new = (_signed(one.maximum, 2) for one in self.steps[row - 1 : row + 1])
        why, size = fit(f"e^({old} − {new})", 92)
        quiet = {"ha": "center", "color": sheet.look.quiet}
        sheet.write(FACTOR, y + 18, why, size, **quiet)

    def draw_sums(self) -> None:
        """A bar for each step, and between them how the one shrinks into the next."""
        steps, height = self.steps, 24.0
        unit = SUM_WIDTH / max(
            total
            for step in steps
            for total, _ in (step.before, step.after, step.right, step.unscaled)
        )
        middles = [TOP + row * ROW + BARS / 2 for row in range(len(steps))]
        for (above, below), step in zip(pairwise(middles), steps[1:], strict=True):
            ends = step.before[0] * unit, step.kept[0] * unit
            xs = (SUM, SUM + ends[0], SUM + ends[1], SUM)
            top, low = above + height / 2 + 2, below - height / 2 - 2
            corners = zip(xs, (top, top, low, low), strict=True)
            self.sheet.area(*corners, face=sequence_colour(self.name), alpha=0.14)
        for middle, step in zip(middles, steps, strict=True):
            numbers = step.before[0], step.kept[0], step.after[0], step.right[0]
            area = SUM, middle - height / 2, unit, height
            self._draw_growth(area, numbers, step.is_resized)

    def draw_outputs(self) -> None:
        """The same for each number of the output, which may be negative."""
        ends = [
            number
            for step in self.steps
            for _, numbers in step[3:]  # from before on
            for number in numbers
        ]
        unit = OUTPUT_WIDTH / max(max(*ends, 0.0) - min(*ends, 0.0), 1e-9)
        zero, height = OUTPUT - min(*ends, 0.0) * unit, 12.0
        for row, step in enumerate(self.steps):
            y = TOP + row * ROW + BARS / 2 - 10 * len(step.after[1]) + 4
            values = step.before[1], step.kept[1], step.after[1], step.right[1]
            for numbers in zip(*values, strict=True):
                self._draw_growth((zero, y, unit, height), numbers, step.is_resized)
                y += 20

    def draw_result(self) -> None:
        """o / s after the last step; and what it should be, if that is another."""
        sheet, y, said = self.sheet, self.bottom, "The result, o / s:"
        sheet.line((0, y - 22), (SPAN, y - 22), alpha=0.5)
        sheet.write(0, y, said, PART)
        x = width_of(said, PART) + 10
        found, wanted = (
            ", ".join(_signed(number / total, 3) for number in output)
            for total, output in (self.steps[-1].after, self.steps[-1].right)
        )
        wrong = {} if self.is_right else {"color": BAD}
        sheet.write(x, y, found, PART, weight="bold", **wrong)
        if not self.is_right:
            x += width_of(found, PART, bold=True) + 20
            sheet.write(x, y, "should be:", PART)
            x += width_of("should be:", PART) + 10
            sheet.write(x, y, wanted, PART, weight="bold", color=GOOD)

    def draw_legend(self) -> Scene:
        """What the bars and frames mean; with it, the drawing is finished."""
        sheet, y = self.sheet, self.bottom + 26
        signs = [(strong(self.name), "new: this block's part")]
        signs += [(soft(self.name), "what was there" + ", rescaled" * self.is_right)]
        x = sheet.legend(0, y, signs)
        if not self.is_right or any(step.is_resized for step in self.steps):
            sheet.box(x + 2, y - 6, 14, 12, **self._frame)
            said = "its size before" if self.is_right else "the correct size"
            sheet.write(x + 24, y, said, color=sheet.look.quiet)
            x += 24 + width_of(said) + 20
        if not self.is_right:
            self._draw_aim(x + 2, y - 6, 12)
            sheet.write(x + 12, y, "the correct end", color=sheet.look.quiet)
        return sheet.finish(y + 10)

    def _draw_growth(
        self,
        area: tuple[float, float, float, float],
        numbers: tuple[float, float, float, float],
        is_resized: bool,
    ) -> None:
        """What is kept of a number, what is new, and a line where the two should end.

        area: where zero lies, the upper edge, pixels of 1.0, height. numbers: before,
        kept, after, and what is right. If all is right, a frame shows the size before.
        """
        (x, y, unit, height), (before, kept, after, right) = area, numbers
        new = x + kept * unit, y, (after - kept) * unit, height
        self._draw_bar(x, y, kept * unit, height, soft(self.name))
        self._draw_bar(*new, strong(self.name))
        is_off = not math.isclose(after, right, rel_tol=1e-3, abs_tol=1e-6)
        shown = before if self.is_right and is_resized else right if is_off else 0.0
        if is_off and not self.is_right:
            self._draw_aim(x + right * unit, y, height)
        elif shown:
            frame = min(x, x + shown * unit), y - 2, abs(shown) * unit, height + 4
            self.sheet.box(*frame, **self._frame)
        end = x + max(0.0, kept, after, shown) * unit
        colour = {"color": BAD} if is_off else {}
        self.sheet.write(end + 6, y + height / 2, _signed(after, 2), **colour)

    def _draw_bar(
        self, x: float, y: float, width: float, height: float, tone: Tone
    ) -> None:
        """To the left if the width is negative; what was there before has a rim."""
        if width:
            left, rim = min(x, x + width), tone.line or "none"
            self.sheet.box(left, y, abs(width), height, tone, rim)

    def _draw_aim(self, x: float, y: float, height: float) -> None:
        """Across a bar, where it should end."""
        self.sheet.line((x, y - 4), (x, y + height + 4), linewidth=2.4)

    @property
    def _frame(self) -> dict[str, object]:
        """Dashed: the size before. A heavy line: the right size of what is wrong."""
        line = {"linestyle": "--", "linewidth": 0.8}
        line = line if self.is_right else {"linewidth": 1.8}
        return {"rim": self.sheet.look.ink, **line}


def _signed(number: float, digits: int) -> str:
    """With so many digits behind the point; fewer if there are two before it."""
    said = f"{number:.{digits}f}" if abs(number) < 9.995 else f"{number:.4g}"
    return said.replace("-", "−")
