"""Lab: does a beam search stop? The best running beam beside the answers kept."""

from collections.abc import Mapping, Sequence

from minipaged.draw.letters import PART, signed, width_of
from minipaged.draw.palette import BAD, GOOD
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import free, strong
from minipaged.lab.plots.render import Figure, render

LEFT, RIGHT = 290.0, 50.0  # pixels: of names and a sum; beside the last number
TOP, ROW, DOT = 46.0, 44.0, 10.0  # above the rows; of a row; of a mark


def plot_stopping(
    kept: Sequence[float], ends: Mapping[str, tuple[float, int]], title: str
) -> Figure:
    """A line of scores: a row for the answers kept, and one for each way to score.

    The search goes on where a mark stands to the right of the worst answer kept.

    kept: the scores of as many answers as are kept. ends: for each way, the sum of the
    best running beam and the length by which it is divided.
    """
    sheet, worst = Sheet(title), min(kept)
    scores = {way: total / length for way, (total, length) in ends.items()}
    low, high = min(worst, *scores.values()), max(0.0, *kept, *scores.values())
    unit = (SPAN - LEFT - RIGHT) / max(high - low, 1e-9)

    def place(score: float) -> float:
        return LEFT + (score - low) * unit

    bottom, edge = TOP + ROW * (1 + len(ends)), place(worst)
    left = "left of the worst answer kept: stop"
    sheet.write(0, 8, left, color=BAD)
    sheet.write(width_of(left) + 20, 8, "right of it: go on", color=GOOD)
    style = {"linestyle": "--", "color": sheet.look.ink, "layer": 0.5}
    sheet.line((edge, TOP - 22), (edge, TOP + 10), **style)
    sheet.line((edge, TOP + 30), (edge, bottom - 6), **style)
    sheet.write(0, TOP - 4, "answers kept", PART)
    sheet.write(0, TOP + 12, "their scores", color=sheet.look.quiet)
    for score in kept:
        x = place(score)
        sheet.box(x - DOT / 2, TOP - DOT / 2 + 4, DOT, DOT, strong(0))
        sheet.write(x, TOP + 20, signed(score), ha="center")
    for row, (way, (total, length)) in enumerate(ends.items(), start=1):
        y, x = TOP + row * ROW, place(scores[way])
        sheet.line((0, y - 10), (SPAN, y - 10), alpha=0.5)
        sheet.write(0, y + 6, way, PART)
        sheet.write(0, y + 22, f"scored at {length} tokens", color=sheet.look.quiet)
        colour = GOOD if scores[way] > worst else BAD
        mark = x - DOT / 2, y + 4, DOT, DOT
        sheet.box(*mark, free(), colour, linewidth=2.0)
        said = f"{signed(total)} / {length} = {signed(scores[way])}"
        is_left = scores[way] <= worst or x + DOT + width_of(said, bold=True) > SPAN
        side, apart = ("right", -DOT) if is_left else ("left", DOT)
        sheet.write(x + apart, y + 9, said, ha=side, color=colour, weight="bold")
    return render(sheet.finish(bottom - 4))
