"""The simulator with its knobs: what is wasted, and how long requests take.

Waste is that of lessons 1 and 2: a queue that never ends, and the paper's four kinds of
slots. Times are those of appendix F: the real scheduler on a server of the paper's
table 1, a cost model in place of the model.
"""

from collections import deque
from dataclasses import replace
from functools import cache
from html import escape
from itertools import groupby
from typing import NamedTuple

import ipywidgets as widgets

from minipaged.draw.chart import Chart
from minipaged.draw.html import to_svg
from minipaged.draw.letters import counted
from minipaged.draw.marks import Scene
from minipaged.draw.palette import KINDS_OF_SLOTS, PAGE, themed
from minipaged.draw.picture import Cell, Picture
from minipaged.draw.tones import kind_of_slot
from minipaged.lab.pool.controls import choice, one_of, row
from minipaged.lab.pool.guide import Frame
from minipaged.lab.pool.html import story
from minipaged.lab.pool.page import Page
from minipaged.memory.contiguous import (
    Policy,
    RequestLengths,
    reserve_max,
    reserve_oracle,
    reserve_pow2,
)
from minipaged.memory.paged_waste import simulate_paged
from minipaged.memory.waste import WasteReport
from minipaged.memory.waste import simulate as simulate_reserving
from minipaged.simulate.loop import simulate
from minipaged.simulate.pictures import Queue, queues_of, thinned
from minipaged.simulate.report import Report
from minipaged.simulate.servers import OPT_13B, Server
from minipaged.simulate.systems import SYSTEMS
from minipaged.simulate.traces import (
    alpaca_like,
    arrivals,
    poisson_trace,
    sharegpt_like,
)

NUM_SLOTS, MAX_LENGTH = OPT_13B.num_slots, OPT_13B.max_length
BLOCK_SIZES = (1, 4, 16, 64, 256)


class Load(NamedTuple):
    """Requests of some lengths, and rates that are worth trying."""

    lengths: tuple[RequestLengths, ...]
    queue: tuple[RequestLengths, ...]  # so many that somebody waits for long
    rates: tuple[float, ...]


class Way(NamedTuple):
    """A way to give memory to a request."""

    system: str  # its name in SYSTEMS
    short: str
    said: str
    policy: Policy | None = None  # None: blocks


LOADS = {
    "chats, as in ShareGPT": Load(
        tuple(sharegpt_like(120)),
        tuple(sharegpt_like(300)),
        (0.5, 1, 1.5, 2, 3, 4, 6, 8),
    ),
    "instructions, as in Alpaca": Load(
        tuple(alpaca_like(480)),
        tuple(alpaca_like(3000)),
        (4, 8, 12, 16, 24, 32, 48, 64),
    ),
}
WAYS = {
    "blocks, as texts grow (PagedAttention)": Way("vLLM", "blocks", "blocks"),
    "a piece, exact length (Orca Oracle)": Way(
        "Orca (Oracle)", "exact piece", "a piece of its exact length", reserve_oracle
    ),
    "a piece, power of 2 (Orca Pow2)": Way(
        "Orca (Pow2)", "power of 2", "a piece of the next power of 2", reserve_pow2
    ),
    "a piece, longest length (Orca Max)": Way(
        "Orca (Max)", "longest piece", "a piece of the longest length", reserve_max
    ),
}
BLOCKS, *_, LONGEST = WAYS
SLOWEST = 0.3  # seconds a token: the upper end of the chart
HIGHEST = 0.97 * SLOWEST  # of a cross: below the words above the chart
SPAN = 350.0  # pixels of a chart: so its words can be read on a phone
NOTE = (
    "120 chats, or 480 instructions, of made-up lengths with the paper's means, on "
    "OPT-13B and one A100 of 40 GB. The scheduler is minipaged's own. A cost model "
    "says how long a step takes: the least that reading and computing take. So a real "
    "server is slower; and its kernels read small blocks less well, which is not "
    "counted here. "
    "The number of requests is fixed: at 8 a second, all 120 chats have come after "
    "about 15 seconds. In a longer run, lower rates fail. So read the ratios between "
    "the ways, and not the rates (appendix F). "
    "An × marks a rate that is not sustained: the queue grows until the last request "
    "has come. There, latency depends on how many requests there are. "
    "Waste is that of another run: a longer queue, in which somebody always waits. So "
    "it is the same at each rate."
)


