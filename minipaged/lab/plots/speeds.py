"""Lab: output tokens a second of an engine, rung by rung, and host by host."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from minipaged.draw.letters import PART, width_of
from minipaged.draw.scales import Scale, scale_of
from minipaged.draw.sheet import SPAN, Sheet
from minipaged.draw.tones import Tone, others, soft, strong
from minipaged.lab.measure.measured import OTHERS, PARTS
from minipaged.lab.plots.dots import draw_axis
from minipaged.lab.plots.render import render

RUNGS = {  # of the ladder, then the parts: what they are called here
    "generate": "HuggingFace generate, a batch of {requests}",
    "eager": "engine, eager",
    "graphs": "engine, CUDA graphs",
    "generate_batch": "HuggingFace generate_batch",
    "vllm": "vLLM {version}",
    "nano_vllm": "nano-vllm {version}",
    "compiled": "engine, compiled",
    "without_merging": "without merged linear layers",
    "with_two_launches": "without attention in one launch",
}
TOP, ROW, HEIGHT, GROUP = 20.0, 30.0, 14.0, 36.0  # pixels; HEIGHT of a bar
INDENT = 14.0  # of what is left out
VALUE, FACTOR = 58.0, 82.0  # pixels for the numbers at the right


def plot_engine_speeds(hosts: Sequence[Mapping[str, Any]], title: str) -> Figure:
    """A bar for each way to run, in a group for each host; a sign for each round.

    A bar ends at the median of the rounds. At the right stands how many times as many
    tokens these are as those of the group's first bar: hosts are not compared.
    hosts: as `measured_engine` has them.
    """
    sheet = Sheet(title)
    groups = [(host, [rung for rung in RUNGS if rung in host]) for host in hosts]
    left = INDENT + max(map(width_of, RUNGS.values())) + 16
    most = max(max(_rounds(host[rung])) for host, rungs in groups for rung in rungs)
    whole = SPAN - left - VALUE - FACTOR
    scale = scale_of([0.0, most], left, whole, False, (0.0, most))
    _draw_key(sheet)
    y, spans = TOP, []
    for number, (host, rungs) in enumerate(groups, start=1):
        sheet.write(0, y + GROUP - 13, f"Host {number}", PART, weight="bold")
        machine = "{device}, torch {torch}, {date}".format_map(host["machine"])
        sheet.write(64, y + GROUP - 13, machine, color=sheet.look.quiet)
        y += GROUP
        spans.append((y, y + ROW * len(rungs)))
        for rung in rungs:
            _draw_row(sheet, scale, y, rung, host[rung], host[rungs[0]])
            y += ROW
    draw_axis(sheet, scale, spans, "output tokens a second")
    return render(sheet.finish(y + 44))


def _rounds(row: Mapping[str, Any]) -> list[float]:
    """Tokens a second of each round; of what ran once, the one number."""
    rounds = [each["tokens_per_s"] for each in row.get("rounds", ())]
    return rounds or [row["tokens_per_s"]]


def _tone(rung: str) -> Tone:
    """Others' are grey, ours blue, and pale where a part is left out."""
    if rung in ("generate", *OTHERS):
        return others()
    return soft(0) if rung in PARTS else strong(0)


def _draw_row(
    sheet: Sheet,
    scale: Scale,
    y: float,
    rung: str,
    row: Mapping[str, Any],
    first: Mapping[str, Any],
) -> None:
    """Name, bar, rounds below it, median, and the factor to the group's first."""
    median, middle = row["tokens_per_s"], y + 4 + HEIGHT / 2
    sheet.write(INDENT * (rung in PARTS), middle, RUNGS[rung].format_map(row))
    length, tone = scale.x(median) - scale.left, _tone(rung)
    sheet.box(scale.left, y + 4, length, HEIGHT, tone, tone.line or "none")
    rounds = _rounds(row)
    for speed in rounds if len(rounds) > 1 else ():
        _draw_round(sheet, scale.x(speed), y + 4 + HEIGHT + 4)
    end = scale.left + scale.width
    sheet.write(end + VALUE - 6, middle, f"{int(median + 0.5):,}", ha="right")
    if row is not first:
        factor = f"× {median / first['tokens_per_s']:.2f}"
        sheet.write(SPAN, middle, factor, ha="right", weight="bold")


def _draw_round(sheet: Sheet, x: float, y: float) -> None:
    """A sign that points up to a bar."""
    sheet.dots([(x, y)], "^", size=4, layer=3)


def _draw_key(sheet: Sheet) -> None:
    """What bars and signs mean, and what the numbers at the right are."""
    quiet = {"color": sheet.look.quiet}
    x = sheet.legend(0, 8, [(strong(0), "median")])
    _draw_round(sheet, x + 4, 8)
    sheet.write(x + 14, 8, "a round", **quiet)
    x += 14 + width_of("a round") + 20
    sheet.legend(x, 8, [(soft(0), "a part is left out")])
    said = "times the first bar of the host"
    sheet.write(SPAN, 8, said, ha="right", **quiet)
