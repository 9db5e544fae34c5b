"""The replay of an engine, and the scenes of appendix B, in a real JupyterLab.

As test_lab.py does it: pages are asked for their flaws, whatever fonts there are.
"""

import pytest

from helpers.page_facts import (
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
    in_each_look,
    press,
    run_cell,
    settle,
    styled,
    wait_for_kernel,
)
from helpers.thorough import thorough_only

SEEN = ROOT / "build" / "screenshots"
WIDGET = ".mp.widget-box"
LOOKS = (False, WIDE), (False, NARROW), (True, NARROW), (True, WIDE)  # dark, width

# C, who comes last, has to give way; D comes two steps later, and waits.
ENGINE = """
import minipaged as mp
from minipaged.lab import ReplayWidget, StepClock, record
from transformers import GenerationConfig

model, tokenizer = mp.load("pocket", device="cpu")
paged = mp.PagedModel(model, num_blocks=8, block_size=4)
clock = StepClock()
engine = mp.Engine(paged, preemption={mode!r}, clock=clock, observers=[clock])
words = tokenizer("Once upon a time there was a little fox").input_ids
for length, answer, arrival in ((9, 8, 0), (6, 9, 0), (7, 7, 0), (10, 3, 2)):
    own = GenerationConfig(max_new_tokens=answer, min_new_tokens=answer)
    engine.add((words * 2)[:length], own, arrival=arrival)
with record(paged) as frames:
    engine.run()
ReplayWidget(frames, tokenizer)"""

SCENE = """
from minipaged.lab import PoolWidget

PoolWidget(scene={name!r})"""


def expect_text(page, text):
    page.get_by_text(text).filter(visible=True).first.wait_for()


def cards(page):
    """Lane: the letters on its cards, in order, as the page shows them."""
    return page.locator(WIDGET).first.evaluate(
        """root => Object.fromEntries([...root.querySelectorAll(".mp-lane")].map(
          lane => [
            lane.querySelector("h4").firstChild.data.trim(),
            [...lane.querySelectorAll(".mp-card.mp-h")].map(
              card => card.querySelector(".mp-chip").textContent).join(""),
          ]))"""
    )


def expect_cards(page, **expected):
    """Wait until the lanes hold these; then compare all."""
    for lane, letters in expected.items():
        page.wait_for_function(
            """([lane, letters]) => {
              const found = [...document.querySelectorAll(".mp-lane")].find(
                one => one.querySelector("h4").firstChild.data.trim() === lane);
              const chips = [...found.querySelectorAll(".mp-card.mp-h .mp-chip")];
              return chips.map(one => one.textContent).join("") === letters;
            }""",
            arg=[lane, letters],
        )
    assert cards(page) == expected


def flaws(page, name):
    """What is wrong with the page for any reader, and where it was seen."""
    root = page.locator(WIDGET).first
    pool = shown_pool(root)
    assert pool["blocks"]
    page.mouse.move(0, 0)
    root.scroll_into_view_if_needed()
    found = [*contradictions(pool), *colour_flaws(pool), *name_flaws(root)]
    for dark, width in in_each_look(page, LOOKS):
        where = f"{'dark' if dark else 'light'} {width}"
        root.screenshot(path=SEEN / f"{name} {where}.png".replace(" ", "-"))
        pale = pale_parts(root) + pale_blocks(root) + pale_marks(root)
        own = pale + layout_flaws_in_each_text(root)
        found += [f"{where}: {flaw}" for flaw in own]
    return [one for one in found if one != "no name: slider"]  # ipywidgets' own


def pale_marks(root):
    """Rims of the lanes' boxes and bars that are hardly seen: contrasts below 3."""
    script = (ROOT / "tests/helpers/page_facts.js").read_text("utf-8")
    return root.evaluate(
        f"root => {{{script}\n"
        """return [...root.querySelectorAll(".mp-box")].filter(isVisible).flatMap(
          box => {
            const { below, ground } = groundOf(box);
            const rim = readColour(getComputedStyle(box).borderTopColor);
            const seen = ratio(over(rim, ground), below);
            return seen < 3 ? [tooPale(describe(box), seen, 3)] : [];
          })}"""
    )


def test_the_replay_of_a_preemption_by_recompute(page):
    run_cell(page, ENGINE.format(mode="recompute"))
    expect_cards(page, Waiting="", Running="ABC")
    for _ in range(2):
        press(page, "Next ›")
    expect_cards(page, Waiting="D", Running="ABC")
    expect_text(page, "arrives with a prompt of 10 tokens, and waits")
    press(page, "Next ›")
    expect_cards(page, Waiting="CD", Running="AB")
    expect_text(
        page, "is preempted, and K and V of 9 tokens are dropped: blocks 5 to 7"
    )
    expect_text(page, "is preempted; its table is gone")
    first = page.locator(".mp-card.mp-h").first
    assert first.get_attribute("title") == (
        "C: needs 3 blocks, 10 tokens; first in line; 9 tokens to be computed again"
    )
    assert flaws(page, "engine recompute") == []
    page.get_by_role("slider").focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    expect_cards(page, Waiting="D", Running="BC")
    expect_text(page, "starts again, and computes 10 tokens, 9 of them again")
    press(page, "‹ Back")
    expect_cards(page, Waiting="CD", Running="AB")