class Simulator(Page):
    """Knobs, and pictures that follow them.

    At each turn of a knob the run that is asked for comes first. Then, in `go_on`, the
    same requests at the other rates, for the curves.
    """

    def __init__(self) -> None:
        """Chats at 2 requests a second, in blocks of 16."""
        self.load = choice("Requests:", [*LOADS])
        self.way = choice("Each request gets", [*WAYS])
        names = {f"{size:,}": size for size in BLOCK_SIZES}
        self.block_size = one_of(names, 16)
        self.block_size.description = "Slots in a block"
        self.rate = widgets.SelectionSlider(
            options=[("", 0.0)], description="Requests a second:"
        )
        self._offer_rates()
        self.said, self.figures, self.waste, self.latency, self.queue = (
            widgets.HTML() for _ in range(5)
        )
        sizes = row(widgets.HTML("Slots in a block:"), self.block_size)
        knobs = widgets.VBox(
            [row(self.load, self.way), row(sizes, self.rate)],
            _dom_classes=("mp-knobs",),
        )
        charts = row(self.waste, self.latency, self.queue, kind="mp-charts")
        note = widgets.HTML(f"<small>{NOTE}</small>")
        super().__init__(knobs, self.said, self.figures, charts, note)
        self.words: tuple[str, ...] = ()
        self._is_offering = False
        self._left = ""  # the rate that other requests did not have
        self._to_do: deque[Run] = deque()
        self.load.observe(lambda _: self._change_load(), "value")
        for knob in (self.way, self.block_size, self.rate):
            knob.observe(lambda _: self._change(), "value")
        self.draw()

    @property
    def run(self) -> "Run":
        """What the knobs ask for."""
        return Run(
            self.load.value, self.way.value, self.block_size.value, self.rate.value
        )

    @property
    def is_busy(self) -> bool:
        """Are there rates that the curve lacks?"""
        return bool(self._to_do)

    def go_on(self) -> None:
        """Run the next rate, and draw the curve anew."""
        served(self._to_do.popleft())
        self._draw_latency()

    def draw(self) -> None:
        """Run what the knobs ask for, and show it."""
        run, report = self.run, served(self.run)
        others = [
            run._replace(way=way, rate=rate)
            for way in dict.fromkeys((run.way, BLOCKS, LONGEST))
            for rate in LOADS[run.load].rates
        ]
        self._to_do = deque(each for each in others if each not in _served)
        waste = {way: wasted(run.load, way, run.block_size) for way in WAYS}
        said = tell(run, waste), tell_rate(run, report, self._left)
        self._left = ""
        self.words = tuple(words for one in said for words in (one.big, one.sub))
        self.said.value = "".join(map(story.say, said))
        self.block_size.disabled = run.way != BLOCKS
        self.figures.value = figures(report, waste[run.way])
        self.waste.value = _svg(waste_picture(run, waste), "waste")
        self.queue.value = _svg(queue_chart(report), "queue")
        self._draw_latency()

    def _draw_latency(self) -> None:
        self.latency.value = _svg(latency_chart(self.run), "latency")

    def _change_load(self) -> None:
        """The rate stays, if these requests have it; else `draw` says that it went."""
        before = self.rate.value
        self._is_offering = True
        self._offer_rates(before)
        self._is_offering = False
        self._left = "" if self.rate.value == before else f"{before:g}"
        self.draw()

    def _change(self) -> None:
        if not self._is_offering:  # else one draws when all knobs have moved
            self.draw()

    def _offer_rates(self, wanted: float = 0.0) -> None:
        rates = LOADS[self.load.value].rates
        self.rate.options = [(f"{rate:g}", rate) for rate in rates]
        self.rate.value = wanted if wanted in rates else rates[3]


