"""Lab: what a paper claims beside what was computed."""

from collections.abc import Iterable

from minipaged.draw.palette import BAD
from minipaged.draw.picture import Picture
from minipaged.draw.tones import Sign, sign_of
from minipaged.lab.plots.render import Figure, render
from minipaged.simulate.claims import INSIDE, NEAR, OUTSIDE, SLACK, Verdict


def plot_claims(verdicts: Iterable[Verdict], title: str) -> Figure:
    """A lane for each claim: lines where the paper's range ends; signs are ours.

    The signs say where ours lie: inside, near, or outside (crosses). An
    "up to" has one line. The axis is logarithmic, and is about times.
    """
    picture = Picture(title)
    signs = {
        INSIDE: sign_of(0, 7.0),
        NEAR: sign_of(1, 7.0),
        OUTSIDE: Sign("X", BAD, 8.0),
    }
    for verdict in verdicts:
        what, _, remark = verdict.what.partition(", ")
        lane = picture.lane(what, remark, height=18.0)
        for number in sorted({*verdict.paper} - {0.0}):
            lane.line(number)
        for number in verdict.ours:
            if number is not None:
                lane.dots([number], signs[verdict.place(number)])
    picture.axis("times as many (logarithmic axis)", is_logarithmic=True)
    told = "ours, inside the paper's range (lines)", f"near: by {SLACK:.0%}", "outside"
    picture.legend(*zip(signs.values(), told, strict=True))
    return render(picture.scene())
