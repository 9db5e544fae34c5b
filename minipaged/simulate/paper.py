"""Appendix F: the paper's figures 12 to 17 and 18b, computed.

All systems run on the same loop with the same cost model. A rate is sustained if the
mean normalized latency stays below LIMIT. The paper names no limit: its curves are
compared where they rise steeply, and so the choice matters little.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from statistics import fmean
from typing import Any, NamedTuple

from minipaged.memory.contiguous import RequestLengths
from minipaged.simulate.loop import simulate
from minipaged.simulate.rates import curve, point, sustained_rate
from minipaged.simulate.report import Report
from minipaged.simulate.servers import LLAMA_13B, OPT_13B, OPT_66B, OPT_175B, Server
from minipaged.simulate.sharing import SharingMeter
from minipaged.simulate.systems import SYSTEMS, VARIANTS, System
from minipaged.simulate.trace_files import azure
from minipaged.simulate.traces import (
    ALPACA,
    PREFIXES,
    SHAREGPT,
    WMT,
    Asked,
    alpaca_like,
    arrivals,
    chat_like,
    faster,
    poisson_trace,
    sharegpt_like,
    with_beams,
    with_samples,
    wmt_like,
)

LIMIT = 0.2  # seconds a token
WIDTHS = (2, 4, 6)  # samples or beams, in figures 14 and 15
BLOCK_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)  # in figure 18b
ORCAS = ("Orca (Oracle)", "Orca (Pow2)", "Orca (Max)")

Change = Callable[[list[Asked]], list[Asked]]


class Dataset(NamedTuple):
    """Lengths of requests: so many, by a seed."""

    lengths: Callable[[int, int], list[RequestLengths]]
    mean_output: float  # tokens


DATASETS = {
    "ShareGPT": Dataset(sharegpt_like, SHAREGPT[1][0]),
    "Alpaca": Dataset(alpaca_like, ALPACA[1][0]),
    "WMT": Dataset(wmt_like, WMT[1][0]),
    "chat": Dataset(chat_like, SHAREGPT[1][0]),
}


def curves_of(
    runs: Mapping[str, Callable[[float], Report]], start: float
) -> dict[str, Any]:
    """For each system its points, and the rate that it sustains.

    runs: of each system, what it reports at a rate; `start`: a rate to begin with.
    """
    found = {}
    for name, run in runs.items():
        points = curve(run, LIMIT, start)
        found[name] = {
            "sustained": sustained_rate(points, LIMIT),
            "points": [one._asdict() for one in points],
        }
    return found


class Load(NamedTuple):
    """What is asked of a server; `start`: a rate to begin with, a second."""

    server: Server
    dataset: str
    start: float
    prefix: int = 0  # tokens that all prompts share
    change: Change = list  # to samples or beams

    def trace(self, minutes: float, rate: float) -> list[Asked]:
        """Requests for so many minutes, or fewer if their answers are short.

        An answer of Alpaca is 5.8 times shorter than one of ShareGPT, and so is a trace
        in which as many answers follow each other.
        """
        lengths, mean = DATASETS[self.dataset]
        seconds = 60 * minutes * mean / SHAREGPT[1][0]
        count = max(20, round(rate * seconds))
        return self.change(poisson_trace(lengths(count, 0), rate, prefix=self.prefix))

    def run(self, system: System, minutes: float, rate: float) -> Report:
        """Serve them all."""
        trace = self.trace(minutes, rate)
        return simulate(system(self.server), arrivals(trace), self.server)

    def curves(self, systems: Iterable[str], minutes: float) -> dict[str, Any]:
        """For each system its points, and the rate that it sustains."""
        runs = {
            name: partial(self.run, (SYSTEMS | VARIANTS)[name], minutes)
            for name in systems
        }
        return curves_of(runs, self.start)

    def saved(self, minutes: float, rate: float) -> float:
        """The share of blocks that vLLM saves by sharing."""
        scheduler = SYSTEMS["vLLM"](self.server)
        meter = SharingMeter(scheduler)
        simulate(scheduler, arrivals(self.trace(minutes, rate)), self.server)
        return meter.saved


BASIC = {
    "OPT-13B, ShareGPT": Load(OPT_13B, "ShareGPT", 2.0),
    "OPT-66B, ShareGPT": Load(OPT_66B, "ShareGPT", 1.0),
    "OPT-175B, ShareGPT": Load(OPT_175B, "ShareGPT", 4.0),
    "OPT-13B, Alpaca": Load(OPT_13B, "Alpaca", 16.0),
    "OPT-66B, Alpaca": Load(OPT_66B, "Alpaca", 16.0),
    "OPT-175B, Alpaca": Load(OPT_175B, "Alpaca", 32.0),
}
BUSY = {"ShareGPT": 2.0, "Alpaca": 16.0}  # a second: OPT-13B has much to do


def several(dataset: str, width: int, kind: str) -> Load:
    """OPT-13B, asked for so many "samples" or "beams"."""
    change = with_samples if kind == "samples" else with_beams
    start = BUSY[dataset] / width
    return Load(OPT_13B, dataset, start, change=lambda trace: change(trace, width))


def figure_12(minutes: float, name: str) -> dict[str, Any]:
    """Latency over rate, for one of BASIC."""
    return BASIC[name].curves(SYSTEMS, minutes)


def figure_13(minutes: float, name: str) -> dict[str, Any]:
    """How many requests run at one time: at the paper's rate, twice and four times it.

    The higher rate is there because A100s by their data sheet are faster than the
    paper's servers: at the paper's rate they are not busy.
    """
    rate = {"OPT-13B, ShareGPT": 2.0, "OPT-13B, Alpaca": 30.0}[name]
    return {
        f"{times * rate:g} a second": {
            system: BASIC[name].run(make, minutes, times * rate).mean_running
            for system, make in SYSTEMS.items()
        }
        for times in (1, 2, 4)
    }


def figure_14(minutes: float, kind: str) -> dict[str, Any]:
    """Rates that OPT-13B sustains on Alpaca with samples, or with beams."""
    return {
        str(width): several("Alpaca", width, kind).curves(("vLLM", *ORCAS), minutes)
        for width in WIDTHS
    }


def figure_15(minutes: float, kind: str) -> dict[str, Any]:
    """The share of memory saved by sharing, at rates that keep the server busy."""
    loads = {
        dataset: {str(width): several(dataset, width, kind) for width in WIDTHS}
        for dataset in BUSY
    }
    return {
        dataset: {width: load.saved(minutes, load.start) for width, load in own.items()}
        for dataset, own in loads.items()
    }


def figure_16(minutes: float, name: str) -> dict[str, Any]:
    """Translations whose prompts begin alike, on LLaMA-13B."""
    load = Load(LLAMA_13B, "WMT", 16.0, prefix=PREFIXES[name])
    return load.curves(("vLLM, prefix cache", "vLLM", *ORCAS), minutes)


def figure_17(minutes: float, name: str) -> dict[str, Any]:
    """Rounds of conversations, nothing kept between them."""
    return Load(OPT_13B, name, 1.0).curves(("vLLM", *ORCAS), minutes)


def figure_18(minutes: float, name: str) -> dict[str, Any]:
    """Latency by block size, at 0.9 of the rate that OPT-13B sustains in figure 12.

    Blocks of all sizes are read equally fast here, so this shows only what small blocks
    save: memory.
    """
    load = BASIC[f"OPT-13B, {name}"]
    rate = {"ShareGPT": 3.9, "Alpaca": 112.0}[name]
    found = {}
    for size in BLOCK_SIZES:
        sized = load._replace(server=replace(load.server, block_size=size))
        report = sized.run(SYSTEMS["vLLM"], minutes, rate)
        found[str(size)] = point(rate, report)._asdict()
    return found


def recorded(minutes: float, path: str) -> dict[str, Any]:
    """Azure's conversations of 2023, from a file that you have downloaded; OPT-13B.

    Those with more positions than the model has are left out. The others keep their
    moments, stretched to a rate.
    """
    every = list(azure(path))
    trace = [
        asked
        for asked in every
        if len(asked.prompt) + asked.lengths[0] <= OPT_13B.max_length
    ]
    own_rate = len(trace) / trace[-1].arrival

    def run(system: System, rate: float) -> Report:
        load = arrivals(faster(trace, rate / own_rate, minutes))
        return simulate(system(OPT_13B), load, OPT_13B)

    systems = ("vLLM", *ORCAS)
    runs = {name: partial(run, SYSTEMS[name]) for name in systems}
    return {
        "requests": len(every),
        "served": len(trace),
        "mean_prompt": fmean(len(asked.prompt) for asked in trace),
        "mean_output": fmean(asked.lengths[0] for asked in trace),
        "curves": curves_of(runs, start=1.0),
    }


# Each can be computed alone.
PARTS: dict[str, tuple[Callable[[float, str], dict[str, Any]], str]] = {
    **{f"figure 12, {name}": (figure_12, name) for name in BASIC},
    "figure 13, OPT-13B, ShareGPT": (figure_13, "OPT-13B, ShareGPT"),
    "figure 13, OPT-13B, Alpaca": (figure_13, "OPT-13B, Alpaca"),
    **{f"figure 14, {kind}": (figure_14, kind) for kind in ("samples", "beams")},
    **{f"figure 15, {kind}": (figure_15, kind) for kind in ("samples", "beams")},
    **{f"figure 16, {name}": (figure_16, name) for name in PREFIXES},
    "figure 17": (figure_17, "chat"),
    **{f"figure 18, {name}": (figure_18, name) for name in BUSY},
}
