"""Lab: what the CPU prepares, and what the GPU computes, over time."""

from collections.abc import Mapping, Sequence

from minipaged.draw.picture import Picture
from minipaged.draw.tones import free, strong
from minipaged.lab.plots.render import Figure, render

WHO = "CPU", "GPU"
Busy = tuple[str, float, float, str]  # who, from when, until when, with what


def plot_host_and_gpu(
    runs: Mapping[str, Sequence[Busy]], title: str, unit: str = "milliseconds"
) -> Figure:
    """A pair of lanes for each run, CPU and GPU, with a bar for each thing they do.

    What has the same name has one colour on both. A gap between two bars of the GPU is
    pale: it waits.
    """
    picture = Picture(title)
    for name, run in runs.items():
        of_gpu = [(start, stop) for who, start, stop, _ in run if who == "GPU"]
        computes = sum(stop - start for start, stop in of_gpu)
        whole = max(stop for _, stop in of_gpu) - min(start for start, _ in of_gpu)
        verdict = f"the GPU waits for {1 - computes / whole:.0%} of its time"
        picture.headline(name, verdict=verdict)
        lanes = {who: picture.lane(who, is_bold=True, height=24.0) for who in WHO}
        names = list(dict.fromkeys(what for *_, what in run))
        end = None
        for who, start, stop, what in run:
            if who == "GPU" and end is not None:
                lanes[who].bar(end, start, free(), "waits")
            lanes[who].bar(start, stop, strong(names.index(what)), what)
            if who == "GPU":
                end = stop
    picture.axis(unit)
    return render(picture.scene())
