"""Lab: show what changed from one function to the next, so that the rest is skipped."""

import difflib
import inspect
from textwrap import dedent
from typing import Any

from IPython.display import Markdown, display


def show_change(before: Any, after: Any, *, fold: bool = False) -> None:
    """Display the lines that `after` has in place of lines of `before`.

    A minus stands before what is gone, a plus before what is new; of what is equal,
    only a line on each side is left. Of a Triton kernel, the function that it was made
    of. `fold`: show only the head until it is clicked.
    """
    sources = [_lines(thing) for thing in (before, after)]
    found = []
    for line in list(difflib.unified_diff(*sources, n=1, lineterm=""))[2:]:
        if not line.startswith("@@"):
            found.append(line)
        elif found:  # what is skipped between two places
            found.append("  ...")
    names = " → ".join(getattr(thing, "__name__", "?") for thing in (before, after))
    code = "```diff\n" + "\n".join(found) + "\n```"
    if fold:
        head = f"<details><summary><em>{names}</em> (click)</summary>"
        display(Markdown(f"{head}\n\n{code}\n\n</details>"))
    else:
        display(Markdown(f"*{names}*\n\n{code}"))


def _lines(thing: Any) -> list[str]:
    source = inspect.getsource(getattr(thing, "fn", thing))
    return dedent(source).strip().splitlines()
