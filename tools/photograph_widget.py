"""The README's picture of the widget: a photograph of the real one, in a real browser.

python tools/photograph_widget.py    writes figures/widget-light.png and -dark.png
"""

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "tests"))

from helpers.real_lab import (  # noqa: E402
    browser_page,
    lab_server,
    run_all,
    settle,
    write_notebook,
)

# C has just come, and lies in the holes that A has left.
CELL = """
from minipaged.lab import PoolWidget

holes = PoolWidget(scene="holes")
for _ in range(3):
    holes.guide.go_on()
holes.guide.go_on(4)
holes.draw()
holes"""


ONLY_THE_KEY = """
.mp .mp-bottom > :first-child, .mp .mp-figures { display: none !important }
.mp .mp-key { margin-top: 0 !important }"""


def photograph(dark: bool) -> None:
    """Run the cell in JupyterLab, and keep what it shows; below it the key alone."""
    name = f"widget-{'dark' if dark else 'light'}.png"
    with tempfile.TemporaryDirectory() as folder, ExitStack() as opened:
        write_notebook(Path(folder) / "widget.ipynb", CELL)
        address = opened.enter_context(lab_server(Path(folder), dark))
        page, _ = opened.enter_context(browser_page(height=1800, sharp=2))
        run_all(page, address, "widget.ipynb")
        shown = page.locator(".mp.widget-box").first
        shown.locator(".mp-twin").wait_for()
        page.add_style_tag(content=ONLY_THE_KEY)
        page.mouse.move(0, 0)
        settle(page)
        shown.screenshot(path=ROOT / "figures" / name)


if __name__ == "__main__":
    for dark in (False, True):
        photograph(dark)
