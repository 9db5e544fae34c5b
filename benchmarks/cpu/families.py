"""Which families of transformers are served: all of them, tiny, against HuggingFace.

    python -m benchmarks.cpu.families                  all families; prints
    python -m benchmarks.cpu.families llama gpt_oss    some of them
    python -m benchmarks.cpu.families --save           writes cpu-families.json

A family is "equal" if PagedModel accepts it and every answer is HuggingFace's: greedy,
sampled and with beams, without a prefix cache and with it. It is "WRONG" if it is
accepted and an answer differs, which must never happen; "refused" if PagedModel says
that its text would be wrong; "not built" if there is no tiny model of it to try. A
verdict is about the tiny models that were tried, not about all models of a family.
"""

import argparse
import contextlib
import io
import json
import multiprocessing
import os
import signal
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import torch
import transformers
from tqdm import tqdm
from transformers import GenerationConfig, PreTrainedModel

import minipaged as mp
from benchmarks.cpu.tiny_families import (
    FULL_ONLY,
    LONG,
    MODEL_CLASSES,
    VARIANTS,
    VOCABULARY,
    tiny_family,
)
from benchmarks.random_prompts import random_prompts
from minipaged.lab.measure.machine import describe_machine
from minipaged.lab.tour.proof import same_answer
from minipaged.lab.tour.reference import huggingface_outputs

OUT = Path(__file__).parents[2] / "figures" / "data" / "cpu-families.json"
SECONDS = 120  # a family that takes longer is given up
BLOCK_SIZE = 8
_FULL = "full_attention"
# A family whose models differ in this counts as the first of these.
VERDICTS = ("WRONG", "equal", "refused", "not built")
MODES: dict[str, dict[str, Any]] = {
    "greedy": {"do_sample": False},
    "sampled": {"do_sample": True, "num_return_sequences": 2},
    "beams": {"do_sample": False, "num_beams": 3, "num_return_sequences": 3},
}


class Finding(NamedTuple):
    """What was found of one tiny model."""

    verdict: str
    variant: str = ""  # which model of the family it is
    reason: str = ""


def judge(name: str) -> Finding:
    """Try the models of a family; the verdict on it, and why others are not served."""
    findings = list(_findings(name))
    verdict = min((one.verdict for one in findings), key=VERDICTS.index)
    best = [one for one in findings if one.verdict == verdict]
    others = [one for one in findings if one.verdict != verdict]
    reasons = [one.reason for one in best if one.reason]
    reasons += [f"{one.variant}: {one.verdict}, {one.reason}" for one in others]
    variants = dict.fromkeys(one.variant for one in best)
    return Finding(verdict, " | ".join(variants), " | ".join(dict.fromkeys(reasons)))


def _findings(name: str) -> Iterator[Finding]:
    """The family's default model first, then its variants."""
    try:
        model = tiny_family(name)
    except Exception as error:  # whatever transformers raises
        yield Finding("not built", "", _in_words(error))
        return
    kinds = getattr(model.config.get_text_config(), "layer_types", None) or []
    default = compare(model)._replace(variant=_in_short(kinds))
    yield default
    variants = VARIANTS.get(name)
    if variants is None and default.verdict == "refused" and {*kinds} - {_FULL}:
        variants = {FULL_ONLY: {"layer_types": [_FULL] * len(kinds)}}
    for words, overrides in (variants or {}).items():
        try:
            model = tiny_family(name, **overrides)
        except Exception as error:
            yield Finding("not built", words, _in_words(error))
        else:
            yield compare(model)._replace(variant=words)


def compare(model: PreTrainedModel) -> Finding:
    """Wrap the model, and compare all answers with HuggingFace's, one prompt at a time.

    Each answer is given three times: alone, and with a prefix cache and prompts in
    chunks, first while the cache is empty and then when it knows the prompts.
    """
    try:
        paged = mp.PagedModel(model, num_blocks=128, block_size=BLOCK_SIZE)
    except mp.UnsupportedModel as error:
        return Finding("refused", reason=_in_words(error))
    except Exception as error:  # no text, but no clear words either
        return Finding("refused", reason=f"wrapping it raises {_in_words(error)}")
    prompts = ragged_prompts()
    configs = {
        mode: GenerationConfig(
            max_new_tokens=12, eos_token_id=[7, 11], pad_token_id=0, **options
        )
        for mode, options in MODES.items()
    }
    try:
        theirs = {
            mode: huggingface_outputs(model, prompts, config, seed=3)
            for mode, config in configs.items()
        }
        changed = [[prompt[0] + 1, *prompt[1:]] for prompt in prompts[1:]]
        other = huggingface_outputs(model, changed, configs["greedy"])
    except Exception as error:
        return Finding("not built", reason=f"own generate: {_in_words(error)}")
    if all(map(same_answer, other, theirs["greedy"][1:])):
        return Finding("not built", reason="its text ignores the first token")
    wrong = _differences(paged, prompts, configs, theirs, "")
    chunks = {"max_prompt_tokens": 7, "prefix_cache": mp.PrefixCache(paged.pool)}
    for cache in ("an empty cache", "a full cache"):
        wrong += _differences(
            paged, prompts, configs, theirs, f" with {cache}", **chunks
        )
    return Finding("WRONG", reason=", ".join(wrong)) if wrong else Finding("equal")


