"""/pool of a server under load, in a real Chromium: right at every step."""

import json
import threading

import httpx
import pytest

import minipaged as mp
from helpers.http_serving import make_engine, pocket, served
from helpers.page_facts import layout_flaws, name_flaws, pale_parts
from helpers.real_lab import fresh_page
from minipaged.serving.pool_page import page_text
from serving.test_metrics import figures, of

PENGUIN = "You are a penguin that tells stories of the sea. "
# What the page says of itself: its figures, each block, and each request's table.
SAID = """() => ({
  figures: Object.fromEntries([...document.querySelectorAll("dd")].map(
    one => [one.dataset.figure, Number(one.textContent.replaceAll(",", ""))])),
  holders: [...document.querySelectorAll("#map [data-block]")].map(
    one => Number(one.dataset.holders)),
  tables: [...document.querySelectorAll("#tables .row")].map(row => [
    row.dataset.name,
    [...row.querySelectorAll("[data-block]")].map(one => Number(one.dataset.block))]),
  list: document.querySelector("#map").ariaLabel,
})"""


class Truth(mp.Observer):
    """After each step: holders of each block, tables, and figures."""

    def __init__(self, engine):
        self.engine, self.steps = engine, {}
        engine.scheduler.observers.append(self)

    def committed(self, plan):
        pool, stats = self.engine.paged.pool, self.engine.stats
        running = self.engine.scheduler.running
        self.steps[stats.num_steps] = {
            "holders": pool.holders(),
            "tables": [
                [str(one.number), [*one.sequences[0].table.block_ids]]
                for one in running
            ],
            "figures": {
                "used": pool.num_blocks - pool.num_free,
                "cached": pool.prefix_cache.num_findable,
                "shared": stats.shared_blocks,
                "running": len(running),
                "waiting": len(self.engine.scheduler.waiting),
                "copies": stats.num_copied_blocks,
                "preemptions": stats.num_preemptions,
                "generated": stats.generation_tokens,
            },
        }


def differences(said, truth):
    """Between what the page says at a step and what was so."""
    found = [
        f"{name}: {said['figures'][name]} is said, and it was {value}"
        for name, value in truth["figures"].items()
        if said["figures"][name] != value
    ]
    found += ["holders"] * (said["holders"] != truth["holders"])
    found += ["tables"] * (said["tables"] != truth["tables"])
    used = truth["figures"]["used"]
    return found + ["list"] * (f"{used} of " not in said["list"])


@pytest.fixture
def loaded():
    """A server, its truth, and clients that go on asking until the end.

    Requests end by themselves: then nothing changes between steps but the queue.
    """
    engine = make_engine(64, max_sequences=6)
    truth, must_stop = Truth(engine), threading.Event()

    def ask(server, number):
        lengths = iter(range(number, 1000))
        while not must_stop.is_set():
            tokens = pocket()[1](PENGUIN * 4 + f"Story {number}.").input_ids
            length = 30 + 17 * next(lengths) % 80
            server.complete(tokens, max_tokens=length, ignore_eos=True)

    with served(engine) as server:
        clients = [threading.Thread(target=ask, args=(server, n)) for n in range(8)]
        for client in clients:
            client.start()
        yield server, truth, must_stop, clients
        must_stop.set()
        for client in clients:
            client.join()


def test_it_is_right_over_a_thousand_steps_under_load(browser, loaded):
    server, truth, must_stop, clients = loaded
    seen, wrong = {}, []

    def look():
        said = page.evaluate(SAID)
        step = said["figures"]["step"]
        if step and step in truth.steps:
            # Between steps, the queue alone may have changed.
            said["figures"]["waiting"] = truth.steps[step]["figures"]["waiting"]
            seen[step] = differences(said, truth.steps[step])

    with fresh_page(browser) as (page, errors):
        page.goto(f"{server.url}/pool")
        page.wait_for_selector("#tables .row")
        while max(truth.steps) < 1000:
            look()
        assert len(seen) > 50  # about ten a second
        # Stepped back through by keyboard, each of the last steps is right, too.
        page.locator("h1").click()
        page.keyboard.press("Space")
        page.wait_for_function("() => frames")
        count = page.evaluate("() => frames.length")
        assert count == 200
        for _ in range(count - 1):
            page.keyboard.press("ArrowLeft")
            look()
        assert page.locator("#back").is_disabled()
        assert len(seen) > 200
        wrong = {step: found for step, found in seen.items() if found}
        assert not wrong
        # Two users share a prefix, and are seen sharing.
        assert page.locator("#shares .row .chip").count() >= 2
        page.locator("#pause").click()
        must_stop.set()
        for client in clients:
            client.join()
        server.wait_idle()
        page.wait_for_function("() => !live.tables.size && !live.waiting.length")
        said, told = page.evaluate(SAID)["figures"], figures(server)
        for name, metric in {
            "generated": "generation_tokens_total",
            "copies": "num_copied_blocks_total",
            "preemptions": "num_preemptions_total",
            "running": "num_requests_running",
            "waiting": "num_requests_waiting",
        }.items():
            assert said[name] == of(told, metric)
        assert said["used"] == 64 * of(told, "kv_cache_usage_perc") == 0
        assert said["step"] == server.engine.stats.num_steps >= 1000
        assert not errors


