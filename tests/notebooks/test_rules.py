"""Each rule for notebooks has been seen failing: faults are planted in a sample."""

import pytest

from helpers import file_rules, lesson_rules
from helpers import notebook_files as files
from helpers import notebook_links as links
from helpers.sample_notebook import code, prose, sample_notebook

RULES = file_rules.RULES + lesson_rules.RULES


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_sample_keeps_to_the_rules(rule):
    assert rule(sample_notebook()) == []


def replace(old, new):
    """A fault: every cell has `new` for `old`."""

    def plant(notebook):
        found = [cell for cell in notebook["cells"] if old in cell["source"]]
        assert found, old
        for cell in found:
            cell["source"] = cell["source"].replace(old, new)

    return plant


def without(text):
    """A fault: the cells that hold this text are missing."""

    def plant(notebook):
        kept = [cell for cell in notebook["cells"] if text not in cell["source"]]
        assert len(kept) < len(notebook["cells"])
        notebook["cells"] = kept

    return plant


def add(cell):
    """A fault: one more cell at the end."""
    return lambda notebook: notebook["cells"].append(cell)


def shows(text, kind="execute_result", **more):
    """A fault: a cell with such an output."""
    cell = code("draw()")
    cell["outputs"] = [{"output_type": kind, "data": {"text/plain": text, **more}}]
    return add(cell)


def says(text, name="stdout"):
    """A fault: the last code cell has written this."""
    output = {"output_type": "stream", "name": name, "text": text}
    return lambda notebook: files.code_cells(notebook)[-1].update(outputs=[output])


def sets(key, value):
    """A fault in the notebook's or the first cell's metadata."""
    return lambda notebook: [
        holder["metadata"].update({key: value})
        for holder in (notebook, notebook["cells"][0])
    ]


def run_again(notebook):
    files.code_cells(notebook)[2]["execution_count"] = 40


def out_of_order(notebook):
    """The folds of the first exercise come before its check."""
    cells = notebook["cells"]
    folds = (at for at, cell in enumerate(cells) if "<details>" in cell["source"])
    at = next(folds)
    cells[at - 1], cells[at] = cells[at], cells[at - 1]


def folds_too_little(notebook):
    """The first part of what should be folded stands in the heading's cell."""
    cell = prose("## Deeper\n\nMore.\n\n### A part")
    cell["metadata"]["jp-MarkdownHeadingCollapsed"] = True
    notebook["cells"].append(cell)


PLANTED = [
    (file_rules.run_in_order, run_again),
    (file_rules.no_errors, says("a warning", "stderr")),
    (file_rules.no_errors, shows("", kind="error")),
    (file_rules.is_named, replace("# 1 · A", "# A")),
    (file_rules.deeper_is_folded, add(prose("## Deeper\n\nMore."))),
    (file_rules.deeper_is_folded, folds_too_little),
    (file_rules.nothing_of_the_machine, says("/home/me/x.py")),
    (file_rules.nothing_of_the_machine, says("File '/root/x.py'")),
    (file_rules.nothing_of_the_machine, says("C:\\x.py")),
    (file_rules.nothing_of_the_machine, says("x" * 1_500_000)),
    (file_rules.nothing_of_the_machine, sets("widgets", {})),
    (file_rules.bootstraps_itself, replace("git+https://", "git+https://www.")),
    (file_rules.bootstraps_itself, lambda notebook: notebook["cells"].pop(2)),
    (file_rules.links_lead_somewhere, add(prose("[x](absent.ipynb)"))),
    (file_rules.links_lead_somewhere, add(prose("[x](#No-such-heading)"))),
    (file_rules.links_lead_somewhere, add(prose("[x](http://example.org)"))),
    (file_rules.links_lead_somewhere, add(prose('<img src="absent.png">'))),
    (file_rules.links_lead_somewhere, replace("## *A heading*", "## Other")),
    (file_rules.figures_end_in_show, shows("<Axes: >")),
    (file_rules.figures_end_in_show, shows("[<matplotlib.lines.Line2D at 0x7f>]")),
    (
        file_rules.figures_end_in_show,
        shows("<Figure>", "display_data", **{"image/png": ""}),
    ),
    (file_rules.no_second_copy, add(code("class BlockPool:\n    pass"))),
    (file_rules.no_second_copy, add(code("def kv_bytes_per_token():\n    return 1"))),
    (file_rules.names_in_prose_exist, add(prose("`next_decoding_works` is a list."))),
    (file_rules.names_in_prose_exist, add(prose("`pool.is_not_there()` frees it."))),
    (file_rules.no_expected_exceptions, sets("tags", ["raises-exception"])),
    (lesson_rules.a_proof_and_a_control, replace("refute(2)", "'refute(2)'")),
    (lesson_rules.a_proof_and_a_control, replace("prove(1)", "prove")),
    (lesson_rules.predictions_are_revealed, replace("guess = 4", "guess = 2 + 2")),
    (lesson_rules.predictions_are_revealed, replace("reveal(guess)", "print(guess)")),
    (lesson_rules.predictions_are_revealed, without("guess")),
    (lesson_rules.predictions_are_revealed, add(code("reveal(1)"))),
    (lesson_rules.predictions_are_revealed, add(code("guess = 1"))),
    (
        lesson_rules.exercises_are_complete,
        replace("raise NotImplementedError", "return 1"),
    ),
    (
        lesson_rules.exercises_are_complete,
        replace("check.doubles(my_next", "doubles(my_next"),
    ),
    (
        lesson_rules.exercises_are_complete,
        replace("check.doubles(my_next", "check.doubles(id"),
    ),
    (lesson_rules.exercises_are_complete, replace("<summary>Hint", "<summary>Help")),
    (
        lesson_rules.exercises_are_complete,
        replace("<summary>Solution", "<summary>Answer"),
    ),
    (
        lesson_rules.exercises_are_complete,
        replace("```python\ndef my_", "```python\ndef our_"),
    ),
    (
        lesson_rules.exercises_are_complete,
        replace(
            "def my_last(number):\n    raise", "import re\n\ndef my_last():\n    raise"
        ),
    ),
    (lesson_rules.exercises_are_complete, out_of_order),
    (lesson_rules.exercises_are_complete, says("accepted")),
    (lesson_rules.the_real_code_is_shown, replace("= show(1)", "= plt.show()")),
    (lesson_rules.ends_in_a_recap, replace("## What was shown", "## Recap")),
    (lesson_rules.ends_in_a_recap, replace("|---|---|", "|---|---|\n| no | link |")),
    (lesson_rules.ends_in_a_recap, replace("| ", "")),
]


