"""Tables of figures that are stored, for the pages about benchmarks."""

import json
import re
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
FOLDERS = ("figures/data", "minipaged/lab/measure/data")


class Question(NamedTuple):
    """What was measured, and what came out."""

    asked: str
    files: tuple[str, ...]  # names without .json; the first one names the machine
    again: str  # the command that measures it again
    head: tuple[str, ...]  # of the table
    rows: list[tuple[object, ...]]
    said: str  # below the table
    more: str = ""  # behind the machine: threads and the like
    drawn: str = ""  # a picture, in markdown, at the end


def path_of(name: str) -> Path:
    """Where a report lies, from the root."""
    found = [Path(folder, f"{name}.json") for folder in FOLDERS]
    return next(path for path in found if (ROOT / path).is_file())


def stored(name: str) -> dict[str, Any]:
    """A report."""
    return json.loads((ROOT / path_of(name)).read_text("utf-8"))


def machine_of(report: dict[str, Any]) -> str:
    """Device, cores, versions and date; or that they are not stored."""
    first = next(iter(report.get("hosts", report.get("runs", [report]))))
    facts = first.get("machine", first)
    if "device" not in facts:
        return "The machine and the date are not stored"
    cores = f"{facts['cpu_cores']} cores"
    gpu = facts["device"].startswith("NVIDIA")
    device = f"{facts['device']}{' beside' if gpu else ','} {cores}"
    day = date.fromisoformat(facts["date"])
    versions = f"torch {facts['torch']}, transformers {facts['transformers']}"
    if gpu:
        versions += f", Triton {facts['triton']}"
    return f"{device}; {day.day} {day:%B %Y}; {versions}"


def number(value: float) -> str:
    """To three digits, or to whole ones if there are more: 0.191, 12.1, 4,202."""
    if isinstance(value, int) or value == 0 or abs(value) >= 100:
        return f"{int(value + 0.5):,}"
    digits = 2 if abs(value) < 10 else 1
    return f"{value:.{digits if abs(value) >= 1 else 3}f}"


def share(value: float, form: str = ".0%") -> str:
    """In percent: 93 %."""
    return format(value, form).replace("%", " %")


def anchor(heading: str) -> str:
    """What GitHub calls a heading in links."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """In markdown; floats are rounded."""
    columns = [*head]
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    for row in rows:
        cells = [number(x) if isinstance(x, int | float) else x for x in row]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def text_of(question: Question) -> str:
    """Its part of a page."""
    machine = machine_of(stored(question.files[0]))
    links = ", ".join(f"[{name}](../{path_of(name)})" for name in question.files)
    parts = [
        f"### {question.asked}",
        f"*{machine}{question.more}.* Stored in {links}; again by `{question.again}`.",
        table(question.head, question.rows),
        question.said,
        question.drawn,
    ]
    return "\n\n".join(filter(None, parts))


def picture(name: str, said: str) -> str:
    """One of figures/, for light and dark pages."""
    return (
        "<picture>\n"
        '  <source media="(prefers-color-scheme: dark)" '
        f'srcset="../figures/{name}-dark.png">\n'
        f'  <img src="../figures/{name}-light.png" alt="{said}">\n'
        "</picture>"
    )
