"""The lessons and their widgets in a real JupyterLab, in a real browser.

A page is asked for its flaws (page_facts.py, pool_facts.py) in light and dark, wide and
narrow, and in several kinds of writing. Pictures are kept in build/screenshots, for
people to look at.
"""

import nbformat
import pytest

from helpers.page_facts import (
    TEXTS,
    ask,
    ask_in_each_text,
    layout_flaws,
    layout_flaws_in_each_text,
    name_flaws,
    pale_parts,
)
from helpers.pool_facts import (
    colour_flaws,
    contradictions,
    pale_blocks,
    shown_pool,
    tops_in_each_width,
)
from helpers.real_lab import (
    NARROW,
    ROOT,
    WIDE,
    fresh_page,
    in_each_look,
    press,
    run_all,
    run_cell,
    set_theme,
    set_width,
    settle,
    styled,
    wait_for_kernel,
    write,
)
from helpers.thorough import THOROUGH, all_or
from minipaged.lab.pool.scenes import SCENES

SEEN = ROOT / "build" / "screenshots"
WIDGET = ".mp.widget-box"

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

POOL = """
from minipaged.lab import PoolWidget

PoolWidget({})"""
FREE_PLAY = POOL.format("")
BEAMS, COPY, HOLES = (
    POOL.format(f"scene={name!r}") for name in ("beams", "copy", "holes")
)

SOFTMAX = """
import torch

from minipaged.lab import SoftmaxWidget

logits = torch.tensor([0.3, 1.2, 0.1, 0.8, 0.9, 2.4, 1.6, 0.3, 1.3, 0.5, 2.0])
values = torch.linspace(-1, 2, 11)
words = ["<|user|> What", " is the capital of", " Portugal"]
sizes = [4, 4, 3]
SoftmaxWidget(logits.split(sizes), values.split(sizes), "C", [2, 5, 17], words)"""

TUNING = """
from minipaged.lab import TuningWidget, measured_tuning

first = {"tile": 16, "num_warps": 4, "num_stages": 1, "num_splits": 1}
TuningWidget(measured_tuning("nvidia-h200"), "8x4k", first)"""

# 256 blocks, nine sequences, blocks that can be found again, and a table that is too
# long to be shown in full.
CROWDED = """
from minipaged.lab import PoolWidget

crowded = PoolWidget(num_blocks=256, block_size=4)
play = crowded.sandbox.play
play(("start", 10, False, True), ("free", "A"))
play(("start", 300, False, True), ("start", 7, False, True), ("fork", "C", 7))
play(*(("append", name, 2) for name in "DEFGH"))
crowded.draw()
crowded.lookup.name.value, crowded.lookup.position.value = "B", 150
crowded"""


def guess(page, number):
    page.get_by_label("Your guess:").fill(str(number))
    press(page, "Guess")


def expect_holders(page, *expected):
    """Wait until the first widget's first blocks have so many holders, others none."""
    page.wait_for_function(
        """expected => {
          const blocks = document.querySelector(".mp").querySelectorAll("[data-block]");
          const held = [...blocks].map(block => Number(block.dataset.holders));
          const rest = held.splice(expected.length);
          return held.every((h, i) => h === expected[i]) && rest.every(h => h === 0);
        }""",
        arg=list(expected),
    )


def expect_text(page, text):
    page.get_by_text(text).filter(visible=True).first.wait_for()


def guess_by_keyboard(page, number):
    """Answer a scene's question, whose field comes next."""
    page.get_by_label("Your guess:").wait_for()  # blocks are drawn before the question
    page.keyboard.press("Tab")
    page.keyboard.type(number)
    page.keyboard.press("Enter")


def flaws_for_all(page, name):
    """What is wrong with a pool's widget for any reader, and where it was seen."""
    pool = shown_pool(page.locator(WIDGET).first)
    assert pool["blocks"]
    return [*contradictions(pool), *colour_flaws(pool), *flaws_of_any(page, name)]


