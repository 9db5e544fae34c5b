"""The wheel that two of the tests install."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LONG = {"browser", "kernels"}


@pytest.fixture(scope="session")
def built_wheel(tmp_path_factory) -> Path:
    """The package as a wheel, built once from a copy: a build leaves folders behind."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    shutil.copytree(ROOT / "minipaged", source / "minipaged")
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, source)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "wheel"]
    options = ["--no-deps", "--no-build-isolation", "-w", str(folder), str(source)]
    result = subprocess.run(
        [*pip, *options], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first: else one process is still busy with one of them at the end."""
    items.sort(key=lambda item: item.path.parent.name not in LONG)
    items.sort(key=lambda item: not item.path.name.startswith("test_alone"))
