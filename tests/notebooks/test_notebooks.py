"""The notebooks as files: order, sizes, and nothing of the machine they ran on."""

import json
import re
import statistics
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
NAMES = [path.stem for path in NOTEBOOKS]


@pytest.fixture(params=NOTEBOOKS, ids=NAMES)
def notebook(request):
    return json.loads(request.param.read_text())


def code_of(notebook):
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [(cell, "".join(cell["source"])) for cell in cells]


def test_there_are_notebooks():
    assert NAMES and NAMES[0] == "01_contiguous_waste"


def test_cells_were_run_in_order_without_errors(notebook):
    cells = [cell for cell, _ in code_of(notebook)]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert not [o for o in outputs if o["output_type"] == "error"]
    assert not [o for o in outputs if o.get("name") == "stderr"]


def test_cells_are_short(notebook):
    lines = [len(source.splitlines()) for _, source in code_of(notebook)]
    assert max(lines) <= 25
    assert statistics.median(lines) <= 6


def test_nothing_of_the_machine_is_stored(notebook):
    text = json.dumps(notebook)
    assert not re.search(r"/(home|root|Users|work|tmp)/", text)
    assert "widgets" not in notebook["metadata"]
    assert len(text) < 1_500_000


def test_every_lesson_proves_something(notebook):
    sources = [source for _, source in code_of(notebook)]
    assert sum("prove(" in source for source in sources) >= 1
    assert sum(source.count("assert ") for source in sources) >= 5
