"""The wheel that some tests install; and which process runs which files."""

import gc
import shutil
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
from xdist.scheduler import LoadFileScheduling

ROOT = Path(__file__).parent.parent
LONG = {"browser", "kernels", "test_house.py"}  # folders, and a file
BROWSER = "tests/browser/"


@pytest.fixture(scope="session")
def built_wheel(tmp_path_factory) -> Path:
    """The package as a wheel, built once from a copy: a build leaves folders behind."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    shutil.copytree(ROOT / "minipaged", source / "minipaged")
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, source)
    build = (
        f"from setuptools import build_meta; build_meta.build_wheel({str(folder)!r})"
    )
    result = subprocess.run(
        [sys.executable, "-c", build],
        cwd=source,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first: else one process is still busy with one of them at the end."""
    items.sort(key=lambda item: LONG.isdisjoint(item.path.parts[-2:]))
    items.sort(key=lambda item: not item.path.name.startswith("test_alone"))


def pytest_collection_finish() -> None:
    """What was imported stays; so the collector need not look through it again.

    Half a million objects of torch, transformers and pytest took it most of a second
    each time, a quarter of all the time that drawings take to be tested. What is left
    is few beside what a test makes: so all of it would be gone through too often.
    """
    gc.collect()
    gc.freeze()
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, 200)


class OneBrowser(LoadFileScheduling):
    """Each file to one process, but those that share a browser to one and the same."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return BROWSER if file.startswith(BROWSER) else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log) -> OneBrowser | None:
    """None for another --dist than `make test` asks for: xdist then makes its own."""
    return OneBrowser(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture
def rows_alike(monkeypatch):
    """In Triton's interpreter, a product's rows do not depend on their place in a tile.

    It multiplies by numpy. In some kernels of its BLAS, such as Haswell's, they do: a
    row that lies elsewhere is added up in another order. On a GPU, none is.
    """

    def matmul(a, b, dtype=None):
        return numpy.einsum("...ik,...kj->...ij", a, b, dtype=dtype)

    monkeypatch.setattr(numpy, "matmul", matmul)
