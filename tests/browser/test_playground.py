"""The page in which Python runs: as it is on disk, in a real Chromium.

Each thing that the page shows is compared with the same widget in this Python. What the
page is made of is fetched once: `make playground`.
"""

import os
import random
import threading
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from book.playground.opening import Opening
from book.playground.simulator import Simulator
from book.sources import in_site
from helpers.page_facts import layout_flaws, name_flaws, pale_parts
from helpers.playground import (
    buttons_of,
    expected,
    go,
    pool_of_the_page,
    seen,
    take_a_step,
    wait,
)
from helpers.pool_facts import colour_flaws, contradictions, pale_blocks, shown_pool
from helpers.real_lab import ROOT, fresh_page, settle
from minipaged.lab.pool.scenes import SCENES
from tools.make_playground import INGREDIENTS, missing, page_text, tree

PICTURES = ROOT / "build" / "screenshots"
MOST_MB = 25


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """The page, made from the sources as they are now."""
    if problem := missing():
        (pytest.fail if os.environ.get("PLAYGROUND") else pytest.skip)(problem)
    made = tmp_path_factory.mktemp("page") / "playground.html"
    made.write_text(page_text(), "utf-8")
    return made


@contextmanager
def opened(browser, address):
    """A page at this address, in which Python has started; it says no error."""
    with fresh_page(browser) as (page, errors):
        page.goto(address)
        wait(page)
        yield page
        assert not errors


@pytest.fixture(scope="module")
def one_page(browser, file):
    """The page for all tests: to start Python takes seconds."""
    with opened(browser, file.as_uri()) as page:
        yield page


@pytest.fixture
def page(one_page):
    """The same, wide and light."""
    one_page.set_viewport_size({"width": 1000, "height": 1400})
    set_scheme(one_page, "light")
    return one_page


def set_scheme(page, scheme):
    """As the reader's system asks for it."""
    page.emulate_media(color_scheme=scheme)
    has = "scheme => document.documentElement.getAttribute('theme') === scheme"
    page.wait_for_function(has, arg=scheme)


def test_it_is_one_file_that_is_not_too_large(file):
    assert file.stat().st_size < MOST_MB * 1e6
    text = file.read_text("utf-8").partition('<script type="text/plain"')[0]
    assert "http:" not in text.replace("http://www.w3.org/", "") and "src=" not in text


@pytest.mark.parametrize("guess", ["1", "x"])
@pytest.mark.parametrize("scene", SCENES)
def test_a_scene_is_what_this_python_shows(page, scene, guess):
    """Step by step; at a question with a guess, or with what is no guess."""
    go(page, scene)
    widget = pool_of_the_page()
    widget.head.scene.value = scene
    assert seen(page) == expected(page, widget)
    while step := widget.guide.next_step:
        take_a_step(page, widget, guess)
        assert seen(page) == expected(page, widget)
        if widget.guide.next_step is step:  # it is no guess: skip
            page.get_by_role("button", name="Skip ›").click()
            widget.head.next.click()
            wait(page)
            assert seen(page) == expected(page, widget)
    pool = shown_pool(page.locator("#part"))
    assert contradictions(pool) + colour_flaws(pool) == []


def click_at_random(page, widget, rng, times):
    for _ in range(times):
        buttons = buttons_of(widget)
        name = rng.choice(list(buttons))
        page.get_by_role("button", name=name, exact=True).click()
        buttons[name].click()
        wait(page)
        assert seen(page) == expected(page, widget), name


def test_free_play_is_what_this_python_shows(browser, file):
    """New sequences, appends, forks, writes, prefix hits, refusals, undo and redo."""
    with opened(browser, f"{file.as_uri()}#play") as page:
        play_freely(page)


def play_freely(page):
    widget, rng = pool_of_the_page(), random.Random(3)
    assert seen(page) == expected(page, widget)
    page.get_by_label("shared prompt").check()
    widget.play.shared.value = True
    for length in ("9", "40", "300"):
        field = page.get_by_label("Tokens of a new sequence:")
        field.fill(length)
        field.press("Tab")
        widget.play.length.value = int(length)
        click_at_random(page, widget, rng, 8)
    assert any("found" in line for turn in widget.sandbox.turns for line in turn.words)


