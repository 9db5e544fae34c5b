"""Run a notebook alone, as Colab does: an empty folder, and no minipaged around.

nbval runs it, and compares what each cell shows with what is stored.
"""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import nbformat
import pytest

from helpers import notebook_files as files
from helpers.quick_start import python_m

KEPT = ("torch", "numpy", "transformers")  # what an install must leave as it is
SHADOWS = "shadows.pth"
SITES = ("site-packages", "dist-packages")
OURS = ("MINIPAGED_", "PYTHON", "PYTEST_", "MPLBACKEND", "VIRTUAL_ENV", "PIP_")
NBVAL = "-p nbval --nbval --nbval-kernel-name=alone --nbval-cell-timeout=600"
KEEPING = Path(__file__).with_name("keeping_outputs.py")

# Afterwards: the bootstrap again, where an install would fail; then what is there.
BREAK_SOURCE = 'import os\n\nos.environ["MINIPAGED_SOURCE"] = "/nowhere/minipaged.whl"'
WRITTEN = "my_tiny_vllm.py"  # by the capstone, from the reader's parts
PROBE = f"""\
import json
from importlib.metadata import version

import minipaged

print(json.dumps([minipaged.__file__, {{name: version(name) for name in {KEPT}}}]))"""


@dataclass
class Ran:
    """A notebook after its run, what nbval says if it failed, what was left behind."""

    notebook: dict
    report: str
    site: Path
    folder: Path

    @property
    def cells(self) -> list[dict]:
        return files.code_cells(self.notebook)


def shadow(site: Path, folder: Path) -> Path:
    """A folder that holds all that `site` holds, as links, but not minipaged."""
    folder.mkdir(parents=True)
    for entry in site.iterdir():
        name = entry.name.lower()
        if not (name.startswith(("minipaged", "__editable__")) or name[-4:] == ".pth"):
            (folder / entry.name).symlink_to(entry)
    return folder


def outer_sites() -> list[Path]:
    """Where this interpreter finds packages; several if one venv looks into another."""
    paths = map(Path, dict.fromkeys(sys.path))
    return [path for path in paths if path.name in SITES and path.is_dir()]


def bare_environment(folder: Path) -> tuple[Path, Path]:
    """An environment with all our packages but minipaged: its Python, its own site.

    Its own site holds one file, which names the links to the packages. pip is among
    them, so what pip installs or changes is seen beside that file.
    """
    venv = [sys.executable, "-m", "venv", "--without-pip", str(folder)]
    subprocess.run(venv, check=True)
    python = folder / "bin" / "python"
    where = {"base": str(folder), "platbase": str(folder)}
    site = Path(sysconfig.get_path("purelib", "venv", where))
    links = [
        shadow(outer, folder / "shadows" / str(index))
        for index, outer in enumerate(outer_sites())
    ]
    (site / SHADOWS).write_text("".join(f"{link}\n" for link in links))
    return python, site


def run_alone(
    notebook: dict, wheel: Path, place: Path, name: str = "sample.ipynb"
) -> Ran:
    """Run a copy, in which each stub is solved after its check, below `place`.

    The notebook lies beside its folder, so the folder is empty. pytest takes `place`
    for its root: there it finds an empty configuration, and no conftest.py but ours.
    """
    python, site = bare_environment(place / "venv")
    folder = place / "content"
    folder.mkdir()
    install_kernel(python, folder, place / "jupyter")
    (place / name).write_text(json.dumps(with_probes(solved(notebook))), "utf-8")
    (place / "pytest.ini").touch()
    shutil.copy(KEEPING, place / "conftest.py")
    done = subprocess.run(
        [*python_m("pytest"), *NBVAL.split(), "-q", "--color=no", name],
        cwd=place,
        env=environment(place / "jupyter", wheel),
        capture_output=True,
        text=True,
        check=False,
    )
    texts = done.stdout + done.stderr
    assert done.returncode in (0, 1), f"pytest itself failed: {texts}"
    report = texts if done.returncode else ""
    return Ran(files.load(place / "ran.json"), report, site, folder)


