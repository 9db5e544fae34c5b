"""The built site in a real browser, from disk and over http: for `make test-book`."""

import ast
import inspect
import os
import re
import threading
from contextlib import contextmanager
from functools import partial
from html import unescape
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import minipaged as mp
from book.drawn import PLATE
from helpers import notebook_files as files
from helpers.guides import ROOT
from helpers.real_lab import find_browser, open_browser

SITE = Path(os.environ.get("MINIPAGED_SITE", "."))
PAGES = sorted(
    path.relative_to(SITE).as_posix()
    for path in SITE.rglob("*.html")
    if "MINIPAGED_SITE" in os.environ
    and path.name != "playground.html"
    and not path.is_relative_to(SITE / "_static")
)
pytestmark = [
    pytest.mark.skipif(not PAGES, reason="is for make test-book"),
    pytest.mark.skipif(find_browser() is None, reason="no Chromium: make browser"),
]
PHONE, DESK = {"width": 360, "height": 740}, {"width": 1280, "height": 900}
KINDS = (
    "p",
    "p a",
    "a.word-link",
    "dt",
    "td",
    "td a",
    "summary",
    ".highlight span",
    "figure.drawn figcaption",
    "h2",
)
# Pictures that are shown, and could not be read.
LOST = """() => [...document.images].filter(image =>
  image.complete && !image.naturalWidth && getComputedStyle(image).display !== "none"
).map(image => image.src)"""
# Whatever is not within a box that scrolls by itself.
TOO_WIDE = "() => document.documentElement.scrollWidth - innerWidth"
# How much of a picture is cut off at its upper edge, in pixels of the notebook.
HIDDEN = """(node) => {
  const scale = node.clientWidth / node.naturalWidth;
  return (node.naturalHeight - node.clientHeight / scale) / 2;
}"""
# How well a word is read on what lies behind it, from 1 to 21 (WCAG 2.2).
CONTRAST = """(node) => {
  const light = (colour) => {
    const parts = colour.match(/[\\d.]+/g).slice(0, 3).map((part) => part / 255);
    const [r, g, b] = parts.map((x) => x <= .04045 ? x / 12.92
      : ((x + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b;
  };
  let ground = node;
  while (/, 0\\)|transparent/.test(getComputedStyle(ground).backgroundColor)
    && ground.parentElement) ground = ground.parentElement;
  const ends = [getComputedStyle(node).color, getComputedStyle(ground).backgroundColor]
    .map(light).sort((a, b) => b - a);
  return (ends[0] + .05) / (ends[1] + .05);
}"""


@pytest.fixture(scope="module")
def browser():
    with open_browser() as opened:
        yield opened


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="module")
def over_http():
    """The site's address on this machine."""
    serve = partial(Quiet, directory=str(SITE))
    with ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


@pytest.fixture(params=["from disk", "over http"])
def home(request):
    if request.param == "from disk":
        return SITE.absolute().as_uri() + "/"
    return request.getfixturevalue("over_http")


@contextmanager
def opened(browser, address, home, size=DESK, scheme="light"):
    """A page, which must say nothing in its console, and fetch nothing from outside."""
    page = browser.new_page(viewport=size, color_scheme=scheme)
    wrong = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    # What is still under way when the next page is asked for is given up.
    page.on("requestfailed", lambda request: request.failure == "net::ERR_ABORTED"
            or wrong.append(request.url))  # fmt: skip
    page.on("console", lambda said: said.type in ("error", "warning")
            and wrong.append(said.text))  # fmt: skip
    page.on("request", lambda request: request.url.startswith((home, "data:", "blob:"))
            or wrong.append(request.url))  # fmt: skip
    try:
        page.goto(address)
        page.wait_for_load_state("load")
        yield page
        assert wrong == []
    finally:
        page.close()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_from_disk(browser, name):
    """On a desk and on a phone: quiet, with all pictures, nothing too wide."""
    home = SITE.absolute().as_uri() + "/"
    with opened(browser, home + name, home) as page:
        assert page.evaluate(LOST) == []
        assert page.evaluate(TOO_WIDE) <= 0
        page.set_viewport_size(PHONE)
        assert page.evaluate(TOO_WIDE) <= 0