@thorough_only
def test_the_replay_of_a_preemption_by_swapping(page):
    run_cell(page, ENGINE.format(mode="swap"))
    for _ in range(3):
        press(page, "Next ›")
    expect_cards(page, Waiting="D", Swapped="C", Running="AB")
    expect_text(
        page, "K and V of 9 tokens are moved to the CPU: blocks 5 to 7 are free"
    )
    places = page.locator("[data-place]")
    assert places.all_inner_texts() == ["0", "1", "2"]
    titles = places.evaluate_all("all => all.map(one => one.title)")
    assert titles == [
        "place 0: positions 0 to 3 of C",
        "place 1: positions 4 to 7 of C",
        "place 2: position 8 of C",
    ]
    assert flaws(page, "engine swap") == []
    for _ in range(5):
        press(page, "Next ›")
    expect_cards(page, Waiting="D", Swapped="", Running="BC")
    expect_text(page, "comes back from the CPU with 9 tokens: takes blocks 0 to 2")


def test_a_letter_of_a_lane_shows_its_blocks_by_pointer_and_keyboard(page):
    run_cell(page, ENGINE.format(mode="swap"))
    for _ in range(3):
        press(page, "Next ›")
    expect_cards(page, Waiting="D", Swapped="C", Running="AB")

    def bright():
        """Blocks of the pool, and cards, that have not stepped back."""
        settle(page)
        is_bright = "all => all.filter(one => getComputedStyle(one).opacity === '1')"
        blocks, names = "one.dataset.block", "one.dataset.card"
        return [
            page.locator(f"{WIDGET} {which}").evaluate_all(
                f"{is_bright}.map(one => {of})"
            )
            for which, of in (("[data-block]", blocks), (".mp-card.mp-h", names))
        ]

    page.mouse.move(0, 0)
    everything = [list("01234567"), list("DCAB")]
    assert bright() == everything
    page.locator(".mp-lane .mp-handle.mp-sA").hover()
    assert bright() == [["0", "1", "2"], ["A"]]
    page.mouse.move(0, 0)
    assert bright() == everything
    page.get_by_role("slider").focus()
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.title") == "C: show its blocks":
            break
    assert bright() == [[], ["C"]]
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.title") == "A: show its blocks"
    assert bright() == [["0", "1", "2"], ["A"]]


def test_the_pool_stands_still_while_the_slider_moves(page):
    """Whatever the writing: lanes keep their height from frame to frame."""
    run_cell(page, ENGINE.format(mode="swap"))
    tops, widths = [], [WIDE, NARROW]
    for number in range(8):
        page.locator(f"[role=slider][aria-valuenow='{number}.0']").wait_for()
        wait_for_kernel(page)
        tops.append(tops_in_each_width(page, widths))
        widths.reverse()  # begin where the last frame has ended
        press(page, "Next ›")
    for look in tops[0]:
        own = [round(top[look]) for top in tops]
        assert len(set(own)) == 1, (look, own)


def guess(page, said):
    page.get_by_label("Your guess:").fill(str(said))
    press(page, "Guess")


def test_the_scene_of_who_gives_way_is_guessed_through(page):
    run_cell(page, SCENE.format(name="recompute"))
    expect_cards(page, Waiting="", Running="ABC")
    press(page, "Next ›")
    expect_text(page, "Who gives blocks back: A, B or C?")
    guess(page, "4")  # no letter
    page.get_by_placeholder("letter").wait_for()
    expect_text(page, "A letter, please.")
    assert flaws(page, "scene recompute asks") == []
    guess(page, "b")
    expect_text(page, "You said B. It is C.")
    expect_cards(page, Waiting="C", Running="AB")
    press(page, "Next ›")
    expect_text(page, "How many blocks must be free before C starts again?")
    guess(page, 3)
    expect_text(page, "✓ Right: 3.")
    expect_cards(page, Waiting="", Running="BC")
    assert page.get_by_role("button", name="Next ›").is_disabled()
    assert not page.get_by_text("Free play").filter(visible=True).count()
    assert flaws(page, "scene recompute ends") == []
    press(page, "‹ Back")
    expect_cards(page, Waiting="C", Running="AB")


@thorough_only
def test_the_scene_of_the_cpus_memory_is_guessed_through(page):
    run_cell(page, SCENE.format(name="swap"))
    expect_cards(page, Waiting="", Swapped="", Running="ABC")
    guess(page, 1)
    expect_text(page, "You said 1. It is 3.")
    expect_cards(page, Waiting="", Swapped="C", Running="AB")
    assert flaws(page, "scene swap") == []
    press(page, "Next ›")
    guess(page, 1)
    expect_text(page, "✓ Right: 1.")
    expect_cards(page, Waiting="", Swapped="", Running="BC")


FLAWS = {
    "a card that does not shrink": (
        layout_flaws,
        ".mp .mp-card { min-width: 900px !important }",
        "leaves its container",
    ),
    "lanes too low": (
        layout_flaws,
        ".mp .mp-lane { height: 12px !important }",
        "leaves its container",
    ),
    "pale boxes": (
        pale_marks,
        ".mp .mp-box { border-color: #eee !important }",
        "has a contrast",
    ),
}


@pytest.mark.parametrize("flaw", FLAWS)
def test_a_planted_flaw_is_noticed(page, flaw):
    find, css, words = FLAWS[flaw]
    run_cell(page, ENGINE.format(mode="swap"))
    for _ in range(3):
        press(page, "Next ›")
    expect_cards(page, Waiting="D", Swapped="C", Running="AB")
    root = page.locator(WIDGET).first
    assert find(root) == []
    with styled(page, css):
        found = find(root)
    assert any(words in one for one in found), found
