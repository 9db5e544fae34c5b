"""Lab: what was measured on a GPU and is shipped, for readers who have none."""

import json
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"  # where benchmarks/gpu/kernels.py writes


def measured_kernels(device: str = "nvidia-h200") -> dict[str, Any]:
    """The report that benchmarks/gpu/kernels.py wrote on this device.

    It names the machine, says how it was measured, and holds microseconds by shape and
    cell. Raises FileNotFoundError for a device that nobody has measured.
    """
    path = DATA / f"kernels-{device}.json"
    if not path.exists():
        names = sorted(p.stem.removeprefix("kernels-") for p in DATA.glob("kernels-*"))
        raise FileNotFoundError(f"nobody measured {device!r}; choose from {names}")
    return json.loads(path.read_text("utf-8"))
