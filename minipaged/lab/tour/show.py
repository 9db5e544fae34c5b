"""Lab: show the package's own source in a notebook, so that no cell holds a copy."""

import inspect
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from textwrap import dedent
from typing import Any

from IPython.display import Markdown, display

import minipaged
from minipaged.attention.backend import Backend

ROOT = Path(minipaged.__file__).parent.parent
# Pages made by nbconvert show code in an output in the font of prose, if not told so.
CODE = '<div style="font-family: monospace">\n\n```{}\n{}\n```\n\n</div>'


def show(*things: Any, fold: bool = False) -> None:
    """Display the source of functions, classes or modules of the package, as they run.

    Of a Triton kernel or a Backend, the function that it was made of. It is headed by
    the file that it stands in; neighbours from one file share a head.
    `fold`: show only the head until it is clicked.
    """
    things = tuple(_definition(thing) for thing in things)
    for file, neighbours in groupby(things, key=_file):
        group = list(neighbours)
        source = "\n\n".join(
            dedent(inspect.getsource(thing)).strip() for thing in group
        )
        names = (getattr(thing, "__qualname__", thing.__name__) for thing in group)
        show_code(source, "python", file, f": {', '.join(names)}", fold=fold)


def show_code(
    source: str, language: str, title: str, more: str = "", *, fold: bool = False
) -> None:
    """Display code under its title; with `fold`, title and `more` until a click."""
    code = CODE.format(language, source)
    if fold:
        head = f"<details><summary><em>{title}</em>{more} (click)</summary>"
        display(Markdown(f"{head}\n\n{code}\n\n</details>"))
    else:
        display(Markdown(f"*{title}*\n\n{code}"))


def folded(summary: str, lines: Iterable[str]) -> None:
    """Display lines of text that are seen after a click."""
    head = f"<details><summary>{summary} (click)</summary>"
    text = CODE.format("text", "\n".join(lines))
    display(Markdown(f"{head}\n\n{text}\n\n</details>"))


def _definition(thing: Any) -> Any:
    if isinstance(thing, Backend):
        return thing.attend
    return getattr(thing, "fn", thing)


def _file(thing: Any) -> str:
    return Path(inspect.getsourcefile(thing)).relative_to(ROOT).as_posix()
