"""Build the site: python -m book, or `make book`.

It lies in build/book/site and opens from disk: index.html. No text is written twice:
what Sphinx reads in build/book/source is copied there anew for each build, or made from
docstrings and from the map's table of words.
"""

import shutil
import sys

from sphinx.cmd.build import build_main

from book.sources import BUILD, ROOT, lay_out


def main() -> int:
    source, site = BUILD / "source", BUILD / "site"
    shutil.rmtree(BUILD, ignore_errors=True)
    lay_out(source)
    arguments = ["-b", "html", "-j", "auto", "-q", "-W", "--keep-going"]
    arguments += ["-c", str(ROOT / "book"), "-d", str(BUILD / "doctrees")]
    failed = build_main([*arguments, str(source), str(site)])
    for page in (site / "_static").glob("*.html"):
        page.unlink()  # templates of the theme, which no page needs
    return failed


if __name__ == "__main__":
    sys.exit(main())
