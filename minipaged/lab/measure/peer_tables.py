"""Lab: this package's kernels beside others, as they were measured."""

from collections.abc import Mapping
from typing import Any

NAMES = {
    "cudnn_contiguous": "contiguous cuDNN",
    "flashinfer": "FlashInfer",
    "vllm_flash_attention": "FlashAttention-3",
    "vllm_triton": "vLLM's Triton",
}
GROUPS = {
    "decode": "",
    "decode_other_cells": "batches measured later; three then changed the rule",
}
Ratios = dict[str, dict[str, float | None]]  # by batch and kernel; None: not measured


def beside_peers(
    kernels: Mapping[str, Any], shape: str
) -> tuple[dict[str, Ratios], dict[str, float]]:
    """Our time over theirs, in two groups of batches; and two runs of ours, by batch.

    kernels: as `measured_kernels` describes.
    """
    groups, doubt = {}, {}
    for kind, heading in GROUPS.items():
        groups[heading] = rows = {}
        for batch, row in kernels[kind][shape].items():
            times = {"cudnn_contiguous": row["cudnn_contiguous"], **row["peers"]}
            rows[batch] = {
                NAMES[n]: us and row["paged"] / us for n, us in times.items()
            }
            doubt[batch] = row["paged_again"] / row["paged"]
    return groups, doubt


def most_of_peers(groups: Mapping[str, Ratios]) -> list[str]:
    """The largest ratio to each of the others: two lines for each group."""
    lines = []
    for rows in groups.values():
        names = next(iter(rows.values()))
        most = {name: max(row[name] or 0 for row in rows.values()) for name in names}
        said = ", ".join(f"{name} {ratio:.2f}" for name, ratio in most.items())
        lines += [f"{', '.join(rows)}:", f"  our time / theirs, at most: {said}"]
    return lines


def prompt_speeds(kernels: Mapping[str, Any]) -> Ratios:
    """TFLOP/s on prompts, by batch and kernel, ours among them."""
    names = {**NAMES, "paged": "ours"}
    return {
        batch.replace("over 2k", "new tokens after 2,048 cached"): {
            name: row.get(f"{key}_tflop_per_s") for key, name in names.items()
        }
        for batch, row in kernels["prefill"].items()
    }
