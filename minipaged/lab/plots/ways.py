"""Lab: as many bytes under way, in many small programs or in few large ones."""

from collections.abc import Mapping

from minipaged.draw.letters import counted
from minipaged.draw.picture import Picture
from minipaged.draw.tones import strong
from minipaged.lab.measure.launches import AIM, Launch
from minipaged.lab.plots.render import Figure, render


def plot_ways(launches: Mapping[str, Launch], title: str, mark: str = "") -> Figure:
    """A row for each launch: the programs of a multiprocessor, side by side.

    A box is as wide as what its program has under way, in KiB; all rows have the same
    scale. An upright line is at 128 KiB. At the right is how long the launch takes, and
    its share of the read ceiling.

    launches: by name. Drawn is a multiprocessor that has as many programs as any other.
    mark: words below the upright line, in place of its number.
    """
    picture = Picture(title)
    picture.heads("time", "of the read ceiling")
    for name, launch in launches.items():
        values = f"{launch.us:.1f} µs", f"{launch.percent:.0f} %"
        lane = picture.lane(name, _programs(launch), values=values)
        kib = kib_of(launch)
        for number in range(launch.running):
            said = f"{kib:.0f} KiB"
            lane.bar(number * kib, (number + 1) * kib, strong(0), said)
    aim = AIM / 1024
    most = max(aim, *(one.running * kib_of(one) for one in launches.values()))
    options = {"highest": most, "marks": {aim: mark or f"{aim:g}"}}
    options["ticks"] = [aim * n / 4 for n in range(int(4 * most / aim) + 1)]
    picture.axis("KiB under way on a multiprocessor", **options)
    meaning = "a program of a multiprocessor, and what it has under way"
    picture.legend((strong(0), meaning))
    return render(picture.scene())


def kib_of(launch: Launch) -> float:
    """KiB that a program has under way; all that run at first have the same."""
    return launch.under_way * 1e6 / launch.waves[0] / 1024


def _programs(launch: Launch) -> str:
    """How many a launch has, and how many of them a multiprocessor has at a time."""
    whole = launch.running * launch.places == launch.waves[0] * launch.fit
    on_each = f"{launch.running} on each"
    on_each = on_each if whole else f"at most {on_each}"
    return f"{counted(sum(launch.waves), 'program')}, {on_each}"
