"""The file of the capstone, notebooks/tiny_vllm.py, beside minipaged's engine.

    python -m benchmarks.cpu.capstone           prints; two minutes on 2 cores
    python -m benchmarks.cpu.capstone --save    writes cpu-capstone.json, too

Both serve the same 64 requests, all there at once, in turns, with one thread; and
`generate` in left-padded batches of 16 beside them. Lengths are like ShareGPT's
chats, times `--scale`; eos is off. All answers are compared with what `generate` says
to a prompt alone. Prompts are random, so two tokens may have the same logits but for
some millionths: where an answer differs, their distance is told, computed in float64.
Run it on an idle machine.
"""

import argparse
import json
import runpy
import statistics
import time
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace

import torch
from tqdm import tqdm
from transformers import GenerationConfig, PreTrainedModel

import minipaged as mp
from benchmarks.cpu.servers import (
    BLOCK_SIZE,
    Answered,
    Asked,
    blocks_of,
    make_trace,
    ours,
    static,
)
from minipaged.lab.measure.machine import describe_machine
from minipaged.lab.tour.reference import huggingface_outputs

ROOT = Path(__file__).parents[2]
FILE = ROOT / "notebooks" / "tiny_vllm.py"
OUT = ROOT / "figures" / "data" / "cpu-capstone.json"
MOST = 2048  # tokens of a step, as of our engine
BATCH = 16


def by_the_file(folder: str, trace: list[Asked], num_blocks: int) -> Answered:
    """The answers of notebooks/tiny_vllm.py; making its engine is not timed."""
    tiny = SimpleNamespace(**runpy.run_path(str(FILE)))
    engine = tiny.Engine(folder, num_blocks, BLOCK_SIZE, MOST)
    for asked in trace:
        engine.add(asked.prompt, tiny.Options(asked.num_new))
    answers: list[list[int]] = [[] for _ in trace]
    start = time.perf_counter()
    for request, _, token in engine.stream():
        answers[request].append(token)
    return Answered(time.perf_counter() - start, [], answers)


def gaps(
    model: PreTrainedModel,
    prompts: list[list[int]],
    answers: list[list[int]],
    expected: list[list[int]],
) -> list[float]:
    """Of each answer that differs: the distance of the logits where it leaves.

    model: in float64.
    """
    found = []
    for prompt, one, other in zip(prompts, answers, expected, strict=True):
        if one != other:
            at = next(i for i, token in enumerate(one) if token != other[i])
            ids = torch.tensor([prompt + other[:at]])
            logits = model(ids).logits[0, -1]
            found.append(float((logits[one[at]] - logits[other[at]]).abs()))
    return found


def main() -> None:
    """Measure, compare, print, and store if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=0.5, help="of the lengths")
    parser.add_argument("--save", action="store_true", help=f"write {OUT.name}")
    given = parser.parse_args()
    torch.set_num_threads(1)
    model, theirs = (mp.load("pocket", device="cpu")[0] for _ in range(2))
    for each in model, theirs:
        each.generation_config.eos_token_id = None
    trace = make_trace(given.requests, given.scale, model.config.vocab_size)
    num_blocks = sum(blocks_of(trace))
    paged = mp.PagedModel(model, num_blocks, BLOCK_SIZE)
    ways: dict[str, Callable[[list[Asked]], Answered]] = {
        "tiny_vllm.py": lambda few: by_the_file(model.name_or_path, few, num_blocks),
        "minipaged": lambda few: ours(paged, few)[0],
        "generate": lambda few: static(theirs, few, BATCH),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    lone: dict[str, list[float]] = {name: [] for name in ways}
    for round_ in tqdm(range(given.rounds + 1), desc="rounds"):
        some = trace if round_ else trace[:4]  # the first is short, to be warm
        found = {name: serve(some) for name, serve in ways.items()}
        if not round_:
            continue
        for name, serve in ways.items():
            seconds[name].append(found[name].seconds)
            lone[name].append(serve(trace[:1]).seconds / trace[0].num_new)
    # Of the last round: every round has the same answers.
    prompts = [asked.prompt for asked in trace]
    configs = [GenerationConfig(max_new_tokens=asked.num_new) for asked in trace]
    alone = [out.sequences[0] for out in huggingface_outputs(theirs, prompts, configs)]
    precise = deepcopy(theirs).double()
    unlike = {
        name: gaps(precise, prompts, found[name].tokens, alone)
        for name in ("tiny_vllm.py", "minipaged")
    }
    useful = sum(asked.num_new for asked in trace)
    speeds = {name: useful / statistics.median(own) for name, own in seconds.items()}
    report = {
        "machine": describe_machine() | {"threads": 1},
        "requests": len(trace),
        "scale": given.scale,
        "tokens": useful,
        "rounds": given.rounds,
        "gaps_of_unlike_answers": unlike,
        "tokens_per_second": {name: round(speed, 1) for name, speed in speeds.items()},
        "lone_ms": {
            name: round(1e3 * statistics.median(own), 3) for name, own in lone.items()
        },
        "ratio_to_minipaged": round(speeds["tiny_vllm.py"] / speeds["minipaged"], 3),
        "bar": 0.5,
    }
    print(json.dumps(report, indent=2))
    if given.save:
        OUT.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
