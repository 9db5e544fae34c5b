"""Run a notebook alone, as Colab does: an empty folder, and no minipaged around."""

import copy
import json
import os
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from unittest import mock

import nbformat
from nbclient import NotebookClient

from helpers import notebook_files as files

KEPT = ("torch", "numpy", "transformers")  # what an install must leave as it is
SHADOWS = "shadows.pth"
SITES = ("site-packages", "dist-packages")

# Afterwards: the bootstrap again, where an install would fail; then what is there.
BREAK_SOURCE = 'import os\n\nos.environ["MINIPAGED_SOURCE"] = "/nowhere/minipaged.whl"'
PROBE = f"""\
import json
from importlib.metadata import version

import minipaged

print(json.dumps([minipaged.__file__, {{name: version(name) for name in {KEPT}}}]))"""


@dataclass
class Ran:
    """A notebook after its run, and what its run left behind."""

    notebook: dict
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


def run_alone(notebook: dict, wheel: Path, place: Path) -> Ran:
    """Run a copy, with each stub replaced by its folded solution, below `place`."""
    python, site = bare_environment(place / "venv")
    folder = place / "content"
    folder.mkdir()
    ran = nbformat.reads(json.dumps(with_probes(solved(notebook))), as_version=4)
    with mock.patch.dict(os.environ, environment(place, python, wheel), clear=True):
        NotebookClient(
            ran,
            timeout=600,
            allow_errors=True,
            kernel_name="alone",
            extra_arguments=["--log-level=ERROR"],
            resources={"metadata": {"path": str(folder)}},
        ).execute()
    return Ran(ran, site, folder)


def environment(place: Path, python: Path, wheel: Path) -> dict[str, str]:
    """The kernel's environment variables; Jupyter finds the kernel through them too."""
    kernel = place / "jupyter" / "kernels" / "alone" / "kernel.json"
    kernel.parent.mkdir(parents=True)
    command = [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": command, "display_name": "alone", "language": "python"}
    kernel.write_text(json.dumps(spec))
    ours = ("MINIPAGED_", "PYTHON", "MPLBACKEND", "VIRTUAL_ENV", "PIP_")
    kept = {
        name: text for name, text in os.environ.items() if not name.startswith(ours)
    }
    return kept | {
        "JUPYTER_PATH": str(place / "jupyter"),
        "MINIPAGED_SOURCE": str(wheel),
        "PIP_NO_INDEX": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "HF_HUB_OFFLINE": "1",
        "TQDM_DISABLE": "1",
    }


def solved(notebook: dict) -> dict:
    """A copy in which the reader has taken over every folded solution."""
    notebook = copy.deepcopy(notebook)
    for exercise in files.exercises(notebook):
        exercise.stub["source"] = exercise.solution
    return notebook


def with_probes(notebook: dict) -> dict:
    texts = (BREAK_SOURCE, files.bootstrap(notebook), PROBE)
    probes = [nbformat.v4.new_code_cell(text) for text in texts]
    return notebook | {"cells": notebook["cells"] + probes}


def faults(ran: Ran) -> list[str]:
    """All that went wrong: errors, or verdicts and what was left behind."""
    found = errors(ran)
    return found or [*unaccepted(ran.notebook), *changes(ran)]


def errors(ran: Ran) -> list[str]:
    outputs = [output for cell in ran.cells for output in cell["outputs"]]
    failed = [output for output in outputs if output["output_type"] == "error"]
    return [f"{output['ename']}: {output['evalue']}" for output in failed]


def unaccepted(notebook: dict) -> list[str]:
    """The checks that did not accept the folded solution."""
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
    found = [f"left behind: {path.name}" for path in ran.folder.iterdir()]
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
