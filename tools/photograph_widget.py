"""The README's picture of the widget: a photograph of the real one, in a real browser.

python tools/photograph_widget.py    writes figures/widget-light.png and -dark.png
"""

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "tests"))

from helpers.real_lab import browser_page, lab_server, run_all, write_notebook  # noqa: E402

CELL = """
from minipaged.lab.pool.widget import PoolWidget

hand = PoolWidget(num_blocks=40, block_size=16)
hand.do(lambda: hand.sandbox.play(("start", 40, False, True), ("free", "A")))
hand.do(lambda: hand.sandbox.play(("start", 72, False, True), ("fork", "B", 3)))
hand.do(lambda: hand.sandbox.play(("append", "C", 4), ("append", "D", 20)))
hand.pages.name.value, hand.pages.position.value = "D", 75
hand"""


def photograph(dark: bool) -> None:
    """Run the cell in JupyterLab, and keep what it shows."""
    name = f"widget-{'dark' if dark else 'light'}.png"
    with tempfile.TemporaryDirectory() as folder:
        write_notebook(Path(folder) / "widget.ipynb", CELL)
        with lab_server(Path(folder), dark) as address, browser_page(960) as (page, _):
            run_all(page, address, "widget.ipynb")
            shown = page.locator(".jp-OutputArea-output:has(.mp-grid)").first
            page.wait_for_timeout(500)
            shown.screenshot(path=ROOT / "figures" / name)


if __name__ == "__main__":
    for dark in (False, True):
        photograph(dark)