def test_every_rule_has_a_planted_fault():
    assert {rule for rule, _ in PLANTED} == set(RULES)


@pytest.mark.parametrize(("rule", "plant"), PLANTED, ids=lambda f: f.__name__)
def test_a_planted_fault_is_found(rule, plant):
    notebook = sample_notebook()
    plant(notebook)
    assert rule(notebook)


def test_a_solution_may_be_shown_by_a_cell():
    notebook = sample_notebook()
    (*_, last) = (c for c in notebook["cells"] if "<details>" in c["source"])
    hint, _, fold = last["source"].partition("<details><summary>Solution")
    last["source"] = hint
    assert lesson_rules.exercises_are_complete(notebook)
    fold = f"<details><summary>Solution{fold}"
    shown = code("solution('my_last')") | {
        "outputs": [{"data": {"text/markdown": fold}}]
    }
    notebook["cells"].insert(notebook["cells"].index(last) + 1, shown)
    assert lesson_rules.exercises_are_complete(notebook) == []
    shown["source"] = "show('my_last')"
    assert lesson_rules.exercises_are_complete(notebook)


def test_a_wrong_badge_is_found():
    assert file_rules.has_its_badge(sample_notebook(), "01_sample") == []
    assert file_rules.has_its_badge(sample_notebook(), "02_sample")
    assert file_rules.has_its_badge(
        dict(cells=sample_notebook()["cells"][2:]), "01_sample"
    )


def test_a_readmes_links_are_really_looked_up(tmp_path):
    text = (
        "# The *first*, heading\n\n[a](#the-first-heading) [b](#x) [c](y.md) `[d](z)`"
        " [e](there.md#a-heading) [f](there.md#another)"
    )
    (tmp_path / "there.md").write_text("## A heading\n")
    assert links.broken_links(text, tmp_path, links.github_anchors(text)) == [
        "#x",
        "y.md",
        "there.md#another",
    ]


def test_a_badge_of_another_home_is_found():
    right = files.badge(files.NOTEBOOKS[0].stem)
    wrong = files.badge(files.NOTEBOOKS[0].stem, "https://github.com/ada/notes")
    assert links.strange_badges(f"{right} {wrong}") == [links.links(wrong)[1]]
    assert links.strange_badges(files.badge("09_absent"))


def test_a_definition_is_taken_out_of_a_notebook_alone():
    namespace = {"minus": -1}
    flawed = code("1 / 0\n\ndef Negated(x):\n    return minus * x")
    notebook = {"cells": [prose("def Negated"), code("%pip list"), flawed]}
    assert files.definition(notebook, "Negated", namespace)(3) == -3
    with pytest.raises(LookupError, match="no code cell defines Absent"):
        files.definition(notebook, "Absent", namespace)
