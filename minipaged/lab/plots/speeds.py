"""Lab: output tokens a second of an engine, rung by rung, and host by host."""

from collections.abc import Mapping
from typing import Any

from minipaged.draw.palette import theme
from minipaged.draw.picture import Picture
from minipaged.draw.tones import Sign, Tone, others, soft, strong
from minipaged.lab.measure.measured import OTHERS, PARTS
from minipaged.lab.plots.render import Figure, render

RUNGS = {  # of the ladder, then the parts: what they are called here
    "generate": "HuggingFace generate, a batch of {requests}",
    "eager": "engine, eager",
    "graphs": "engine, CUDA graphs",
    "generate_batch": "HuggingFace generate_batch",
    "vllm": "vLLM {version}",
    "nano_vllm": "nano-vllm {version}",
    "compiled": "engine, compiled",
    "without_merging": "    without merged linear layers",
    "with_two_launches": "    K and V in a launch of their own",
}


def plot_engine_speeds(hosts: Mapping[int, Mapping[str, Any]], title: str) -> Figure:
    """A bar for each way to run, in a group for each host; a sign for each round.

    A bar ends at the median of the rounds. At the right stands how many times as many
    tokens these are as those of the group's first bar: hosts are not compared.
    hosts: by number, as `measured_engine` has them.
    """
    picture = Picture(title)
    a_round = Sign("^", theme().ink, 4.0)
    signs = [(strong(0), "median"), (a_round, "a round")]
    if any(part in host for host in hosts.values() for part in PARTS):
        signs.append((soft(0), "a part is left out"))
    picture.legend(*signs)
    for number, host in hosts.items():
        machine = "{device}, torch {torch}, {date}".format_map(host["machine"])
        picture.headline(f"Host {number}", machine)
        speeds = {rung: host[rung]["tokens_per_s"] for rung in RUNGS if rung in host}
        first = next(iter(speeds))
        for rung, speed in speeds.items():
            times = "" if rung == first else f"× {speed / speeds[first]:.2f}"
            lane = picture.lane(
                RUNGS[rung].format_map(host[rung]),
                values=(f"{int(speed + 0.5):,}", times),
                height=14.0,
            )
            lane.bar(0, speed, _tone(rung))
            rounds = host[rung].get("rounds", ())
            for each in rounds if len(rounds) > 1 else ():
                lane.point(each["tokens_per_s"], is_below=True)
    picture.axis("output tokens a second; at the right, times the host's first bar")
    return render(picture.scene())


def _tone(rung: str) -> Tone:
    """Others' are grey, ours blue, and pale where a part is left out."""
    if rung in ("generate", *OTHERS):
        return others()
    return soft(0) if rung in PARTS else strong(0)
