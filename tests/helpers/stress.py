"""Threads and signals on one model: as long, and as many, as one likes.

PYTHONPATH=tests python -m helpers.stress    a minute of threads, 500 signals
"""

import copy
import random
import signal
import time
from collections import Counter
from itertools import chain
from threading import Thread

import torch
from transformers import GenerationConfig, PreTrainedModel

from helpers.tiny_models import tiny_model
from minipaged.engine.generate import generate
from minipaged.errors import UnsupportedModel
from minipaged.lab.tour.reference import huggingface_generate
from minipaged.model.paged_model import PagedModel

GREEDY = GenerationConfig(max_new_tokens=6, pad_token_id=0)
PROMPTS = [[5, 6, 7, 8, 9, 10, 11, 12], [3, 4]]


def fingerprint(model: PreTrainedModel) -> list[str]:
    """All that decides what a model computes, but its weights' numbers and places."""
    facts = []
    for name, module in model.named_modules():
        own = {k: v for k, v in vars(module).items() if not k.startswith("_")}
        for key, weight in module._parameters.items():
            if weight is not None:
                kind = weight.dtype, weight.shape, weight.stride()
                own[key] = id(weight), *kind, weight.requires_grad
        own["hooks"] = len(module._forward_hooks) + len(module._forward_pre_hooks)
        config = getattr(module, "config", None)
        if config is not None:
            own["config"] = config.to_dict(), config._attn_implementation_internal
        facts.append(f"{name} {type(module).__name__} {own}")
    return facts


def places(model: PreTrainedModel) -> dict[str, int]:
    """Where each weight and buffer lies in memory."""
    tensors = chain(model.named_parameters(), model.named_buffers())
    return {name: tensor.data_ptr() for name, tensor in tensors}


def three_threads(seconds: float) -> dict:
    """HuggingFace's `generate`, ours, and wrapping, all on one model with a window.

    Counts calls that were served, that gave other text than HuggingFace alone, that
    were refused in words of ours, and that failed in foreign ones.
    """
    model = copy.deepcopy(tiny_model("mistral"))
    expected = huggingface_generate(model, PROMPTS, GREEDY)
    paged = PagedModel(model, num_blocks=32, block_size=4)
    calls, outcome, end = Counter(), Counter(), time.monotonic() + seconds

    def ours(wrapped):
        return [out.sequences for out in generate(wrapped, PROMPTS, GREEDY)]

    works = {
        "huggingface": lambda: huggingface_generate(model, PROMPTS, GREEDY),
        "generate": lambda: ours(paged),
        "wrap": lambda: ours(PagedModel(model, num_blocks=32, block_size=4)),
    }

    def work(name):
        while time.monotonic() < end:
            try:
                outcome["wrong"] += works[name]() != expected
                calls[name] += 1
            except (UnsupportedModel, ValueError, RuntimeError) as error:
                ours = type(error).__module__.startswith("minipaged")
                outcome["refused" if ours or "wrap" in str(error) else "foreign"] += 1
            except Exception:
                outcome["foreign"] += 1

    threads = [Thread(target=work, args=(name,)) for name in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kinds = ("wrong", "refused", "foreign")
    return {"calls": dict(calls), **{kind: outcome[kind] for kind in kinds}}


def signals(count: int) -> dict:
    """Real signals at random moments of wrapping and generating; is it changed?"""

    def interrupt(_number, _frame):
        raise KeyboardInterrupt

    model = copy.deepcopy(tiny_model("mistral"))
    expected, facts = huggingface_generate(model, PROMPTS, GREEDY), fingerprint(model)
    before = signal.signal(signal.SIGALRM, interrupt)
    start = time.monotonic()
    generate(PagedModel(model, num_blocks=32, block_size=4), PROMPTS, GREEDY)
    usual, draw = time.monotonic() - start, random.Random(0)
    received = changed = 0
    try:
        while received < count:
            try:
                signal.setitimer(signal.ITIMER_REAL, draw.uniform(0.001, usual))
                generate(
                    PagedModel(model, num_blocks=32, block_size=4), PROMPTS, GREEDY
                )
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                received += 1
                changed += fingerprint(model) != facts
                if received % 10 == 0:
                    text = huggingface_generate(model, PROMPTS, GREEDY)
                    changed += text != expected
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return {"signals": received, "changed": changed}


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(three_threads(seconds=60))
    print(signals(count=500))
