"""Sphinx: what only the site has: the map as a picture, the pool, links from words."""

import re
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

from book import names, series, still, words
from book.sources import PLAYGROUND, ROOT

TREE = re.compile(r"^```(?:text)?\n 1 .+?^```$", re.MULTILINE | re.DOTALL)
NOT_LINKED = (
    nodes.FixedTextElement,
    nodes.literal,
    nodes.math,
    nodes.raw,
    nodes.reference,
    nodes.table,
    nodes.title,
    addnodes.pending_xref,
)
START = "For whom, and how to start"
NO_SCRIPT = "This pool can be played with where JavaScript is switched on."
SCENE = re.compile(r'PoolWidget\(scene="(\w+)"\)')
# The site shows how a search's results go on only where it can fetch the pages.
NO_SUMMARY = """
DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = location.protocol !== "file:";
"""


def read(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put the routes into the front page, and the picture into the map.

    The README's heading is the project's name, as that of the front page: here it says
    what the page is for.
    """
    if docname == "README":
        source[0] = re.sub(r"\A# .+", f"# {START}", source[0])
    if docname == "index":
        map_ = (ROOT / "notebooks" / "README.md").read_text("utf-8")
        source[0] = source[0].replace("<!-- routes -->", series.routes(map_))
    if docname == "notebooks/README":
        source[0] = TREE.sub("```{series-map}\n:folder: .\n```", source[0])


class SeriesMap(Directive):
    """The notebooks as a picture that can be clicked."""

    option_spec: ClassVar = {"folder": str}

    def run(self) -> list[nodes.Node]:
        folder = self.options.get("folder", "notebooks")
        svg = series.map_svg("" if folder == "." else f"{folder}/")
        drawn = f'<div class="mp wide">{svg}</div>{series.LEGEND}'
        return [nodes.raw("", drawn, format="html")]


class Playground(Directive):
    """The pool in the page; a still picture until it is loaded, or if there is none."""

    required_arguments = 1  # the scene

    def run(self) -> list[nodes.Node]:
        scene, picture = self.arguments[0], f'<div class="mp still">{still.svg()}</div>'
        lines = ['<div class="playground">', picture]
        if PLAYGROUND.exists():
            start = "Try it: fork and write"
            lines[0] = f'<div class="playground" data-scene="{scene}">'
            lines.append(f"<noscript><p>{NO_SCRIPT}</p></noscript>")
            lines.append(f'<a class="start" href="playground.html#{scene}">{start}</a>')
            more = '<a href="play.html">More scenes</a> · '
            more += '<a href="playground.html#simulator">Simulator</a>'
            lines.append(f'</div><div class="more-scenes">{more}')
        return [nodes.raw("", "\n".join([*lines, "</div>"]), format="html")]


class SceneLinks(SphinxTransform):
    """Below a widget's scene in words: a link to the scene that can be played."""

    default_priority = 755

    def apply(self, **kwargs) -> None:
        if not PLAYGROUND.exists():
            return
        for cell in self.document.findall(nodes.container):
            scene = SCENE.search(cell.astext())
            if cell.get("nb_element") == "cell_code" and scene:
                address = f"../playground.html#{scene[1]}"
                link = nodes.reference(
                    "", "Play this scene in the page", refuri=address
                )
                cell += nodes.paragraph("", "", link, classes=["play-scene"])


class WordLinks(SphinxTransform):
    """On a page of the series, the first occurrence of a word leads to the glossary."""

    default_priority = 760

    def apply(self, **kwargs) -> None:
        if not re.match(r"notebooks/(?!README)", self.env.docname):
            return
        known = words.by_term((ROOT / "notebooks" / "README.md").read_text("utf-8"))
        finder, seen = words.pattern(known), set()
        for text in [*self.document.findall(nodes.Text)]:
            if not _may_be_linked(text):
                continue
            is_bold = isinstance(text.parent, nodes.strong)
            uses = words.uses(text.astext(), finder, is_bold)
            if found := words.first(uses, seen):
                text.parent.replace(text, _linked(text.astext(), found, known))


class NameLinks(SphinxTransform):
    """Code that names something public leads to what the package's pages say of it.

    On a page of the series, only where a name occurs first.
    """

    default_priority = 761

    def apply(self, **kwargs) -> None:
        is_series = self.env.docname.startswith("notebooks/")
        seen: set[str] = set()
        for code in [*self.document.findall(nodes.literal)]:
            name = names.meant(code.astext())
            if not name or name in seen or not _may_be_linked(code[0], in_code=True):
                continue
            if is_series:
                seen.add(name)
            link = addnodes.pending_xref("", refdomain="py", reftype="obj")
            link.attributes |= {"reftarget": f"minipaged.{name}", "refexplicit": True}
            code.replace_self(link)
            link += code


def _may_be_linked(text: nodes.Text, in_code: bool = False) -> bool:
    """Prose, but no code, heading, table or link, and nothing that a cell has said."""
    node = text.parent.parent if in_code else text.parent
    while node is not None:
        if isinstance(node, NOT_LINKED) or node.get("nb_element"):
            return False
        node = node.parent
    return True


def _linked(
    text: str, found: list[words.Use], known: dict[str, words.Word]
) -> list[nodes.Node]:
    """The text, its words as links; each says what it means when it is pointed at."""
    parts: list[nodes.Node] = []
    last = 0
    for use in found:
        word, name = known[use.term], text[use.start : use.stop]
        link = nodes.reference("", name, classes=["word-link"])
        link["refuri"] = f"../glossary.html#{words.anchor(use.term)}"
        link["reftitle"] = f"{word.term}: {word.meaning}"
        parts += [nodes.Text(text[last : use.start]), link]
        last = use.stop
    return [*parts, nodes.Text(text[last:])]


def math_inline(self, node: nodes.math) -> None:
    self.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def math_block(self, node: nodes.math_block) -> None:
    self.body.append(
        f'<div class="math">{tex2mathml(node.astext(), as_block=True)}</div>'
    )
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", read)
    app.add_directive("series-map", SeriesMap)
    app.add_directive("playground", Playground)
    app.add_transform(SceneLinks)
    app.add_transform(WordLinks)
    app.add_transform(NameLinks)
    app.add_html_math_renderer("mathml", (math_inline, None), (math_block, None))
    app.add_js_file(None, body=NO_SUMMARY, priority=300)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
