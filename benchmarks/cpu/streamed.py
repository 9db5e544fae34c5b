"""Attention over blocks, gathered and streamed: time, and memory beside the cache.

    make bench                       prints
    make bench BENCH_FLAGS=--save    also writes figures/data/cpu-streamed.json

One layer of a decode step: 32 sequences, 8 query and 2 KV heads of 64 numbers, blocks
of 16 in random places. Time is taken in turns, and the median counts; memory is the
most that one call holds at any moment, beyond the cache (lab/measure/peak.py), when
nothing is left from an earlier call. Run it on an idle machine.
"""

import argparse
import json
import statistics
import time
from functools import partial
from pathlib import Path

import torch
from tqdm import tqdm

import minipaged as mp
from minipaged.attention.streamed import online_softmax, safe_softmax
from minipaged.lab.measure.layer import random_layer
from minipaged.lab.measure.machine import describe_machine
from minipaged.lab.measure.peak import peak_extra_bytes

OUT = Path(__file__).parents[2] / "figures" / "data" / "cpu-streamed.json"
WAYS = {
    "gathered": mp.gathered_attention,
    "online": online_softmax,
    "safe": safe_softmax,
}
CONTEXTS = (256, 512, 1024, 2048, 4096)


def decode(context: int) -> list[tuple[int, int]]:
    """32 sequences with a new token each."""
    return [(context - 1, 1)] * 32


def times(chunks: list[tuple[int, int]], rounds: int, threads: int) -> dict[str, float]:
    """Median milliseconds of each way, taken in turns after three warm-ups of each."""
    layer = random_layer(chunks)
    torch.set_num_threads(threads)
    taken: dict[str, list[float]] = {name: [] for name in WAYS}
    for round_ in tqdm(range(rounds + 3), desc="rounds"):
        for name, attention in WAYS.items():
            start = time.perf_counter()
            layer.attend(attention)
            if round_ >= 3:
                taken[name].append(time.perf_counter() - start)
    median = {name: statistics.median(seconds) for name, seconds in taken.items()}
    return {
        **{f"{name}_milliseconds": round(1e3 * s, 3) for name, s in median.items()},
        "gathered_by_online": round(median["gathered"] / median["online"], 3),
    }


def peaks() -> dict[str, dict[str, int]]:
    """Bytes that each way holds at most, for each length of the contexts."""
    found: dict[str, dict[str, int]] = {name: {} for name in WAYS}
    for context in tqdm(CONTEXTS, desc="contexts"):
        layer = random_layer(decode(context))
        for name, attention in WAYS.items():
            call = partial(layer.fresh().attend, attention)
            found[name][str(context)] = peak_extra_bytes(call)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--save", action="store_true", help=f"write {OUT.name}")
    arguments = parser.parse_args()
    found, threads = peaks(), torch.get_num_threads()
    cases = {
        "decode 32 x 1,024": decode(1024),
        "decode 32, of 31 to 992": [(30 + 31 * n, 1) for n in range(32)],
        "decode 1 x 1,024": decode(1024)[:1],
        "prompt of 512": [(0, 512)],
    }
    report = {
        "machine": describe_machine(),
        "dtype": "float32",
        "times": {
            f"{count} thread{'s' * (count > 1)}": {
                name: times(chunks, arguments.rounds, count)
                for name, chunks in cases.items()
            }
            for count in sorted({1, threads})
        },
        "bar_of_decode_32_x_1024": 1.0,
        "peak_extra_bytes": found,
        "gathered_peak_by_online_peak_at_4096": round(
            found["gathered"]["4096"] / found["online"]["4096"], 1
        ),
        "bar_of_peaks": 20,
        "online_peak_grows": len(set(found["online"].values())) > 1,
    }
    print(json.dumps(report, indent=2))
    if arguments.save:
        OUT.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