def flaws_of_any(page, name):
    """The same for any widget: names, contrast and boxes, not what a pool shows."""
    page.mouse.move(0, 0)
    root = page.locator(WIDGET).first
    root.scroll_into_view_if_needed()
    flaws = name_flaws(root)
    for dark, _ in in_each_look(page, [(False, WIDE), (True, NARROW)]):
        where = "dark and narrow" if dark else "light and wide"
        root.screenshot(path=SEEN / f"{name} {where}.png".replace(" ", "-"))
        found = pale_parts(root) + pale_blocks(root) + layout_flaws_in_each_text(root)
        flaws += [f"{where}: {flaw}" for flaw in found]
    return flaws


def test_lesson_2_runs_and_its_widget_plays_the_holes(browser, lab, lab_folder):
    """As if the lesson had never been run; as far as its widget.

    Only `make test-thorough` runs what lies between the first cell and the widget's.
    """
    lesson = nbformat.read(ROOT / "notebooks" / "02_block_pool.ipynb", as_version=4)
    sources = [cell.source for cell in lesson.cells]
    at = next(n for n, text in enumerate(sources) if "PoolWidget(" in text)
    del lesson.cells[at + 1 :]
    if not THOROUGH:
        first = next(n for n, text in enumerate(sources) if "find_spec" in text)
        del lesson.cells[first + 1 : at]
    for cell in lesson.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    nbformat.write(lesson, lab_folder / "lesson.ipynb")
    with fresh_page(browser) as (page, errors):
        run_all(page, lab, "lesson.ipynb", seconds=480)
        outputs = page.evaluate(
            """() => jupyterapp.shell.currentWidget.content.model.sharedModel.cells
              .flatMap(cell => cell.outputs ?? []).map(output => output.output_type)"""
        )
        assert len(outputs) >= (12 if THOROUGH else 2) and "error" not in outputs
        page.locator(WIDGET).first.scroll_into_view_if_needed()
        page.get_by_label("Guided scene:").select_option(SCENES["full"].title)
        expect_holders(page, 1, 1, 1, 1)
        page.get_by_label("Guided scene:").select_option(SCENES["holes"].title)
        play_the_holes(page)
        assert not errors


def play_the_holes(page):
    expect_holders(page, 1, 1)
    press(page, "Next ›")
    expect_holders(page, 1, 1, 1, 1)
    press(page, "Next ›")
    expect_holders(page, 1, 1, 1, 1, 1, 1)
    press(page, "Next ›")
    expect_holders(page, 0, 1, 0, 1, 0, 1)
    expect_text(page, "ends: blocks 0, 2 and 4 are free")
    expect_text(page, "In which block will its position 9 lie?")
    guess(page, 4)
    expect_holders(page, 1, 1, 1, 1, 1, 1, 1)
    expect_text(page, "✓ Right: block 4.")


def test_the_holes_are_filled_and_contiguous_memory_fails(page):
    run_cell(page, HOLES)
    play_the_holes(page)
    alert = page.get_by_role("alert")
    assert "C does not fit. C reserves 24 slots in a row (13 now" in (
        alert.inner_text()
    )
    strip = page.get_by_role("list", name="28 of 64 slots are reserved")
    pieces = strip.get_by_role("listitem")
    assert [one.strip() for one in pieces.all_inner_texts()] == [
        "B\n18 empty",
        "20 free",
        "16 free",
    ]
    table = page.get_by_role("list", name="block table of C", exact=True)
    entries = [
        one.split()[-1] for one in table.get_by_role("listitem").all_inner_texts()
    ]
    assert entries == ["0", "2", "4", "6"]
    said = "block 4: slots 16–19; held by C; 4 of 4 slots filled"
    assert page.get_by_role("listitem", name=said, exact=True).count() == 1
    formula = page.locator(".mp-formula").inner_text().split()
    assert " ".join(formula[-10:]) == "4 block × 4 + 1 offset = 17 slot"
    page.get_by_label("Where is position").fill("5")
    expect_text(page, "look up in C's table")
    page.wait_for_function(
        "document.querySelector('.mp-formula').textContent.includes('9 slot')"
    )
    assert flaws_for_all(page, "holes") == []
    press(page, "Next ›")
    guess(page, 12)
    expect_text(page, "You said slot 12. It is slot 28.")
    assert page.get_by_role("button", name="Next ›").is_disabled()
    press(page, "B: append")
    press(page, "+ new sequence")
    expect_text(page, "begins with 8 tokens: takes blocks 9 and 10")
    assert flaws_for_all(page, "holes by hand") == []
    for _ in range(2):
        press(page, "undo")
    page.wait_for_function("document.querySelector('.mp-sign-undo').disabled")
    expect_holders(page, *[1] * 8)  # the scene's end, and no further
    press(page, "redo")
    expect_holders(page, *[1] * 9)


