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

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.gpu import workloads
from benchmarks.gpu.peers import installed
from benchmarks.gpu.shapes import qwen3_06b
from benchmarks.gpu.workloads import OPTIONS, Asked
from minipaged.lab.measure.machine import describe_machine

SETTINGS = {
    "dtype": "bfloat16",
    "load_format": "dummy",  # random weights
    "skip_tokenizer_init": True,
    "enable_prefix_caching": False,
    "max_num_seqs": 256,
    "max_model_len": 4096,
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


def write_config(folder: Path) -> None:
    """The engine's model, as far as vLLM needs it: weights are not read."""
    names = {"architectures": ["Qwen3ForCausalLM"], "dtype": "bfloat16"}
    qwen3_06b(eos_token_id=None, **names).save_pretrained(folder)


def seconds_for(llm: Any, trace: Sequence[Asked], **options: Any) -> float:
    """What one `generate` takes for all of these, each as long as it was asked for.

    options: of the SamplingParams. Raises RuntimeError if an answer is of another
    length, ValueError if one is missing.
    """
    from vllm import SamplingParams

    options = {"temperature": 0.6, "ignore_eos": True, "detokenize": False} | options
    prompts = [{"prompt_token_ids": asked.prompt} for asked in trace]
    wanted = [SamplingParams(max_tokens=asked.num_new, **options) for asked in trace]
    start = time.perf_counter()
    outputs = llm.generate(prompts, wanted, use_tqdm=False)
    seconds = time.perf_counter() - start
    for asked, output in zip(trace, outputs, strict=True):
        length = len(output.outputs[0].token_ids)
        if length != asked.num_new:
            raise RuntimeError(f"{length} tokens, not {asked.num_new}")
    return seconds


def measure(
    llm: Any, trace: Sequence[Asked], rounds: int, **options: Any
) -> dict[str, Any]:
    """Tokens a second, as engine.py's function of this name has them."""
    seconds_for(llm, [Asked(asked.prompt, 4) for asked in trace], **options)
    num_tokens = sum(asked.num_new for asked in trace)
    found = []
    for shift in range(1, rounds + 1):
        shifted = [
            asked._replace(prompt=[token + shift for token in asked.prompt])
            for asked in trace
        ]
        seconds = seconds_for(llm, shifted, **options)
        speed = round(num_tokens / seconds)
        found.append({"tokens_per_s": speed, "seconds": round(seconds, 3)})
    speeds = [each["tokens_per_s"] for each in found]
    return {"tokens_per_s": statistics.median(speeds), "rounds": found}


def lone(llm: Any, num_prompt: int = 1000) -> dict[str, float]:
    """One user alone: milliseconds to her first token, and for each next one.

    An answer of one token takes as long as the first token. What an answer of 128
    takes longer is shared out among the 127 others.
    """
    prompt = workloads.lone_prompt(num_prompt)
    found = [
        [seconds_for(llm, [Asked(prompt, num_new)]) for num_new in (1, 128)]
        for _ in range(6)
    ]
    first, whole = map(statistics.median, zip(*found[1:], strict=True))
    return {
        "prompt": num_prompt,
        "first_token_ms": round(first * 1e3, 2),
        "next_token_ms": round((whole - first) * 1e3 / 127, 3),
    }


def run(requests: int, rounds: int) -> dict[str, Any]:
    """All that is measured, in this process."""
    set_environment()
    from vllm import LLM

    trace = workloads.uniform(requests)
    with TemporaryDirectory() as folder:
        write_config(Path(folder))
        start = time.perf_counter()
        llm = LLM(model=folder, **SETTINGS)
        start_s = time.perf_counter() - start
        return {
            "machine": describe_machine(),  # not before vLLM has started its processes
            "version": installed("vllm"),
            "flashinfer": installed("flashinfer"),
            "start_s": round(start_s, 2),
            **measure(llm, trace, rounds),
            "lone": lone(llm),
            "with_options": {"asked_for": OPTIONS}
            | measure(llm, trace, rounds, **OPTIONS),
        }


def run_apart(requests: int, rounds: int) -> dict[str, Any]:
    """The same in a process of its own; of a failure, the last line that it wrote."""
    command = [sys.executable, "-m", "benchmarks.gpu.vllm_engine"]
    command += ["--requests", str(requests), "--rounds", str(rounds)]
    with TemporaryDirectory() as folder:
        out, errors = Path(folder, "vllm.json"), Path(folder, "stderr.txt")
        with errors.open("w") as stderr:  # no pipe: a process left behind holds it open
            done = subprocess.run([*command, "--out", str(out)], stderr=stderr)
        if done.returncode == 0:
            return json.loads(out.read_text())
        said = errors.read_text(errors="replace")
    print(said, file=sys.stderr, flush=True)
    lines = [line for line in said.splitlines() if line.strip()]
    return {"error": lines[-1] if lines else f"exit status {done.returncode}"}


def main() -> None:
    """Measure, and print or store it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if not installed("vllm"):
        parser.error("vLLM is not installed here")
    found = json.dumps(run(arguments.requests, arguments.rounds), indent=1)
    print(found, flush=True)
    if arguments.out:
        arguments.out.write_text(found + "\n")


if __name__ == "__main__":
    main()
