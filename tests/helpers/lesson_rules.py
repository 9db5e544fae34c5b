"""What every lesson must hold: each rule lists a notebook's faults."""

import ast
import re

from helpers import notebook_files as files


def a_proof_and_a_control(notebook: dict) -> list[str]:
    calls = all_calls(notebook)
    return [f"no {name}()" for name in ("prove", "refute") if name not in calls]


def all_calls(notebook: dict) -> list[str]:
    cells = files.code_cells(notebook)
    return [name for cell in cells for name in files.called(files.parse(cell))]


def predictions_are_revealed(notebook: dict) -> list[str]:
    """Each guess stands alone in a cell; the next code cell reveals the answer."""
    cells = files.code_cells(notebook)
    trees = [files.parse(cell) for cell in cells]
    guesses = [files.is_prediction(tree) for tree in trees]
    reveals = ["reveal" in files.called(tree) for tree in trees]
    pairs = zip([*cells, cells[-1]], [False, *guesses], [*reveals, False], strict=True)
    faults = [
        f"{'lacks' if guess else 'has an unguessed'} reveal(): {files.source(cell)}"
        for cell, guess, reveal in pairs
        if guess != reveal
    ]
    return faults + ([] if any(guesses) else ["no prediction"])


def exercises_are_complete(notebook: dict) -> list[str]:
    found = files.exercises(notebook)
    return ([] if found else ["no exercise"]) + [
        f"{exercise.name}: {fault}"
        for exercise in found
        for fault in faults_of_exercise(exercise)
    ]


def faults_of_exercise(exercise: files.Exercise) -> list[str]:
    if exercise.check is None:
        return ["the next cell hands it to no check"]
    summaries = [summary for summary, _ in exercise.folds]
    holds = {
        "no fold named Hint": "Hint" in {summary[:4] for summary in summaries},
        "not one fold named Solution": summaries.count("Solution") == 1,
        "its stored verdict is not `not attempted`": "not attempted"
        in files.output_text(exercise.check),
        "the solution does not define it": exercise.names
        <= files.defined(ast.parse(exercise.solution)),
        # The tests run the solution after the stub; a reader replaces the stub by it.
        "the solution may need a name that its stub binds": files.bound(
            files.source(exercise.stub)
        )
        <= files.bound(exercise.solution),
    }
    return [fault for fault, held in holds.items() if not held]


def the_real_code_is_shown(notebook: dict) -> list[str]:
    return [] if "show" in all_calls(notebook) else ["no show()"]


def ends_in_a_recap(notebook: dict) -> list[str]:
    """A table below `## What was shown`; each row links to its proof."""
    match = re.search(
        r"^## What was shown\n(.*?)(?=^## |\Z)",
        files.markdown(notebook),
        re.MULTILINE | re.DOTALL,
    )
    rows = re.findall(r"^\|.*\|$", match[1], re.MULTILINE)[2:] if match else []
    if not rows:
        return ["no table below `## What was shown`"]
    return [row for row in rows if "](" not in row]


RULES = (
    a_proof_and_a_control,
    predictions_are_revealed,
    exercises_are_complete,
    the_real_code_is_shown,
    ends_in_a_recap,
)
