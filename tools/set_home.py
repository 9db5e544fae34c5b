"""Say where this repository lives, in every place that must know it.

    python tools/set_home.py https://github.com/you/minipaged

The one place is `Source` in pyproject.toml. The notebooks' Colab badges and bootstrap
cells and the texts repeat it; there the old address is replaced, and nothing else.
"""

import os
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
PYPROJECT = ROOT / "pyproject.toml"
GITHUB = "https://github.com/"
COLAB = "https://colab.research.google.com/github/"
ADDRESS = re.compile(r"https://([\w.-]+)/(\w[\w.-]*/\w[\w.-]*?)(?:\.git)?/?")


def slug_of(url: str) -> str:
    """The `owner/repo` of an address; ValueError says why it cannot be used."""
    match = ADDRESS.fullmatch(url)
    if not match:
        raise ValueError(f"{url!r} is not of the form https://github.com/owner/repo")
    host, slug = match.groups()
    if host != "github.com":
        raise ValueError(f"Colab badges can only point to github.com, not to {host}")
    return slug


def moved(text: str, old: str, new: str) -> str:
    """The text with every address of the repository `old` changed to `new`.

    Whoever clones it goes into a folder with the repository's name.
    """
    for site in (GITHUB, COLAB):
        address = re.escape(site + old) + r"(?![\w-]|\.(?!git\b)\w)"  # not of old-fork
        text = re.sub(address, site + new, text)
    folder, clone = old.partition("/")[2], re.escape(f"git clone {GITHUB}{new}")
    into = rf"({clone}(?:\.git)?(?:\r?\n| && )cd ){re.escape(folder)}(?![\w.-])"
    return re.sub(into, lambda found: found[1] + new.partition("/")[2], text)


def files() -> list[Path]:
    """pyproject.toml comes last: after an interruption, the next run does the rest."""
    notebooks = sorted((ROOT / "notebooks").glob("*.ipynb"))
    texts = [*sorted(ROOT.glob("*.md")), ROOT / "notebooks" / "README.md"]
    return [*notebooks, *filter(Path.exists, texts), PYPROJECT]


def main(url: str) -> None:
    new = slug_of(url)
    project = tomllib.loads(PYPROJECT.read_text("utf-8"))["project"]
    old = slug_of(project["urls"]["Source"])
    for path in files():
        text = path.read_bytes().decode()  # bytes, so that line ends stay as they are
        if moved(text, old, new) != text:
            before = path.stat()
            path.write_bytes(moved(text, old, new).encode())
            # make would take a newer pyproject.toml for other requirements, and build
            # the environment again.
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
            print(f"{path.relative_to(ROOT)}: {new}")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:2] or [""])
    except ValueError as error:
        sys.exit(f"{error}\nUsage: make home URL=https://github.com/you/minipaged")
