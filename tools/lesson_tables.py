"""The tables of lessons in both READMEs, from the notebooks and the modules themselves.

    python tools/lesson_tables.py            writes them
    python tools/lesson_tables.py --check    fails if one of them is not as it would be

Title, question and minutes stand at the head of each notebook. What a lesson adds to
the package, the first lines of the modules say.
"""

import json
import re
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
TABLE = re.compile(r"(<!-- lessons -->\n).*?(<!-- end of lessons -->)", re.DOTALL)


class Lesson(NamedTuple):
    """The head of a notebook."""

    name: str  # of the file
    number: str  # or an appendix's letter
    title: str
    question: str
    badge: str  # in markdown: a picture that opens the notebook in Colab
    minutes: str


def lessons() -> list[Lesson]:
    """All notebooks, in order: lessons first, then appendices."""
    found = []
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        cells = json.loads(path.read_text("utf-8"))["cells"]
        head = "\n".join("".join(cell["source"]) for cell in cells[:2])
        number, title = re.search(r"^# (\w+) · (.+)$", head, re.MULTILINE).groups()
        question = re.search(r"^\*\*(.+)\*\*$", head, re.MULTILINE)[1]
        badge = re.search(r"^\[!\[.+\)$", head, re.MULTILINE)[0]
        minutes = re.search(r"About (\d+) minutes", head)[1]
        found.append(Lesson(path.name, number, title, question, badge, minutes))
    return found


def added(number: str) -> str:
    """The modules of a lesson or appendix, by folder."""
    folders: dict[str, list[str]] = {}
    start = f'"""{"Lesson" if number.isdigit() else "Appendix"} {number}'
    for path in sorted((ROOT / "minipaged").rglob("*.py")):
        first_line = path.read_text("utf-8").partition("\n")[0]
        if path.name != "__init__.py" and first_line.startswith(start):
            folder = path.parent.relative_to(ROOT / "minipaged").as_posix()
            folders.setdefault(folder, []).append(path.stem)
    folders.pop(".", None)  # errors and the like, which all use
    return "; ".join(f"`{name}/` {', '.join(own)}" for name, own in folders.items())


def tables() -> dict[Path, str]:
    """What stands between the marks in each file."""
    front = ["| | notebook | |", "|---|---|---|"]
    map_ = [
        "| | lesson | the question | minutes | adds to the package |",
        "|---|---|---|---|---|",
    ]
    for each in lessons():
        link = f"[{each.title}](notebooks/{each.name})"
        front.append(f"| {each.number} | {link} | {each.badge} |")
        cells = (f"[{each.title}]({each.name})", each.question, each.minutes)
        map_.append(f"| {each.number} | {' | '.join(cells)} | {added(each.number)} |")
    return {
        ROOT / "README.md": "\n".join(front) + "\n",
        ROOT / "notebooks" / "README.md": "\n".join(map_) + "\n",
    }


def main(check: bool) -> None:
    for path, table in tables().items():
        text = path.read_text("utf-8")
        renewed, count = TABLE.subn(lambda mark: mark[1] + table + mark[2], text)  # noqa: B023
        if count != 1:
            sys.exit(f"{path}: there must be one pair of marks for the table")
        if check and renewed != text:
            sys.exit(f"{path} is out of date: run python tools/lesson_tables.py")
        if renewed != text:
            path.write_text(renewed, "utf-8")


if __name__ == "__main__":
    main("--check" in sys.argv[1:])
