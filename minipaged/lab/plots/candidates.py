"""Lab: one step of a beam search: which candidates go on, and which have ended."""

from collections.abc import Sequence
from typing import NamedTuple

from minipaged.draw.letters import signed
from minipaged.draw.palette import line_colour
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import others, soft, strong
from minipaged.lab.plots.render import Figure, render

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
) -> Figure:
    """Beams on the left, their candidates, best first, and what becomes of each.

    beams: their texts, best first; as many go on. Only the first len(beams) candidates
    may end. length: new tokens of a candidate, by which its sum is divided.
    """
    width, drawing = len(beams), Picture(title)
    left = Picture(f"{width} beams, best first")
    right = Picture(f"the best {len(candidates)} candidates", widest=90.0)
    left.text("")  # so that both begin at the same height
    rows = []
    for beam, words in enumerate(beams):
        cells = [Cell("", strong(beam), 0.1), Cell(words, soft(beam))]
        rows.append(left.row(f"beam {beam}", "", cells, fills=True))
    ends = [candidate.is_end for candidate in candidates]
    line = "only above the line may a text end"
    right.text(line if any(ends) else f"above the line: the best {width}")
    for rank, (one, verdict) in enumerate(
        zip(candidates, judge(width, ends), strict=True)
    ):
        if rank == width:
            right.rule()
        own = one.beam
        tone = {GOES_ON: strong(own), ENDED: soft(own)}.get(verdict, others())
        heads = ("token", "sum") if rank == 0 else ("", "")
        cell = Cell(one.token, tone, above=heads[0])
        if verdict == ENDED:
            cell = cell._replace(rim=line_colour(own))
        total = Cell(_number(one.total), wide=0.7, above=heads[1])
        said = {
            GOES_ON: "goes on",
            TOO_LATE: "× below the line",
            LEFT_OUT: "× left out",
            ENDED: f"has ended, score {_score(one.total, length)}",
        }[verdict]
        row = right.row(str(rank + 1), "", [cell, total], aside=said)
        is_kept = verdict in (GOES_ON, ENDED)
        drawing.link(rows[one.beam][1], row[0], line_colour(own) if is_kept else None)
    drawing.beside(left, right, gap=80.0, shares=(1, 2))
    return render(drawing.scene())


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


def _score(total: float, length: int) -> str:
    """The sum, divided by the length."""
    score = total / length
    is_exact = abs(round(total, 2) / length - round(score, 2)) < 1e-9
    return f"{_number(total)} / {length} {'=' if is_exact else '≈'} {_number(score)}"


def _number(value: float) -> str:
    """Two digits, or three if they were 0."""
    return signed(value, 3 if 0 < abs(value) < 0.005 else 2)
