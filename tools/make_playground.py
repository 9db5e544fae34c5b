"""The page in which the pool lives: one file, with Python, that opens from disk.

python tools/make_playground.py --fetch    gets pyodide and xxhash into build/playground
python tools/make_playground.py            writes build/playground.html
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from base64 import b64encode
from importlib import util
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT))

from tools.lesson_tables import lessons  # noqa: E402

PAGE = ROOT / "book" / "playground"
INGREDIENTS = ROOT / "build" / "playground"
WRITTEN = ROOT / "build" / "playground.html"

# Pyodide is Python for browsers; its wheels have the tag of Python 3.14.
PYODIDE, XXHASH = "314.0.7", "4.1.0"
ARCHIVE = f"pyodide-{PYODIDE}.tgz"
WHEEL = f"xxhash-{XXHASH}-cp314-cp314-pyemscripten_2026_0_wasm32.whl"
SHA256 = {
    ARCHIVE: "66b7949e5a0cba2250b586d7e368bf12fb482800748d182c4618254b685ffaa0",
    WHEEL: "eb2a048fad81ab55ef3e835b8440a73bb7b8b709140a1e9fe77091863b2172c5",
}
# What pip is told, to find wheels for pyodide: of Python 3.14, or of any.
FOR_PYODIDE = (
    *("--only-binary=:all:", "--platform", "pyemscripten_2026_0_wasm32"),
    *("--python-version", "3.14", "--implementation", "cp", "--abi", "cp314"),
)
PACKED = {  # what pyodide asks for: its name in the archive
    "pyodide.mjs": "package/pyodide.mjs",
    "pyodide.asm.mjs": "package/pyodide.asm.mjs",
    "pyodide.asm.wasm": "package/pyodide.asm.wasm",
    "python_stdlib.zip": "package/python_stdlib.zip",
}
LOCK = "package/pyodide-lock.json"
# Of the package, what needs no torch, and the names of all the rest.
OURS = (
    "minipaged/__init__.py",
    "minipaged/__init__.pyi",
    "minipaged/errors.py",
    "minipaged/memory/**/*.py",
    "minipaged/scheduling/**/*.py",
    "minipaged/simulate/**/*.py",
    "minipaged/draw/**/*.py",
    "minipaged/lab/__init__.py",
    "minipaged/lab/__init__.pyi",
    "minipaged/lab/pool/**/*.py",
    "minipaged/lab/pool/**/*.css",
    "book/playground/*.py",
)
RENDER = """
import json, sys
from book.playground.live import PLACES, Live
from minipaged.lab.pool.html.style import STYLE
from minipaged.lab.pool.scenes import SCENES
first = {one: Live().open(one) for one in PLACES}
scenes = {name: (scene.title, scene.lesson) for name, scene in SCENES.items()}
print(json.dumps({"style": STYLE, "first": first, "scenes": scenes}))
"""


def fetch(folder: Path) -> None:
    """Get what the page is made of, with npm and pip, and check that it is that."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / ARCHIVE).exists():
        npm = "npm", "pack", "--silent", f"pyodide@{PYODIDE}"
        subprocess.run(npm, cwd=folder, check=True)
    if not (folder / WHEEL).exists():
        pip = sys.executable, "-m", "pip", "download", "--no-deps", "--dest", folder
        subprocess.run([*pip, *FOR_PYODIDE, f"xxhash=={XXHASH}"], check=True)
    problem = missing(folder)
    if problem:
        sys.exit(problem)


def missing(folder: Path = INGREDIENTS) -> str:
    """What is not there, or is not what it should be; empty if all is well."""
    for name, expected in SHA256.items():
        path = folder / name
        if not path.exists():
            return f"{path} is missing; `make playground` gets it"
        if hashlib.sha256(path.read_bytes()).hexdigest() != expected:
            return f"{path} is not the file that it should be; delete it"
    return ""


def sources() -> dict[str, bytes]:
    """The Python files of the page: ours, a stand-in for ipywidgets, lazy_loader."""
    files = {
        path.relative_to(ROOT).as_posix(): path.read_bytes()
        for pattern in OURS
        for path in sorted(ROOT.glob(pattern))
    }
    files["ipywidgets.py"] = files.pop("book/playground/ipywidgets.py")
    lazy_loader = Path(util.find_spec("lazy_loader").origin)
    files["lazy_loader/__init__.py"] = lazy_loader.read_bytes()
    return files


