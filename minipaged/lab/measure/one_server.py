"""Lab: one of the paper's systems, a minute of chats, and what became of both."""

from dataclasses import replace
from functools import cache
from typing import NamedTuple

from minipaged.simulate.loop import simulate
from minipaged.simulate.memory_meter import MemoryMeter
from minipaged.simulate.paper import BASIC
from minipaged.simulate.systems import SYSTEMS
from minipaged.simulate.traces import arrivals


class Outcome(NamedTuple):
    """How a server did."""

    filled: float  # share of its memory that holds tokens, while somebody waits
    running: float  # requests at a time
    tokens_per_second: float  # of answers
    latency: float  # the mean normalized latency, in seconds a token
    preemptions: int


@cache
def serve_minute(system: str, rate: float, block_size: int = 16) -> Outcome:
    """OPT-13B of the paper, made-up ShareGPT chats for a minute, `rate` a second."""
    load = BASIC["OPT-13B, ShareGPT"]
    server = replace(load.server, block_size=block_size)
    scheduler = SYSTEMS[system](server)
    meter = MemoryMeter(scheduler, server.num_slots)
    report = simulate(scheduler, arrivals(load.trace(1, rate)), server)
    return Outcome(
        meter.filled,
        report.mean_running,
        sum(one.output for one in report.served) / report.seconds,
        report.summary("normalized_latency").mean,
        report.preemptions,
    )
