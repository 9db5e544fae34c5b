"""Lab: show the package's own source in a notebook, so that no cell holds a copy."""

import inspect
from pathlib import Path
from textwrap import dedent
from typing import Any

from IPython.display import Markdown, display

import minipaged

ROOT = Path(minipaged.__file__).parent.parent


def show(*things: Any) -> None:
    """Display the source of functions, classes or modules of the package, as they run.

    Each is headed by the file that it stands in.
    """
    for thing in things:
        file = Path(inspect.getsourcefile(thing)).relative_to(ROOT).as_posix()
        source = dedent(inspect.getsource(thing)).strip()
        display(Markdown(f"*{file}*\n```python\n{source}\n```"))
