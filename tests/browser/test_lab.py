"""The lessons and their widgets in a real JupyterLab, in a real browser.

A page is asked for its flaws (page_facts.py, pool_facts.py) in light and dark, wide and
narrow, and in several kinds of writing. Pictures are kept in build/screenshots, for
people to look at.
"""

import nbformat
import pytest

from helpers.page_facts import TEXTS, layout_flaws, name_flaws, pale_parts
from helpers.pool_facts import colour_flaws, contradictions, pale_blocks, shown_pool
from helpers.real_lab import (
    ROOT,
    fresh_page,
    lab_server,
    run_all,
    set_theme,
    set_width,
    styled,
    write_notebook,
)

SEEN = ROOT / "build" / "screenshots"
OUTPUT = ".jp-OutputArea-output:has(.mp-grid)"
WIDE, NARROW = 1000, 540

REPLAY = """
from transformers import GenerationConfig

import minipaged as mp
from minipaged.lab import ReplayWidget, record

model, tokenizer = mp.load("pocket", device="cpu")
paged = mp.PagedModel(model, num_blocks=32, block_size=4)
prompt = tokenizer("Once upon a time a").input_ids
with record(paged) as frames:
    mp.generate(paged, [prompt], GenerationConfig(num_beams=2, max_new_tokens=6))
ReplayWidget(frames, tokenizer)"""

COPY = """
from minipaged.lab import PoolWidget

PoolWidget(scene="copy")"""

# Nine sequences, blocks that can be found again, a table too long to be shown in full.
CROWDED = """
crowded = PoolWidget(num_blocks=200, block_size=4)
play = crowded.sandbox.play
play(("start", 10, False, True), ("free", "A"))
play(("start", 300, False, True), ("start", 7, False, True), ("fork", "C", 7))
play(*(("append", name, 2) for name in "DEFGH"))
crowded.draw()
crowded.pages.name.value, crowded.pages.position.value = "B", 150
crowded"""


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
    one = "from minipaged.lab import PoolWidget\n\nPoolWidget({})"
    write_notebook(folder / "widget.ipynb", one.format("scene='beams'"))
    write_notebook(folder / "copy.ipynb", COPY, CROWDED)
    write_notebook(folder / "replay.ipynb", REPLAY)
    with lab_server(folder) as address:
        yield address


def press(page, name):
    """Press a button of the widget, found as a screen reader finds it."""
    page.get_by_role("button", name=name, exact=True).click()


def expect_holders(page, *expected):
    """Wait until the first widget's first blocks have so many holders, others none."""
    page.wait_for_function(
        """expected => {
          const blocks = document.querySelector(".mp-grid").children;
          const held = [...blocks].map(block => Number(block.dataset.holders));
          const rest = held.splice(expected.length);
          return held.every((h, i) => h === expected[i]) && rest.every(h => h === 0);
        }""",
        arg=list(expected),
    )


def expect_text(page, text):
    page.get_by_text(text).first.wait_for()


def flaws_for_all(page, name, number=0):
    """What is wrong with a widget for any reader, and where it was seen."""
    page.mouse.move(0, 0)
    root = page.locator(OUTPUT).nth(number)
    root.scroll_into_view_if_needed()
    pool = shown_pool(root)
    assert pool["blocks"]
    flaws = [*name_flaws(root), *contradictions(pool), *colour_flaws(pool)]
    for dark, width in (False, WIDE), (True, NARROW):
        set_theme(page, dark)
        set_width(page, width)
        where = "dark and narrow" if dark else "light and wide"
        root.screenshot(path=SEEN / f"{name} {where}.png".replace(" ", "-"))
        found = pale_parts(root) + pale_blocks(root)
        flaws += [f"{where}: {flaw}" for flaw in found]
        for text, css in TEXTS.items():
            with styled(page, css):
                flaws += [f"{where}, {text}: {one}" for one in layout_flaws(root)]
    return flaws


def test_lesson_2_runs_and_its_widget_plays_the_beam_scene(lab, page):
    run_all(page, lab, "02_block_pool.ipynb", seconds=480)
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
    shown = page.get_by_role("list", name="8 of 64 blocks are held", exact=True)
    assert shown.get_by_role("listitem").count() == 64
    said = "block 3: held by A, B, C, D; 16 of 16 slots filled; 4 holders"
    assert shown.get_by_role("listitem", name=said, exact=True).count() == 1
    assert flaws_for_all(page, "beams") == []


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
    press(page, "picture")
    page.get_by_role("img", name="the pool as a picture").wait_for()
    assert flaws_for_all(page, "by-hand") == []
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


@pytest.fixture(scope="module")
def copied(lab, browser):
    """A narrow, dark page with a scene played to its end, and a crowded pool."""
    with fresh_page(browser, NARROW) as (page, errors):
        run_all(page, lab, "copy.ipynb")
        set_theme(page, dark=True)
        for held in ([1, 1], [4, 4], [4, 1, 1, 1, 1]):
            press(page, "go on")
            expect_holders(page, *held)
        yield page
        assert not errors


@pytest.mark.parametrize("number, name", [(0, "copy"), (1, "crowded")])
def test_every_reader_finds_the_page_sound(copied, number, name):
    assert flaws_for_all(copied, name, number) == []


FLAWS = {
    "overlapping buttons": (
        layout_flaws,
        "button { margin-right: -20px !important }",
        "overlaps",
    ),
    "a row that does not wrap": (
        layout_flaws,
        ".widget-hbox { flex-wrap: nowrap !important; flex-shrink: 0 }",
        "needs scrolling",
    ),
    "text cut off": (layout_flaws, "button { max-width: 20px !important }", "cut off"),
    "a field too small": (layout_flaws, "input { width: 20px !important }", "needs"),
    "a table that is not scrolled": (
        layout_flaws,
        ".mp-tables, .mp-tables div { contain: none !important; overflow: visible }",
        "leaves its container",
    ),
    "pale text": (pale_parts, ".mp-events { color: #888 !important }", "wanted 4.5"),
    "dark text on a dark page": (pale_parts, ".mp p { color: #555 }", "wanted 4.5"),
    "pale buttons": (pale_parts, ".jupyter-button { opacity: .5 }", "button"),
    "pale rims": (pale_blocks, ".mp-b i { border-color: #ddd !important }", "the rim"),
    "a chip in another colour": (
        lambda root: colour_flaws(shown_pool(root)),
        '.mp-chip[data-sequence="B"] { background: #123456 }',
        "B is",
    ),
    "a shared block without a hatch": (
        lambda root: contradictions(shown_pool(root)),
        ".mp-b i::before { background-image: none !important }",
        "hatch",
    ),
}


@pytest.mark.parametrize("flaw", FLAWS)
def test_a_planted_flaw_is_noticed(copied, flaw):
    find, css, words = FLAWS[flaw]
    set_theme(copied, dark="dark" in flaw)
    set_width(copied, NARROW)
    root = copied.locator(OUTPUT).nth(1)
    assert find(root) == []
    with styled(copied, css):
        found = find(root)
    assert any(words in one for one in found), found
    assert find(root) == []


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
    # The slider of ipywidgets has no name; "back" and "on" do the same, and have one.
    assert set(flaws_for_all(page, "replay")) <= {"no name: slider"}