def looks(page, selector, *names):
    """Some of an element's computed styles."""
    return page.locator(selector).first.evaluate(
        "(one, names) => names.map(name => getComputedStyle(one)[name])", list(names)
    )


def test_an_entry_its_block_and_its_line_are_linked_by_pointer_and_keyboard(page):
    run_cell(page, HOLES)
    for _ in range(2):
        press(page, "Next ›")
    expect_holders(page, *[1] * 6)
    page.mouse.move(0, 0)
    entry = '.mp-entry[data-of="A"][data-b="2"]'
    block, line = '[data-block="2"]', '.mp-wide .mp-line[data-b="2"]'
    ink = looks(page, ".mp", "color")

    def is_shown():
        settle(page)
        colours = looks(page, block, "outlineColor") + looks(
            page, entry, "outlineColor"
        )
        shown = looks(page, line, "opacity")
        assert (colours == ink * 2) == (shown == ["1"])
        return colours == ink * 2

    assert not is_shown()
    page.locator(entry).hover()
    assert is_shown()
    page.mouse.move(0, 0)
    assert not is_shown()
    page.locator(block).hover()
    assert is_shown()
    page.mouse.move(0, 0)
    page.get_by_label("of", exact=True).focus()
    for _ in range(20):
        page.keyboard.press("Shift+Tab")
        if page.evaluate("document.activeElement.dataset.b") == "2":
            break
    assert is_shown()
    assert "entry 1 of A: positions 4 to 7 lie in block 2" in page.evaluate(
        "document.activeElement.title"
    )
    for _ in range(2):
        page.keyboard.press("Shift+Tab")
    assert page.evaluate("document.activeElement.title") == "A: show its blocks"
    faded = page.locator("[data-block]").evaluate_all(
        "all => all.map(one => Number(getComputedStyle(one).opacity) < 1)"
    )
    assert faded == [id_ not in (0, 2, 4) for id_ in range(16)]


def test_nothing_moves_when_a_question_or_a_verdict_appears(page):
    """Whatever the writing: of each scene, the stage stands at one height."""
    run_cell(page, FREE_PLAY)
    widths = [WIDE, NARROW]
    for scene in all_or(SCENES.values(), [SCENES["holes"]]):
        page.get_by_label("Guided scene:").select_option(scene.title)
        tops = []
        for number in range(1, len(scene.steps) + 1):
            page.get_by_role(
                "img", name=f"step {number} of {len(scene.steps)}"
            ).wait_for()
            wait_for_kernel(page)
            tops.append(tops_in_each_width(page, widths))
            widths.reverse()  # begin where the last step has ended
            if number < len(scene.steps):
                step = scene.steps[number]
                press(page, "Skip ›" if step.ask else "Next ›")
        for look in tops[0]:
            own = [top[look] for top in tops]
            assert max(own) - min(own) < 1, (scene.title, look, own)


def test_fork_write_free_undo_and_running_out(page):
    run_cell(page, FREE_PLAY)
    expect_holders(page)
    scene = page.get_by_label("Guided scene:")
    chosen = scene.evaluate("one => one.selectedOptions[0].text")
    assert chosen.split() == ["Free", "play"]
    write(page, "Tokens of a new sequence:", "40")
    press(page, "+ new sequence")
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
    write(page, "Tokens to append:", "1000")
    press(page, "A: append")
    expect_text(
        page, "refused, and nothing has changed: wanted 63 blocks, 60 free of 64"
    )
    expect_holders(page, 4, 4, 3, 1)
    page.get_by_label("of", exact=True).select_option("B")
    page.get_by_label("Where is position").fill("40")
    page.wait_for_function(
        "document.querySelector('.mp-formula').textContent.includes('56 slot')"
    )
    press(page, "picture")
    page.get_by_role("img", name="the pool as a picture").wait_for()
    assert flaws_for_all(page, "by-hand") == []
    with page.expect_download() as download:
        page.get_by_role("link", name="save block-pool.png").click()
    assert download.value.suggested_filename == "block-pool.png"
    for _ in range(3):
        press(page, "undo")
    expect_holders(page)


