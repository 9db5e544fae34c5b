"""Each notebook runs alone, as on Colab, with its exercises solved."""

import pytest

from helpers import notebook_files as files
from helpers.alone import Ran, faults, run_alone, shadow, unaccepted
from helpers.sample_notebook import code, prose, sample_notebook

# A file left in the folder, a package of another version, and the wrong minipaged.
MESS = """\
import sysconfig
from pathlib import Path

Path("left.txt").touch()
torch = Path(sysconfig.get_path("purelib")) / "torch-0.dist-info"
torch.mkdir()
(torch / "METADATA").write_text("Metadata-Version: 2.1\\nName: torch\\nVersion: 0\\n")
minipaged.__file__ = "/elsewhere/__init__.py\""""


@pytest.mark.parametrize("path", files.NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_alone_and_its_solutions_are_accepted(
    path, built_wheel, tmp_path
):
    found = faults(run_alone(files.load(path), built_wheel, tmp_path))
    assert not found, "\n".join(found)


def test_a_wrong_solution_is_the_only_fault_of_the_sample(built_wheel, tmp_path):
    """Two right solutions are accepted, and the machinery finds nothing else."""
    notebook = sample_notebook(answer="number ** 2")
    (fault,) = faults(run_alone(notebook, built_wheel, tmp_path))
    assert fault.startswith("check.doubles(my_last): rejected: 3 was not doubled")


def test_what_a_notebook_leaves_behind_is_found(built_wheel, tmp_path):
    notebook = sample_notebook()
    (first, *_) = files.code_cells(notebook)
    first["source"] = first["source"].replace("if find_spec", "if True or find_spec")
    notebook["cells"].append(code(MESS) | {"id": "mess"})
    found = faults(run_alone(notebook, built_wheel, tmp_path))
    assert found[:3] == [
        "left behind: left.txt",
        "in the environment, or lacking: torch-0.dist-info",
        "minipaged comes from /elsewhere/__init__.py",
    ]
    assert found[3].startswith("other versions: {'torch': '0'")
    assert found[4:] == ["the second bootstrap installs again"]


def test_an_error_and_an_unattempted_exercise_are_faults(tmp_path):
    failed = code("1 / 0")
    output = {"output_type": "error", "ename": "ZeroDivisionError", "evalue": "by 0"}
    failed["outputs"] = [output]
    notebook = {"cells": [prose("# Fails"), failed]}
    assert faults(Ran(notebook, tmp_path, tmp_path)) == ["ZeroDivisionError: by 0"]
    assert len(unaccepted(sample_notebook())) == 3


def test_a_shadow_holds_everything_but_minipaged(tmp_path):
    ours = [
        "minipaged",
        "minipaged-0.1.0.dist-info",
        "__editable___minipaged_finder.py",
    ]
    ours += ["minipaged.egg-link", "__editable__.minipaged-0.1.0.pth"]
    for name in [*ours, "torch", "torch-2.9.0.dist-info"]:
        (tmp_path / "site" / name).mkdir(parents=True)
    held = shadow(tmp_path / "site", tmp_path / "shadow")
    assert {path.name for path in held.iterdir()} == {"torch", "torch-2.9.0.dist-info"}
