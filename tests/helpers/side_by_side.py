"""The rows of notebooks/PAPER.md: do their numbers stand where the rows lead?"""

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from helpers import notebook_files as files
from helpers import notebook_links as links

FOLDER = files.ROOT / "notebooks"
HEADING = re.compile(r"^(#+) +(.+?) *$", re.MULTILINE)
NUMBER = re.compile(r"(?<![\w.,])-?\d[\d,_]*(?:\.\d+)?(?:e-?\d+)?")
# What has a number for its name.
NAMES = re.compile(
    r"\([\d.]+\)|equation \(\d\)|exercise \d|[Ff]igures? [\d\w]+(?: to [\d\w]+)?"
    r"|table \d|block \d|OPT-\d+B|H200|A100|\[.*?\]"
)


class Row(NamedTuple):
    """A line of a table: a part of the paper, what it says, our links, what is found"""

    part: str
    says: str
    here: str
    found: str


class Texts(NamedTuple):
    """What stands where a row leads: all of it; and what came out of a run."""

    all: str
    shown: str


def rows(page: str) -> list[Row]:
    lines = re.findall(r"^\| (.+) \|$", page, re.MULTILINE)
    cells = [re.split(r" *\| *", line) for line in lines]
    return [Row(*row) for row in cells if len(row) == 4 and row[0]]


def numbers(text: str) -> set[str]:
    """Numbers as they are written, but for commas."""
    found = NUMBER.findall(text.replace("−", "-"))
    return {re.sub("[,_]", "", number) for number in found}


def texts(here: str) -> Texts:
    """Of all files, and sections of notebooks, that the links lead to."""
    pairs = [read(link) for link in links.links(here)]
    return Texts(*map("\n".join, zip(*pairs, strict=True))) if pairs else Texts("", "")


@cache
def read(link: str) -> Texts:
    file, _, anchor = unquote(link).partition("#")
    path = (FOLDER / file).resolve()
    if path.suffix == ".ipynb":
        return section(path, anchor)
    return Texts(path.read_text("utf-8"), path.read_text("utf-8"))


def section(path: Path, anchor: str) -> Texts:
    """From a heading to the next one that is as high: sources, and what cells show.

    What a cell asserts came out as well: else the notebook would not run.
    """
    sources, shown, level = [], [], 0
    for cell in files.load(path)["cells"]:
        source = files.source(cell)
        if cell["cell_type"] == "code":
            if level:
                sources.append(source)
                shown += [files.output_text(cell), *captions(cell), *asserted(cell)]
            continue
        for marks, heading in HEADING.findall(links.FENCE.sub("", source)):
            if level and len(marks) <= level:
                return Texts("\n".join(sources + shown), "\n".join(shown))
            if anchor in links.jupyter_anchors(f"# {heading}"):
                level = len(marks)
        if level:
            sources.append(source)
    return Texts("\n".join(sources + shown), "\n".join(shown))


def captions(cell: dict) -> list[str]:
    """What pictures say in words."""
    kinds = [output.get("metadata", {}).values() for output in cell["outputs"]]
    return [facts["alt"] for all_ in kinds for facts in all_ if "alt" in facts]


def asserted(cell: dict) -> list[str]:
    tree = files.parse(cell)
    return [
        ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Assert)
    ]


def strange_numbers(row: Row) -> list[str]:
    """The numbers that a row cannot have from where it leads.

    What the paper says may stand there in any words; what is found must have come out.
    """
    there = texts(row.here)
    says, found = (numbers(NAMES.sub(" ", text)) for text in (row.says, row.found))
    return sorted(found - numbers(there.shown) | says - numbers(there.all))
