"""Lab: how a cache of K and V grows, step by step."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from minipaged.draw.letters import COUNT, LEAST, PART, SMALL, fit, visible, width_of
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import soft, strong
from minipaged.lab.plots.render import render

LEFT, COUNTS = 112.0, 128.0  # pixels beside the columns: names of steps, and counts
ROOMY, DENSE, PAIRED = 112.0, 30.0, 16.0  # pixels of a step; of both halves


def plot_kv_growth(
    words: Sequence[str],
    stored: Sequence[int],
    title: str,
    num_prompt: int,
    name: str = "A",
    without: Sequence[int] = (),
) -> Figure:
    """One row per step: the columns of K and V that were there, and the new ones.

    words: the texts of all tokens. stored: columns in the cache after each step; the
    first step computes the prompt of `num_prompt` tokens. The word behind a row is what
    the step has chosen: the next step computes its column. name: whose they are.
    without: tokens computed in each step of the same answer without a cache; drawn
    above, to the same scale; K and V of a token are one cell then.
    """
    sheet, words = Sheet(title), [visible(word) for word in words]
    column = min(52.0, (SPAN - LEFT - COUNTS - 56) / max([*stored, *without]))
    longest = max(width_of(word) for word in words)
    is_roomy = len(stored) <= 5 and column >= 40 and not without
    row = ROOMY if is_roomy else PAIRED if without else DENSE
    kept = "K and V kept in the cache" if without else "kept in the cache"
    sheet.legend(LEFT, 8, [(strong(name), "computed in this step"), (soft(name), kept)])
    top = 52.0 if is_roomy else 34 + min(longest, 90)
    if without:
        _head(sheet, 36, "Without a cache", sum(without))
        top += 22
    else:
        _head_counts(sheet, 8, "read")
    if not is_roomy:
        _write_upright(sheet, words[: max([*stored, *without])], column, top - 6)
    if without:
        top = _draw_without(sheet, without, column, top, name) + 24
        _head(sheet, top, "With a cache", stored[-1], "read")
        top += min(90, max(map(width_of, words[:num_prompt]))) + 24
        _write_upright(sheet, words[:num_prompt], column, top - 6)
    before = 0
    for step, after in enumerate(stored):
        y = top + step * row
        height = 28.0 if is_roomy else PAIRED - 3 if without else 10.0
        lines = ("",) if without else ("K", "V")
        middle = _draw_cells(sheet, y, before, after, column, height, lines, name)
        _draw_step(sheet, y, middle, step, before, after, num_prompt, column, is_roomy)
        if is_roomy:
            _write_above(sheet, words, before, after, column, y)
        if after < len(words):
            if step == 0 and not is_roomy:
                _explain_choice(sheet, words[after], LEFT + after * column, middle)
            is_computed = step < len(stored) - 1
            if is_roomy:
                _draw_choice(sheet, words[after], after, column, y, is_computed)
            else:
                x = LEFT + after * column
                shown, size = fit(words[after], SPAN - COUNTS + 16 - x)
                sheet.write(x + 6, middle, shown, size)
        before = after
    return render(sheet.finish(top + len(stored) * row - (22 if is_roomy else 6)))


def _draw_without(
    sheet: Sheet, without: Sequence[int], column: float, y: float, owner: str
) -> float:
    """One row per step, all of it computed again; where the rows end."""
    for step, computed in enumerate(without):
        low = y + step * PAIRED
        tones = [strong(owner)] * computed
        sheet.cells(LEFT, low, [column] * computed, PAIRED - 3, tones)
        style = {"ha": "center", "weight": "bold"}
        sheet.write(SPAN - 84, low + PAIRED / 2 - 1, str(computed), PART, **style)
        sheet.write(0, low + PAIRED / 2 - 1, f"step {step + 1}", SMALL)
    return y + len(without) * PAIRED


def _head(sheet: Sheet, y: float, what: str, computed: int, *counts: str) -> None:
    """Above a half of the picture: which, and its tokens computed in all steps."""
    said = f"{what}: {computed} tokens computed in all"
    sheet.write(0, y, said, PART, weight="bold")
    _head_counts(sheet, y, *counts)


def _head_counts(sheet: Sheet, y: float, *more: str) -> None:
    """Over the counts at the right: what they count."""
    for x, said in zip((SPAN - 84, SPAN - 18), ("computed", *more), strict=False):
        sheet.write(x, y, said, ha="center", color=sheet.look.quiet)


def _draw_cells(
    sheet: Sheet,
    y: float,
    before: int,
    after: int,
    column: float,
    height: float,
    lines: Sequence[str],
    owner: str,
) -> float:
    """The columns of one step, a cell for each line; the middle of them all."""
    tones = [soft(owner)] * before + [strong(owner)] * (after - before)
    gap = 3 if height > 20 else 1
    for line, letter in enumerate(lines):
        low = y + line * (height + gap)
        sheet.cells(LEFT, low, [column] * after, height, tones)
        if height > 20 or before == 0:
            size = PART if height > 20 else LEAST
            sheet.write(LEFT - 6, low + height / 2, letter, size, ha="right")
    return y + (len(lines) * (height + gap) - gap) / 2


def _draw_step(
    sheet: Sheet,
    y: float,
    middle: float,
    step: int,
    before: int,
    after: int,
    num_prompt: int,
    column: float,
    is_roomy: bool,
) -> None:
    """The name of a step at the left, its counts at the right."""
    name = "prefill" if before < num_prompt else f"decode {step}"
    sheet.write(0, middle - 8 * is_roomy, name, PART if is_roomy else SMALL)
    if is_roomy:
        tokens = "1 token" if after - before == 1 else f"{after - before} tokens"
        sheet.write(0, middle + 9, tokens, color=sheet.look.quiet)
        right, low = LEFT + after * column, y + 64
        bracket = (LEFT, low), (LEFT, low + 4), (right, low + 4), (right, low)
        sheet.line(*bracket, color=sheet.look.ink)
        said = "each token reads itself and those before it"
        if after - before == 1:
            said = f"the new token reads {after} columns"
        if width_of(said) < right - LEFT + 40:
            sheet.write((LEFT + right) / 2, low + 15, said, ha="center")
    size = COUNT if is_roomy else PART
    sheet.write(
        SPAN - 84, middle, str(after - before), size, ha="center", weight="bold"
    )
    sheet.write(SPAN - 18, middle, str(after), size, ha="center")


def _write_above(
    sheet: Sheet,
    words: Sequence[str],
    before: int,
    after: int,
    column: float,
    y: float,
) -> None:
    """The words of the columns that are new."""
    for index, word in enumerate(words[before:after], before):
        shown, size = fit(word, column - 3)
        sheet.write(LEFT + (index + 0.5) * column, y - 9, shown, size, ha="center")


def _write_upright(sheet: Sheet, words: Sequence[str], column: float, y: float) -> None:
    """The words of all columns once, from below upwards."""
    for index, word in enumerate(words):
        shown, size = fit(word, 90, min(SMALL, column * 0.6))
        style = {"rotation": 90, "va": "bottom", "ha": "center"}
        sheet.write(LEFT + (index + 0.5) * column, y, shown, size, **style)


def _explain_choice(sheet: Sheet, word: str, x: float, middle: float) -> None:
    """Behind the first chosen word: what it is, if there is room."""
    said, x = "← chosen; the next step computes it", x + width_of(word) + 14
    if x + width_of(said) < SPAN - COUNTS + 16:
        sheet.write(x, middle, said, color=sheet.look.quiet)


def _draw_choice(
    sheet: Sheet, word: str, index: int, column: float, y: float, is_computed: bool
) -> None:
    """The token that the step has chosen, and an arrow to the column it will have."""
    x = LEFT + index * column
    shown, size = fit(word, column + 24)
    sheet.write(x + 6, y + 30, shown, size)
    if is_computed:
        middle = x + column / 2
        sheet.arrow((middle, y + 40), (middle, y + ROOMY - 17), is_upright=True)
