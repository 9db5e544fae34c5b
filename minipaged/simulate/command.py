"""Lab: a run of servers from the command line: tables, and a picture.

    python -m minipaged.simulate
    python -m minipaged.simulate --load alpaca --rates 10 20 40 --html rates.html
    python -m minipaged.simulate --systems vllm-prefix-cache --load applications \
        --replicas 64 --router round-robin prefix --rates 60 --minutes 0.5
    python -m minipaged.simulate --trace azure AzureLLMInferenceTrace_conv.csv
"""

import argparse
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from minipaged.scheduling.routing import POLICIES
from minipaged.simulate.cluster import random_deaths, simulate_cluster
from minipaged.simulate.cluster_report import ClusterReport
from minipaged.simulate.fit import FittedServer, fitted_server
from minipaged.simulate.loads import (
    FILES,
    OWN_PREFIXES,
    TALKS,
    fitting,
    trace_of,
    unit_of,
)
from minipaged.simulate.loop import Replica
from minipaged.simulate.pictures import load_page
from minipaged.simulate.report import Report
from minipaged.simulate.servers import SERVERS
from minipaged.simulate.systems import SYSTEMS, VARIANTS, System
from minipaged.simulate.traces import LENGTHS, Asked


def _slug(name: str) -> str:
    """For the command line: "Orca (Max)" is orca-max."""
    return "-".join(re.findall(r"[a-z0-9]+", name.lower()))


NAMES = {_slug(name): name for name in SYSTEMS | VARIANTS}
COLUMNS = ("time_to_first_token", "time_per_token", "normalized_latency")


class Run(NamedTuple):
    """A system at a rate."""

    system: str
    rate: float  # as asked for
    report: Report
    router: str
    cluster: ClusterReport


def _number(
    kind: type, is_good: Callable[[float], bool], words: str
) -> Callable[[str], float]:
    """Reads an argument that must be a number of this kind."""

    def read(text: str) -> float:
        try:
            if is_good(number := kind(text)):
                return number
        except ValueError:
            pass
        raise argparse.ArgumentTypeError(f"must be {words}, got {text}")

    return read


def parser() -> argparse.ArgumentParser:
    """What the command understands."""
    made = argparse.ArgumentParser(
        prog="python -m minipaged.simulate",
        description="Serve a made-up or recorded load with the real scheduler; a cost "
        "model says how long each step takes. Needs no GPU and no torch.",
    )
    add = made.add_argument
    default = " (default: %(default)s)"
    positive = _number(float, lambda each: 0 < each < inf, "a number more than 0")
    from_0 = _number(int, lambda each: each >= 0, "a whole number from 0")
    from_1 = _number(int, lambda each: each >= 1, "a whole number from 1")
    slugs = {_slug(name): server for name, server in SERVERS.items()}
    which = made.add_mutually_exclusive_group().add_argument
    which("--server", choices=slugs, default="opt-13b", help="of the paper" + default)
    which("--costs", type=Path, help="a measured server: a file by gpu/step_costs.py")
    systems = ["vllm", "orca-oracle", "orca-max"]
    add("--systems", nargs="+", choices=NAMES, default=systems, metavar="SYSTEM",
        help=f"of {', '.join(NAMES)} (default: {' '.join(systems)})")  # fmt: skip
    loads = [*LENGTHS, *OWN_PREFIXES]
    what = made.add_mutually_exclusive_group().add_argument
    what("--load", choices=loads, default="sharegpt", help=f"lengths{default}")
    what("--trace", nargs=2, metavar=("KIND", "FILE"),
        help=f"a recorded trace instead, of kind {', '.join(FILES)}")  # fmt: skip
    add("--rates", nargs="+", type=positive, default=[1, 2, 4], metavar="RATE",
        help="requests a second, or conversations that begin in a second (with "
        "--trace: times as fast)" + default)  # fmt: skip
    add("--minutes", type=positive, default=2.0,
        help=f"in which requests come, or conversations begin{default}")  # fmt: skip
    add("--seed", type=int, default=0, help="of lengths and arrivals" + default)
    add("--prefix", type=from_0, default=0, help="tokens that all prompts share")
    several = made.add_mutually_exclusive_group()
    several.add_argument("--samples", type=from_1, help="of each request")
    several.add_argument("--beams", type=from_1, help="of each request")
    add("--replicas", type=from_1, default=1, help="behind a router" + default)
    names = ", ".join(POLICIES)
    add("--router", nargs="+", choices=POLICIES, default=["least-loaded"],
        metavar="ROUTER", help=f"who serves whom: {names}{default}")  # fmt: skip
    add("--deaths", type=from_0, default=0, help="of replicas, at random moments")
    words = "seconds until a replica is back, with an empty cache" + default
    add("--away", type=positive, default=20.0, help=words)
    add("--html", type=Path, help="draw latencies and queues into this file")
    return made