def test_a_page_over_http(browser, over_http):
    for name in ("index.html", "notebooks/04_cow_beam_search.html"):
        with opened(browser, over_http + name, over_http) as page:
            assert page.evaluate(LOST) == []


@pytest.mark.parametrize("path", files.NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_a_page_with_its_outputs(path):
    html = (SITE / "notebooks" / f"{path.stem}.html").read_text("utf-8")
    said = unescape(re.sub(r"<[^>]+>", "", html))
    pictures = 0
    for cell in files.load(path)["cells"]:
        assert f'id="cell-id={cell["id"]}"' in html
        for output in cell.get("outputs", []):
            pictures += "image/png" in output.get("data", {})
            for line in "".join(output.get("text", [])).splitlines():
                assert line.strip() in said
    drawn = re.findall(r'<img alt="([^"]+)" src="\.\./_images/', html)
    assert len(drawn) == pictures and not any("_images/" in alt for alt in drawn)
    titles = re.findall(r"<figcaption[^>]*>(.+?)</figcaption>", html)
    assert [*map(unescape, titles)] == [*map(unescape, drawn)]


def test_search_finds_a_word(browser, home):
    with opened(browser, f"{home}search.html?q=live-lock", home) as page:
        page.wait_for_selector("#search-results li a")
        found = page.locator("#search-results li a").all_inner_texts()
        assert any("Preemption" in title for title in found)
        page.locator("#search-results li a", has_text="Preemption").first.click()
        page.wait_for_url("**/B_preemption.html*")


@pytest.mark.parametrize(
    ("asked", "page_and_section"),
    [
        ("copy on write", "04_cow_beam_search.html"),
        ("copy-on-write", "04_cow_beam_search.html"),
        ("paged attention", "00_ten_minutes.html"),
        ("tensor parallel", "H_many_gpus.html"),
        ("chunked prefill", "A_continuous_batching.html#what-a-long-prompt"),
        ("refcount", "02_block_pool.html#see-it-break-without-a-count"),
        ("batch invariant", "D_the_fast_step.html#the-same-text-in-any-company"),
        ("duplicate blocks", "03_prefix_hashing.html#see-it-break-a-block-id"),
        ("gpu-memory-utilization", "serving/README.html#what-one-should-know"),
        ("gpu_memory_utilization", "serving/README.html#what-one-should-know"),
        ("fp8", "C_tuning_the_kernel.html#half-the-bytes"),
    ],
)
def test_search_knows_words_of_other_engines(browser, home, asked, page_and_section):
    with opened(browser, f"{home}search.html?q={asked}", home) as page:
        first = page.locator("#search-results li a").first
        first.wait_for()
        assert page_and_section in first.get_attribute("href")


def test_search_finds_nothing_that_is_not_there(browser, home):
    with opened(browser, f"{home}search.html?q=xyzzyplugh", home) as page:
        said = page.locator("#search-results", has_text="did not match")
        said.wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark(browser, scheme):
    """As the system wishes; pictures for this kind of page; words that can be read."""
    home = SITE.absolute().as_uri() + "/"
    with opened(browser, home + "README.html", home, scheme=scheme) as page:
        assert page.get_attribute("html", "data-theme") == scheme
        other = "light" if scheme == "dark" else "dark"
        assert page.locator(f"img.only-{scheme}").first.is_visible()
        assert not page.locator(f"img.only-{other}").first.is_visible()
    for name in (
        "notebooks/02_block_pool.html",
        "api/memory.html",
        "notebooks/README.html",
    ):
        with opened(browser, home + name, home, scheme=scheme) as page:
            for kind in KINDS:
                for node in page.locator(f".bd-article {kind}").all()[:20]:
                    if node.inner_text().strip():
                        assert node.evaluate(CONTRAST) >= 4.5, (name, kind)
            for image in page.locator(".cell_output img").all()[:3]:
                style = "getComputedStyle(node).backgroundColor"
                ground = image.evaluate(f"node => {style}")
                assert ground == "rgba(0, 0, 0, 0)"
                assert image.evaluate("node => getComputedStyle(node).filter") == "none"
                # The drawn title is cut off, and nothing is stretched.
                hidden = image.evaluate(HIDDEN)
                assert PLATE - 2 < hidden < PLATE + 2


def test_the_switch_makes_a_page_dark(browser):
    home = SITE.absolute().as_uri() + "/"
    with opened(browser, home + "index.html", home) as page:
        ink = "() => getComputedStyle(document.querySelector('.series-minutes')).fill"
        before = page.evaluate(ink)
        page.locator(".theme-switch-button:visible").first.click()
        page.locator('.theme-change-button[data-mode="dark"]:visible').click()
        assert page.get_attribute("html", "data-theme") == "dark"
        assert page.evaluate(ink) != before


def test_the_map_is_clicked(browser, home):
    with opened(browser, home + "index.html", home) as page:
        page.locator('.series-map a[href$="05_online_softmax.html"]').click()
        page.wait_for_url("**/05_online_softmax.html")


def test_the_front_page_begins_with_the_pool(browser, home):
    """The still picture; and in its place the pool, where the site has it."""
    with opened(browser, home + "index.html", home) as page:
        first = page.locator(".bd-article .playground")
        assert first.bounding_box()["y"] < DESK["height"] / 2
        if (SITE / "playground.html").exists():
            page.wait_for_selector(".playground iframe:visible", timeout=30_000)
            assert not page.locator(".playground .still").count()
        else:
            assert page.locator(".playground .still svg").is_visible()


@pytest.mark.skipif(
    not (SITE / "playground.html").exists(), reason="make playground was not run"
)
def test_before_any_reading_a_visitor_forks_writes_and_sees_the_copy(browser, home):
    with opened(browser, home + "index.html", home) as page:
        pool = page.frame_locator(".playground iframe")
        pool.get_by_role("button", name="Fork A").click(timeout=30_000)
        pool.get_by_role("button", name="B writes a token").click()
        pool.get_by_text("copied to 2 before B writes").first.wait_for(timeout=30_000)


@pytest.mark.skipif(
    not (SITE / "playground.html").exists(), reason="make playground was not run"
)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_pool_has_no_frame_in_the_front_page(browser, scheme):
    home = SITE.absolute().as_uri() + "/"
    ground = "node => getComputedStyle(node).backgroundColor"
    with opened(browser, home + "index.html", home, scheme=scheme) as page:
        pool = page.frame_locator(".playground iframe")
        pool.get_by_role("button", name="Fork A").wait_for(timeout=30_000)
        around = page.locator("body").evaluate(ground)
        for part in ("body", ".mp.widget-box"):
            assert pool.locator(part).first.evaluate(ground) == around


@pytest.mark.skipif(
    not (SITE / "playground.html").exists(), reason="make playground was not run"
)
def test_the_front_page_says_that_python_starts(browser, home):
    """On a phone, when it is asked for; the link still leads to a page of its own."""
    page = browser.new_page(viewport=PHONE)
    page.route("**/playground.html*", lambda route: None)  # it comes never
    page.goto(home + "index.html")
    page.get_by_role("link", name="Try it").click()
    said = page.locator(".playground [role=status]")
    assert said.inner_text().startswith("Python is starting")
    assert said.get_by_role("link").get_attribute("href") == "playground.html#cow"
    page.close()


@pytest.mark.skipif(
    not (SITE / "playground.html").exists(), reason="make playground was not run"
)
def test_without_javascript_the_front_page_has_the_picture_and_says_why(browser):
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(SITE.absolute().as_uri() + "/index.html")
        assert page.locator(".playground .still svg").is_visible()
        assert "JavaScript" in page.locator(".playground").inner_text()


@pytest.mark.skipif(
    not (SITE / "playground.html").exists(), reason="make playground was not run"
)
def test_below_a_widgets_scene_in_words_it_can_be_played(browser, home):
    from minipaged.lab.pool.scenes import SCENES

    linked = {}
    for path in files.NOTEBOOKS:
        html = (SITE / "notebooks" / f"{path.stem}.html").read_text("utf-8")
        for scene in re.findall(r'href="\.\./playground\.html#(\w+)"', html):
            linked[scene] = path.stem
    assert linked and linked.keys() <= SCENES.keys()
    scene, name = linked.popitem()
    with opened(browser, f"{home}notebooks/{name}.html", home) as page:
        page.locator(f'a[href="../playground.html#{scene}"]').click()
        page.wait_for_url(f"**/playground.html#{scene}")
        chosen = "select => select.selectedOptions[0].text"
        menu = page.locator("select").first
        menu.wait_for(timeout=30_000)
        assert menu.evaluate(chosen) == SCENES[scene].title


def test_a_link_to_a_cell_leads_there_and_unfolds_what_is_around_it(browser):
    home = SITE.absolute().as_uri() + "/"
    inside = "notebooks/04_cow_beam_search.html#cell-id=cell-109"
    with opened(browser, home + "notebooks/04_cow_beam_search.html", home) as page:
        assert not page.locator('[id="cell-id=cell-109"]').is_visible()
    with opened(browser, home + inside, home) as page:
        cell = page.locator('[id="cell-id=cell-109"]')
        cell.wait_for(state="visible")
        assert 0 <= cell.bounding_box()["y"] < DESK["height"]


def test_formulas_are_drawn_without_a_program(browser):
    home = SITE.absolute().as_uri() + "/"
    with opened(browser, home + "notebooks/05_online_softmax.html", home) as page:
        boxes = [
            node.bounding_box() for node in page.locator("math:visible").all()[:30]
        ]
        assert boxes and all(box["width"] and box["height"] for box in boxes)
        tall = max(box["height"] for box in boxes)
        assert tall > 1.5 * min(box["height"] for box in boxes)  # a fraction
        assert not page.locator("math merror").count()
        assert "$" not in page.locator(".bd-article p").first.inner_text()


def api_signature(name):
    """A public name's signature as the site shows it, without spaces; or None."""
    for path in (SITE / "api").glob("*.html"):
        html = path.read_text("utf-8")
        head = re.search(
            rf'<dt [^>]*id="minipaged\.{name}">(.*?)</dt>', html, re.DOTALL
        )
        if head:
            plain = unescape(re.sub(r"<[^>]+>", "", head[1]))
            return re.sub(r"\s|#|¶", "", plain)
    return None


def public_names():
    stub = ast.parse((ROOT / "minipaged" / "__init__.pyi").read_text("utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    return [alias.asname for node in imports for alias in node.names]


@pytest.mark.parametrize("name", public_names())
def test_the_api_has_each_public_name_with_its_signature(name):
    shown = api_signature(name)
    assert shown and name in shown
    found = getattr(mp, name)
    if not callable(found) or isinstance(found, mp.Backend):
        return
    if inspect.isclass(found) and issubclass(found, BaseException):
        return
    parameters = inspect.signature(found).parameters.values()
    inside = shown.partition("(")[2]
    at = 0
    for each in parameters:
        if each.name in ("self", "_arguments", "_options"):
            continue
        where = re.compile(rf"(?<!\w){each.name}(?=[:=,)])").search(inside, at)
        assert where, (each.name, shown)
        at = where.end()
        if isinstance(each.default, (int, str, float, bool)) or each.default is None:
            assert f"={each.default!r}" in inside[at:], (each.name, shown)


def test_no_template_of_the_theme_is_published():
    assert not [*(SITE / "_static").rglob("*.html")]


def test_a_picture_that_is_wider_than_a_phone_says_so(browser, home):
    address = f"{home}notebooks/02_block_pool.html"
    for size, is_said in ((PHONE, True), (DESK, False)):
        with opened(browser, address, home, size) as page:
            hints = page.locator(".bd-article .scroll-hint", has_text="The picture")
            if is_said:
                hints.first.wait_for()
            assert (hints.count() > 0) == is_said
