"""Lab: requests whose prompts are computed at one place, and answers at another (H)."""

from collections.abc import Sequence

from minipaged.draw.palette import BAD
from minipaged.draw.picture import Picture
from minipaged.draw.tones import Tone, free, soft, strong
from minipaged.lab.plots.render import Figure, render
from minipaged.simulate.apart import ApartReport


def plot_handed(report: ApartReport, numbers: Sequence[int], title: str) -> Figure:
    """A lane for each request: its prompt, K and V on their way, its answer.

    Requests of a link are together, in the order in which it moves them. A link has the
    number of the replica that computes the prompt.

    numbers: of these requests in the trace.
    """
    answers = {answer.number: answer for answer in report.cluster.answers}
    transfers = {transfer.number: transfer for transfer in report.transfers}
    start = min(answers[number].served.arrival for number in numbers)
    picture = Picture(title)
    above = None
    for number in sorted(numbers, key=lambda each: transfers[each][1:4]):
        served, moved = answers[number].served, transfers[number]
        if above not in (None, moved.replica):
            picture.space(10.0)
        above = moved.replica
        lane = picture.lane(
            f"link {moved.replica}, request {number}",
            f"{moved.num_bytes / 1e6:,.0f} MB",
            height=18.0,
            apart=8.0,
        )
        ends = served.arrival, served.first_token, moved.start, moved.end, served.end
        tones = strong("A"), free(), Tone(BAD), soft("B")
        begin = ends[0] - start
        for end, tone in zip(ends[1:], tones, strict=True):
            lane.bar(begin, end - start, tone)
            begin = end - start
    picture.axis("seconds")
    picture.legend(
        (strong("A"), "waits, then its prompt, up to the first token"),
        (free(), "K and V wait for the link"),
        (Tone(BAD), "K and V on the link"),
        (soft("B"), "its answer"),
    )
    return render(picture.scene())
