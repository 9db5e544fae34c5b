"""Sphinx: texts that were written for GitHub and JupyterLab become pages of the site.

Their links lead where they lead there: to a cell, to a heading by JupyterLab's anchor,
to a file of the repository. Folded parts stay folded, pictures suit light and dark
pages, and badges, which would be fetched from another host, become plain links.
"""

import json
import re
import tomllib
from html import escape
from pathlib import PurePosixPath
from posixpath import normpath

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

from book.sources import ROOT

SOURCE = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]
MARK = re.compile(r'<span class="cell-mark" id="(cell-id=[^"]+)"( data-folded)?>')
PICTURE = re.compile(r'srcset="([^"]+)".*?<img src="([^"]+)" alt="([^"]*)"', re.DOTALL)


def read_notebook(app: Sphinx, docname: str, source: list[str]) -> None:
    """Carry into the page what Sphinx drops of a notebook: its cells' ids and folds."""
    if not app.env.doc2path(docname).suffix == ".ipynb":
        return
    notebook = json.loads(source[0])
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            is_folded = cell["metadata"].get("jp-MarkdownHeadingCollapsed", False)
            cell["source"] = marked("".join(cell["source"]), cell["id"], is_folded)
        else:
            cell["metadata"]["cell_id"] = cell["id"]
    source[0] = json.dumps(notebook)


def marked(text: str, cell_id: str, is_folded: bool = False) -> str:
    """A cell's Markdown with an anchor: `#cell-id=...`, as JupyterLab has it.

    It stands behind the cell's heading, or else before the text.
    """
    folded = " data-folded" if is_folded else ""
    mark = f'<span class="cell-mark" id="cell-id={escape(cell_id)}"{folded}></span>'
    heading, newline, rest = text.partition("\n")
    if heading.startswith("#"):
        return f"{heading}\n\n{mark}\n{newline}{rest}"
    return f"{mark}\n\n{text}"


class Anchors(SphinxTransform):
    """What may stand after the # in a link to a notebook."""

    default_priority = 750  # after the headings' anchors are known, before links

    def apply(self, **kwargs) -> None:
        slugs = getattr(self.document, "myst_slugs", {})
        for line, anchor, title in [*slugs.values()]:
            slugs.setdefault(title.replace(" ", "-"), (line, anchor, title))
        for cell in self.document.findall(nodes.container):
            if "cell_id" in cell.get("cell_metadata", {}):
                anchor = f"cell-id={cell['cell_metadata']['cell_id']}"
                cell["ids"].append(anchor)
                slugs[anchor] = (0, anchor, "")
        for raw in [*self.document.findall(nodes.raw)]:
            if mark := MARK.match(raw.astext()):
                slugs[mark[1]] = (0, mark[1], "")
                if mark[2]:
                    fold(raw.parent)


def fold(section: nodes.Element) -> None:
    """Fold a section below its heading; a link into it opens it."""
    title = section[0].astext()
    summary = f"<summary>Unfold “{escape(title)}”</summary>"
    section.insert(1, nodes.raw("", f'<details class="folded">{summary}', format="html"))
    section.append(nodes.raw("", "</details>", format="html"))


class FilesOfTheRepository(SphinxTransform):
    """Links to files that are no pages lead to the repository."""

    default_priority = 751

    def apply(self, **kwargs) -> None:
        folder = PurePosixPath(self.env.docname).parent
        kinds = (addnodes.pending_xref, addnodes.download_reference)
        for kind in kinds:
            for link in [*self.document.findall(kind)]:
                if link.get("reftype") == "myst" and link.get("refdomain") is None:
                    address = address_of(link["reftarget"], folder)
                    if address:
                        new = nodes.reference("", "", *link.children, refuri=address)
                        link.replace_self(new)


def address_of(target: str, folder: PurePosixPath) -> str | None:
    """Where a link in a text of this folder leads to, if it is a file or a folder."""
    path, _, anchor = target.partition("#")
    if not path:
        return None
    inside = normpath(path[1:] if path[0] == "/" else (folder / path).as_posix())
    if inside.rpartition("/")[2] == "playground.html":
        return "../" * len(folder.parts) + "playground.html" + f"#{anchor}" * bool(anchor)
    if inside.startswith("..") or not (ROOT / inside).exists():
        return None
    kind = "tree" if (ROOT / inside).is_dir() else "blob"
    return f"{SOURCE['Source']}/{kind}/main/{inside}"


class Pictures(SphinxTransform):
    """Pictures for light pages and for dark ones; no badge from another host."""

    default_priority = 752

    def apply(self, **kwargs) -> None:
        for raw in [*self.document.findall(nodes.raw)]:
            if "<picture" in raw.astext() and (found := PICTURE.search(raw.astext())):
                pair = zip(found.groups()[:2], ("dark", "light"), strict=True)
                raw.replace_self(
                    [
                        nodes.image(uri=uri, alt=found[3], classes=[f"only-{page}"])
                        for uri, page in pair
                    ]
                )
        for image in [*self.document.findall(nodes.image)]:
            if image["uri"].startswith(("http:", "https:")):
                image.parent["classes"].append("badge-link")
                image.replace_self(nodes.Text(image["alt"]))


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", read_notebook)
    for transform in (Anchors, FilesOfTheRepository, Pictures):
        app.add_transform(transform)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
