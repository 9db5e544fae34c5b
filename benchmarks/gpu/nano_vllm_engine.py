"""nano-vllm on a GPU, beside the engine: the same requests, the same measures.

    python -m benchmarks.gpu.nano_vllm_engine --out nano_vllm.json

For where nano-vllm (https://github.com/GeeeekExplorer/nano-vllm, as of April 2026) is
installed, and in a process of its own, for it can be made only once in a process; it
takes half of the GPU's memory. `python -m benchmarks.gpu.engine --peers` runs it so,
too.

All is as nano-vllm has it by default, but for that half, and at most 256 sequences run
at once. It knows neither top-k nor top-p, so there are no rounds with them.

It always caches prefixes, in blocks of 256 tokens. So no prompt begins as an earlier
one: the ids are one higher in each round, as for vLLM, and 10,000 higher in each try of
the lone user. She comes first: what is compiled for a batch of one only would else be
compiled in a round, when one answer is left.

It wants a tokenizer, and gets the pocket model's. Prompts are ids, but it makes texts
of the answers, within the time that is measured: for 256 of them, some hundredths of a
second. `start_s` is what `LLM(...)` takes, in which it reads the weights; they are
random, and lie in a folder that is there for this run only.
"""

import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from benchmarks.gpu import apart, workloads
from benchmarks.gpu.peers import installed
from benchmarks.gpu.shapes import random_model
from benchmarks.gpu.workloads import VOCABULARY, Asked
from minipaged.lab.measure.machine import describe_machine
from minipaged.model.load import POCKET

SETTINGS = {
    "max_num_seqs": 256,
    "max_model_len": 4096,
    "gpu_memory_utilization": 0.5,
}


def write_model(folder: Path) -> None:
    """Config, weights and tokenizer, as nano-vllm reads them."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    random_model(device).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(POCKET / name, folder)


def seconds_for(llm: Any, trace: Sequence[Asked]) -> float:
    """What one `generate` takes for all of these, each as long as it was asked for.

    Raises RuntimeError if an answer is of another length, ValueError if one is missing.
    """
    from nanovllm import SamplingParams

    options = {"temperature": 0.6, "ignore_eos": True}
    prompts = [asked.prompt for asked in trace]
    wanted = [SamplingParams(max_tokens=asked.num_new, **options) for asked in trace]
    generate = partial(llm.generate, prompts, wanted, use_tqdm=False)
    outputs, seconds = apart.timed(generate)
    apart.check_lengths(trace, [output["token_ids"] for output in outputs])
    return seconds


def run(requests: int, rounds: int) -> dict[str, Any]:
    """All that is measured, in this process."""
    from nanovllm import LLM

    trace = workloads.uniform(requests)
    with TemporaryDirectory() as folder:
        write_model(Path(folder))
        llm, start_s = apart.timed(partial(LLM, folder, **SETTINGS))
    plain = partial(seconds_for, llm)
    return {
        "machine": describe_machine(),
        "version": installed("nanovllm"),
        "start_s": round(start_s, 2),
        "lone": apart.lone(plain, step=VOCABULARY),
        **apart.measure(plain, trace, rounds),
    }


if __name__ == "__main__":
    apart.main(__doc__, "nano-vllm", "nanovllm", run)
