"""The measures of page_facts.py and pool_facts.py: right where the answer is known.

And never blind: each flaw is planted once, and must be noticed.
The page is made of the widget's own HTML with plain controls, without JupyterLab.
"""

import re

import pytest

from helpers.page_facts import (
    TEXTS,
    contrast,
    controls,
    layout_flaws,
    name_flaws,
    pale_parts,
)
from helpers.pool_facts import colour_flaws, contradictions, pale_blocks, shown_pool
from helpers.real_lab import fresh_page, styled
from minipaged.draw.palette import SEQUENCE_COLOURS, ink_on, relative_luminance
from minipaged.lab.pool.html import story
from minipaged.lab.pool.html.stage import Here, stage
from minipaged.lab.pool.html.style import STYLE
from minipaged.lab.pool.html.twin import twin
from minipaged.lab.pool.sandbox import Sandbox
from minipaged.lab.pool.twin import Reservations

CONTROLS = """
<p><label for="guess">Your guess:</label> <input id="guess" type="number" value="12">
<label><input type="checkbox"> prefix cache</label>
<button>go on</button> <button>undo</button></p>
<p><label>Scene: <select><option>Beam search</option></select></label></p>"""
LOOK = """<style>
  main { width: 480px; font: 13px sans-serif; background: #fff; color: #111; }
  button { border: 0; background: #eee; color: #111; }
  input[type=number] { width: 9em; }
</style>"""


def a_sound_page():
    """A pool with shared, full, half-full, free and cached blocks, and controls."""
    sandbox = Sandbox()
    sandbox.reset(24, 4, Reservations({}, others=30))
    sandbox.play(("start", 9, False, True), ("free", "A"))
    sandbox.play(("start", 6, False, False), ("fork", "B", 2), ("append", "B", 1))
    now = sandbox.board.snapshot()
    rows = "".join(
        f"<div>{story.sequence(now, name)} <button>{name}: fork</button></div>"
        for name in now.tables
    )
    pool = stage(now, sandbox.turns[-1].before, Here("B", 0, 2, 2))
    told = story.log([*(turn.words for turn in sandbox.turns), ["refused: no"]])
    parts = pool, story.figures(now), rows, twin(now.twin), told
    shown = f'<div class="mp widget-box"><div>{"".join(parts)}</div></div>'
    return f"{LOOK}{STYLE}<main>{CONTROLS}{shown}</main>"


@pytest.fixture(scope="module")
def page(browser):
    """One page for all: each test writes it anew."""
    with fresh_page(browser) as (page, errors):
        yield page
        assert not errors


@pytest.fixture
def root(page):
    page.set_content(a_sound_page())
    return page.locator("main")


def state_flaws(root):
    pool = shown_pool(root)
    return contradictions(pool) + colour_flaws(pool) + pale_blocks(root)


@pytest.mark.parametrize("text", TEXTS)
def test_a_sound_page_has_no_flaws(root, text):
    every = layout_flaws, pale_parts, name_flaws, state_flaws
    with styled(root.page, TEXTS[text]):
        assert [find(root) for find in every] == [[], [], [], []]


def test_the_kinds_of_writing_differ_much(root):
    """Or else nothing is tried by trying them."""
    button, widths = root.get_by_role("button", name="go on"), []
    for css in TEXTS.values():
        with styled(root.page, css):
            widths.append(button.bounding_box()["width"])
    as_it_is, narrow, wide, _ = widths
    assert narrow < as_it_is < wide and wide > 1.25 * narrow


