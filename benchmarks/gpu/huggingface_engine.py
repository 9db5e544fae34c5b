"""HuggingFace on the engine's workload: `generate`, and continuous batching.

`generate` gets the first 64 requests as one batch, padded on the left: it takes a
minute for that alone. Continuous batching gets all of them where FlashAttention is
installed, else the first 64, too. `python -m benchmarks.gpu.engine --peers` runs both.
"""

import time
from collections.abc import Sequence
from typing import Any

import torch
from transformers.generation import ContinuousBatchingConfig
from transformers.generation.continuous_batching.utils import WorkloadHints

from benchmarks.gpu.workloads import Asked, num_answered, sampled


def static(model: torch.nn.Module, trace: Sequence[Asked]) -> dict[str, Any]:
    """HuggingFace's `generate` for one batch of these, padded on the left."""
    longest = max(len(asked.prompt) for asked in trace)
    pads = [longest - len(asked.prompt) for asked in trace]
    rows = list(zip(pads, (asked.prompt for asked in trace), strict=True))
    ids = torch.tensor([[0] * pad + prompt for pad, prompt in rows], device="cuda")
    mask = torch.tensor([[0] * pad + [1] * len(prompt) for pad, prompt in rows]).cuda()
    for num_new in (4, max(asked.num_new for asked in trace)):  # the first one warms
        start = time.perf_counter()
        config = sampled(num_new)
        model.generate(ids, attention_mask=mask, generation_config=config)
        torch.cuda.synchronize()
        seconds = time.perf_counter() - start
    return {
        "requests": len(trace),
        "seconds": round(seconds, 2),
        "tokens_per_s": round(num_answered(trace) / seconds),
    }


def continuous(model: torch.nn.Module, trace: Sequence[Asked]) -> dict[str, Any]:
    """HuggingFace's continuous batching: all requests twice; the second time counts.

    As `generate_batch` drives it, but each answer has a length of its own; no blocks
    are shared. It is slow without FlashAttention: then the first 64 are served, once.
    """
    hints = WorkloadHints(
        max_prompt_length=max(len(asked.prompt) for asked in trace),
        max_generated_length=max(asked.num_new for asked in trace),
        num_requests=len(trace),
    )
    alone = ContinuousBatchingConfig(allow_block_sharing=False)
    manager = model.init_continuous_batching(sampled(4), alone, hints)
    attention = model.config._attn_implementation
    flash = "flash" in attention
    trace = trace if flash else trace[:64]
    seconds = []
    try:
        manager.warmup()  # captures CUDA graphs, where it uses them
        manager.start()
        _answers(manager, [Asked(asked.prompt, 4) for asked in trace])
        for _ in range(2 if flash else 1):
            start = time.perf_counter()
            _answers(manager, trace)
            seconds.append(time.perf_counter() - start)
    finally:
        manager.stop(block=True)
        manager.destroy()
    return {
        "requests": len(trace),
        "attention": attention,
        "seconds": round(seconds[-1], 2),
        "all_seconds": [round(each, 2) for each in seconds],
        "tokens_per_s": round(num_answered(trace) / seconds[-1]),
    }


def _answers(manager: Any, trace: Sequence[Asked]) -> None:
    """Hand all in, and wait until each has come, as long as it was asked for."""
    wanted = {
        manager.add_request(asked.prompt, max_new_tokens=asked.num_new): asked.num_new
        for asked in trace
    }
    while wanted:
        result = manager.get_result(timeout=1)
        if result is None:
            if not manager.is_running():
                raise RuntimeError(f"{len(wanted)} requests have no answer")
            continue
        length, asked_for = len(result.generated_tokens), wanted.pop(result.request_id)
        if result.error or length != asked_for:
            raise RuntimeError(f"{length} tokens, not {asked_for}: {result.error}")
