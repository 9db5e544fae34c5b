"""The notebooks, as files, keep to the rules."""

import pytest

from helpers import file_rules, lesson_rules
from helpers import notebook_files as files

RULES = file_rules.RULES + lesson_rules.RULES

each_notebook = pytest.mark.parametrize("path", files.NOTEBOOKS, ids=lambda p: p.stem)
each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)


def test_there_are_notebooks():
    assert files.NOTEBOOKS
    assert files.NOTEBOOKS[0].stem == "00_ten_minutes"


@each_rule
@each_notebook
def test_a_notebook_keeps_to_the_rules(path, rule):
    faults = rule(files.load(path))
    assert not faults, "\n".join(faults)


@each_notebook
def test_a_notebook_has_its_badge(path):
    assert file_rules.has_its_badge(files.load(path), path.stem) == []


def test_all_notebooks_start_alike():
    texts = {files.bootstrap(files.load(path)) for path in files.NOTEBOOKS}
    assert len(texts) == 1, "the bootstrap cells differ"