def tree(folder: Path = INGREDIENTS) -> dict[str, bytes]:
    """The same, and xxhash as pyodide runs it."""
    with zipfile.ZipFile(folder / WHEEL) as wheel:
        names = (
            name
            for name in wheel.namelist()
            if name.startswith("xxhash/") or "/licenses/" in name
        )
        return sources() | {name: wheel.read(name) for name in names}


def write_files(files: dict[str, bytes], folder: Path) -> None:
    """Each below this folder; but xxhash, which this Python has."""
    for name, content in files.items():
        if not name.startswith("xxhash"):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def rendered(files: dict[str, bytes]) -> dict:
    """The style sheet, and the first picture of each place, by this Python.

    In an empty folder, as in the page; only xxhash is this Python's own.
    """
    with tempfile.TemporaryDirectory() as folder:
        write_files(files, Path(folder))
        environment = {**os.environ, "PYTHONPATH": folder, "MINIPAGED_THEME": ""}
        command = sys.executable, "-c", RENDER
        made = subprocess.run(
            command, cwd=folder, env=environment, check=True, stdout=subprocess.PIPE
        )
    return json.loads(made.stdout)


def page_text(folder: Path = INGREDIENTS, files: dict[str, bytes] | None = None) -> str:
    """The whole page; with other Python files than `tree`, if some are given."""
    files = files or tree(folder)
    made = rendered(files)
    with tarfile.open(folder / ARCHIVE) as archive:
        packed = {
            name: archive.extractfile(inside).read() for name, inside in PACKED.items()
        }
        lock = json.load(archive.extractfile(LOCK))
    packed["tree.zip"] = zipped(files)
    lock["packages"] = {}  # nothing is ever loaded by its name
    texts = {
        "/* STYLE */": made["style"].removeprefix("<style>").removesuffix("</style>")
        + read("page.css"),
        "/* FIRST */": read("first.js")
        .replace("/* PLACES */", ", ".join(json.dumps(one) for one in made["first"]))
        .replace("/* TITLES */", json.dumps(titles_of(made["scenes"]))),
        "<!-- PICTURES -->": "\n".join(
            f'<script type="text/html" data-place="{place}">{html}</script>'
            for place, html in made["first"].items()
        ),
        "/* SCRIPT */": read("page.js"),
        "<!-- INGREDIENTS -->": "\n".join(
            [
                '<script type="text/plain" id="worker">'
                + read("worker.js").replace("/* LOCK */", json.dumps(lock))
                + "</script>",
                *(
                    f'<script type="text/plain" data-packed="{name}">'
                    f"{b64encode(gzip.compress(content, mtime=0)).decode()}</script>"
                    for name, content in packed.items()
                ),
            ]
        ),
    }
    text = read("page.html")
    for word, value in texts.items():
        assert text.count(word) == 1, word
        text = text.replace(word, value)
    return text


def titles_of(scenes: dict[str, tuple[str, int]]) -> dict[str, tuple[str, str, str]]:
    """Of each place of the page: its title, and its notebook: name of the file, title.

    scenes: of each, its title, and the place of its notebook in the series.
    """
    series = lessons()
    numbers = {each.number: at for at, each in enumerate(series)}
    others = {
        "cow": ("Fork and write", numbers["4"]),
        "play": ("Free play", numbers["2"]),
        "simulator": ("Simulator", numbers["F"]),
    }
    found = {}
    for place, (title, at) in {**scenes, **others}.items():
        each = series[at]
        kind = "lesson" if each.number.isdigit() else "appendix"
        notebook = f"{kind} {each.number}: {each.title}"
        found[place] = title, each.name.removesuffix(".ipynb"), notebook
    return found


def read(name: str) -> str:
    """A source of the page."""
    return (PAGE / name).read_text("utf-8")


def zipped(files: dict[str, bytes]) -> bytes:
    """An archive that depends on nothing but these files."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:  # the page packs it
        for name in sorted(files):
            archive.writestr(zipfile.ZipInfo(name), files[name])
    return made.getvalue()


def main() -> None:
    """Fetch, or write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fetch", action="store_true", help="get the ingredients")
    parser.add_argument("--out", type=Path, default=WRITTEN)
    given = parser.parse_args()
    if given.fetch:
        fetch(INGREDIENTS)
        return
    if problem := missing():
        sys.exit(problem)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(page_text(), "utf-8")
    print(f"{given.out}: {given.out.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
