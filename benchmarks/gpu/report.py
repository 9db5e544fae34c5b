"""Where a GPU's report lies, and how its numbers are rounded."""

import re
from pathlib import Path
from typing import Any


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