class Run(NamedTuple):
    """What is served, how memory is given, and how fast requests come."""

    load: str
    way: str
    block_size: int
    rate: float

    @property
    def server(self) -> Server:
        """OPT-13B, with blocks of this size."""
        return replace(OPT_13B, block_size=self.block_size)


_served: dict[Run, Report] = {}


def served(run: Run) -> Report:
    """What users would have seen; each run is made once."""
    if run not in _served:
        trace = poisson_trace(LOADS[run.load].lengths, run.rate)
        scheduler = SYSTEMS[WAYS[run.way].system](run.server)
        _served[run] = simulate(scheduler, arrivals(trace), run.server)
    return _served[run]


@cache
def wasted(load: str, way: str, block_size: int) -> WasteReport:
    """Where memory goes while somebody always waits."""
    queue, policy = LOADS[load].queue, WAYS[way].policy
    if policy is None:
        return simulate_paged(queue, NUM_SLOTS, block_size)
    return simulate_reserving(queue, policy, NUM_SLOTS, MAX_LENGTH)


def tokens_a_second(report: Report) -> float:
    """Of all answers, from the first arrival to the last token."""
    return sum(one.output for one in report.served) / report.seconds


def mean_running(report: Report) -> float:
    """How many requests ran at one time, from the first arrival to the last one.

    What follows is left out: a server that is asked nothing more runs empty.
    """
    last = max(one.arrival for one in report.served)
    steps = [step for step in report.timeline if step.end - step.seconds <= last]
    busy = sum(step.seconds for step in steps)
    return sum(step.seconds * step.running for step in steps) / busy


def is_sustained(report: Report) -> bool:
    """Does the queue stop growing while requests still arrive?

    It does not if in each quarter of that time more requests wait than in the quarter
    before, on average. A longer run may show that another rate is not sustained either.
    """
    last = max(one.arrival for one in report.served)
    seconds = [0.0] * 4  # that requests have waited in each quarter, all together
    for step in report.timeline:
        for at in range(4):
            begin = max(step.end - step.seconds, last * at / 4)
            end = min(step.end, last * (at + 1) / 4)
            seconds[at] += step.waiting * max(0.0, end - begin)
    waiting = [4 * each / last for each in seconds]
    return waiting[-1] < 1 or waiting != sorted(waiting)


def tell(run: Run, waste: dict[str, WasteReport]) -> Frame:
    """What the saturated run shows, in words."""
    lost = 100 * (1 - waste[run.way].token_states)
    size = f" of {counted(run.block_size, 'slot')}" if run.way == BLOCKS else ""
    return Frame(
        f"Saturated run: {lost:.0f} % of the memory is wasted",
        "A separate run, without a rate: somebody always waits. Each request gets "
        f"{WAYS[run.way].said}{size}.",
    )


def tell_rate(run: Run, report: Report, left: str = "") -> Frame:
    """What the run at this rate shows; `left`: the rate before, if it has gone."""
    latency = report.summary("normalized_latency")
    fails = (
        "" if is_sustained(report) else " This rate is not sustained: the queue grows."
    )
    moved = f" (These requests are not tried at {left} a second.)" if left else ""
    return Frame(
        f"At {run.rate:g} requests a second: {latency.mean:.3f} seconds a token",
        "That is the normalised latency: the time from the arrival to the end, waiting "
        "included, divided by the tokens of the answer. While requests arrive, "
        f"{mean_running(report):.0f} run at one time, on average.{fails}{moved}",
    )


def figures(report: Report, waste: WasteReport) -> str:
    """Throughput and latencies, in numbers; latencies of a rate that fails say so."""
    fails = "" if is_sustained(report) else ": not sustained"
    latency = report.summary("normalized_latency")
    first = report.summary("time_to_first_token")
    rows = [
        (
            f"{100 * (1 - waste.token_states):.1f} %",
            "of memory wasted, in the saturated run",
        ),
        (
            f"{tokens_a_second(report):,.0f}",
            "tokens a second, until the last one has ended",
        ),
        (f"{latency.mean:.3f}", f"s a token, with waiting, mean{fails}"),
        (f"{latency.p99:.3f}", f"s a token, with waiting, P99{fails}"),
        (f"{first.p99:.2f}", f"seconds to the first token, P99{fails}"),
        (f"{report.preemptions:,}", "preemptions"),
    ]
    cells = (f"<p><b>{number}</b> <span>{what}</span></p>" for number, what in rows)
    return f'<div class="mp-figures mp-six">{"".join(cells)}</div>'


