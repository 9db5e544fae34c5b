"""Sphinx: texts that were written for GitHub and JupyterLab become pages of the site.

Their links lead where they lead there: to a cell, to a heading by JupyterLab's anchor,
to a file of the repository. Folded parts stay folded, pictures suit light and dark
pages, and badges, which would be fetched from another host, become plain links.
"""

import json
import re
from html import escape
from itertools import chain
from pathlib import PurePosixPath

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

from book.drawn import Drawn, drawn_in
from book.places import MARK, marked, target_of

PICTURE = re.compile(r'srcset="([^"]+)".*?<img src="([^"]+)" alt="([^"]*)"', re.DOTALL)


def read_notebook(app: Sphinx, docname: str, source: list[str]) -> None:
    """Carry into the page what Sphinx drops of a notebook: ids, folds, and titles."""
    if app.env.doc2path(docname).suffix != ".ipynb":
        return
    notebook = json.loads(source[0])
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            is_folded = cell["metadata"].get("jp-MarkdownHeadingCollapsed", False)
            cell["source"] = marked("".join(cell["source"]), cell["id"], is_folded)
        else:
            cell["metadata"]["cell_id"] = cell["id"]
            drawn = chain.from_iterable(map(drawn_in, cell["outputs"]))
            cell["metadata"]["drawn"] = [*drawn]
    source[0] = json.dumps(notebook)


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
    section.insert(
        1, nodes.raw("", f'<details class="folded">{summary}', format="html")
    )
    section.append(nodes.raw("", "</details>", format="html"))


def with_title(image: nodes.image, drawn: Drawn) -> None:
    """Put the title in words above a picture, and cut the drawn title off."""
    image["alt"] = drawn.title
    shape = f"{drawn.width} / {drawn.height - drawn.plate:g}"
    head = (
        f'<figure class="drawn" style="--width: {drawn.width}px; --shape: {shape}">'
        f'<figcaption aria-hidden="true">{escape(drawn.title)}</figcaption>'
    )
    parts = nodes.raw("", head, format="html"), image.deepcopy()
    image.replace_self([*parts, nodes.raw("", "</figure>", format="html")])


class FilesOfTheRepository(SphinxTransform):
    """Links to files that are no pages lead to the repository."""

    default_priority = 751

    def apply(self, **kwargs) -> None:
        folder = PurePosixPath(self.env.docname).parent
        for kind in (addnodes.pending_xref, addnodes.download_reference):
            for link in [*self.document.findall(kind)]:
                if link.get("reftype") != "myst" or link.get("refdomain"):
                    continue  # it leads to a page
                if uri := target_of(link["reftarget"], folder):
                    new = nodes.reference("", "", *link.children, refuri=uri)
                    link.replace_self(new)


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
        for cell in [*self.document.findall(nodes.container)]:
            if cell.get("nb_element") == "cell_code":
                images = [*cell.findall(nodes.image)]
                drawn = cell["cell_metadata"]["drawn"]
                for image, about in zip(images, drawn, strict=True):
                    with_title(image, Drawn(*about))
        for image in [*self.document.findall(nodes.image)]:
            if image["uri"].startswith(("http:", "https:")):
                image.parent["classes"].append("badge-link")
                image.replace_self(nodes.Text(image["alt"]))


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", read_notebook)
    for transform in (Anchors, FilesOfTheRepository, Pictures):
        app.add_transform(transform)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
