"""The tables of lessons in both READMEs, from the notebooks and the modules themselves.

    python tools/lesson_tables.py            writes them
    python tools/lesson_tables.py --check    fails if one of them is not as it would be

Title, question and minutes stand at the head of each notebook, and the minutes of an
exercise behind its name. What a lesson adds to the package, the first lines of the
modules say.
"""

import json
import re
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
TABLE = re.compile(r"(<!-- (\w+) -->\n).*?(<!-- end of \2 -->)", re.DOTALL)
EXERCISE = re.compile(r"^\*\*[^*\n]+\*\* \((?:\d+ to )?(\d+) minutes\)", re.MULTILINE)
ROUTES = {
    "**An evening** to read, another for its exercises: "
    "what blocks are, and how they serve many users": "1 2 A",
    "**The server**: shared, copied and scarce memory, HTTP": "1 2 A 3 4 B G",
    "**The kernel**: attention at the speed of the memory": "1 2 A 5 6 C D",
    "The six lessons, with appendices A to C": "1 2 3 4 5 6 A B C",
}


class Lesson(NamedTuple):
    """The head of a notebook."""

    name: str  # of the file
    number: str  # or an appendix's letter
    title: str
    question: str
    badge: str  # in markdown: a picture that opens the notebook in Colab
    minutes: int  # to read it
    exercises: int  # minutes for all of them


def lessons() -> list[Lesson]:
    """All notebooks, in order: lessons first, then appendices."""
    found = []
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        cells = json.loads(path.read_text("utf-8"))["cells"]
        texts = ["".join(cell["source"]) for cell in cells]
        head = "\n".join(texts[:2])
        number, title = re.search(r"^# (\w+) · (.+)$", head, re.MULTILINE).groups()
        question = re.search(r"^\*\*(.+)\*\*$", head, re.MULTILINE)[1]
        badge = re.search(r"^\[!\[.+\)$", head, re.MULTILINE)[0]
        minutes = int(re.search(r"About (\d+) minutes", head)[1])
        exercises = sum(map(int, EXERCISE.findall("\n".join(texts))))
        row = (path.name, number, title, question, badge, minutes, exercises)
        found.append(Lesson(*row))
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


def hours(minutes: int) -> str:
    """To the next half hour: 190 minutes are 3 h, 200 are 3½ h."""
    halves = round(minutes / 30)
    return f"{halves // 2}{'½' * (halves % 2)} h"


def routes(series: list[Lesson]) -> str:
    """How long each way through the series takes."""
    rows = ["| route | in this order | to read | exercises |", "|---|---|---|---|"]
    by_number = {each.number: each for each in series}
    for name, numbers in ROUTES.items():
        own = [by_number[number] for number in numbers.split()]
        read = hours(sum(each.minutes for each in own))
        exercises = hours(sum(each.exercises for each in own))
        rows.append(f"| {name} | {', '.join(numbers.split())} | {read} | {exercises} |")
    return "\n".join(rows) + "\n"


def routes_in_short(series: list[Lesson]) -> str:
    """For the front page: a line for each named route, and the time of everything."""
    lines = []
    for row in routes(series).splitlines()[2:]:
        name, numbers, read, exercises = row.strip("| ").split(" | ")
        if name.startswith("**"):
            times = f"{read} to read, {exercises} of exercises"
            lines.append(f"- {name} ({numbers}: {times})")
    read = hours(sum(each.minutes for each in series))
    exercises = hours(sum(each.exercises for each in series))
    all_of_them = f"All notebooks take {read} to read, and their exercises {exercises}."
    return "\n".join([*lines, "", all_of_them]) + "\n"


def tables() -> dict[Path, dict[str, str]]:
    """What stands between the marks in each file, by the marks' name."""
    series = lessons()
    front = ["| | the lesson | its question | |", "|---|---|---|---|"]
    map_ = [
        "| | lesson | the question | minutes | exercises |",
        "|---|---|---|---|---|",
    ]
    modules = ["| | modules |", "|---|---|"]
    for each in series:
        link = f"[{each.title}](notebooks/{each.name})"
        front.append(f"| {each.number} | {link} | {each.question} | {each.badge} |")
        times = f"{each.minutes} | {each.exercises or ''}"
        cells = f"[{each.title}]({each.name}) | {each.question} | {times}"
        map_.append(f"| {each.number} | {cells} |")
        if own := added(each.number):
            modules.append(f"| {each.number} | {own} |")
    return {
        ROOT / "README.md": {
            "routes": routes_in_short(series),
            "lessons": "\n".join(front) + "\n",
        },
        ROOT / "notebooks" / "README.md": {
            "lessons": "\n".join(map_) + "\n",
            "routes": routes(series),
            "modules": "\n".join(modules) + "\n",
        },
    }


def main(check: bool) -> None:
    for path, wanted in tables().items():
        text = path.read_text("utf-8")
        marks = [mark[2] for mark in TABLE.finditer(text)]
        for name in wanted:
            if marks.count(name) != 1:
                sys.exit(f"{path}: there must be one pair of marks for {name!r}")

        def renew(mark: re.Match, wanted: dict[str, str] = wanted) -> str:
            kept = mark[0].removeprefix(mark[1]).removesuffix(mark[3])
            return mark[1] + wanted.get(mark[2], kept) + mark[3]

        renewed = TABLE.sub(renew, text)
        if check and renewed != text:
            sys.exit(f"{path} is out of date: run python tools/lesson_tables.py")
        if renewed != text:
            path.write_text(renewed, "utf-8")


if __name__ == "__main__":
    main("--check" in sys.argv[1:])