def test_the_first_view_lets_one_fork_and_write_by_keyboard(page):
    go(page, "cow")
    assert page.locator("#order").is_visible()
    opening = Opening()
    assert seen(page) == expected(page, opening)
    said = page.locator("#said")
    page.get_by_role("button", name="Fork A").focus()
    page.keyboard.press("Enter")
    wait(page)
    assert said.text_content().startswith("A is forked into A and B")
    page.get_by_role("button", name="B writes a token").focus()
    page.keyboard.press("Space")
    wait(page)
    assert said.text_content() == "block 1 has 2 holders: copied to 2 before B writes."
    for name in ("Fork A", "B writes a token"):
        buttons_of(opening)[name].click()
    assert seen(page) == expected(page, opening)
    click_at_random(page, opening, random.Random(5), 20)


def test_the_simulator_follows_its_knobs(page):
    go(page, "simulator")
    assert not page.locator("#order").is_visible()  # there are no blocks to be seen
    here = Simulator()

    def same():
        while here.is_busy:
            here.go_on()
        wait(page)
        assert seen(page) == expected(page, here)

    same()
    said = here.figures.value
    page.get_by_role("button", name="256", exact=True).click()
    here.block_size.value = 256
    same()
    assert here.figures.value != said
    page.get_by_label("Each request gets").select_option(index=3)
    here.way.value = here.way.options[3]
    page.get_by_label("Requests a second:").press("End")
    here.rate.index = 7
    same()
    page.get_by_label("Requests:").select_option(index=1)
    here.load.value = here.load.options[1]
    same()


def test_what_is_clicked_before_python_is_there_is_done_then(browser, file):
    with fresh_page(browser) as (page, errors):
        page.goto(f"{file.as_uri()}#cow", wait_until="commit")
        page.get_by_role("button", name="Fork A").click()
        assert not page.evaluate("() => isReady")
        wait(page)
        page.get_by_role("button", name="B writes a token").click()
        wait(page)
        assert "copied to 2 before B writes" in page.locator("#part").inner_text()
        assert not errors


def test_of_the_clicks_while_python_starts_the_last_one_is_kept_and_marked(
    browser, file
):
    """Four times Next: one step, and no question is skipped."""
    with fresh_page(browser) as (page, errors):
        page.goto(f"{file.as_uri()}#recompute", wait_until="commit")
        page.get_by_role("button", name="Next ›").wait_for()
        page.evaluate(
            """() => { for (const _ of "1234") {
              [...document.querySelectorAll("#part button")]
                .find((one) => one.textContent === "Next ›").click(); } }"""
        )
        assert not page.evaluate("() => isReady")
        assert page.locator(".mp-waits").all_inner_texts() == ["Next ›"]
        assert "what you have clicked: Next ›" in page.locator("#status").inner_text()
        wait(page)
        assert page.get_by_role("img", name="step 2 of 5").count() == 1
        assert page.locator(".mp-waits").count() == 0
        assert not errors


def test_a_second_click_on_next_answers_no_question(browser, file):
    with opened(browser, f"{file.as_uri()}#recompute") as page:
        page.evaluate(
            """() => { const next = [...document.querySelectorAll("#part button")]
              .find((one) => one.textContent === "Next ›");
              for (const _ of "1234") next.click(); }"""
        )
        wait(page)
        assert page.get_by_role("img", name="step 2 of 5").count() == 1
        assert page.get_by_label("Your guess:").is_visible()


def test_a_refusal_says_what_can_be_done_in_the_page(page):
    go(page, "cow")
    anew = page.get_by_role("button", name="Start over")
    if anew.is_enabled():
        anew.click()
        wait(page)
    page.get_by_role("button", name="Fork A").click()
    wait(page)
    for _ in range(40):
        page.get_by_role("button", name="A writes a token").click()
        wait(page)
        if page.locator(".mp-bad").count():
            break
    said = page.locator(".mp-bad").inner_text()
    assert "0 free of 8. End A or B, or undo." in said and "num_blocks" not in said


# Python gets no message until letGo(): then there is time to look, however busy it is.
HOLD = """() => {
  const held = [];
  worker.postMessage = (message) => held.push(message);
  window.letGo = () => {
    delete worker.postMessage;
    for (const message of held) worker.postMessage(message);
  };
}"""