def main(arguments: Sequence[str] | None = None) -> list[Run]:
    """Run, print, draw."""
    from minipaged.progress import progress_bar  # tqdm, at the edge only

    made = parser()
    given = made.parse_args(arguments)
    systems = {NAMES[slug]: (SYSTEMS | VARIANTS)[NAMES[slug]] for slug in given.systems}
    loads = {}
    try:
        server = (
            fitted_server(given.costs)
            if given.costs
            else {_slug(name): each for name, each in SERVERS.items()}[given.server]
        )
        _refuse(given, server)
        for rate in given.rates:
            trace = trace_of(given, rate, server.max_length)
            loads[rate], left_out = fitting(trace, server, systems)
            for words in (left_out, _spread(given, loads[rate])):
                if words:
                    print(f"rate {rate:g}: {words}")
    except (OSError, ValueError) as error:
        made.error(str(error))
    routers = given.router if given.replicas > 1 else given.router[:1]
    runs = []
    for name in systems:
        for rate in loads:
            for router in routers:
                words = f"{name}, {router}" if given.replicas > 1 else name
                bar = partial(progress_bar, desc=words, unit=" requests")
                cluster = _serve(given, systems[name], server, loads[rate], router, bar)
                runs.append(Run(name, rate, cluster.whole, router, cluster))
    print(table(runs) if given.replicas == 1 else cluster_table(runs))
    if (given.samples or given.beams) and _is_free(server, "copied_blocks"):
        print(f"copied blocks take no time: {given.costs} does not say what they cost")
    if given.html:
        given.html.write_text(load_page(runs, unit_of(given)), "utf-8")
        print(f"drawn: {given.html}")
    return runs


def _refuse(given: argparse.Namespace, server: Any) -> None:
    """Raise ValueError for what would be ignored, or fail after the runs."""
    if given.prefix and (given.trace or given.load in OWN_PREFIXES):
        raise ValueError(
            "--prefix is for single requests of made-up lengths; leave it out with "
            f"--trace and --load {', '.join(OWN_PREFIXES)}, whose prompts have their "
            "own prefixes"
        )
    if "vllm-swap" in given.systems and _is_free(server, "moved_blocks"):
        raise ValueError(
            f"{given.costs} does not say what it costs to move a block, so vllm-swap "
            "would swap for nothing; leave it out of --systems, or choose a --server "
            "of the paper"
        )
    page = given.html
    if page and (page.is_dir() or not page.parent.is_dir()):
        raise ValueError(f"--html must be a file in a folder that exists, got {page}")


def _is_free(server: Any, name: str) -> bool:
    """Is it a measured server, and were these never measured?"""
    return isinstance(server, FittedServer) and not server.costs.seconds.get(name)


def _spread(given: argparse.Namespace, trace: Sequence[Asked]) -> str:
    """Of conversations: how many questions come from them, and for how long."""
    if given.trace or given.load not in TALKS:
        return ""
    return (
        f"conversations begin for {given.minutes:g} minutes, and ask {len(trace):,} "
        f"questions in {trace[-1].arrival / 60:.1f} minutes"
    )


def table(runs: Sequence[Run]) -> str:
    """Mean and P99 in seconds, how many ran at one time, and how many were preempted.

    With several replicas, the requests that ran at one time are those of one of them.
    """
    head = ("first token", "per token", "normalized")
    lines = [
        " " * 29 + "".join(f"{name + ' (s)':>18}" for name in head),
        f"{'system':20}{'rate':>8} " + f"{'mean':>9}{'P99':>9}" * 3
        + f"{'running':>9}{'preempted':>10}{'cached':>8}",
    ]  # fmt: skip
    for system, rate, report, *_ in runs:
        numbers = [number for name in COLUMNS for number in report.summary(name)]
        lines.append(
            f"{system:20}{rate:8g} "
            + "".join(f"{number:9.3f}" for number in numbers)
            + f"{report.mean_running:9.1f}{report.preemptions:10,}"
            + f"{report.share_cached:8.0%}"
        )
    return "\n".join(lines)


def cluster_table(runs: Sequence[Run]) -> str:
    """Of several replicas: what users saw, and how evenly the replicas were loaded.

    balance: the mean load of the most loaded replica over that of all. again: requests
    that were sent again, because their replica had died.
    """
    lines = [
        f"{'':42}{'first token (ms)':^24}",
        f"{'system':20}{'rate':>8} {'router':13}{'mean':>8}{'P50':>8}{'P99':>8}"
        f"{'cached':>8}{'tokens/s':>10}{'balance':>9}{'again':>7}",
    ]
    for system, rate, _, router, cluster in runs:
        wait = cluster.wait("time_to_first_token")
        lines.append(
            f"{system:20}{rate:8g} {router:13}"
            + "".join(f"{1000 * seconds:8.0f}" for seconds in wait)
            + f"{cluster.hit_rate:8.0%}{cluster.tokens_per_second:10,.0f}"
            + f"{cluster.balance:9.2f}{cluster.num_resent:7,}"
        )
    return "\n".join(lines)


def _serve(
    given: argparse.Namespace,
    system: System,
    server: Any,
    trace: list[Asked],
    router: str,
    progress: Callable[[Iterable[Asked]], Iterable[Asked]],
) -> ClusterReport:
    deaths = random_deaths(
        given.deaths, given.replicas, trace[-1].arrival, given.away, given.seed
    )
    return simulate_cluster(
        lambda: Replica(system(server), server),
        given.replicas,
        trace,
        POLICIES[router](),
        deaths,
        progress,
    )
