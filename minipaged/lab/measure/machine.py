"""Lab: what a measurement was made on; no figure goes without it."""

import os
import platform
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

import minipaged


def describe_machine() -> dict[str, str | int]:
    """Device, cores, versions and date, to be stored beside every measurement."""
    gpu = torch.cuda.is_available()
    device = torch.cuda.get_device_name() if gpu else _processor()
    return {
        "device": device,
        "cpu_cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count() or 0,
        "python": platform.python_version(),
        **{name: _version(name) for name in ("torch", "transformers", "triton")},
        "date": date.today().isoformat(),
    }


def versions() -> str:
    """One line for the head of a notebook: what it runs on."""
    parts = [
        f"minipaged {minipaged.__version__}",
        f"Python {platform.python_version()}",
    ]
    parts += [f"{name} {_version(name)}" for name in ("torch", "transformers")]
    return f"{', '.join(parts)}; {describe_machine()['device']}"


def _processor() -> str:
    """The processor's name, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if "model name" in line]
    return names[0] if names else f"CPU ({platform.machine()})"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