def _differences(
    paged: mp.PagedModel,
    prompts: list[list[int]],
    configs: dict[str, GenerationConfig],
    theirs: dict[str, list[mp.Output]],
    how: str,
    **options: Any,
) -> list[str]:
    """In which modes not all answers are equal, in words."""
    wrong = []
    for mode, config in configs.items():
        try:
            ours = mp.generate(paged, prompts, config, seed=3, **options)
        except Exception as error:
            wrong.append(f"{mode}{how}: {_in_words(error)}")
        else:
            equal = sum(map(same_answer, theirs[mode], ours))
            if equal < len(prompts):
                wrong.append(f"{mode}{how}: {equal} of {len(prompts)} equal")
    return wrong


def ragged_prompts() -> list[list[int]]:
    """Of one token, of exactly one block, and longer than LONG; with common starts."""
    text, other = random_prompts(2, 2 * LONG, 2 * LONG, VOCABULARY - 20)
    return [
        text[:1],
        text[:BLOCK_SIZE],
        text[:BLOCK_SIZE] + other[:5],
        text[:LONG] + other[:BLOCK_SIZE],
        text + other[:3],
    ]


def _in_short(kinds: list[str]) -> str:
    """The kinds of layers, each once, if a config names them: "sliding + full"."""
    short = dict.fromkeys(kind.removesuffix("_attention") for kind in kinds)
    return " + ".join(short) or "default"


def _in_words(error: Exception) -> str:
    """An error in a line: the first sentence of what it says."""
    text = " ".join(str(error).split()) or type(error).__name__
    if not isinstance(error, mp.UnsupportedModel):
        text = f"{type(error).__name__}: {text}"
    return text if len(text) <= 200 else text[:197] + "..."


def judge_alone(name: str) -> Finding:
    """`judge` in a process of its own, which may hang or crash."""
    context = multiprocessing.get_context("fork")  # torch need not be imported again
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_work, args=(name, sender))
    child.start()
    sender.close()
    try:
        return receiver.recv()
    except EOFError:
        child.join()
        if child.exitcode == -signal.SIGALRM:
            return Finding("not built", "", f"not done in {SECONDS} seconds")
        return Finding("not built", "", f"the process ended with {child.exitcode}")
    finally:
        child.join()


def _work(name: str, sender: Connection) -> None:
    signal.alarm(SECONDS)  # kills the process, also in the midst of a kernel
    os.environ["TQDM_DISABLE"] = "1"
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        sender.send(judge(name))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="all if none is given")
    parser.add_argument(
        "--save", action="store_true", help=f"write {OUT.name}; of all families only"
    )
    arguments = parser.parse_args()
    if arguments.save and arguments.names:
        parser.error("--save stores all families: give no names with it")
    if unknown := sorted(set(arguments.names) - set(MODEL_CLASSES)):
        parser.error(f"no families of transformers: {', '.join(unknown)}")

    transformers.logging.set_verbosity_error()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)  # tiny models; and a process with threads must not fork
    tqdm.monitor_interval = 0  # a thread too
    start, counts, families = time.perf_counter(), Counter(), {}
    bar = tqdm(arguments.names or MODEL_CLASSES, desc="families", smoothing=0)
    for name in bar:
        bar.set_postfix_str(name, refresh=True)
        families[name] = judge_alone(name)
        counts[families[name].verdict] += 1
    seconds = round(time.perf_counter() - start, 1)
    for verdict in VERDICTS:
        for name, finding in families.items():
            if finding.verdict == verdict:
                print(f"{verdict:11}{name:26}{finding.variant:22}  {finding.reason}")
    print({verdict: counts[verdict] for verdict in VERDICTS}, f"{seconds} seconds")
    if arguments.save:
        report = {
            "machine": describe_machine(),
            "threads": torch.get_num_threads(),
            "seconds": seconds,
            "counts": {verdict: counts[verdict] for verdict in VERDICTS},
            "families": {name: one._asdict() for name, one in families.items()},
        }
        OUT.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