def test_a_wrong_page_would_be_noticed(browser, loaded):
    server, truth, *_ = loaded
    with fresh_page(browser) as (page, _errors):
        page.goto(f"{server.url}/pool")
        page.wait_for_selector("#tables .row")
        page.locator("#pause").click()
        page.wait_for_function("() => frames")
        state = "frames[at].tables.values().next().value"
        page.evaluate(f"() => {{ {state}.ids.reverse(); frames[at].used++; draw() }}")
        said = page.evaluate(SAID)
        found = differences(said, truth.steps[said["figures"]["step"]])
    assert "tables" in found and any(one.startswith("used") for one in found)


def big_pool():
    """A message of 10,000 blocks, 250 requests, and a prefix of 84 of them."""
    blocks, shared, tables = iter(range(20, 10_000)), [*range(20)], []
    for number in range(250):
        ids = shared if number % 3 == 0 else []
        ids = [*ids, *[next(blocks) for _ in range(5 + 7 * number % 50)]]
        tables.append([number, 0, 320, 16 * len(shared), 16 * len(ids) - 3, 0, ids])
    totals = {"num_steps": 5123, "generation_tokens": 123_456}
    totals |= {"prefix_cache_queries": 1000, "prefix_cache_hits": 700}
    totals |= {"num_copied_blocks": 12, "num_preemptions": 3, "cached": 900}
    waiting = [[250 + number, 100, number % 2] for number in range(70)]
    used = next(blocks)
    return {**totals, "used": used, "tables": tables, "waiting": waiting}


@pytest.fixture(scope="module")
def big(browser):
    """The page of a large pool; its messages are made up."""
    text = page_text("meta-llama/Llama-3.1-8B", 10_000, 16, needs_key=False)
    message = json.dumps(big_pool())
    bodies = {
        "pool": (text, "text/html"),
        "events": (f"data: {message}\n\n", "text/event-stream"),
        "steps": (f"[{message}]", "application/json"),
    }

    def answer(route):
        body, kind = bodies[route.request.url.rpartition("/")[2]]
        route.fulfill(body=body, content_type=kind)

    with fresh_page(browser) as (page, errors):
        page.route("http://127.0.0.1:9/**", answer)
        page.goto("http://127.0.0.1:9/pool")
        page.wait_for_selector("#tables .row")
        yield page
        assert not errors


ZOOMS = {
    "overview": "#all",
    "a range": ".many >> nth=40",
    "a request": "#tables .row >> nth=3",
    "a prefix": "#shares .row >> nth=0",
}


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1000, 390])
@pytest.mark.parametrize("zoom", ZOOMS)
def test_ten_thousand_blocks_are_readable(big, zoom, width, dark):
    big.emulate_media(color_scheme="dark" if dark else "light")
    big.set_viewport_size({"width": width, "height": 1400})
    big.evaluate("() => document.querySelector('#all').click()")
    if zoom != "overview":
        big.locator(ZOOMS[zoom]).click()
    root = big.locator("main")
    assert big.evaluate("() => document.documentElement.scrollWidth") == width
    assert layout_flaws(root) == []
    assert pale_parts(root) == []
    assert name_flaws(root) == []
    shown = big.locator("#map [data-block]").count()
    expected = {
        "overview": 0,
        "a range": 1024,
        "a request": 20 + 5 + 21,
        "a prefix": 20,
    }
    assert shown == expected[zoom]
    if zoom == "overview":
        held = big.locator(".many").evaluate_all("all => all.map(b => b.dataset.held)")
        assert sum(map(int, held)) == big_pool()["used"] and len(held) <= 400


def test_a_large_pool_is_walked_through_by_keyboard(big):
    big.evaluate("() => document.querySelector('#all').click()")
    big.locator(".many >> nth=0").focus()
    for _ in range(40):
        big.keyboard.press("ArrowRight")
    big.keyboard.press("Enter")
    assert "1024 to 2047" in big.locator("#shown").inner_text()
    big.locator("#all").focus()
    big.keyboard.press("Enter")
    assert big.locator(".many").count() > 300


def test_a_key_is_asked_for(browser):
    with (
        served(api_keys=("secret",)) as server,
        fresh_page(browser) as (page, errors),
    ):
        page.goto(f"{server.url}/pool")
        page.get_by_label("API key").fill("wrong")
        page.keyboard.press("Enter")
        page.wait_for_function("() => !document.querySelector('#door').hidden")
        assert "does not know this key" in page.locator("#status").inner_text()
        errors.clear()  # the browser itself tells of a 401
        page.get_by_label("API key").fill("secret")
        page.get_by_role("button", name="Watch").click()
        page.wait_for_selector("dd[data-figure=used]")
        headers = {"Authorization": "Bearer secret"}
        body = {"prompt": PENGUIN, "max_tokens": 5, "ignore_eos": True}
        url = server.url + "/v1/completions"
        assert httpx.post(url, json=body, headers=headers, timeout=60).is_success
        page.wait_for_function(
            "() => document.querySelector('[data-figure=generated]').textContent == 5"
        )
        page.locator("#pause").click()
        page.wait_for_function("() => frames")
        assert not errors
