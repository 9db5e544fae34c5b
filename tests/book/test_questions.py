"""Questions that users ask: each answer leads to cells, and quotes what they show."""

import re

import pytest

from helpers import notebook_files as files
from helpers.guides import ROOT

PAGE = ROOT / "notebooks" / "QUESTIONS.md"
QUESTION = re.compile(r"^### (.+?)\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
CELL = re.compile(r"\]\((\w+\.ipynb)#cell-id=([^)\s]+)\)")
NUMBER = re.compile(r"(?<![\w.,])\d[\d,.]*\d(?!\w)")
NO_RESULT = re.compile(
    r"^Asked in .*|\b(?:16|32) bits|figure \d+|vLLM 0\.\d+", re.MULTILINE
)


def questions():
    return QUESTION.findall(PAGE.read_text("utf-8"))


def shown(cell):
    """What a cell says: its source, and what it has printed."""
    parts = ["".join(cell["source"])]
    for output in cell.get("outputs", []):
        parts += output.get("text", [])
        parts += output.get("data", {}).get("text/markdown", [])
    return "\n".join(parts)


def faults(answer):
    """What is wrong with an answer: cells that are not there, numbers not shown."""
    found, said = [], ""
    for notebook, name in CELL.findall(answer):
        path = ROOT / "notebooks" / notebook
        cells = {cell["id"]: cell for cell in files.load(path)["cells"]}
        if name in cells:
            said += shown(cells[name])
        else:
            found.append(f"{notebook} has no cell {name}")
    if not CELL.search(answer):
        found.append("no link to a cell")
    quoted = NO_RESULT.sub("", re.sub(r"\]\([^)]*\)", "]", answer))
    return found + sorted({*NUMBER.findall(quoted)} - {*NUMBER.findall(said)})


@pytest.mark.parametrize(
    ("question", "answer"), questions(), ids=lambda text: text[:40]
)
def test_an_answer_leads_to_cells_that_show_it(question, answer):
    assert question.endswith("?")
    assert faults(answer) == []


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        ("Yes: [here](03_prefix_hashing.ipynb#cell-id=absent).", "no cell absent"),
        ("Yes.", "no link"),
        ("Yes, [9,999 blocks](03_prefix_hashing.ipynb#cell-id=cell-07).", "9,999"),
    ],
)
def test_a_wrong_answer_is_found(answer, fault):
    assert any(fault in one for one in faults(answer))
