"""Run every lesson from top to bottom without a browser, and count its proofs.

    python tools/run_lessons.py                      all of them, as `make lessons` does
    python tools/run_lessons.py notebooks/01*.ipynb  some of them
    python tools/run_lessons.py --save               also store the outputs in the files

Cells tagged nbval-ignore-output, which draw or measure, keep the outputs that they
have: so a change of code shows only where its text is shown. `--fresh` stores all.
A single one is made anew if it was cleared before.

Ends in a table: lesson, seconds, proofs passed. The proofs are counted from what the
notebooks' own proofs record, so a lesson that proves nothing shows it.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import (
    CellExecutionError,
    CellTimeoutError,
    DeadKernelError,
)
from tqdm import tqdm

VARIES = "nbval-ignore-output"  # the tag of cells that show something else each time
WIDGET = "application/vnd.jupyter.widget-view+json"
NOTEBOOKS = Path(__file__).parent.parent / "notebooks"


def run(path: Path) -> tuple[nbformat.NotebookNode, float, list[dict], str | None]:
    """Execute a notebook; return it, seconds, its recorded proofs, and what failed."""
    notebook = nbformat.read(path, as_version=4)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        proofs = Path(folder) / "proofs.jsonl"
        proofs.touch()
        os.environ["MINIPAGED_PROOFS"] = str(proofs)
        os.environ["TQDM_DISABLE"] = "1"
        # The models are tiny: a second thread costs more than it saves.
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        bar = tqdm(total=len(notebook.cells), desc=path.stem, unit="cell", leave=False)
        at = 0

        def started(cell_index: int) -> None:
            nonlocal at
            at = cell_index
            bar.update(cell_index - bar.n)

        client = NotebookClient(
            notebook,
            timeout=600,
            kernel_name="python3",
            coalesce_streams=True,  # lines printed one by one are one output
            extra_arguments=["--log-level=ERROR"],
            resources={"metadata": {"path": str(path.parent)}},
            on_cell_start=lambda cell, cell_index: started(cell_index),
        )
        try:
            client.execute()
            failure = None
        except CellExecutionError as error:
            failure = f"{error.ename}: {error.evalue} (cell-{at:02})"
        except (CellTimeoutError, DeadKernelError) as error:
            failure = f"{type(error).__name__} (cell-{at:02})"
        finally:
            bar.close()
        records = [json.loads(line) for line in proofs.read_text().splitlines()]
    return notebook, time.perf_counter() - start, records, failure


def keep_outputs(notebook: nbformat.NotebookNode, path: Path) -> None:
    """Take the outputs that are stored, where cells show something else each time."""
    stored = nbformat.read(path, as_version=4)
    for cell, before in zip(notebook.cells, stored.cells, strict=True):
        if VARIES in cell.metadata.get("tags", []) and before.get("outputs"):
            cell.outputs = before.outputs
            for output in cell.outputs:
                if "execution_count" in output:
                    output.execution_count = cell.execution_count


def store(notebook: nbformat.NotebookNode, path: Path) -> None:
    """Write the notebook, less what changes each time or stops GitHub showing it."""
    notebook.metadata.pop("widgets", None)
    notebook.metadata["kernelspec"] = {
        "display_name": "Python 3",
        "language": "python",
        "name": "python3",
    }
    notebook.metadata["language_info"] = {"name": "python"}
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        for output in cell.get("outputs", []):
            # Without its state a stored widget is an error message; its text is left.
            output.get("data", {}).pop(WIDGET, None)
    nbformat.write(notebook, path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("notebooks", nargs="*", type=Path)
    parser.add_argument("--save", action="store_true", help="store the outputs")
    parser.add_argument(
        "--fresh", action="store_true", help="those of cells that draw or measure, too"
    )
    arguments = parser.parse_args()
    paths = arguments.notebooks or sorted(NOTEBOOKS.glob("*.ipynb"))
    for path in paths:
        if not path.is_file():
            parser.error(f"there is no notebook {path}")
    rows = []
    for path in paths:
        notebook, *row = run(path.resolve())
        rows.append((path, *row))
        if (arguments.save or arguments.fresh) and row[-1] is None:
            if not arguments.fresh:
                keep_outputs(notebook, path)
            store(notebook, path)
    print(
        f"\n{'lesson':24}{'seconds':>8}{'proofs passed':>15}{'prompts':>9}"
        f"{'flaws noticed':>15}"
    )
    for path, seconds, records, failure in rows:
        proofs = [r for r in records if "claim" in r]
        controls = [r for r in records if "control" in r]
        passed = [r for r in proofs if r["equal"] == r["prompts"]]
        noticed = [r for r in controls if r["equal"] < r["prompts"]]
        prompts = sum(r["prompts"] for r in passed)
        print(
            f"{path.stem:24}{seconds:8.1f}{f'{len(passed)} of {len(proofs)}':>15}"
            f"{prompts:9}{f'{len(noticed)} of {len(controls)}':>15}"
        )
        if failure:
            print(f"    FAILED: {failure}")
    lacking = [
        path.stem
        for path, _, records, _ in rows
        if not any("claim" in record for record in records)
    ]
    for name in lacking:
        print(f"    {name} proved nothing")
    return 1 if lacking or any(failure for *_, failure in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