def test_while_python_computes_buttons_do_nothing_and_keep_the_focus(browser, file):
    with opened(browser, f"{file.as_uri()}#cow") as page:
        part, fork = page.locator("#part"), page.get_by_role("button", name="Fork A")
        assert part.get_attribute("aria-busy") == "false"
        page.evaluate(HOLD)
        fork.focus()
        page.keyboard.press("Enter")
        page.locator("#part[aria-busy=true]").wait_for()
        assert fork.is_disabled()
        for key in ("Enter", "Enter"):
            page.keyboard.press(key)
        page.evaluate("() => letGo()")
        wait(page)
        assert part.get_attribute("aria-busy") == "false" and fork.is_enabled()
        assert page.evaluate("() => document.activeElement.textContent") == "Fork A"
        assert page.evaluate("() => waiting.length") == 0
        names = page.locator("#part button:visible", has_text="Fork")
        assert names.all_inner_texts() == ["Fork A", "Fork B"]  # it forked once


@pytest.mark.parametrize("place", ["#cow", "?embed#cow"])
def test_until_python_is_there_the_page_says_that_it_starts(browser, file, place):
    with fresh_page(browser) as (page, errors):
        page.goto(file.as_uri() + place, wait_until="commit")
        said = page.locator("#status")
        said.get_by_text("Python is starting").wait_for()
        wait(page)
        assert said.inner_text() == "Live: minipaged runs in this page."
        assert not errors


@pytest.mark.parametrize("lacks", ["WebAssembly", "DecompressionStream"])
def test_a_browser_that_cannot_run_python_is_told_what_to_do(browser, file, lacks):
    with fresh_page(browser) as (page, _):
        page.add_init_script(f"delete globalThis.{lacks}")
        page.goto(f"{file.as_uri()}?embed#cow")
        told = page.get_by_role("alert").inner_text()
        assert f"This browser has no {lacks}" in told and "a current Chrome" in told
        assert page.locator("#status").inner_text() == "Python did not start."
        assert page.get_by_role("button", name="Fork A").is_disabled()


def test_without_javascript_the_page_says_so(browser, file):
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(file.as_uri())
        said = page.locator("body").inner_text()
        assert "needs JavaScript" in said and "Python is starting" not in said


def test_if_python_fails_the_page_says_so(browser, file):
    with fresh_page(browser) as (page, errors):
        page.goto(file.as_uri())
        wait(page)
        page.evaluate("() => ask({ event: 'click', id: 'nobody' })")
        page.get_by_role("alert").wait_for()
        assert "KeyError: 'nobody'" in page.get_by_role("alert").inner_text()
        assert "Load this page again" in page.locator("#status").inner_text()
        assert len(errors) == 1


@pytest.mark.parametrize("place", ["cow", "swap", "simulator"])
def test_the_first_picture_is_what_python_shows_later(browser, file, place):
    """And its elements stay, or else the keyboard's focus would get lost."""
    with fresh_page(browser) as (page, _):
        page.goto(f"{file.as_uri()}#{place}", wait_until="commit")
        page.wait_for_function("() => document.querySelector('#part')?.firstChild")
        first = seen(page)
        page.evaluate("() => { document.querySelector('#part').firstChild.stays = 1 }")
        page.wait_for_function("() => document.documentElement.dataset.ready")
        page.evaluate("() => { hasMore = false }")
        is_same = "() => document.querySelector('#part').firstChild.stays === 1"
        if place != "simulator":
            wait(page)
            assert seen(page) == first
        if place == "cow":
            assert page.evaluate(is_same)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        """Say nothing."""


