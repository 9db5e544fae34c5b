"""What it costs a server that somebody watches its pool at /pool.

    python -m benchmarks.cpu.pool_page              prints; half a minute
    python -m benchmarks.cpu.pool_page --save       writes cpu-pool-page.json, too

Coroutines ask a served engine as the clients of `benchmarks.cpu.server` do, while
somebody takes all messages for the page. CPU seconds of what the watching does are
counted, beside those of the whole process, so other programs hardly disturb. The part
of them is what a server that computes all the time loses of its throughput. The HTTP of
ten messages a second is not counted.
"""

import argparse
import asyncio
import json
import os
from pathlib import Path
from threading import Thread
from time import process_time, thread_time

import torch

import minipaged as mp
from benchmarks.cpu.server import NUM_BLOCKS, coroutines, make_requests
from minipaged.lab.measure.machine import describe_machine
from minipaged.scheduling.plan import Plan
from minipaged.serving.messages import Unpacker, pack
from minipaged.serving.pool_states import PoolStates, State
from minipaged.serving.pool_watch import PAUSE, PoolWatch

OUT = Path(__file__).parents[2] / "figures" / "data" / "cpu-pool-page.json"


class Timed(PoolStates):
    """Counts CPU seconds: of each step, and of a thread that takes the messages."""

    of_steps = of_messages = 0.0
    num_steps = num_messages = num_bytes = 0
    is_over = False

    def committed(self, plan: Plan) -> None:
        """As for a page, timed."""
        start = thread_time()
        super().committed(plan)
        self.of_steps += thread_time() - start
        self.num_steps += 1

    def follow(self) -> None:
        """Take all messages, in a thread of its own, as if from another process."""
        unpacker = Unpacker()

        async def states() -> list[State]:
            return next(unpacker.feed(pack(self.take())))

        watch = PoolWatch(states, self.forget)
        watch.is_over = lambda: self.is_over

        async def take() -> None:
            async for message in watch.messages():
                self.num_messages += 1
                self.num_bytes += len(message)

        start = thread_time()
        asyncio.run(take())
        self.of_messages = thread_time() - start


def main() -> None:
    """Measure, print, and store if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--requests", type=int, default=128)
    parser.add_argument("--save", action="store_true", help=f"write {OUT.name}")
    given = parser.parse_args()

    load = round(os.getloadavg()[0], 1)
    torch.set_num_threads(1)
    model, _ = mp.load("pocket", device="cpu")
    requests = make_requests(given.requests, model.config.vocab_size)
    with mp.Engine(mp.PagedModel(model, NUM_BLOCKS)) as engine:
        watch = Timed(engine)
        engine.serve()
        coroutines(engine, requests[: given.clients], given.clients)  # to warm up
        watching = Thread(target=watch.follow)
        watching.start()
        before = watch.of_steps, watch.num_steps
        start = process_time()
        coroutines(engine, requests, given.clients)
        seconds = process_time() - start
        watch.is_over = True
        watching.join()
    of_steps, num_steps = watch.of_steps - before[0], watch.num_steps - before[1]
    of_message = watch.of_messages / watch.num_messages
    result = {
        "machine": describe_machine() | {"threads": 1},
        "load_before": load,
        "clients": given.clients,
        "step_ms": round(1e3 * seconds / num_steps, 2),
        "watching_us_of_step": round(1e6 * of_steps / num_steps, 1),
        "watching_us_of_message": round(1e6 * of_message, 1),
        "bytes_of_message": round(watch.num_bytes / watch.num_messages),
        "share_of_cpu": round(of_steps / seconds + of_message / PAUSE, 4),
    }
    print(json.dumps(result, indent=1))
    if given.save:
        OUT.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