def install_kernel(python: Path, folder: Path, jupyter: Path) -> None:
    """The kernel `alone`, in `folder`: nbval starts kernels beside their notebook."""
    launch = [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    command = ["sh", "-c", 'cd "$0" && exec "$@"', str(folder), *launch]
    spec = {"argv": command, "display_name": "alone", "language": "python"}
    kernel = jupyter / "kernels" / "alone" / "kernel.json"
    kernel.parent.mkdir(parents=True)
    kernel.write_text(json.dumps(spec))


def environment(jupyter: Path, wheel: Path) -> dict[str, str]:
    """The environment variables of pytest and of the kernel, which it finds there."""
    kept = {
        name: text for name, text in os.environ.items() if not name.startswith(OURS)
    }
    return kept | {
        "JUPYTER_PATH": str(jupyter),
        "MINIPAGED_SOURCE": str(wheel),
        "PIP_NO_INDEX": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "HF_HUB_OFFLINE": "1",
        "TQDM_DISABLE": "1",
    }


def solved(notebook: dict) -> dict:
    """A copy in which the reader goes on: takes the folded solution, checks again.

    The stub and its first check stay, so their stored outputs are compared as well.
    The new cells have none, so nbval compares nothing there. They stand at the end, so
    the other cells keep their numbers, but they run after their check.
    """
    ids = [cell["id"] for cell in files.code_cells(notebook)]
    cells = [*notebook["cells"]]
    for exercise in files.exercises(notebook):
        if exercise.check:
            metadata = {"after": ids.index(exercise.check["id"])}
            for text in (exercise.solution, files.source(exercise.check)):
                cells.append(nbformat.v4.new_code_cell(text, metadata=metadata))
    return notebook | {"cells": cells}


def with_probes(notebook: dict) -> dict:
    texts = (BREAK_SOURCE, files.bootstrap(notebook), PROBE)
    probes = [nbformat.v4.new_code_cell(text) for text in texts]
    return notebook | {"cells": notebook["cells"] + probes}


def each_runs_alone(notebooks: list[Path]) -> Callable[..., None]:
    """A test of these notebooks: they run alone, and their solutions are accepted."""

    @pytest.mark.parametrize("path", notebooks, ids=lambda path: path.stem)
    def test(path: Path, built_wheel: Path, tmp_path: Path) -> None:
        found = faults(run_alone(files.load(path), built_wheel, tmp_path, path.name))
        assert not found, "\n".join(found)

    return test


def faults(ran: Ran) -> list[str]:
    """All that went wrong: nbval's report, or verdicts and what was left behind."""
    return [ran.report] if ran.report else [*unaccepted(ran.notebook), *changes(ran)]


def unaccepted(notebook: dict) -> list[str]:
    """The checks that did not accept the folded solution, when they ran last."""
    checks = [cell for cell in files.code_cells(notebook) if is_check(cell)]
    texts = {files.source(cell): files.output_text(cell) for cell in checks}
    return [
        f"{source}: {text}"
        for source, text in texts.items()
        if "accepted" not in text or "rejected" in text
    ]


def is_check(cell: dict) -> bool:
    return any(name.startswith("check.") for name in files.called(files.parse(cell)))


def changes(ran: Ran) -> list[str]:
    """What the run left in the folder and in the environment, beside minipaged."""
    left = (path.name for path in ran.folder.iterdir())
    found = [f"left behind: {name}" for name in left if name != WRITTEN]
    expected = {
        "shadows.pth",
        "minipaged",
        f"minipaged-{version('minipaged')}.dist-info",
    }
    for name in sorted({path.name for path in ran.site.iterdir()} ^ expected):
        found.append(f"in the environment, or lacking: {name}")
    *_, bootstrap, probe = ran.cells
    where, versions = json.loads(files.output_text(probe))
    if Path(where).parent != ran.site / "minipaged":
        found.append(f"minipaged comes from {where}")
    if versions != {name: version(name) for name in KEPT}:
        found.append(f"other versions: {versions}")
    if "ERROR" in files.output_text(bootstrap):
        found.append("the second bootstrap installs again")
    return found