CSS = {
    "two buttons": (layout_flaws, "button { margin: 0 -30px }", r"overlaps button"),
    "a button on a text": (layout_flaws, "button { margin: 0 -30px }", "overlaps text"),
    "two blocks": (
        layout_flaws,
        ".mp-b { margin: -9px }",
        "listitem .* overlaps listitem",
    ),
    "two lines": (
        layout_flaws,
        ".mp-log li { padding: 0; height: 2px }",
        "text .* overlaps text",
    ),
    "beside its place": (
        layout_flaws,
        "button { position: relative; left: 400px }",
        "leaves",
    ),
    "a row too wide": (
        layout_flaws,
        "main p { margin-left: 400px; width: 300px }",
        "leaves",
    ),
    "a block outside": (
        layout_flaws,
        ".mp-grid { grid: auto / 900px }",
        "listitem .* leaves",
    ),
    "text too long": (layout_flaws, "button { width: 20px }", "text .* leaves its"),
    "text cut off": (
        layout_flaws,
        "button { width: 20px; overflow: hidden; text-overflow: ellipsis }",
        "text .* is cut off",
    ),
    "text cut off below": (
        layout_flaws,
        ".mp-figures { height: 9px; overflow: hidden }",
        "text .* is cut off",
    ),
    "text to be scrolled to": (
        layout_flaws,
        ".mp-figures { height: 9px; overflow: auto }",
        "needs scrolling",
    ),
    "a number too long": (layout_flaws, "#guess { width: 12px }", 'the value "12"'),
    "a choice too long": (layout_flaws, "select { width: 60px }", 'the value "Beam'),
    "pale text": (pale_parts, ".mp-figures span { color: #808080 }", "wanted 4.5"),
    "pale large text": (pale_parts, "b { font-size: 30px; color: #999 }", "wanted 3"),
    "a pale number": (pale_parts, "#guess { color: #999 }", 'input "12"'),
    "a pale chip": (pale_parts, ".mp-chip { color: #ccc }", 'b "B"'),
    "dark on dark": (pale_parts, "main { background: #333 }", "wanted 4.5"),
    "dark behind it": (
        pale_parts,
        "html { background: #333 } main { background: none }",
        "wanted 4.5",
    ),
    "faded": (pale_parts, ".mp { opacity: .5 }", "wanted 4.5"),
    "see-through ink": (pale_parts, ".mp { color: rgb(0 0 0 / 40%) }", "wanted 4.5"),
    "on a picture": (
        pale_parts,
        "button { background: linear-gradient(#fff, #000) }",
        'button "go on" on a picture',
    ),
    "a pale sign": (
        pale_parts,
        'button::before { content: "+"; color: #bbb }',
        "the sign in button .*, wanted 3",
    ),
    "a pale rim": (pale_blocks, ".mp-held { border-color: #ddd }", "the rim of block"),
    "no hatch": (
        state_flaws,
        ".mp-full::after { background-image: none }",
        "hatch: False is said, and True",
    ),
    "no dashes": (state_flaws, ".mp-b { border-style: solid }", "rim"),
    "one chip": (state_flaws, '.mp-chip[data-sequence="C"] { --c: red }', "C is"),
    "one block": (state_flaws, '.mp-b[data-sequence="C"] { --c: red }', "C is"),
    "two alike": (state_flaws, '[data-sequence="C"] { --c: #E69F00 }', "one colour"),
}


@pytest.mark.parametrize("flaw", CSS)
def test_a_flaw_of_style_is_noticed(root, flaw):
    find, css, words = CSS[flaw]
    root.page.add_style_tag(content=re.sub(r"(;| \})", r" !important\1", css))
    found = find(root)
    assert any(re.search(words, one) for one in found), found


@pytest.mark.parametrize("num_blocks", [64, 128])
def test_where_a_bar_ends_must_be_seen(page, num_blocks):
    """Of large blocks of many slots, and of small ones."""
    sandbox = Sandbox(num_blocks, 16)
    sandbox.play(*[("start", 9 + number) for number in range(8)])
    shown = stage(sandbox.board.snapshot())
    page.set_content(f'{STYLE}<main class="mp widget-box"><div>{shown}</div></main>')
    root = page.locator("main")
    assert pale_blocks(root) == []
    css = ".mp .mp-bar::before, .mp .mp-b::before { border-color: var(--c) !important }"
    page.add_style_tag(content=css)
    found = pale_blocks(root)
    assert any(one.startswith("the end of what is filled in block 1") for one in found)
    assert not any(one.startswith("the rim") for one in found)


