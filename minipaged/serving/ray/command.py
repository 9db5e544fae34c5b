"""Lab: `python -m minipaged.serving.ray MODEL`: replicas on one machine, or a cluster.

    python -m minipaged.serving.ray pocket --replicas 2 --router prefix

Each replica is a whole model with an engine. Flags of `minipaged serve` hold for each.
"""

import argparse
import os
import signal
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from minipaged.scheduling.routing import FACTOR, POLICIES, SPARE
from minipaged.serving.command import add_flags, whole_number

NAME = "minipaged"  # of the application
_STORE = 100_000_000  # bytes of Ray's object store: tokens are small


def _factor(text: str) -> float:
    try:
        if 1 <= (number := float(text)) < 1e9:
            return number
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"must be 1 or more, got {text}")


def parser() -> argparse.ArgumentParser:
    """What the command understands."""
    made = argparse.ArgumentParser(
        prog="python -m minipaged.serving.ray",
        description=__doc__.removeprefix("Lab: "),
        formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    add_flags(made)
    add = made.add_argument_group("replicas").add_argument
    add("--replicas", type=whole_number, default=2, help="engines, each with a model")
    add("--router", choices=tuple(POLICIES), default="prefix",
        help="who serves a request (default: prefix)")  # fmt: skip
    add("--factor", type=_factor, default=FACTOR,
        help="of --router prefix: a replica has at most so many times the mean of "
        f"requests (default: {FACTOR})")  # fmt: skip
    add("--spare", type=whole_number, default=SPARE,
        help=f"of --router prefix: but so many always (default: {SPARE})")  # fmt: skip
    add("--max-replicas", type=whole_number,
        help="start more replicas, up to so many, while requests are many")  # fmt: skip
    add("--target-ongoing-requests", type=whole_number, default=32,
        help="of a replica, with --max-replicas (default: 32)")  # fmt: skip
    add("--fronts", type=whole_number, default=1, help="processes that speak HTTP")
    add("--cpus-per-replica", type=whole_number, default=1, help="cores (default: 1)")
    add("--gpus-per-replica", type=float,
        help="by default, where there are GPUs, as many as ranks")  # fmt: skip
    add("--address", help="of a Ray cluster that runs; else one is started here")
    made.set_defaults(engine_process=False)
    return made


def delete(serve: Any, seconds: float) -> None:
    """End the application once its answers are complete, or after so many seconds.

    serve: `ray.serve`. Its `delete` raises TimeoutError after a minute, and goes on.
    """
    end = time.monotonic() + seconds
    with suppress(TimeoutError):
        serve.delete(NAME)
    while NAME in serve.status().applications and time.monotonic() < end:
        time.sleep(0.2)


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until SIGTERM or Ctrl-C; answers that run are completed."""
    made = parser()
    given = made.parse_args(arguments)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent anywhere
    try:
        import ray
        from ray import serve
    except ImportError as error:
        made.error(f"{error}; replicas need the extra: pip install '.[serve,ray]'")
    from minipaged.model.load import load_tokenizer
    from minipaged.serving.ray.deploy import application

    try:  # before a dozen processes are started
        load_tokenizer(given.model)
    except (OSError, ValueError) as error:
        made.error(str(error))
    if given.address:
        ray.init(given.address)
    else:
        ray.init(object_store_memory=_STORE, include_dashboard=False)
    stop = threading.Event()
    for one in (signal.SIGINT, signal.SIGTERM):  # in place of Ray's
        signal.signal(one, lambda *_: stop.set())
    try:
        serve.start(http_options={"host": given.host, "port": given.port})
        serve.run(application(given), name=NAME)
        print(f"minipaged: serving on http://{given.host}:{given.port}", flush=True)
        stop.wait()
        delete(serve, given.shutdown_timeout)
    finally:
        serve.shutdown()
        ray.shutdown()
