"""`make save-lessons`: which outputs are stored, and which stay as they were."""

import sys

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from tools import run_lessons


@pytest.fixture
def lesson(tmp_path, monkeypatch):
    """A notebook in which each cell shows another number each time; no lesson is run.

    The second and third are tagged, and nothing is stored of the third.
    """
    monkeypatch.setattr(run_lessons, "run", count)
    varies = {"tags": ["nbval-ignore-output"]}
    cells = [new_code_cell("count()", metadata=tags) for tags in ({}, varies, varies)]
    path = tmp_path / "lesson.ipynb"
    nbformat.write(new_notebook(cells=cells), path)
    save(monkeypatch, path)
    notebook = nbformat.read(path, 4)
    notebook.cells[2].outputs = []
    nbformat.write(notebook, path)
    return path


def count(path):
    """In place of `run`: each cell shows the next number."""
    notebook = nbformat.read(path, 4)
    shown = [o["data"]["text/plain"] for c in notebook.cells for o in c.outputs]
    last = max(map(int, shown), default=0)
    for number, cell in enumerate(notebook.cells, start=last + 1):
        cell.execution_count = number
        data = {"text/plain": str(number)}
        result = {"data": data, "execution_count": number}
        cell.outputs = [new_output("execute_result", **result)]
    return notebook, 0.1, [{"claim": "x", "equal": 1, "prompts": 1}], None


def save(monkeypatch, path, flag="--save"):
    monkeypatch.setattr(sys, "argv", ["run_lessons.py", str(path), flag])
    assert run_lessons.main() == 0
    cells = nbformat.read(path, 4).cells
    for cell in cells:
        assert cell.outputs[0].execution_count == cell.execution_count
    return [cell.outputs[0]["data"]["text/plain"] for cell in cells]


def test_what_draws_or_measures_keeps_its_output_if_it_has_one(monkeypatch, lesson):
    assert save(monkeypatch, lesson) == ["3", "2", "5"]
    assert save(monkeypatch, lesson) == ["6", "2", "5"]


def test_all_outputs_are_stored_if_one_asks(monkeypatch, lesson):
    assert save(monkeypatch, lesson, "--fresh") == ["3", "4", "5"]
