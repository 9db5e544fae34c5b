"""Links of Markdown texts: do they lead anywhere?"""

import re
from pathlib import Path
from urllib.parse import unquote

from helpers import notebook_files as files

FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^()\s]*(?:\([^()\s]*\)[^()\s]*)*)\)")
HTML_LINK = re.compile(r"(?:href|src)=[\"']([^\"']*)")


def links(text: str) -> list[str]:
    """Every link and image of a Markdown text, code left out."""
    prose = re.sub(r"`[^`\n]*`", "", FENCE.sub("", text))
    return LINK.findall(prose) + HTML_LINK.findall(prose)


def headings(text: str) -> list[str]:
    """The headings as a reader sees them, without marks."""
    lines = re.findall(r"^#+ +(.+?) *$", FENCE.sub("", text), re.MULTILINE)
    plain = [re.sub(r"\[(.*?)\]\(.*?\)", r"\1", line) for line in lines]
    return [re.sub(r"[*`]", "", line) for line in plain]


def jupyter_anchors(text: str) -> set[str]:
    """What may stand after the `#` in a notebook: JupyterLab makes spaces `-`."""
    return {heading.replace(" ", "-") for heading in headings(text)}


def github_anchors(text: str) -> set[str]:
    """What may stand after the `#` in a README: small letters, no punctuation."""
    plain = [re.sub(r"[^\w\- ]", "", heading) for heading in headings(text)]
    return {heading.replace(" ", "-").lower() for heading in plain}


def broken_links(text: str, folder: Path, anchors: set[str]) -> list[str]:
    """The links of a text in `folder` that lead nowhere, or over plain http."""
    return [link for link in links(text) if not leads_somewhere(link, folder, anchors)]


def leads_somewhere(link: str, folder: Path, anchors: set[str]) -> bool:
    if re.match(r"\w+:", link):
        return link.startswith(("https:", "mailto:"))
    file, _, anchor = unquote(link).partition("#")
    path = folder / file
    if file and not path.exists():
        return False
    if path.suffix == ".ipynb":
        notebook = files.load(path)
        anchors = jupyter_anchors(files.markdown(notebook))
        anchors |= {f"cell-id={cell['id']}" for cell in notebook["cells"]}
    elif path.suffix == ".md":
        anchors = github_anchors(path.read_text("utf-8"))
    elif file:
        return True
    return not anchor or anchor in anchors


def strange_badges(text: str) -> list[str]:
    """The links to Colab that open no notebook of ours, or one of another home."""
    known = {link for path in files.NOTEBOOKS for link in links(files.badge(path.stem))}
    return [link for link in links(text) if files.COLAB in link and link not in known]
