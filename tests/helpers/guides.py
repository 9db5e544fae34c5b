"""READMEs and the like: what they name must be there."""

import re
from collections.abc import Iterator
from pathlib import Path

from helpers import notebook_files as files

ROOT = files.ROOT
GUIDES = sorted([*ROOT.glob("*.md"), *ROOT.glob("[a-z]*/*.md")])
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
TARGETS = set(re.findall(r"^([a-z-]+):.*## \S", MAKEFILE, re.MULTILINE))

CODE = re.compile(r"^```.*?^```|`[^`\n]+`", re.MULTILINE | re.DOTALL)
FOLDERS = "benchmarks figures findings minipaged notebooks tests tools".split()
PATH = re.compile(rf"(?<![\w./-])(?:{'|'.join(FOLDERS)})/[\w./*-]*")
MODULE = re.compile(r"python -m ((?:benchmarks|tools)\.[\w.]+)")
# A command begins a line or `code`, or follows another; "please make sure" is none.
SET = r"(?:[A-Z_]+=\S+ )*"
MAKE = re.compile(rf"(?:^|[`;&|$]) *{SET}make {SET}([a-z][a-z-]*)", re.MULTILINE)


def missing(text: str) -> list[str]:
    """The files, modules and make targets that code in a text names in vain."""
    return [
        name for name, is_there in _named("\n".join(CODE.findall(text))) if not is_there
    ]


def _named(code: str) -> Iterator[tuple[str, bool]]:
    for name in PATH.findall(code):
        pattern = name.rstrip("./").replace("NAME", "*")  # which the reader chooses
        yield name, any(ROOT.glob(pattern))
    for name in MODULE.findall(code):
        yield name, (ROOT / Path(*name.split("."))).with_suffix(".py").is_file()
    for name in MAKE.findall(code):
        yield f"make {name}", name in TARGETS