@contextmanager
def served(folder):
    """The folder on a free port of 127.0.0.1."""
    handler = partial(Quiet, directory=folder)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_it_works_over_http_and_inside_another_page(browser, file):
    (file.parent / "around.html").write_text(
        '<iframe src="playground.html?embed#cow" style="width:700px;height:900px">'
        "</iframe><script>addEventListener('message', ({ data }) => {"
        "window.height = data.playground.height})</script>"
    )
    with served(file.parent) as address, fresh_page(browser) as (page, errors):
        page.goto(f"{address}/around.html")
        inside = page.frame_locator("iframe")
        inside.get_by_role("button", name="Fork A").click()
        inside.get_by_role("button", name="B writes a token").click()
        inside.locator(".mp-big", has_text="Block 1 has 2 holders").wait_for()
        assert not inside.get_by_role("navigation").is_visible()
        assert 500 < page.evaluate("() => window.height") < 1000
        assert not errors


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1000, 360])
@pytest.mark.parametrize("place", ["cow", "copy", "swap", "play", "simulator"])
def test_it_is_well_laid_out_and_can_be_read(page, place, width, scheme):
    page.set_viewport_size({"width": width, "height": 1400})
    set_scheme(page, scheme)
    go(page, place)
    if place == "cow":
        anew = page.get_by_role("button", name="Start over")
        if anew.is_enabled():
            anew.click()
            wait(page)
        page.get_by_role("button", name="Fork A").click()
    if place == "play":
        for _ in range(2):
            page.get_by_role("button", name="+ new sequence").click()
    wait(page)
    page.mouse.move(0, 0)
    settle(page)
    PICTURES.mkdir(parents=True, exist_ok=True)
    picture = PICTURES / f"playground-{place}-{width}-{scheme}.png"
    page.screenshot(path=picture, full_page=True)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    body = page.locator("body")
    assert layout_flaws(body) + pale_parts(body) + name_flaws(body) == []
    if place != "simulator":
        assert pale_blocks(page.locator("#part")) == []


def test_the_button_makes_a_light_page_dark(page):
    colour = "() => getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(colour)
    page.get_by_role("button", name="Dark").click()
    assert page.evaluate(colour) != light
    page.get_by_role("button", name="Light").click()
    assert page.evaluate(colour) == light
    assert page.get_by_role("button", name="Dark").is_visible()
    page.evaluate("() => localStorage.clear()")  # then it follows the system again


def test_the_theme_is_the_one_that_the_site_has_stored(browser, file):
    theme = "() => document.documentElement.getAttribute('theme')"
    with served(file.parent) as address, fresh_page(browser) as (page, _):
        page.emulate_media(color_scheme="light")
        page.goto(f"{address}/{file.name}")
        assert page.evaluate(theme) == "light"
        page.evaluate("() => localStorage.setItem('mode', 'dark')")  # as the site does
        page.reload()
        assert page.evaluate(theme) == "dark"
        page.get_by_role("button", name="Light", exact=True).click()
        assert page.evaluate("() => [localStorage.mode, localStorage.theme]") == [
            "light",
            "light",
        ]
        page.evaluate("() => localStorage.setItem('mode', 'auto')")
        page.emulate_media(color_scheme="dark")
        page.reload()
        assert page.evaluate(theme) == "dark"
        page.goto(f"{address}/{file.name}?theme=light")
        assert page.evaluate(theme) == "light"


def test_in_the_site_each_place_leads_to_its_notebook(browser, file):
    """And the head to the front page; alone on a disk, it has no such links."""
    inside = file.parent / "in_site.html"
    inside.write_text(in_site(file.read_text("utf-8")), "utf-8")
    with fresh_page(browser) as (page, errors):
        page.goto(f"{inside.as_uri()}#prefix")
        link = page.get_by_role("link", name="lesson 3: Prefix hashing")
        assert link.get_attribute("href") == "notebooks/03_prefix_hashing.html"
        page.get_by_role("link", name="Simulator").click()
        link = page.get_by_role("link", name="appendix F")
        assert link.get_attribute("href") == "notebooks/F_the_papers_evaluation.html"
        home = page.get_by_role("link", name="minipaged")
        assert home.get_attribute("href") == "index.html"
        page.goto(f"{file.as_uri()}#prefix")
        page.get_by_role("link", name="Simulator").wait_for()
        assert page.locator("a[href$='.html']:visible").count() == 0
        assert not errors


def test_a_wrong_rule_is_noticed(browser, file, tmp_path):
    """A fork that writes without a copy: the page shows it, and is not as it should."""
    files = tree(INGREDIENTS)
    name = "minipaged/memory/block_table.py"
    right, wrong = b"if wanted > new_blocks:", b"if False:"
    assert files[name].count(right) == 1
    files[name] = files[name].replace(right, wrong)
    made = tmp_path / "wrong.html"
    made.write_text(page_text(files=files), "utf-8")

    def pools():
        both = seen(page), expected(page, widget)
        return [next(one for one in each if "mp-stage" in one) for each in both]

    with opened(browser, f"{made.as_uri()}#copy") as page:
        widget = pool_of_the_page()
        widget.head.scene.value = "copy"
        take_a_step(page, widget, "1")
        shown, right = pools()
        assert shown == right
        take_a_step(page, widget, "1")
        shown, right = pools()
        assert shown != right
