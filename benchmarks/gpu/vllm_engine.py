"""vLLM on a GPU, beside the engine: the same requests, the same measures.

    python -m benchmarks.gpu.vllm_engine --out vllm.json

For where vLLM is installed, and in a process of its own: it takes half of the GPU's
memory. `python -m benchmarks.gpu.engine --peers` runs it so, too.

All is as vLLM has it by default, but for what the engine has not either: the weights
are random, of the same shape; there are no tokenizer and no prefix cache; at most 256
sequences run at once. Where FlashInfer is not installed, top-k and top-p are drawn by
vLLM's own kernels.

A round is one `LLM.generate` of all requests, from ids to ids, after a warm-up of four
tokens each; each round has other prompts, whose ids are one higher. `start_s` is what
`LLM(...)` takes: less, if an earlier run has left compiled code in vLLM's cache.
"""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from transformers import MODEL_FOR_CAUSAL_LM_MAPPING

from benchmarks.gpu import apart, workloads
from benchmarks.gpu.peers import installed
from benchmarks.gpu.shapes import SHAPES
from benchmarks.gpu.workloads import OPTIONS, Asked
from minipaged.lab.measure.machine import describe_machine

SETTINGS = {
    "dtype": "bfloat16",
    "load_format": "dummy",  # random weights
    "skip_tokenizer_init": True,
    "enable_prefix_caching": False,
    "max_num_seqs": 256,
    "max_model_len": 8192,
    "gpu_memory_utilization": 0.5,
}
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",  # there is nothing to fetch
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_HOST_IP": "127.0.0.1",  # else it looks for a network, and may find none
}


def set_environment() -> None:
    """To be called before vLLM is imported; what the caller has set stays."""
    wanted = dict(ENVIRONMENT)
    if not installed("flashinfer"):  # vLLM would import it nevertheless
        wanted["VLLM_USE_FLASHINFER_SAMPLER"] = "0"
    for name, value in wanted.items():
        os.environ.setdefault(name, value)


def write_config(folder: Path, shape: str = "qwen3-0.6b") -> None:
    """The engine's model, as far as vLLM needs it: weights are not read."""
    config = SHAPES[shape](eos_token_id=None, dtype="bfloat16")
    config.architectures = [MODEL_FOR_CAUSAL_LM_MAPPING[type(config)].__name__]
    config.save_pretrained(folder)


def seconds_for(llm: Any, trace: Sequence[Asked], **options: Any) -> float:
    """What one `generate` takes for all of these, each as long as it was asked for.

    options: of the SamplingParams. Raises RuntimeError if an answer is of another
    length, ValueError if one is missing.
    """
    from vllm import SamplingParams

    options = {"temperature": 0.6, "ignore_eos": True, "detokenize": False} | options
    prompts = [{"prompt_token_ids": asked.prompt} for asked in trace]
    wanted = [SamplingParams(max_tokens=asked.num_new, **options) for asked in trace]
    generate = partial(llm.generate, prompts, wanted, use_tqdm=False)
    outputs, seconds = apart.timed(generate)
    apart.check_lengths(trace, [output.outputs[0].token_ids for output in outputs])
    return seconds


def run(requests: int, rounds: int) -> dict[str, Any]:
    """All that is measured, in this process."""
    set_environment()
    from vllm import LLM

    trace = workloads.uniform(requests)
    with TemporaryDirectory() as folder:
        write_config(Path(folder))
        llm, start_s = apart.timed(partial(LLM, model=folder, **SETTINGS))
        plain = partial(seconds_for, llm)
        with_options = partial(seconds_for, llm, **OPTIONS)
        return {
            "machine": describe_machine(),  # not before vLLM has started its processes
            "version": installed("vllm"),
            "flashinfer": installed("flashinfer"),
            "start_s": round(start_s, 2),
            **apart.measure(plain, trace, rounds),
            "lone": apart.lone(plain),
            "lone_long": apart.lone(plain, 6000),
            "with_options": {"asked_for": OPTIONS}
            | apart.measure(with_options, trace, rounds),
        }


if __name__ == "__main__":
    apart.main(__doc__, "vLLM", "vllm", run)