def test_by_keyboard_alone(page):
    run_cell(page, BEAMS)
    name = "(document.activeElement.textContent || document.activeElement.title)"
    page.get_by_label("Guided scene:").focus()
    page.keyboard.press("Tab")
    assert page.evaluate(name) == "Next ›"  # one cannot go back yet
    page.keyboard.press("Enter")
    expect_holders(page, 4, 4, 4, 4)
    guess_by_keyboard(page, "0")
    expect_holders(page, 4, 4, 4, 4, 1, 1, 1, 1)
    expect_text(page, "You said 0. It is 8.")
    page.wait_for_function(f"{name} === 'Next ›'")  # the field has gone
    page.keyboard.press("Enter")
    expect_holders(page, 4, 4, 4, 4, 2, 1, 1)
    guess_by_keyboard(page, "1")
    expect_holders(page, 4, 4, 4, 4, 1, 1, 1, 1)
    expect_text(page, "✓ Right: 1.")
    page.wait_for_function(f"{name} === '‹ Back'")  # there is nothing next
    page.get_by_role("button", name="B: write 1", exact=True).wait_for()
    for _ in range(80):
        page.keyboard.press("Tab")
        if page.evaluate(name) == "B: write 1":
            break
    page.keyboard.press("Enter")
    expect_text(page, "gets 1 token: there is room in block 5")
    for _ in range(2):
        page.keyboard.press("Tab")
    assert "C" in page.evaluate(name)
    page.get_by_role("button", name="B: free", exact=True).press("Enter")
    expect_holders(page, 3, 3, 3, 3, 1, 0, 1, 1)
    page.wait_for_function(f"{name} === 'undo'")  # not lost with its row
    page.keyboard.press("Enter")
    expect_holders(page, 4, 4, 4, 4, 1, 1, 1, 1)


@pytest.fixture
def copied(page):
    """A narrow, dark page with a scene played to its end."""
    set_width(page, NARROW)
    run_cell(page, COPY)
    set_theme(page, dark=True)
    for name, held in (("Next ›", [4, 4]), ("Skip ›", [4, 1, 1, 1, 1])):
        press(page, name)
        expect_holders(page, *held)
    return page


@pytest.fixture
def crowded(page):
    """A pool of 256 blocks, drawn compact. It is kept while tests only look at it."""
    pool = page.get_by_role("list", name="of 256 blocks are held")
    if not pool.count():
        run_cell(page, CROWDED)
        pool.wait_for()
    return page


@pytest.mark.parametrize("name", ["copied", "crowded"])
def test_every_reader_finds_the_page_sound(request, name):
    assert flaws_for_all(request.getfixturevalue(name), name) == []


HOW_IT_IS_WRITTEN = """function howItIsWritten(root) {
  const { fontFamily, letterSpacing } = getComputedStyle(root.querySelector("button"));
  const size = getComputedStyle(root).getPropertyValue("--jp-widgets-font-size");
  return [fontFamily, letterSpacing, size].join();
}"""


def test_a_page_is_written_in_each_way_and_then_as_before(crowded):
    root = crowded.locator(WIDGET).first
    asked = "howItIsWritten", HOW_IT_IS_WRITTEN
    ways = ask_in_each_text(root, *asked)
    assert len(set(ways.values())) == len(TEXTS)
    assert ask(root, *asked) == ways["as it is"]


def test_256_blocks_are_seen_at_once_and_read(crowded):
    pool = crowded.get_by_role("list", name="87 of 256 blocks are held", exact=True)
    blocks = pool.get_by_role("listitem")
    assert blocks.count() == 256
    assert [int(text) for text in blocks.all_inner_texts()] == list(range(256))
    assert pool.bounding_box()["height"] < 600


