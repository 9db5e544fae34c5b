"""The README's picture of /pool: the page of a real server, in a real browser.

python tools/photograph_pool.py    writes figures/pool-light.png and -dark.png
"""

import sys
from contextlib import ExitStack
from pathlib import Path

import httpx

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "tests"))

from helpers.http_serving import make_engine, served  # noqa: E402
from helpers.real_lab import browser_page  # noqa: E402

SYSTEM = (
    "You are a penguin. You tell short stories of the sea and of the stars at night. "
)
QUESTIONS = ("Who are you?", "A story about a fox, please.", "What is 2+2?")
PARTS = "main { padding-bottom: 24px } section[aria-labelledby=queue] { display: none }"


def main() -> None:
    """Three users with one system prompt ask; the page is paused while all run."""
    with served(make_engine(96)) as server, ExitStack() as opened:
        page, _ = opened.enter_context(browser_page(760, 900, sharp=2))
        page.goto(f"{server.url}/pool")
        page.wait_for_selector("[data-figure=used]")
        lines = []
        for question in QUESTIONS:
            body = {
                "messages": [
                    {"role": "system", "content": 2 * SYSTEM},
                    {"role": "user", "content": question},
                ],
                "stream": True, "ignore_eos": True, "max_tokens": 400,
            }  # fmt: skip
            url = f"{server.url}/v1/chat/completions"
            asked = httpx.stream("POST", url, json=body, timeout=60)
            lines.append(opened.enter_context(asked).iter_lines())
            for _ in range(60):
                next(lines[-1])
        page.locator("#pause").click()
        page.wait_for_function("() => frames")
        page.add_style_tag(content=PARTS)
        page.mouse.move(0, 0)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            picture = ROOT / "figures" / f"pool-{scheme}.png"
            page.locator("main").screenshot(path=picture)


if __name__ == "__main__":
    main()
