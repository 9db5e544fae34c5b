"""Notebooks as data: what their cells hold, without running them.

A notebook here is the dict that its JSON gives.
"""

import ast
import json
import re
import symtable
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from IPython.core.inputtransformer2 import TransformerManager

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
HOME = PROJECT["urls"]["Source"]
COLAB = "https://colab.research.google.com"

TEXTS = ("text/plain", "text/markdown", "text/html")
FOLD = re.compile(
    r"<details>\s*<summary>(.*?)</summary>[ ]*\n(.*?)</details>", re.DOTALL
)


def load(path: Path) -> dict:
    return json.loads(path.read_text("utf-8"))


def source(cell: dict) -> str:
    """A cell's text, which a file may hold as a list of lines."""
    return "".join(cell["source"])


def code_cells(notebook: dict) -> list[dict]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def markdown(notebook: dict) -> str:
    """All prose, with one empty line between two cells."""
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "markdown"]
    return "\n\n".join(source(cell) for cell in cells)


def parse(cell: dict) -> ast.Module:
    """A code cell's syntax tree; magics are the calls that IPython makes of them."""
    return ast.parse(TransformerManager().transform_cell(source(cell)))


def called(tree: ast.AST) -> list[str]:
    """What every call calls, as written: `show` or `plt.show`."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [ast.unparse(call.func) for call in calls]


def defined(tree: ast.Module) -> set[str]:
    """The functions and classes that a cell or module defines, methods left out."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return {node.name for node in tree.body if isinstance(node, kinds)}


def bound(text: str) -> set[str]:
    """Every name that some code binds outside of functions and classes."""
    symbols = symtable.symtable(text, "cell", "exec").get_symbols()
    return {
        symbol.get_name()
        for symbol in symbols
        if symbol.is_assigned() or symbol.is_imported()
    }


def definition(notebook: dict, name: str, namespace: dict[str, Any]) -> Any:
    """Run only the definition of `name` from a notebook, in `namespace`; return it.

    So a test can try a notebook's deliberately wrong version without the notebook's
    other cells. What the definition uses, the namespace must hold.
    """
    for cell in code_cells(notebook):
        for node in parse(cell).body:
            if defined(ast.Module([node], [])) == {name}:
                exec(compile(ast.Module([node], []), f"<{name}>", "exec"), namespace)
                return namespace[name]
    raise LookupError(f"no code cell defines {name}")


def bootstrap(notebook: dict) -> str:
    """The first code cell: it makes the package importable."""
    return source(code_cells(notebook)[0])


def badge(name: str, home: str = HOME) -> str:
    """The Colab badge of the notebook `name`, as Markdown."""
    slug = home.removeprefix("https://github.com/")
    return (
        f"[![Open in Colab]({COLAB}/assets/colab-badge.svg)]"
        f"({COLAB}/github/{slug}/blob/main/notebooks/{name}.ipynb)"
    )


def predictions(notebook: dict) -> list[dict]:
    """The cells that hold nothing but `guess = <number>`."""
    return [cell for cell in code_cells(notebook) if is_prediction(parse(cell))]


def is_prediction(tree: ast.Module) -> bool:
    match tree.body:
        case [ast.Assign([ast.Name("guess")], ast.Constant(int() | float()))]:
            return True
    return False


@dataclass
class Exercise:
    """The cells of an exercise: stub, check, folds; and what the folds hold.

    Behind the folds a cell may call `solution`: it shows one more. Where a cell is
    missing or of another kind, it is None.
    """

    name: str
    names: set[str]
    stub: dict
    check: dict | None
    folds: list[tuple[str, str]]

    @property
    def solution(self) -> str:
        """The code in the fold named Solution, or nothing."""
        texts = [text for summary, text in self.folds if summary == "Solution"]
        match = re.search(r"^```python\n(.*?)^```", "".join(texts), re.M | re.DOTALL)
        return match[1].rstrip() if match else ""


def exercises(notebook: dict) -> list[Exercise]:
    """Every exercise: a stub that raises NotImplementedError starts it."""
    cells = [*notebook["cells"], None, None, None]
    return [
        exercise(*cells[index : index + 4])
        for index, cell in enumerate(notebook["cells"])
        if cell["cell_type"] == "code" and "raise NotImplementedError" in source(cell)
    ]


def exercise(stub: dict, check: dict | None, *behind: dict | None) -> Exercise:
    solution, shown = behind
    names = defined(parse(stub))
    is_check = check and check["cell_type"] == "code" and calls_check(check, names)
    is_prose = solution and solution["cell_type"] == "markdown"
    folds = FOLD.findall(source(solution)) if is_prose else []
    if shown and shown["cell_type"] == "code" and "solution" in called(parse(shown)):
        folds += FOLD.findall(output_text(shown))
    name = ", ".join(sorted(names))
    return Exercise(name, names, stub, check if is_check else None, folds)


def calls_check(cell: dict, names: set[str]) -> bool:
    """Is one of `names` handed to a function of `check`?"""
    calls = [node for node in ast.walk(parse(cell)) if isinstance(node, ast.Call)]
    return any(
        ast.unparse(call.func).startswith("check.")
        and names & {ast.unparse(argument) for argument in call.args}
        for call in calls
    )


def output_text(cell: dict) -> str:
    """What a cell printed or showed, as plain text or Markdown."""
    parts = []
    for output in cell["outputs"]:
        data = output.get("data", {})
        for text in (output.get("text"), *map(data.get, TEXTS)):
            parts.append("".join(text or ""))
    return "\n".join(parts)
