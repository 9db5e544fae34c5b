"""Each notebook runs alone, as on Colab: it shows what is stored, and can be solved.

`pytest notebooks` compares the stored outputs as well, with the package as it lies
here. These tests do it with the wheel, so `make test` runs each notebook once: half of
them here, the others in test_alone_too.py, so that two processes share them.
"""

from helpers import notebook_files as files
from helpers.alone import each_runs_alone, faults, run_alone, shadow, unaccepted
from helpers.sample_notebook import code, sample_notebook

# A file left in the folder, a package of another version, and the wrong minipaged.
MESS = """\
import sysconfig
from pathlib import Path

Path("left.txt").touch()
torch = Path(sysconfig.get_path("purelib")) / "torch-0.dist-info"
torch.mkdir()
(torch / "METADATA").write_text("Metadata-Version: 2.1\\nName: torch\\nVersion: 0\\n")
minipaged.__file__ = "/elsewhere/__init__.py\""""


test_a_notebook_runs_alone = each_runs_alone(files.NOTEBOOKS[::2])


def test_a_wrong_solution_is_the_only_fault_of_the_sample(built_wheel, tmp_path):
    """Two right solutions are accepted, and used; the machinery finds nothing else."""
    notebook = sample_notebook(answer="number ** 2")
    notebook["cells"].append(code("assert my_next(3) == 6") | {"id": "uses-it"})
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


def test_wrong_outputs_and_errors_are_found(built_wheel, tmp_path):
    """By cell, with what is stored and what came; no tag excuses an error."""
    notebook = sample_notebook()
    cells = files.code_cells(notebook)
    cells[4]["outputs"][0]["text"] = "5\n"  # of show(1)
    cells[-1]["outputs"][0]["text"] = "accepted\n"  # a stub's verdict
    for tag in ("nbval-ignore-output", "nbval-skip", "raises-exception"):
        failing = code(f"raise OSError('in spite of {tag}')")
        failing |= {"id": tag, "metadata": {"tags": [tag]}}
        notebook["cells"].append(failing)
    (report,) = faults(run_alone(notebook, built_wheel, tmp_path))
    for text in [
        "_ sample.ipynb::Cell 4 _",
        "'5\\n' == '1\\n'",
        "_ sample.ipynb::Cell 12 _",
        "'accepted\\n' == 'not attempted\\n'",
        "in spite of nbval-ignore-output",
        "in spite of nbval-skip",
        "in spite of raises-exception",
        "5 failed",
    ]:
        assert text in report, report


def test_an_unattempted_exercise_is_a_fault():
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
