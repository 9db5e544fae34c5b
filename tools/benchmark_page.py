"""benchmarks/README.md and HISTORY.md, from the stored figures alone.

    python -m tools.benchmark_page            writes them
    python -m tools.benchmark_page --check    fails if one of them is not as it would be

A question has a short table, the machine and the date above it, a sentence below. All
figures are read from figures/data and minipaged/lab/measure/data, where benchmarks have
written them: what is not stored, the pages cannot say.
"""

import sys
from pathlib import Path

from tools import benchmark_history, benchmark_questions

FOLDER = Path(__file__).parent.parent / "benchmarks"


def pages() -> dict[Path, str]:
    """The text of each page."""
    return {
        FOLDER / "README.md": benchmark_questions.page(),
        FOLDER / "HISTORY.md": benchmark_history.page(),
    }


def main(check: bool) -> None:
    for path, text in pages().items():
        if check and path.read_text("utf-8") != text:
            sys.exit(f"{path} is out of date: run python -m tools.benchmark_page")
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    main("--check" in sys.argv[1:])