CHANGES = {
    "the figure of blocks held": (".mp-figures b", "one.textContent = '9 of 24'"),
    "the figure of unshared blocks": (
        ".mp-figures p:nth-child(2) b",
        "one.textContent = '1'",
    ),
    "the figure of empty slots": (
        ".mp-figures p:last-child b",
        "one.textContent = '1'",
    ),
    "the list's name": (".mp-list", "one.ariaLabel = '1 of 24 blocks are held'"),
    "block 2's holders": ("[data-block='2']", "one.dataset.holders = 1"),
    "block 3's title": ("[data-block='3']", "one.title = 'block 2: free'"),
    "block 2's title": (
        "[data-block='2']",
        "one.title = one.title.replace('C', 'D')",
    ),
    "block 2's number": (
        "[data-block='2'] .mp-foot > span",
        "one.textContent = '3'",
    ),
    "block 2's letters": ("[data-block='2'] .mp-foot .mp-chip", "one.remove()"),
    "block 5's holders": (".mp-entry", "one.lastChild.data = '5'"),
    "'C reserves slots 30": (
        "[data-piece='B']",
        "one.title = one.title.replace('29', '30')",
    ),
    "blocks in a row": ("[data-block='5']", "one.remove()"),
    "C's blocks": (
        '.mp-length:has([data-sequence="C"]) > :first-child',
        "one.lastChild.data = ' 6 tokens, 1 block'",
    ),
    "no name: button": ("button", "one.textContent = '★'"),
    "no name: spinbutton": ("label", "one.remove()"),
    "2 controls are a button named 'B: fork'": (
        "button >> text=go on",
        "one.textContent = 'B: fork'",
    ),
    "a title says 'null'": ("label", "one.title = null"),
    "no name: img": ("p", "one.append(new Image(9, 9))"),
}


@pytest.mark.parametrize("flaw", CHANGES)
def test_a_wrong_word_is_noticed(root, flaw):
    place, change = CHANGES[flaw]
    root.locator(place).first.evaluate(f"one => {{ {change} }}")
    found = name_flaws(root) + state_flaws(root)
    assert any(one.startswith(flaw) for one in found), found


def test_an_ellipsis_needs_a_title(root):
    root.page.add_style_tag(content=".mp-foot small { width: 9px }")
    assert layout_flaws(root) == []
    root.locator("[data-block]").evaluate_all("all => all.forEach(b => b.title = '')")
    assert any("cut off" in flaw for flaw in layout_flaws(root))


def test_what_may_be_scrolled_may_be_out_of_sight(root):
    root.page.add_style_tag(content=".mp-log { height: 50px }")
    assert layout_flaws(root) == []
    root.locator(".mp-log").evaluate("log => log.removeAttribute('role')")
    assert any("needs scrolling" in flaw for flaw in layout_flaws(root))


def test_controls_are_found_with_their_names(root):
    assert controls(root)[:5] == [
        ("spinbutton", "Your guess:"),
        ("checkbox", "prefix cache"),
        ("button", "go on"),
        ("button", "undo"),
        ("combobox", "Scene:"),
    ]


# Half of black on white is the grey #808080, and that of black on black is the grey's
# own contrast with black. A colour has 256 steps: hence 2 %.
@pytest.mark.parametrize(
    "style, expected",
    [
        ("color: #000", 21),
        ("color: #fff", 1),
        ("color: #767676", 4.54),
        ("color: #777", 4.48),
        ("color: rgb(0 0 0 / 50%)", 3.95),
        ("color: #000; opacity: .5", 3.95),
        ("color: color-mix(in srgb, #000 50%, transparent)", 3.95),
        ("color: #fff; background: #000; opacity: .5", 3.95),
        ("color: #000; background: rgb(0 0 0 / 50%)", 21 / 3.95),
    ],
)
def test_known_contrasts(page, style, expected):
    page.set_content(f'<body style="background: #fff"><p style="{style}">text')
    assert contrast(page.locator("p")) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("colour", SEQUENCE_COLOURS)
def test_contrasts_are_those_of_the_palette(page, colour):
    ink = ink_on(colour)
    page.set_content(f'<p style="background: {colour}; color: {ink}">A')
    dark, light = sorted(map(relative_luminance, (colour, ink)))
    expected = (light + 0.05) / (dark + 0.05)
    assert contrast(page.locator("p")) == pytest.approx(expected, rel=0.001)
