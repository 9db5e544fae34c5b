"""Where a link of the site may lead: to a cell, to a file of the repository."""

import re
import tomllib
from html import escape
from pathlib import PurePosixPath
from posixpath import normpath

from book.sources import ROOT

MARK = re.compile(r'<div class="cell-mark" id="(cell-id=[^"]+)"( data-folded)?>')


def marked(text: str, cell_id: str, is_folded: bool = False) -> str:
    """A cell's Markdown with an anchor: `#cell-id=...`, as JupyterLab has it.

    It stands behind the cell's heading, or else before the text.
    """
    folded = " data-folded" if is_folded else ""
    mark = f'<div class="cell-mark" id="cell-id={escape(cell_id)}"{folded}></div>'
    heading, newline, rest = text.partition("\n")
    if heading.startswith("#"):
        return f"{heading}\n\n{mark}\n{newline}{rest}"
    return f"{mark}\n\n{text}"


def target_of(link: str, folder: PurePosixPath) -> str | None:
    """Where a link in a text of this folder leads to, if it is a file or a folder."""
    path, _, anchor = link.partition("#")
    if not path:
        return None
    inside = normpath(path[1:] if path[0] == "/" else (folder / path).as_posix())
    if inside.rpartition("/")[2] == "playground.html":
        up = "../" * len(folder.parts)
        return f"{up}playground.html#{anchor}" if anchor else f"{up}playground.html"
    return address(inside)


def address(inside: str) -> str | None:
    """Of a file or folder of the repository, where it can be read; None for others."""
    if inside.startswith("..") or not (ROOT / inside).exists():
        return None
    home = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    source = home["project"]["urls"]["Source"]
    kind = "tree" if (ROOT / inside).is_dir() else "blob"
    return f"{source}/{kind}/main/{inside}" if inside else source