FLAWS = {
    "overlapping buttons": (
        layout_flaws,
        ".jupyter-button { margin-right: -30px !important }",
        "overlaps",
    ),
    "a row that does not wrap": (
        layout_flaws,
        ".mp .mp-line-of { flex-wrap: nowrap !important; flex-shrink: 0 }",
        "leaves its container",
    ),
    "text cut off": (
        layout_flaws_in_each_text,
        ".mp .mp-figures { height: 9px; overflow: hidden }",
        "cut off",
    ),
    "a field too small": (layout_flaws, "input { width: 20px !important }", "needs"),
    "a table that does not wrap": (
        layout_flaws,
        ".mp-entries { flex-wrap: nowrap !important }",
        "leaves its container",
    ),
    "pale text": (pale_parts, ".mp-log span { color: #888 !important }", "wanted 4.5"),
    "dark text on a dark page": (
        pale_parts,
        ".mp .mp-big { color: #555 }",
        "wanted 4.5",
    ),
    "pale buttons": (pale_parts, ".jupyter-button { opacity: .5 }", "button"),
    "pale rims": (
        pale_blocks,
        ".mp .mp-held { border-color: #ddd !important }",
        "the rim",
    ),
    "a chip in another colour": (
        lambda root: colour_flaws(shown_pool(root)),
        '.mp .mp-chip[data-sequence="B"] { background: #123456 }',
        "B is",
    ),
    "a shared block without a hatch": (
        lambda root: contradictions(shown_pool(root)),
        ".mp-b::before { background-image: none !important }",
        "hatch",
    ),
}


@pytest.mark.parametrize("flaw", all_or(FLAWS, [*FLAWS][::3]))
def test_a_planted_flaw_is_noticed(crowded, flaw):
    find, css, words = FLAWS[flaw]
    set_theme(crowded, dark="dark" in flaw)
    set_width(crowded, NARROW)
    root = crowded.locator(WIDGET).first
    assert find(root) == []
    with styled(crowded, css):
        found = find(root)
    assert any(words in one for one in found), found
    assert find(root) == []


def test_the_replay_of_a_beam_search(page):
    run_cell(page, REPLAY)
    for number in range(1, 4):
        press(page, "Next ›")
        expect_text(page, f"Forward {number} computes 2 tokens")
    press(page, "‹ Back")
    expect_text(page, "Forward 2 computes")
    page.get_by_role("slider").focus()
    page.keyboard.press("ArrowLeft")
    expect_text(page, "Forward 1 computes")
    expect_text(page, "is forked into A and B: 1 more holder for")
    # The slider of ipywidgets has no name; "Back" and "Next" do the same, and have one.
    assert set(flaws_for_all(page, "replay")) <= {"no name: slider"}


def test_sizes_are_chosen_and_tried(page):
    run_cell(page, TUNING)
    expect_text(page, "404.9 µs: too little under way.")
    for name in ("tile 32", "1 warp", "5 stages", "8 splits"):
        press(page, name)
    expect_text(page, "Press Launch to see what these sizes take.")
    assert flaws_of_any(page, "tuning chosen") == []
    press(page, "Launch")
    expect_text(page, "39.47 µs: none of the three faults.")
    expect_text(page, "Tried: 2 of 480. This one is within 5 % of the best of all.")
    assert flaws_of_any(page, "tuning") == []
    press(page, "Start over")
    expect_text(page, "Tried: 1 of 480. Your best reaches 7 % of the ceiling.")


def test_softmax_block_by_block(page):
    run_cell(page, SOFTMAX)
    expect_text(page, "Nothing is read yet.")
    for block in (2, 5, 17):
        press(page, "Next block ›")
        expect_text(page, f"Block {block} is read.")
    expect_text(page, ": right.")
    assert page.get_by_role("button", name="Next block ›").is_disabled()
    page.get_by_label("leave out the factor").check()
    expect_text(page, ": wrong,")
    press(page, "Another order")
    expect_text(page, "Block 5 is read.")  # the last one now
    press(page, "‹ Back")
    expect_text(page, "Block 17 is read.")
    assert flaws_of_any(page, "softmax") == []
