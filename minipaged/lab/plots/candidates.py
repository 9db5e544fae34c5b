"""Lab: one step of a beam search: which candidates go on, and which have ended."""

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.figure import Figure

from minipaged.draw.letters import PART, fit
from minipaged.draw.palette import line_colour
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import Tone, others, soft, strong
from minipaged.lab.plots.render import render

HEIGHT, ROW, TOP = 26.0, 36.0, 46.0  # pixels of a box, of a row, above the first one
# Pixels from the left.
NAME, BEAM, RANK, TOKEN, SUM, VERDICT = 56.0, 260.0, 344.0, 350.0, 494.0, 508.0
TOKEN_WIDTH = 90.0
GOES_ON, ENDED, TOO_LATE, LEFT_OUT = range(4)


class Candidate(NamedTuple):
    """A next token of one of the beams."""

    total: float  # sum of log-probabilities
    beam: int  # whose next token it is
    token: str
    is_end: bool  # does it end the text?


def plot_candidates(
    beams: Sequence[str],
    candidates: Sequence[Candidate],
    length: int,
    title: str,
    length_penalty: float = 1.0,
    kin: Sequence[int] = (),
) -> Figure:
    """Beams on the left, their candidates, best first, and what becomes of each.

    beams: their texts, best first; as many go on. Only the first len(beams) candidates
    may end. length: new tokens of a candidate, on which its final score depends.
    kin: of each beam, the number whose colour it has; its own, if not given.
    """
    sheet, width = Sheet(title), len(beams)
    kin = kin or range(width)
    verdicts = judge(width, [candidate.is_end for candidate in candidates])
    bottom = TOP + ROW * len(candidates)
    heights = [
        TOP + (at + 0.5) * (bottom - TOP) / width - ROW / 2 for at in range(width)
    ]
    sheet.write(0, 8, f"{width} beams, best first", PART, weight="bold")
    sheet.write(TOKEN, 8, f"the best {len(candidates)} candidates", PART, weight="bold")
    sheet.write(TOKEN, 28, "token", color=sheet.look.quiet)
    sheet.write(SUM, 28, "sum", color=sheet.look.quiet, ha="right")
    for beam, (words, y) in enumerate(zip(beams, heights, strict=True)):
        tones = strong(kin[beam]), soft(kin[beam])
        sheet.cells(0, y, [NAME, BEAM - NAME], HEIGHT, tones, [f"beam {beam}", words])
    for row, (one, verdict) in enumerate(zip(candidates, verdicts, strict=True)):
        y = TOP + row * ROW
        start = BEAM + 2, heights[one.beam] + HEIGHT / 2
        colour = line_colour(kin[one.beam]) if verdict in (GOES_ON, ENDED) else None
        sheet.arrow(start, (RANK - 28, y + HEIGHT / 2), colour)
        tone, rim = _tone(verdict, kin[one.beam]), line_colour(kin[one.beam])
        _draw_row(sheet, one, verdict, row + 1, y, tone, rim)
        if verdict == ENDED:
            score = one.total / length**length_penalty
            power = "" if length_penalty == 1 else f"^{length_penalty:g}"
            rounded = round(one.total, 2) / length**length_penalty
            sign = "=" if abs(rounded - round(score, 2)) < 1e-9 else "≈"
            said = f"{_number(one.total)} / {length}{power} {sign} {_number(score)}"
            _say(sheet, y, f"has ended, score {said}")
    y = TOP + width * ROW - (ROW - HEIGHT) / 2
    style = {"linestyle": (0, (4, 3)), "color": sheet.look.ink, "linewidth": 1.2}
    if len(candidates) > width:
        sheet.line((RANK - 22, y), (SPAN, y), **style)
        ends = any(candidate.is_end for candidate in candidates)
        remark = f"above the line: the best {width}"
        remark = "only above the line may a text end" if ends else remark
        sheet.write(VERDICT, 28, remark, color=sheet.look.quiet)
    return render(sheet.finish(bottom + 4))


def judge(width: int, ends: Sequence[bool]) -> list[int]:
    """What becomes of each candidate, best first: the rules in four lines."""
    verdicts, going = [], 0
    for rank, is_end in enumerate(ends):
        if is_end:
            verdicts.append(ENDED if rank < width else TOO_LATE)
        else:
            verdicts.append(GOES_ON if going < width else LEFT_OUT)
            going += 1
    return verdicts


def _draw_row(
    sheet: Sheet,
    one: Candidate,
    verdict: int,
    rank: int,
    y: float,
    tone: Tone,
    rim: str,
) -> None:
    middle = y + HEIGHT / 2
    sheet.write(RANK - 10, middle, str(rank), color=sheet.look.quiet, ha="center")
    sheet.cells(TOKEN, y, [TOKEN_WIDTH], HEIGHT, [tone], [one.token])
    if verdict == ENDED:
        sheet.box(TOKEN, y, TOKEN_WIDTH, HEIGHT, rim=rim, linewidth=3.2)
    sheet.write(SUM, middle, _number(one.total), ha="right")
    said = {GOES_ON: "goes on", TOO_LATE: "× below the line", LEFT_OUT: "× left out"}
    if verdict in said:
        _say(sheet, y, said[verdict])


def _say(sheet: Sheet, y: float, words: str) -> None:
    words, size = fit(words, SPAN - VERDICT - 10)
    sheet.write(VERDICT, y + HEIGHT / 2, words, size)


def _tone(verdict: int, colour: int) -> Tone:
    return {GOES_ON: strong(colour), ENDED: soft(colour)}.get(verdict, others())


def _number(value: float) -> str:
    """Two digits, or three if they were 0; with a minus that is long enough."""
    digits = 3 if 0 < abs(value) < 0.005 else 2
    return f"{round(value, digits) + 0.0:.{digits}f}".replace("-", "−")
