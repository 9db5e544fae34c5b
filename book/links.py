"""Every link of the built site leads somewhere, and nothing is fetched from outside.

    python -m book.links build/book/site

prints what is wrong, page by page, and fails if anything is.
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from book.places import address
from book.sources import ROOT

# Elements whose address a browser fetches by itself, and the attribute that has it.
FETCHED = {
    ("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "srcset"),
    ("audio", "src"), ("video", "src"), ("embed", "src"), ("object", "data"),
}  # fmt: skip
FETCHED_BY_REL = {"stylesheet", "icon", "preload", "prefetch", "modulepreload"}
IN_STYLES = re.compile(
    r"url\(\s*['\"]?((?:https?:)?//[^'\")]+)|@import\s+['\"](http[^'\"]+)"
)
OPTIONAL = {"playground.html"}  # the site is whole without it


class Page(HTMLParser):
    """What a page links to, what it fetches, and the anchors that it has."""

    def __init__(self, text: str):
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        for name, value in given.items():
            if (tag, name) in FETCHED:
                self.fetched.append(value)
        if "href" in given:
            is_fetched = tag == "link" and FETCHED_BY_REL & set(given["rel"].split())
            (self.fetched if is_fetched else self.links).append(given["href"])

    handle_startendtag = handle_starttag


def faults(site: Path) -> list[str]:
    """What is wrong, each as "page: link"; [] if nothing is."""
    pages = {path: Page(path.read_text("utf-8")) for path in site.rglob("*.html")}
    found = []
    for path, page in pages.items():
        name = path.relative_to(site).as_posix()
        if name in OPTIONAL or name.startswith("_static/"):
            continue  # it has tests of its own; templates of the theme's
        wrong = [link for link in page.links if not _leads(link, path, site, pages)]
        for link in page.fetched:
            if not link.startswith("data:") and not _is_here(link, path, site):
                wrong.append(f"{link} (fetched)")
        found += [f"{name}: {link}" for link in wrong]
    for path in site.rglob("*.css"):
        outside = IN_STYLES.findall(path.read_text("utf-8"))
        found += [f"{path.relative_to(site)}: {one or other}" for one, other in outside]
    return found


def _leads(link: str, path: Path, site: Path, pages: dict[Path, Page]) -> bool:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return parts.scheme == "mailto" or _outside(link)
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if target.name in OPTIONAL:
        return target.parent == site.resolve()
    if not target.is_relative_to(site.resolve()) or not target.is_file():
        return False
    anchor = unquote(parts.fragment)
    return not anchor or target.suffix != ".html" or anchor in pages[target].anchors


def _outside(link: str) -> bool:
    """Over https; and a file of the repository must be there."""
    home = address("")
    if link.startswith(home):
        inside = re.sub(r"^/?(?:blob|tree)/main/?", "", link.removeprefix(home))
        inside = unquote(inside.partition("#")[0])
        return inside.startswith("/") or (ROOT / inside).exists()
    return link.startswith("https://")


def _is_here(link: str, path: Path, site: Path) -> bool:
    parts = urlsplit(link)
    target = (path.parent / unquote(parts.path)).resolve()
    here = target.is_file() or target.name in OPTIONAL
    return not parts.scheme and not parts.netloc and here


def main(site: str) -> None:
    found = faults(Path(site).resolve())
    print(*found, sep="\n") if found else print("every link leads somewhere")
    sys.exit(bool(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
