"""Lab: show what changed from one function to the next, so that the rest is skipped."""

import ast
import difflib
import inspect
import io
import tokenize
from textwrap import dedent
from typing import Any

from minipaged.lab.tour.show import show_code


def show_change(before: Any, after: Any, *, fold: bool = False) -> None:
    """Display the lines that `after` has in place of lines of `before`.

    A minus stands before what is gone, a plus before what is new; of what is equal,
    only a line on each side is left. Comments and docstrings are left out. Of a Triton
    kernel, the function that it was made of. `fold`: show only the head until it is
    clicked.
    """
    sources = [_lines(thing) for thing in (before, after)]
    found = []
    for line in list(difflib.unified_diff(*sources, n=1, lineterm=""))[2:]:
        if not line.startswith("@@"):
            found.append(line)
        elif found:  # what is skipped between two places
            found.append("     ...")
    names = " → ".join(getattr(thing, "__name__", "?") for thing in (before, after))
    show_code("\n".join(found), "diff", names, fold=fold)


def _lines(thing: Any) -> list[str]:
    """The body's lines, as they are written, but for what only explains."""
    source = dedent(inspect.getsource(getattr(thing, "fn", thing)))
    lines = source.splitlines()
    (function,) = ast.parse(source).body
    hidden = {*range(1, function.body[0].lineno)}  # also its parameters
    if ast.get_docstring(function) is not None:
        text = function.body[0]
        hidden |= {*range(text.lineno, text.end_lineno + 1)}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip()
    return [
        line
        for number, line in enumerate(lines, start=1)
        if number not in hidden and line.strip()
    ]
