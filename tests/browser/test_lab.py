"""The lessons and their widgets in a real JupyterLab, in a real browser.

Pictures of what was seen are left in build/screenshots, and compared roughly with those
in tests/browser/expected. To renew these: MINIPAGED_SCREENSHOTS=save make test.
"""

import os
from pathlib import Path

import nbformat
import pytest
from PIL import Image, ImageChops, ImageStat

from helpers.real_lab import (
    ROOT,
    browser_page,
    find_browser,
    lab_server,
    run_all,
    write_notebook,
)

EXPECTED = Path(__file__).parent / "expected"
SEEN = ROOT / "build" / "screenshots"
FACTOR = 4  # the stored pictures are smaller by this: enough for a rough look
ROUGHLY = 0.04  # mean difference of brightness; other fonts make about half of it

REPLAY = """
from transformers import GenerationConfig

import minipaged as mp
from minipaged.lab.pool.replay import record
from minipaged.lab.pool.replay_widget import ReplayWidget

model, tokenizer = mp.load("pocket", device="cpu")
paged = mp.PagedModel(model, num_blocks=32, block_size=4)
prompt = tokenizer("Once upon a time a").input_ids
with record(paged) as frames:
    mp.generate(paged, [prompt], GenerationConfig(num_beams=2, max_new_tokens=6))
ReplayWidget(frames, tokenizer)"""


@pytest.fixture(scope="module", autouse=True)
def _browser():
    if find_browser() is None:
        what = "no Chromium is installed: `make browser` does it"
        # A test that CI skips in silence is no test.
        (pytest.fail if os.environ.get("CI") else pytest.skip)(what)


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """A JupyterLab over copies of the lessons, as if they had never been run."""
    folder = tmp_path_factory.mktemp("lab")
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
        nbformat.write(notebook, folder / path.name)
    one = "from minipaged.lab.pool.widget import PoolWidget\n\nPoolWidget({})"
    write_notebook(folder / "widget.ipynb", one.format("scene='beams'"))
    write_notebook(folder / "replay.ipynb", REPLAY)
    with lab_server(folder) as address:
        yield address


@pytest.fixture
def page():
    """A page whose console must stay without errors."""
    with browser_page() as (page, errors):
        yield page
        assert not errors


def press(page, name):
    """Press a button of the widget, found as a screen reader finds it."""
    page.get_by_role("button", name=name, exact=True).click()


def holders(page):
    """What the page says of each block's holders."""
    found = page.locator(".mp-grid [data-block]")
    return found.evaluate_all("blocks => blocks.map(b => Number(b.dataset.holders))")


def expect_holders(page, *expected):
    """Wait until the first blocks have so many holders, and all others none."""
    page.wait_for_function(
        """expected => {
          const blocks = [...document.querySelectorAll(".mp-grid [data-block]")];
          const held = blocks.map(block => Number(block.dataset.holders));
          const rest = held.splice(expected.length);
          return held.every((h, i) => h === expected[i]) && rest.every(h => h === 0);
        }""",
        arg=list(expected),
        timeout=10_000,
    )


def expect_text(page, text):
    page.get_by_text(text).first.wait_for(timeout=10_000)


