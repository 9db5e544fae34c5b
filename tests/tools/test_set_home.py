"""`make home`: one address, changed in every place, and nothing else."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from helpers import notebook_files as files
from helpers.sample_notebook import sample_notebook

OLD, NEW = files.HOME, "https://github.com/ada/paged.notes"
README = f"""[source]({OLD}), [fork]({OLD}-fork), git clone {OLD}.git, {OLD}/issues\r
git clone {OLD}\r
cd minipaged && make lab; cd minipaged/memory\r
"""


@pytest.fixture
def tree(tmp_path):
    """A small repository: the real script and pyproject, one notebook, two READMEs."""
    for folder in ("tools", "notebooks"):
        (tmp_path / folder).mkdir()
    shutil.copy(files.ROOT / "tools" / "set_home.py", tmp_path / "tools")
    shutil.copy(files.ROOT / "pyproject.toml", tmp_path)
    text = json.dumps(sample_notebook(), ensure_ascii=False, indent=1)
    (tmp_path / "notebooks" / "01_sample.ipynb").write_text(text, "utf-8")
    for folder in (tmp_path, tmp_path / "notebooks"):
        (folder / "README.md").write_bytes(README.encode())
    return tmp_path


def set_home(tree, *arguments):
    return subprocess.run(
        [sys.executable, str(tree / "tools" / "set_home.py"), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def contents(tree):
    paths = [path for path in tree.rglob("*") if path.is_file()]
    return {str(path.relative_to(tree)): path.read_bytes() for path in sorted(paths)}


def test_every_address_changes_and_nothing_else(tree):
    before = contents(tree)
    result = set_home(tree, NEW + "/")
    assert result.returncode == 0, result.stderr
    after = contents(tree)
    changed = [name for name in after if after[name] != before[name]]
    assert changed == [
        "README.md",
        "notebooks/01_sample.ipynb",
        "notebooks/README.md",
        "pyproject.toml",
    ]
    assert f'Source = "{NEW}"'.encode() in after["pyproject.toml"]
    expected = README.replace(OLD, NEW).replace(f"{NEW}-fork", f"{OLD}-fork")
    expected = expected.replace("cd minipaged &&", "cd paged.notes &&")
    assert after["README.md"].decode() == expected
    notebook = json.loads(after["notebooks/01_sample.ipynb"])
    assert f'home = "git+{NEW}"' in files.bootstrap(notebook)
    assert files.badge("01_sample", NEW) in files.markdown(notebook)
    assert set_home(tree, OLD).returncode == 0
    assert contents(tree) == before, "going back gives the same files"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "is not of the form"),
        (["github.com/ada/notes"], "is not of the form"),
        (["http://github.com/ada/notes"], "is not of the form"),
        (["https://github.com/ada"], "is not of the form"),
        (["https://github.com/ada/notes/tree/main"], "is not of the form"),
        (['https://github.com/ada/no"tes'], "is not of the form"),
        (["https://gitlab.com/ada/notes"], "badges can only point to github.com"),
    ],
)
def test_an_unusable_address_changes_nothing(tree, arguments, message):
    before = contents(tree)
    result = set_home(tree, *arguments)
    assert result.returncode == 1
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert "make home URL=" in result.stderr
    assert contents(tree) == before


def test_make_does_not_take_the_new_address_for_new_requirements(tree):
    os.utime(tree / "pyproject.toml", (1, 1))
    assert set_home(tree, NEW).returncode == 0
    assert (tree / "pyproject.toml").stat().st_mtime == 1
