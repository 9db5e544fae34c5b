"""What the site is made of: the texts of the repository, and pages made from them."""

import shutil
from collections.abc import Iterator
from pathlib import Path

from minipaged.draw.style import style_sheet

ROOT = Path(__file__).parent.parent
BUILD = ROOT / "build" / "book"
PLAYGROUND = ROOT / "build" / "playground.html"
PLAYGROUND_IN_SITE = BUILD / "extra" / "playground.html"
# Relative to the repository. What GitHub shows of it has the same place in the site.
TEXTS = (
    "*.md",
    "notebooks/*.ipynb",
    "notebooks/*.md",
    "[a-z]*/*.md",
    "minipaged/**/*.md",
)


def texts() -> list[Path]:
    """All texts that become pages, relative to the repository."""
    found = {path for pattern in TEXTS for path in ROOT.glob(pattern)}
    return sorted(path.relative_to(ROOT) for path in found)


def made_pages() -> Iterator[tuple[str, str]]:
    """The pages that are made anew: name and Markdown."""
    from book import (
        api,
        play,
        words,
    )  # griffe is installed where the site is built only

    map_ = (ROOT / "notebooks" / "README.md").read_text("utf-8")
    yield "glossary.md", words.page(map_)
    is_there = PLAYGROUND.exists()
    yield "play.md", play.page(PLAYGROUND.read_text("utf-8") if is_there else "")
    listing = (ROOT / "README.md", ROOT / "minipaged" / "README.md")
    listed = "\n".join(path.read_text("utf-8") for path in listing if path.exists())
    for floor, text in api.pages(listed).items():
        yield f"api/{floor}.md", text


def in_site(text: str) -> str:
    """The pool's page, which then links to the front page and to the notebooks."""
    mark = '<html lang="en"'
    if text.count(mark) != 1:
        raise ValueError(f"{PLAYGROUND} has no {mark}")
    return text.replace(mark, f"{mark} data-in-site")


def lay_out(folder: Path) -> None:
    """Make the folder that Sphinx reads, with the places of the repository.

    Copies, because Sphinx would follow links, and find no page at their end.
    """
    for path in texts():
        copy(ROOT / path, folder / path)
    copy(ROOT / "book" / "front" / "index.md", folder / "index.md")
    for picture in (ROOT / "figures").glob("*.png"):
        copy(picture, folder / "figures" / picture.name)
    (folder.parent / "static").mkdir()
    (folder.parent / "static" / "scenes.css").write_text(style_sheet(), "utf-8")
    if PLAYGROUND.exists():  # it is told that the site is around it, for its links
        PLAYGROUND_IN_SITE.parent.mkdir()
        PLAYGROUND_IN_SITE.write_text(in_site(PLAYGROUND.read_text("utf-8")), "utf-8")
    for name, text in made_pages():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


def copy(path: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, to)
