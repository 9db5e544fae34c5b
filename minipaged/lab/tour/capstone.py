"""Lab: the capstone's file in parts: shown, exchanged for the reader's, and written."""

import ast
import inspect
import linecache
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from pathlib import Path
from textwrap import dedent, indent
from types import ModuleType

from IPython.display import Markdown, display

from minipaged.lab.tour.show import CODE, show_code

FILE = Path(__file__).with_name("tiny_vllm.txt")  # a link to notebooks/tiny_vllm.py

# What the reader writes, step by step. All else in the file is given.
STEPS = {
    "one token": ("norm", "rotate", "forward"),
    "one prompt": ("attention",),
    "many prompts": ("ragged_batch", "group"),
    "blocks": ("take", "share", "give_back", "make_room", "release"),
    "a shared prefix": ("chain", "publish", "forget", "reuse_prefix", "publish_full"),
    "two samples": ("choose", "forks", "must_copy", "copy_on_write", "copy"),
    "too small a pool": ("schedule",),
    "a stream": ("add", "step", "stream", "generate"),
}
MY = "my_"  # with it, the reader's names differ from the file's
DEF = re.compile(f"^def ({MY})?", re.MULTILINE)
_numbers = count()

Definition = ast.FunctionDef | ast.ClassDef


def part(name: str) -> str:
    """The text of a function, a method or a class of the file: "take", "Options"."""
    node = _definitions(FILE.read_text("utf-8"))[name]
    return dedent("".join(_lines(FILE.read_text("utf-8"))[_where(node)]))


def show_part(*names: str, fold: bool = False) -> None:
    """Display parts of the file, as `show` displays those of the package."""
    text = "\n".join(map(part, names)).rstrip()
    show_code(text, "python", "tiny_vllm.py", f": {', '.join(names)}", fold=fold)


def solution(*names: str) -> None:
    """Display the file's text of `my_take` and the like, folded."""
    texts = (part(name.removeprefix(MY)) for name in names)
    mine = "\n".join(DEF.sub(f"def {MY}", text, count=1) for text in texts)
    code = CODE.format("python", mine.rstrip())
    head = "<details><summary>Solution</summary>"
    display(Markdown(f"{head}\n\n{code}\n\n</details>"))


def text_of(function: Callable) -> tuple[str, str]:
    """The name that `my_take` has in the file, and its text with this name.

    Raises TypeError for what is no function.
    """
    text = dedent(inspect.getsource(function))
    return function.__name__.removeprefix(MY), DEF.sub("def ", text, count=1)


def planted(name: str, right: str, wrong: str) -> dict[str, str]:
    """A part of the file with a bug. Raises ValueError if `right` is not there once."""
    text = part(name)
    if text.count(right) != 1:
        raise ValueError(f"{name} does not hold {right!r} exactly once")
    return {name: text.replace(right, wrong)}


def tiny_vllm(parts: Mapping[str, str] | None = None) -> ModuleType:
    """The file as a module, with these parts in the place of its own."""
    text = _assembled(parts or {})
    name = f"tiny_vllm-{next(_numbers)}.py"
    linecache.cache[name] = len(text), None, _lines(text), name  # for tracebacks
    module = ModuleType("tiny_vllm")
    exec(compile(text, name, "exec"), vars(module))
    return module


def write_mine(parts: Mapping[str, str], path: str = "my_tiny_vllm.py") -> None:
    """Write the reader's file, or say which parts are missing."""
    missing = {
        step: [name for name in names if name not in parts]
        for step, names in STEPS.items()
    }
    lines = [f"{step}: {', '.join(names)}" for step, names in missing.items() if names]
    if lines:
        print("\n  ".join(["not written, because these parts are missing:", *lines]))
        return
    Path(path).write_text(_assembled(parts), "utf-8")
    print(
        f"{path} is written: each of its {sum(map(len, STEPS.values()))} parts is yours"
    )


def _assembled(parts: Mapping[str, str]) -> str:
    """The file's text with these parts exchanged, from the last one to the first."""
    text = FILE.read_text("utf-8")
    definitions = _definitions(text)
    lines = _lines(text)
    for name in sorted(parts, key=lambda name: -definitions[name].lineno):
        where = _where(definitions[name])
        spaces = " " * definitions[name].col_offset
        lines[where] = _lines(indent(parts[name].rstrip() + "\n", spaces))
    return "".join(lines)


def _definitions(text: str) -> dict[str, Definition]:
    """By name, of methods also by "Class.name". A function goes before a method."""
    body = _named(ast.parse(text).body)
    classes = [node for node in body if isinstance(node, ast.ClassDef)]
    methods = [(node.name, method) for node in classes for method in _named(node.body)]
    return (
        {f"{owner}.{method.name}": method for owner, method in methods}
        | {method.name: method for _, method in methods}
        | {node.name: node for node in body}
    )


def _named(body: Iterable[ast.stmt]) -> list[Definition]:
    return [node for node in body if isinstance(node, Definition)]


def _where(node: Definition) -> slice:
    """The lines of a definition, its decorators included."""
    first = min(part.lineno for part in (node, *node.decorator_list))
    return slice(first - 1, node.end_lineno)


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)
