"""The museum of bugs: what its cards quote, from the notebooks' stored outputs.

    python tools/museum.py            writes it into notebooks/MUSEUM.md
    python tools/museum.py --check    fails if a card is not as it would be

A card's title and cause are written by hand. Between a mark that names a cell and the
next `<!-- end -->` stands what the cell has printed:

    <!-- harm 03_prefix_hashing/cell-18 -->
    <!-- harm Z_capstone/refute-run: The flaw; 02_block_pool/cell-19 -->

The second takes one of a cell's several harms, by its first line, and another cell.
The index of lessons is written, too.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
NOTEBOOKS = ROOT / "notebooks"
PAGE = NOTEBOOKS / "MUSEUM.md"

MARK = re.compile(r"^<!-- harm (.+) -->\n(?:.*\n)*?<!-- end -->$", re.MULTILINE)
INDEX = re.compile(r"(<!-- index -->\n).*?(<!-- end of index -->)", re.DOTALL)
TITLED = re.compile(r"^### (.+)\n(?:.*\n){1,4}?<!-- harm (.+) -->$", re.MULTILINE)
NAMED = re.compile(r"(\w+)/([\w-]+)(?:: (.+))?")
HARM = re.compile(r"^(.+)\n    should be  (.*)\n    but is     (.*)$", re.MULTILINE)
FLAW = re.compile(r"^(.+)\n\nprompt +new .+\n((?:.+\n)+)(?:.*\n)*?^(\d+ of .+)$", re.M)
ROW = re.compile(r"^ *(\d+) +[\d/]+  (.{40})  (.*?)  DIFFERENT$", re.MULTILINE)
LONG = 60  # characters; of longer texts, what is equal at their beginning is left out
MOST_ROWS = 2  # of a proof that has noticed a flaw


class Cell(NamedTuple):
    """A cell of a notebook, and the heading that it stands below."""

    lesson: str  # number or letter
    heading: str
    link: str
    printed: str


def read_cell(notebook: str, cell_id: str) -> Cell:
    """Look a cell up; ends the program if there is no such cell."""
    path = NOTEBOOKS / f"{notebook}.ipynb"
    heading = ""
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            found = re.findall(r"^##+ (.+?) *$", source, re.MULTILINE)
            heading = re.sub(r"[*`]", "", found[-1]) if found else heading
        elif cell["id"] == cell_id:
            link = f"{path.name}#{heading.replace(' ', '-')}"
            return Cell(lesson_of(notebook), heading, link, printed_by(cell))
    sys.exit(f"{path.name} has no code cell {cell_id}")


def lesson_of(notebook: str) -> str:
    """The number, or the letter of an appendix."""
    return notebook.partition("_")[0].removeprefix("0")


def printed_by(cell: dict) -> str:
    """What the cell has printed, as it is stored."""
    return "".join("".join(output.get("text", "")) for output in cell["outputs"])


class Quote(NamedTuple):
    """A line of a card: what it is about, what should be, and what is."""

    about: str
    right: str
    wrong: str


def quotes(printed: str, about: str | None = None) -> Iterator[tuple[str, list[Quote]]]:
    """(verdict, lines) of each harm, and of each flaw that a proof has noticed."""
    for what, right, wrong in HARM.findall(printed):
        if about in (None, what):
            yield "", [Quote(what, *differing(right, wrong))]
    for flaw, table, verdict in FLAW.findall(printed):
        if about in (None, flaw) and "DIFFERENT" in table:
            rows = [
                Quote(f"a prompt of {counted(tokens)}", theirs.strip(), ours.strip())
                for tokens, theirs, ours in ROW.findall(table)
            ]
            yield verdict, rows[:MOST_ROWS]


def counted(tokens: str) -> str:
    """A number of tokens, as text."""
    return "a single token" if tokens == "1" else f"{tokens} tokens"


def differing(right: str, wrong: str) -> tuple[str, str]:
    """Both texts, without a long beginning that is the same."""
    pairs = enumerate(zip(right, wrong, strict=False))
    same = next((at for at, (a, b) in pairs if a != b), min(len(right), len(wrong)))
    start = right.rfind(" ", 0, max(0, same - 20)) + 1
    if len(right) <= LONG or start < LONG // 2:
        return right, wrong
    return f"…{right[start:]}", f"…{wrong[start:]}"


def card(mark: str) -> str:
    """What stands on a card, in Markdown: a table, or what the cells have printed."""
    rows, below = [], []
    for name in mark.split("; "):
        notebook, cell_id, about = NAMED.fullmatch(name).groups()
        cell = read_cell(notebook, cell_id)
        found = list(quotes(cell.printed, about))
        if not found and (about or not cell.printed):
            sys.exit(f"{notebook}/{cell_id} prints no harm {about or ''}")
        if not found:
            link = f"[{cell.lesson} · {cell.heading}]({cell.link})"
            below.append(f"{link}:\n\n```text\n{cell.printed.rstrip()}\n```")
        for verdict, lines in found:
            for line in lines:
                link = f"[{cell.lesson} · {line.about}]({cell.link})"
                rows.append(f"| {link} | {code(line.right)} | {code(line.wrong)} |")
            if verdict:
                kind = "lesson" if cell.lesson.isdigit() else "appendix"
                below.append(f"*The proof in {kind} {cell.lesson}: {verdict}.*")
    if rows:
        below.insert(0, "\n".join(["| | should be | but is |", "|---|---|---|", *rows]))
    return "\n\n".join(below) + "\n"


def code(text: str) -> str:
    """As it was printed; in a table, a bar needs a backslash."""
    return f"`{text.strip()}`".replace("|", r"\|") if text.strip() else ""


def renewed(page: str) -> str:
    """The page, with each card as it must be."""

    def write(mark: re.Match) -> str:
        return f"<!-- harm {mark[1]} -->\n{card(mark[1])}<!-- end -->"

    return INDEX.sub(
        lambda mark: mark[1] + index(page) + mark[2], MARK.sub(write, page)
    )


def index(page: str) -> str:
    """The cards of each notebook, as a table."""
    cards: dict[str, dict[str, None]] = {}  # in order, and each once
    for title, mark in TITLED.findall(page):
        anchor = re.sub(r"[^\w\- ]", "", title).replace(" ", "-").lower()
        for name in mark.split("; "):
            (notebook, *_) = NAMED.fullmatch(name).groups()
            cards.setdefault(notebook, {})[f"[{title}](#{anchor})"] = None
    lines = ["| | what breaks there |", "|---|---|"]
    for notebook in sorted(cards):
        link = f"[{lesson_of(notebook)}]({notebook}.ipynb)"
        lines.append(f"| {link} | {', '.join(cards[notebook])} |")
    return "\n".join(lines) + "\n"


def main(check: bool) -> None:
    page = PAGE.read_text("utf-8")
    if check and renewed(page) != page:
        sys.exit(f"{PAGE} is out of date: run python tools/museum.py")
    PAGE.write_text(renewed(page), "utf-8")


if __name__ == "__main__":
    main("--check" in sys.argv[1:])