def look(page, name):
    """Keep a picture of the widget, and compare it with the stored one."""
    page.mouse.move(0, 0)
    page.wait_for_timeout(200)
    SEEN.mkdir(parents=True, exist_ok=True)
    page.locator(".jp-OutputArea-output:has(.mp-grid)").first.screenshot(
        path=SEEN / f"{name}.png"
    )
    seen = Image.open(SEEN / f"{name}.png").convert("L")
    seen = seen.resize((seen.width // FACTOR, seen.height // FACTOR))
    if os.environ.get("MINIPAGED_SCREENSHOTS") == "save":
        EXPECTED.mkdir(exist_ok=True)
        seen.save(EXPECTED / f"{name}.png")
    assert difference(seen, EXPECTED / f"{name}.png") < ROUGHLY


def difference(seen, expected):
    """Mean difference of brightness, from 0 to 1; sizes may differ by other fonts."""
    known = Image.open(expected)
    assert 0.8 < seen.height / known.height < 1.25
    gap = ImageChops.difference(seen.resize(known.size), known)
    return ImageStat.Stat(gap).mean[0] / 255


def test_lesson_2_runs_and_its_widget_plays_the_beam_scene(lab, page):
    run_all(page, lab, "02_block_pool.ipynb", seconds=240)
    outputs = page.evaluate(
        """() => jupyterapp.shell.currentWidget.content.model.sharedModel.cells
          .flatMap(cell => cell.outputs ?? []).map(output => output.output_type)"""
    )
    assert len(outputs) > 40 and "error" not in outputs
    page.get_by_role(
        "heading", name="The pool in your hands"
    ).scroll_into_view_if_needed()
    page.get_by_label("Guided scene:").select_option(
        "Beam search: 4 beams, 64 + 10 tokens"
    )
    press(page, "begin")
    expect_text(page, "A prompt of 64 tokens comes.")
    press(page, "go on")
    expect_holders(page, 1, 1, 1, 1)
    press(page, "go on")
    expect_holders(page, 4, 4, 4, 4)
    page.get_by_label("Your guess:").fill("12")
    page.keyboard.press("Tab")
    press(page, "go on")
    expect_holders(page, 4, 4, 4, 4, 1, 1, 1, 1)
    expect_text(page, "It is 8; you said 12.")
    expect_text(page, "8 of 64")
    look(page, "beams")


def test_fork_write_free_undo_and_running_out(lab, page):
    run_all(page, lab, "widget.ipynb")
    press(page, "clear")
    expect_holders(page)
    page.get_by_label("Tokens of a new sequence:").fill("40")
    page.keyboard.press("Tab")
    press(page, "new sequence")
    expect_holders(page, 1, 1, 1)
    press(page, "A: fork")
    expect_holders(page, 4, 4, 4)
    press(page, "B: write 1")
    expect_holders(page, 4, 4, 3, 1)
    expect_text(page, "block 2 has 4 holders: copied to 3 before B writes")
    press(page, "C: free")
    expect_holders(page, 3, 3, 2, 1)
    press(page, "undo")
    expect_holders(page, 4, 4, 3, 1)
    page.get_by_label("Tokens to append:").fill("1000")
    page.keyboard.press("Tab")
    press(page, "A: append")
    expect_text(
        page, "refused, and nothing has changed: wanted 63 blocks, 60 free of 64"
    )
    expect_holders(page, 4, 4, 3, 1)
    page.get_by_label("Where is, of sequence").select_option("B")
    page.get_by_label("the token at position").fill("40")
    page.keyboard.press("Tab")
    expect_text(page, "slot 56")
    look(page, "by-hand")
    press(page, "picture")
    with page.expect_download() as download:
        page.get_by_role("link", name="save block-pool.png").click()
    assert download.value.suggested_filename == "block-pool.png"
    for _ in range(4):
        press(page, "undo")
    expect_holders(page)


def test_by_keyboard_alone(lab, page):
    run_all(page, lab, "widget.ipynb")
    page.get_by_role("button", name="begin", exact=True).focus()
    page.keyboard.press("Tab")
    focused = "document.activeElement.textContent"
    assert page.evaluate(focused) == "go on"
    page.keyboard.press("Enter")
    expect_holders(page, 1, 1, 1, 1)
    page.keyboard.press("Space")
    expect_holders(page, 4, 4, 4, 4)
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate(focused) == "B: write 1":
            break
    page.keyboard.press("Enter")
    expect_holders(page, 4, 4, 4, 4, 1)
    for _ in range(2):
        page.keyboard.press("Tab")
    assert page.evaluate(focused) == "C: append"
    page.get_by_role("button", name="B: free", exact=True).press("Enter")
    expect_holders(page, 3, 3, 3, 3)
    page.wait_for_function(f"{focused} === 'undo'")  # not lost with its row
    page.keyboard.press("Enter")
    expect_holders(page, 4, 4, 4, 4, 1)


def test_a_narrow_dark_page(tmp_path, page):
    one = "from minipaged.lab.pool.widget import PoolWidget\n\nPoolWidget(scene='copy')"
    write_notebook(tmp_path / "widget.ipynb", one)
    page.set_viewport_size({"width": 540, "height": 1600})
    with lab_server(tmp_path, dark=True) as address:
        run_all(page, address, "widget.ipynb")
        for held in ([1, 1], [4, 4], [4, 1, 1, 1, 1]):
            press(page, "go on")
            expect_holders(page, *held)
        look(page, "dark-and-narrow")
        output = page.locator(".jp-OutputArea-output:has(.mp-grid)").first
        assert output.evaluate(
            """output => {
              const edge = one => one.getBoundingClientRect().right;
              const parts = output.querySelectorAll("button, select, input, .mp");
              return [...parts].every(one => edge(one) <= edge(output) + 1);
            }"""
        )
        ink, ground = output.locator(".mp-figures").evaluate(
            """one => [getComputedStyle(one).color,
              getComputedStyle(document.querySelector(".jp-Notebook")).backgroundColor]"""
        )
        assert brightness(ink) - brightness(ground) > 0.5


def brightness(colour):
    """Of "rgb(r, g, b)", or of "rgba(r, g, b, a)", from 0 to 1."""
    numbers = colour[colour.index("(") + 1 : -1].split(",")
    return sum(float(number) for number in numbers[:3]) / 3 / 255


def test_the_replay_of_a_beam_search(lab, page):
    run_all(page, lab, "replay.ipynb")
    for number in range(1, 4):
        press(page, "on")
        expect_text(page, f"forward {number} computes 2 tokens")
    press(page, "back")
    expect_text(page, "forward 2 computes")
    page.get_by_role("slider").focus()
    page.keyboard.press("ArrowLeft")
    expect_text(page, "forward 1 computes")
    expect_text(page, "A is forked into A and B: 1 more holder for")


def test_the_rough_comparison_notices_another_picture():
    pictures = sorted(EXPECTED.glob("*.png"))
    assert len(pictures) == 3
    seen = Image.open(pictures[0])
    other = Image.open(pictures[-1]).resize(seen.size)
    assert difference(seen, pictures[0]) == 0
    assert difference(other, pictures[0]) > ROUGHLY
