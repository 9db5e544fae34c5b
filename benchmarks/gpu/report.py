"""Where a GPU's report lies, how it grows, and how its numbers are rounded."""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm


def path_of(folder: Path, kind: str, device: str) -> Path:
    """As `measured_kernels` and `measured_tuning` look for it; the folder is made."""
    name = re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{kind}-{name}.json"


def rounded(value: Any) -> Any:
    """Times to a tenth of a percent: what is behind that is noise."""
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [rounded(inner) for inner in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def report_batches(
    path: Path,
    report: dict[str, Any],
    batches: Mapping[str, Any],
    measure: Callable[..., dict],
    summary: Callable[[dict[str, dict]], dict],
) -> None:
    """Measure one batch after another, store the report after each, and print it.

    measure: of a batch, whose parts are its arguments. summary: of all rows so far.
    """
    rows: dict[str, dict] = {}
    for name, batch in tqdm(batches.items()):
        rows[name] = measure(*batch)
        torch.cuda.empty_cache()  # a graph that is captured cannot wait for room
        report["summary"] = summary(rows)
        text = json.dumps(rounded(report | {"batches": rows}), indent=1)
        path.write_text(text + "\n")
    print(json.dumps(rounded(report), indent=1))
