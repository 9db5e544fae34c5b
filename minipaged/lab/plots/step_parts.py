"""Lab: a step on a GPU as bars: what it computes, and how long it waits."""

from collections.abc import Mapping
from typing import Any

from minipaged.draw.picture import Picture
from minipaged.draw.tones import free, strong
from minipaged.lab.measure.step_parts import WAITS, step_parts
from minipaged.lab.plots.render import Figure, render


def plot_step_parts(steps: Mapping[str, Mapping[str, Any]], title: str) -> Figure:
    """A lane for each step, with a bar for each of its parts: see `step_parts`.

    The kernels of a part are drawn side by side, though they ran in turns with others.
    steps: of `time_line` of `measured_engine`, by name.
    """
    picture, tones = Picture(title), {}
    picture.heads("a step", "of it, waits")
    for name, step in steps.items():
        parts, start = step_parts(step), 0.0
        span = step["gpu_span_ms"]
        tones = {part: strong(at) for at, part in enumerate(parts)} | {WAITS: free()}
        values = f"{span:.1f} ms", f"{step['idle_ms'] / span:.0%}"
        lane = picture.lane(name, values=values, height=22.0)
        for part, ms in parts.items():
            lane.bar(start, start + ms, tones[part])
            start += ms
    picture.axis("milliseconds")
    picture.legend(*[(tone, part) for part, tone in tones.items()])
    return render(picture.scene())
