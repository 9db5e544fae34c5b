"""Lab: what a step's milliseconds on a GPU go to, from a stored trace."""

from collections.abc import Mapping
from typing import Any

# Parts of kernels' names, by what they compute; the first that fits counts.
_NAMES = {
    "attention": ("step_kernel", "_plan_kernel", "merge_kernel"),
    "multiplications": ("nvjet", "gemm", "cublas"),
}
OTHER, WAITS = "other kernels", "no kernel runs"


def step_parts(step: Mapping[str, Any]) -> dict[str, float]:
    """Milliseconds of a step by what the GPU does: its parts are the whole step.

    step: of a `time_line` of `measured_engine`. The parts are attention,
    multiplications by weight matrices, other kernels, and the time in which no kernel
    runs.
    """
    parts = dict.fromkeys(_NAMES, 0.0)
    for kernel, ms in step["kernels_ms"].items():
        for part, names in _NAMES.items():
            if any(name in kernel for name in names):
                parts[part] += ms
                break
    works = step["gpu_span_ms"] - step["idle_ms"]
    parts[OTHER] = works - sum(parts.values())
    return {**parts, WAITS: step["idle_ms"]}