def waste_picture(run: Run, waste: dict[str, WasteReport]) -> Picture:
    """A bar for each way, as in the paper's figure 2; that of this run is in bold."""
    picture = Picture("What memory holds")
    picture.text("percent of all slots, while somebody always waits")
    for way, report in waste.items():
        shares = {kind: 100 * getattr(report, kind) for kind in KINDS_OF_SLOTS}
        shares["external"] -= shares["rounded_up"]
        cells = [
            Cell(f"{share:.0f}" if share >= 9 else "", kind_of_slot(kind), wide=share)
            for kind, share in shares.items()
            if share > 1e-9
        ]
        is_now = way == run.way
        picture.row(WAYS[way].short, "", cells, fills=True, height=26, is_bold=is_now)
    kinds = [
        kind for kind in KINDS_OF_SLOTS if any(getattr(r, kind) for r in waste.values())
    ]
    signs = ((kind_of_slot(kind), KINDS_OF_SLOTS[kind][2]) for kind in kinds)
    picture.legend(*signs, rim=PAGE.quiet, linewidth=0.8)  # "free" is pale
    return picture


def latency_chart(run: Run) -> Chart:
    """Over the rate, of all ways that were tried with these requests.

    A rate that is not sustained has a cross, at the upper edge if it lies above it.
    """
    chart = Chart(
        "Normalised latency",
        xlabel="requests a second",
        ylabel="seconds a token, with waiting",
        height=150,
        x_limits=(0, None),
        y_limits=(0, SLOWEST),
    )
    failing: dict[int, list[tuple[float, float]]] = {}
    for series, (way, each_way) in enumerate(WAYS.items()):
        rates = LOADS[run.load].rates
        runs = [run._replace(way=way, rate=rate) for rate in rates]
        pieces = groupby(runs, key=_served.__contains__)
        dots, failing[series] = [], []
        # No line leads over a rate that was not tried yet.
        for at, piece in enumerate(
            [[*some] for is_served, some in pieces if is_served]
        ):
            points = [
                (each.rate, served(each).summary("normalized_latency").mean)
                for each in piece
            ]
            words = "" if at else each_way.short
            chart.line(points, words, series=series, has_markers=False)
            for each, (rate, latency) in zip(piece, points, strict=True):
                if is_sustained(served(each)):
                    dots.append((rate, latency))
                else:
                    failing[series].append((rate, min(latency, HIGHEST)))
        chart.line(dots, series=series, has_line=False)
    name = "not sustained"
    for series, crosses in failing.items():
        if crosses:
            look = {"series": series, "has_line": False, "marker": "x"}
            chart.line(crosses, name, **look)
            name = ""  # said once
    chart.mark(x=run.rate)
    return chart


def queue_chart(report: Report) -> Chart:
    """Requests that run and wait."""
    shown: list[Queue] = [*thinned(queues_of(report.timeline), 120)]
    chart = Chart(
        "Who runs, and who waits", xlabel="seconds", ylabel="requests", height=150
    )
    for series, name in enumerate(("running", "waiting")):
        points = [(queue.moment, getattr(queue, name)) for queue in shown]
        chart.line(points, name, is_stairs=True, series=series)
    return chart


def _svg(band: Picture | Chart, name: str) -> str:
    """Its heading as text of the page, and the rest as a picture."""
    with themed(PAGE):
        picture = band
        if isinstance(band, Chart):
            picture = Picture(band.title)
            picture.add(band)
        scene: Scene = picture.scene(SPAN)
        drawn = to_svg(scene, with_title=False, name=name)
    return f"<h4>{escape(scene.title)}</h4>{drawn}"
