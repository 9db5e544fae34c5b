"""The page's stand-in for ipywidgets: the pool's widget does on it as on the real one.

In a process of its own, with the Python files that the page has. `make test-playground`
tries the same in the page.
"""

import json
import os
import subprocess
import sys

import ipywidgets
import pytest

from helpers.playground import walk
from helpers.real_lab import ROOT
from tools.make_playground import sources, write_files

WALK = """
import json, sys
sys.path.append(sys.argv[1])
import ipywidgets
from helpers.playground import walk
print(json.dumps([ipywidgets.__file__, walk()]))
"""
CLICKS = """
import json
from ipywidgets import Button, HTML, VBox, begin, hear, html_of, take_changes
begin("w")
button, text = Button(description="Fork <A>"), HTML("before")
button.on_click(lambda _: setattr(text, "value", "after"))
print(html_of(VBox([button, text])))
hear("w-0", "click")
print(json.dumps(take_changes()))
button.disabled = True
hear("w-0", "click")
print(json.dumps(take_changes()))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The page's Python files; torch, numpy and traitlets cannot be imported."""
    made = tmp_path_factory.mktemp("page")
    write_files(sources(), made)
    for name in ("torch", "numpy", "traitlets", "matplotlib"):
        (made / f"{name}.py").write_text(
            "raise ImportError(f'no {__name__} in a page')"
        )
    return made


def run(folder, code):
    """What this prints, in the page's files."""
    command = sys.executable, "-c", code, str(ROOT / "tests")
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_does_as_the_real_one(folder):
    """In all scenes, and in free play after each: texts, buttons, fields and lists."""
    file, states = json.loads(run(folder, WALK))
    assert file == str(folder / "ipywidgets.py") != ipywidgets.__file__
    expected = walk()
    assert len(states) == len(expected) > 80
    for at, (state, right) in enumerate(zip(states, expected, strict=True)):
        assert state == right, at


def test_a_stand_in_that_clears_nothing_is_noticed(tmp_path):
    """The same walk; what is set to nothing stays as it was."""
    files = sources()
    right = b"        old = None if is_new else getattr(self, name)\n"
    wrong = b"        if not is_new and value == '':\n            return\n"
    assert files["ipywidgets.py"].count(right) == 1
    files["ipywidgets.py"] = files["ipywidgets.py"].replace(right, right + wrong)
    write_files(files, tmp_path)
    assert json.loads(run(tmp_path, WALK))[1] != walk()


def test_events_come_in_and_changes_go_out(folder):
    html, changes, none = run(folder, CLICKS).splitlines()
    assert "Fork &lt;A&gt;</button>" in html and "before</div>" in html
    assert json.loads(changes) == [["html", "w-1", "after"]]
    assert json.loads(none) == [["attribute", "w-0", "disabled", ""]]
