"""Lab: the waves of launches over time: how many programs run, and what is busy."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from minipaged.draw.letters import counted
from minipaged.draw.palette import theme
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import free, soft, strong
from minipaged.lab.measure.wave_times import WaveTimes
from minipaged.lab.plots.render import render

EACH, STRIP = 18.0, 22.0  # pixels: of a program on each multiprocessor; of the unit


def plot_waves(launches: Mapping[str, WaveTimes], title: str) -> Figure:
    """One clock for all launches: a box for each wave, as high as programs run in it.

    Below a wave is a strip as full as the unit of shared memory and L1 is busy. Where a
    launch has two waves, only the time of both was measured. The second wave's is
    reckoned, the rest is the first one's. How long each keeps the unit busy is then
    reckoned, too.
    """
    picture = Picture(title)
    for name, times in launches.items():
        launch, several = times.launch, len(times.us) > 1
        what = (
            "both waves: " if several else ""
        ) + f"{sum(times.us):,.0f} µs, measured"
        picture.headline(name, f"room for {launch.fit} on each", what)
        frame = {"rim": theme().rim}
        running = picture.lane("programs", height=EACH * launch.fit, **frame)
        known = "reckoned" if several else "measured"
        unit = picture.lane("L1 unit", f"{known}: busy for", height=STRIP, **frame)
        waves = zip(launch.waves, times.us, times.busy, strict=True)
        for number, (programs, us, busy) in enumerate(waves, start=1):
            said = counted(programs, "program")
            if several:
                known = "reckoned" if number > 1 else "the rest"
                said = f"wave {number}: {said}, {us:,.0f} µs, {known}"
            share = f"{busy * us:,.0f} of {us:,.0f} µs: {100 * busy:.0f} %"
            part = programs / launch.places
            running.cells.append(Cell("", strong(0), us, above=said, high=part))
            unit.cells.append(Cell("", soft(0), us, below=share, high=busy))
    picture.axis("time, µs")
    signs = [(strong(0), "programs"), (free(), "places without a program")]
    picture.legend(*signs, (soft(0), "the L1 unit is busy"))
    return render(picture.scene())
