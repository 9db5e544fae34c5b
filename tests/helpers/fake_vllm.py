"""What of vLLM the benchmark calls: it answers at once, and its clock says how late.

Tests copy this file into a folder, as the package vllm.
"""

import json
import os
from pathlib import Path
from types import SimpleNamespace

now = 0.0  # what the time is, in seconds
calls = []  # of each `generate`: its prompts, and the parameters of each
too_few = {}  # by the number of a call: how many tokens its last answer lacks


def takes(num_call: int, num_tokens: int) -> float:
    """Seconds of such a call; tests replace it."""
    return num_tokens / 1000


class SamplingParams:
    def __init__(self, **options):
        self.__dict__.update(options)


class LLM:
    def __init__(self, model, **settings):
        global now
        if "FAKE_VLLM_FAILS" in os.environ:
            raise RuntimeError(os.environ["FAKE_VLLM_FAILS"])
        self.settings = settings
        self.config = json.loads(Path(model, "config.json").read_text())
        now += 50.0

    def generate(self, prompts, wanted, use_tqdm=True):
        global now
        number = len(calls)
        calls.append(([each["prompt_token_ids"] for each in prompts], wanted))
        lengths = [each.max_tokens for each in wanted]
        now += takes(number, sum(lengths))
        lengths[-1] -= too_few.get(number, 0)
        answers = [SimpleNamespace(token_ids=[0] * length) for length in lengths]
        return [SimpleNamespace(outputs=[answer]) for answer in answers]
