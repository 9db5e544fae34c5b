"""Lab: what share of the weight each block has, by the right rule and by wrong ones."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from matplotlib.figure import Figure

from minipaged.draw.letters import PART, fit, visible, width_of
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import soft, strong
from minipaged.lab.plots.render import render

HEIGHT, ROW, TOP = 32.0, 66.0, 44.0  # pixels of a bar, from one to the next, above


def plot_shares(
    parts: Mapping[str, Sequence[float]],
    title: str,
    name: str = "A",
    blocks: Sequence[int] = (),
    words: Sequence[str] = (),
) -> Figure:
    """A bar for each rule, as long as all its weight, cut into what each block gets.

    parts: by rule, what each block counts, in any unit; the first rule is the right
    one. The block that should count most is strong everywhere, and dotted lines show
    where the right bar is cut. blocks: their ids. words: of each block, written above.
    """
    sheet = Sheet(title)
    right = _shares(next(iter(parts.values())))
    heaviest = right.index(max(right))
    left = max(width_of(rule, PART, bold=True) for rule in parts) + 18
    whole, bottom = SPAN - left, TOP + ROW * (len(parts) - 1) + HEIGHT
    cuts = [left + whole * sum(right[:at]) for at in range(len(right) + 1)]
    for block, (start, end) in enumerate(pairwise(cuts)):
        label = f"block {blocks[block] if blocks else block}"
        middle = (start + end) / 2
        sheet.write(middle, 6, label, PART, ha="center")
        if words:
            said = " ".join(visible(word) for word in words[block].split())
            said, size = fit(said, end - start - 6)
            sheet.write(middle, 24, said, size, color=sheet.look.quiet, ha="center")
    for row, (rule, own) in enumerate(parts.items()):
        y, x, shares = TOP + ROW * row, left, _shares(own)
        bold = {"weight": "normal" if row else "bold"}
        sheet.write(left - 12, y + HEIGHT / 2, rule, PART, ha="right", **bold)
        for block, share in enumerate(shares):
            is_heaviest, wide = block == heaviest, whole * share
            tone = strong(name) if is_heaviest else soft(name)
            rim = tone.line or "none"
            sheet.box(x + 0.75, y, max(wide - 1.5, 0.1), HEIGHT, tone, rim)
            said = f"{100 * share:.0f} %"
            if width_of(said, PART, bold=is_heaviest) < wide - 4:
                style = {"ha": "center", "weight": "bold" if is_heaviest else "normal"}
                sheet.write(x + wide / 2, y + HEIGHT + 12, said, PART, **style)
            x += wide
    dots = {"linestyle": ":", "color": sheet.look.ink, "linewidth": 1.2}
    for cut in cuts[1:-1]:
        for row in range(1, len(parts)):
            top = TOP + ROW * (row - 1) + HEIGHT
            sheet.line((cut, top), (cut, top + ROW - HEIGHT), **dots)
    return render(sheet.finish(bottom + 24))


def _shares(parts: Sequence[float]) -> list[float]:
    return [float(part) / float(sum(parts)) for part in parts]
