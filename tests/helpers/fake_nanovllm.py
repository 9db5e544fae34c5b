"""What of nano-vllm the benchmark calls, at once; its clock says how late.

Tests copy this file into a folder, as the package nanovllm. Like the real one, it reads
all that is in the folder, can be made once, and knows beginnings of prompts again.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from safetensors.torch import load_file
from transformers import AutoConfig, AutoTokenizer

if "FAKE_NANOVLLM_FAILS" in os.environ:
    raise ImportError(os.environ["FAKE_NANOVLLM_FAILS"])

BLOCK = 256  # tokens; of prefixes that are cached
SETTINGS = {"max_num_seqs", "max_model_len", "gpu_memory_utilization"}

now = 0.0  # what the time is, in seconds
made = []
calls = []  # of each `generate`: its prompts, and the parameters of each
known, hits = set(), []  # prompts' first blocks, and those that came again
too_few = {}  # by the number of a call: how many tokens its last answer lacks


def takes(num_call: int, num_tokens: int) -> float:
    """Seconds of such a call; tests replace it."""
    return num_tokens / 1000


@dataclass(slots=True)
class SamplingParams:
    temperature: float = 1.0
    max_tokens: int = 64
    ignore_eos: bool = False

    def __post_init__(self):
        assert self.temperature > 1e-10, "greedy sampling is not permitted"


class LLM:
    def __init__(self, model, **settings):
        global now
        if made:
            raise ValueError("trying to initialize the default process group twice!")
        assert set(settings) <= SETTINGS  # the real one would drop others
        made.append(self)
        self.settings, self.folder = settings, Path(model)
        self.config = AutoConfig.from_pretrained(model)
        (weights,) = self.folder.glob("*.safetensors")
        self.weights = load_file(weights)
        self.tokenizer = AutoTokenizer.from_pretrained(model, use_fast=True)
        now += 50.0

    def generate(self, prompts, wanted, use_tqdm=True):
        global now
        assert not use_tqdm
        number = len(calls)
        calls.append((prompts, wanted))
        for prompt in prompts:
            first = tuple(prompt[:BLOCK])
            if len(prompt) > BLOCK and first in known:
                hits.append(number)
            known.add(first)
        lengths = [each.max_tokens for each in wanted]
        now += takes(number, sum(lengths))
        lengths[-1] -= too_few.get(number, 0)
        answers = [[151_935] * length for length in lengths]
        decode = self.tokenizer.decode
        return [{"text": decode(ids), "token_ids": ids} for ids in answers]
