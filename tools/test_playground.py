"""Tests that need no torch, in the page's own Python: pyodide, under node.

python tools/test_playground.py                    those of the folders below
python tools/test_playground.py tests/memory -x    others, as pytest is told

Needs node, and what `tools/make_playground.py --fetch` gets. Tests that ask for torch,
numpy or a second process are skipped, and said at the end.
"""

import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT))

from tools.make_playground import (  # noqa: E402
    ARCHIVE,
    FOR_PYODIDE,
    INGREDIENTS,
    missing,
    tree,
    zipped,
)

INSTALLED = INGREDIENTS / "with-tests"
FOLDERS = "tests/memory tests/scheduling tests/simulate tests/draw".split()
# The widget's tests: here on the stand-in for ipywidgets.
FILES = ["tests/lab/test_sandbox.py", "tests/lab/test_widget.py"]


def install() -> None:
    """Pytest, and what it and the tests need: wheels for pyodide, in a folder."""
    if INSTALLED.exists():
        return
    where = "--target", INSTALLED, "-c", ROOT / "constraints.txt", *FOR_PYODIDE
    wanted = "pytest", "hypothesis", "lazy_loader", "tqdm", "xxhash"
    pip = sys.executable, "-m", "pip", "install", "--quiet", *where, *wanted
    subprocess.run(pip, check=True)


def main() -> None:
    """Run them, and end as pytest ends."""
    if problem := missing():
        sys.exit(problem)
    install()
    with tempfile.TemporaryDirectory() as folder:
        packed = Path(folder, "tree.zip")
        packed.write_bytes(zipped(tree(INGREDIENTS)))
        with tarfile.open(INGREDIENTS / ARCHIVE) as archive:
            archive.extractall(folder, filter="data")
        node = "node", ROOT / "tools" / "test_in_pyodide.mjs"
        where = Path(folder, "package"), INSTALLED, packed
        given = sys.argv[1:] or [*FOLDERS, *FILES]
        done = subprocess.run([*node, *where, *given], check=False)
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
