"""A small notebook that keeps to every rule, and runs in a second without torch."""

from helpers import notebook_files as files

BOOTSTRAP = f"""\
# NBVAL_IGNORE_OUTPUT
from importlib.util import find_spec
from os import environ

if find_spec("minipaged") is None:  # as on Colab; torch stays as it is
    home = "git+{files.HOME}"
    %pip install -q {{environ.get("MINIPAGED_SOURCE", home)}}
import minipaged

print(minipaged.__version__)"""

STAND_INS = """\
prove = refute = expect_harm = expect_error = show = reveal = print"""

CHECK = """\
class check:
    def doubles(attempt):
        try:
            print("accepted" if attempt(3) == 6 else "rejected: 3 was not doubled")
        except NotImplementedError:
            print("not attempted")"""

EXERCISE = """\
def my_{name}(number):
    raise NotImplementedError"""

FOLDS = """\
<details><summary>Hint</summary>

Add the number to itself.

</details>
<details><summary>Solution</summary>

```python
def my_{name}(number):
    return {answer}
```

</details>"""

RECAP = """\
## What was shown

| claim | where |
|---|---|
| Nothing, but in order | [*A heading* with `code`](#A-heading-with-code) |"""


def sample_notebook(answer: str = "number + number") -> dict:
    """A notebook as stored after a run; `answer` is what its last solution returns."""
    cells = [
        prose("# 1 · A sample\n\nDoes this notebook keep to every rule that we have?"),
        prose(files.badge("01_sample")),
        code(BOOTSTRAP, "0.1.0\n"),
        code(STAND_INS),
        code(CHECK),
        prose("## *A heading* with `code`\n\nA few words."),
        code("prove(1)\nrefute(2)", "1\n2\n"),
        code("with_effect = show(1)", "1\n"),
        code("guess = 4  # yours"),
        code("reveal(guess)", "4\n"),
    ]
    for name, body in (
        ("first", "2 * number"),
        ("next", "number * 2"),
        ("last", answer),
    ):
        cells += exercise(name, body)
    cells.append(prose(RECAP))
    return stored(cells)


def exercise(name: str, answer: str) -> list[dict]:
    return [
        code(EXERCISE.format(name=name)),
        code(f"check.doubles(my_{name})", "not attempted\n"),
        prose(FOLDS.format(name=name, answer=answer)),
    ]


def prose(text: str) -> dict:
    return {"cell_type": "markdown", "metadata": {}, "source": text}


def code(text: str, printed: str = "") -> dict:
    output = {"output_type": "stream", "name": "stdout", "text": printed}
    return {
        "cell_type": "code",
        "metadata": {},
        "source": text,
        "outputs": [output] if printed else [],
        "execution_count": None,
    }


def stored(cells: list[dict]) -> dict:
    """Number the code cells and the notebook as a file has them."""
    for index, cell in enumerate(cells):
        cell["id"] = f"cell-{index:02}"
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    for count, cell in enumerate(files.code_cells(notebook), start=1):
        cell["execution_count"] = count
    return notebook
