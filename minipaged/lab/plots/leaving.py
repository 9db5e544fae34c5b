"""Lab: clients that leave, and the blocks that their requests hold meanwhile (G)."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from minipaged.draw.chart import Chart
from minipaged.draw.letters import counted
from minipaged.draw.palette import BAD, GOOD
from minipaged.draw.picture import Picture
from minipaged.draw.tones import Tone, shared, strong
from minipaged.lab.plots.render import Figure, render

Steps = Sequence[Mapping[str, int]]  # of each step: how many blocks each client holds
HIGH = 110.0  # pixels of a panel


def plot_leaving(
    left: Mapping[str, int], held: Mapping[str, Steps], title: str
) -> Figure:
    """A panel for each server: whose blocks are held in each step, and for whom.

    left: the step after which each client is gone; from then on, its blocks are
    hatched. held: by what the server does, the blocks of each client in each step.
    """
    picture, above = Picture(title), None
    most = max(sum(step.values()) for steps in held.values() for step in steps)
    for words, steps in held.items():
        last = sum(steps[-1].values())
        verdict = f"at last {counted(last, 'block')}"
        picture.headline(words, "", verdict, BAD if last else GOOD)
        chart = Chart(
            xlabel="step",
            ylabel="blocks held",
            height=HIGH,
            x_limits=(0, len(steps)),
            y_limits=(0, most),
            below=above,
        )
        for start, stop, (low, high, tone) in _piled(left, steps):
            chart.box((start, low), (stop, high), tone)
        picture.add(chart)
        above = chart
    first = next(iter(left))
    signs = [(strong(name), f"{name} reads") for name in left]
    signs.append((_gone(first), "hatched: its client has left"))
    picture.legend(*signs)
    return render(picture.scene())


def _gone(name: str) -> Tone:
    return shared(strong(name), name)


def _piled(
    left: Mapping[str, int], steps: Steps
) -> Iterator[tuple[int, int, tuple[int, int, Tone]]]:
    """From step to step: where the blocks of a client begin and end, and their tone.

    Steps that look alike are one box, as hatches do not meet at its edges.
    """
    for name in left:
        boxes = []
        for number, step in enumerate(steps):
            low = sum(step[below] for below in [*left][: [*left].index(name)])
            tone = strong(name) if number < left[name] else _gone(name)
            boxes.append((low, low + step[name], tone))
        start = 0
        for box, same in groupby(boxes):
            stop = start + len([*same])
            if box[1] > box[0]:
                yield start, stop, box
            start = stop
