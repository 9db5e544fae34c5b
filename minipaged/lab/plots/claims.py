"""Lab: what a paper claims beside what was computed."""

from collections.abc import Iterable

from minipaged.draw.palette import BAD
from minipaged.draw.picture import Picture
from minipaged.draw.tones import Sign, sign_of
from minipaged.lab.plots.render import Figure, render
from minipaged.simulate.claims import Verdict


def plot_claims(verdicts: Iterable[Verdict], title: str) -> Figure:
    """A lane for each claim: lines where the paper's range ends; signs are ours.

    Signs outside of the range, widened as `claims` does, are crosses. The axis is
    logarithmic, and is about times.
    """
    picture = Picture(title)
    inside, outside = sign_of(0, 7.0), Sign("X", BAD, 8.0)
    for verdict in verdicts:
        what, _, remark = verdict.what.partition(", ")
        lane = picture.lane(what, remark, height=18.0)
        for number in sorted(set(verdict.paper)):
            lane.line(number)
        for number in verdict.ours:
            if number is not None:
                sign = inside if verdict.is_inside(number) else outside
                lane.dots([number], sign)
    picture.axis("times as many (logarithmic axis)", is_logarithmic=True)
    picture.legend((inside, "ours, within 25 % of the paper's range (lines)"),
                   (outside, "ours, outside"))  # fmt: skip
    return render(picture.scene())
