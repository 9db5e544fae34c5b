"""Lab: Little's law as a belt: what is asked for lies on it until it is used."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from minipaged.draw.palette import line_colour, theme
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import NOTHING, Tone, strong
from minipaged.lab.plots.render import render

PLACES, GATE = 16, 1.0  # boxes that cover a belt; places between the queue and the belt


def plot_belt(
    ceiling: float, latency: float, megabytes: Sequence[float], title: str
) -> Figure:
    """A row for each of the megabytes: so much is under way, so fast does it arrive.

    The belt is as long as the latency. Memory lays on it at most as much as covers it;
    what else is asked for waits in a queue before it. Lengths are times: with a queue,
    a byte comes later by as much as the queue is long.

    ceiling: GB/s that memory gives at most. latency: microseconds from when a program
    asks for a tile until it uses it, if nothing waits. megabytes: what is under way, by
    row.
    """
    picture, waiting = Picture(title, widest=24.0), Tone("none", line=line_colour(0))
    full = ceiling * latency / 1000  # MB, as 1 MB in 1 µs is 1,000 GB/s
    queues = [max(0, round(PLACES * (each / full - 1))) for each in megabytes]
    for under_way, queue in zip(megabytes, queues, strict=True):
        covered = min(1.0, under_way / full)
        rate, lying = ceiling * covered, round(PLACES * covered)
        needed = f"{1000 * under_way / rate:.3g} µs"
        said = f"{rate:,.0f} GB/s at most = {under_way:.1f} MB / {needed}"
        remark = _filling(under_way, full)
        picture.headline(f"{under_way:.1f} MB under way", remark, said)
        filled = {PLACES - 1 - at * PLACES // lying for at in range(lying)}
        cells = [Cell()] * (max(queues) - queue) + [Cell("", waiting)] * queue
        cells += [Cell(wide=GATE)] * any(queues)
        cells += [
            Cell("", strong(0) if at in filled else NOTHING) for at in range(PLACES)
        ]
        row = picture.row(cells=cells, height=16.0, gap=3.0)
        picture.frame(row[-PLACES:], theme().rim, 1.2)
        first = max(queues) - queue if queue else -PLACES
        picture.under(row[first:], f"{needed} from asking to use", theme().rim)
    signs = [(strong(0), f"{full / PLACES:.2f} MB on the way")]
    picture.legend(*signs, *[(waiting, "asked for, waits")] * any(queues))
    return render(picture.scene())


def _filling(under_way: float, full: float) -> str:
    """How what is under way fills the belt."""
    more = under_way - full
    if more >= 0.05:
        return f"memory gives no more: {more:.1f} MB wait"
    if more > -0.05:
        return "the belt is covered: this is the ceiling"
    return f"{100 * under_way / full:.0f} % of the belt is covered"
