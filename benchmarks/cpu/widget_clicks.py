"""The pool's widget: how long a click takes until the page has changed.

    make bench                       prints
    make bench BENCH_FLAGS=--save    also writes figures/data/widget-clicks.json

Measured in the browser: from the click to the last change that it makes on the page,
and the next frame painted. A real JupyterLab, its kernel, and headless Chromium, all on
this machine. Four sequences share most of the pool; the clicks write, fork, free, undo.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from minipaged.lab.measure.machine import describe_machine

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests"))

from helpers.real_lab import (  # noqa: E402
    browser_page,
    find_browser,
    lab_server,
    run_all,
    write_notebook,
)

OUT = ROOT / "figures" / "data" / "widget-clicks.json"
CLICKS = ("A: write 1", "B: append", "B: fork", "C: free", "undo")
# Milliseconds from the click to the frame after the last change; over when nothing has
# changed for a while.
MEASURE = """name => new Promise(done => {
  const buttons = [...document.querySelectorAll(".jp-OutputArea-output button")];
  const button = buttons.find(one => (one.textContent || one.title) === name);
  const start = performance.now();
  let last = start, timer;
  const seen = new MutationObserver(() => {
    // The first comes before the next frame is painted, the second after it.
    requestAnimationFrame(() => requestAnimationFrame(() => {
      last = performance.now();
    }));
    clearTimeout(timer);
    timer = setTimeout(() => { seen.disconnect(); done(last - start); }, 400);
  });
  const output = button.closest(".jp-OutputArea-output");
  seen.observe(output, {childList: true, subtree: true, characterData: true});
  setTimeout(() => done(NaN), 10000);  // the click has changed nothing
  button.click();
})"""


def measure(num_blocks: int, rounds: int) -> dict[str, float]:
    """Median and slowest of all clicks, in milliseconds."""
    longest = num_blocks * 16 // 2
    cell = (
        "from minipaged.lab.pool.widget import PoolWidget\n\n"
        f"hand = PoolWidget({num_blocks})\n"
        f"hand.do(lambda: hand.sandbox.play(('start', {longest} - 7, False, True)))\n"
        "hand.do(lambda: hand.sandbox.play(('fork', 'A', 3)))\n"
        "hand"
    )
    times: dict[str, list[float]] = {name: [] for name in CLICKS}
    with tempfile.TemporaryDirectory() as folder:
        write_notebook(Path(folder) / "widget.ipynb", cell)
        with lab_server(Path(folder)) as address, browser_page() as (page, errors):
            run_all(page, address, "widget.ipynb")
            page.wait_for_selector(".mp-grid")
            for _ in range(rounds):
                for name in CLICKS:
                    times[name].append(page.evaluate(MEASURE, name))
                for _ in range(3):
                    page.evaluate(MEASURE, "undo")
            assert not errors, errors
    every = [one for name in CLICKS for one in times[name]]
    return {
        "blocks": num_blocks,
        "clicks": len(every),
        "median_ms": round(statistics.median(every), 1),
        "slowest_ms": round(max(every), 1),
        "median_ms_of": {
            name: round(statistics.median(own), 1) for name, own in times.items()
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--save", action="store_true", help=f"write {OUT.name}")
    arguments = parser.parse_args()
    browser = find_browser()
    if browser is None:
        sys.exit("no Chromium is installed: `make browser` does it")
    version = subprocess.run([browser, "--version"], capture_output=True, text=True)
    report = {
        "machine": describe_machine(),
        "browser": version.stdout.strip(),
        "bars_ms": {"64": 100, "1024": 300},
        "pools": [measure(num_blocks, arguments.rounds) for num_blocks in (64, 1024)],
    }
    print(json.dumps(report, indent=2))
    if arguments.save:
        OUT.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
