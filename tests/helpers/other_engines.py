"""Engines of others, as if they were installed: packages that answer at once."""

import importlib
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace

from benchmarks.gpu import apart

HELPERS = Path(__file__).parent
ROOT = HELPERS.parents[1]
FAKES = {"vllm": "vllm"}  # modules: packages
VERSION = "9.8.7"


def make_site(folder: Path, monkeypatch) -> None:
    """Packages in this folder can be imported, here and in processes of ours."""
    monkeypatch.syspath_prepend(folder)
    path = [str(folder), str(ROOT), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, path)))


def install(folder: Path, module: str) -> None:
    """Such a fake, and what says that it is installed."""
    (folder / module).mkdir()
    shutil.copy(HELPERS / f"fake_{module}.py", folder / module / "__init__.py")
    name = FAKES[module]
    facts = folder / f"{name.replace('-', '_')}-{VERSION}.dist-info" / "METADATA"
    facts.parent.mkdir()
    facts.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {VERSION}\n")
    importlib.invalidate_caches()


@contextmanager
def imported(folder: Path, module: str, monkeypatch) -> Iterator[ModuleType]:
    """The fake in this folder; its clock is the benchmark's."""
    monkeypatch.delitem(sys.modules, module, raising=False)
    fake = importlib.import_module(module)
    assert Path(fake.__file__).parent.parent == folder
    clock = SimpleNamespace(perf_counter=lambda: fake.now)
    monkeypatch.setattr(apart, "time", clock)
    yield fake
    del sys.modules[module]


def lengths(call) -> list[int]:
    """How many tokens a `generate` was asked for."""
    return [each.max_tokens for each in call[1]]
