"""Lab: which step the CPU prepares, and which the GPU computes, over time."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from minipaged.draw.picture import Picture
from minipaged.draw.tones import free, strong
from minipaged.lab.plots.render import render

WHO = "CPU", "GPU"
Busy = tuple[str, float, float, int]  # who, from when, until when, with which step


def plot_host_and_gpu(runs: Mapping[str, Sequence[Busy]], title: str) -> Figure:
    """A pair of lanes for each run, CPU and GPU, with a bar for each step.

    A step has one colour on both. A gap between two steps of the GPU is a pale bar: it
    waits.
    """
    picture = Picture(title)
    for name, run in runs.items():
        of_gpu = [(start, stop) for who, start, stop, _ in run if who == "GPU"]
        computes = sum(stop - start for start, stop in of_gpu)
        whole = max(stop for _, stop in of_gpu) - min(start for start, _ in of_gpu)
        verdict = f"the GPU waits for {1 - computes / whole:.0%} of its time"
        picture.headline(name, verdict=verdict)
        lanes = {who: picture.lane(who, is_bold=True, height=24.0) for who in WHO}
        ends = {who: None for who in WHO}
        for who, start, stop, step in run:
            if who == "GPU" and ends[who] is not None:
                lanes[who].bar(ends[who], start, free(), "waits")
            lanes[who].bar(start, stop, strong(step - 1), f"step {step}")
            ends[who] = stop
    picture.axis("milliseconds")
    return render(picture.scene())
