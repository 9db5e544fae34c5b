"""Lab: /pool: a page that shows the server's block pool while it works."""

from html import escape
from importlib import resources

from fastapi import FastAPI
from starlette.responses import HTMLResponse, Response, StreamingResponse

from minipaged.draw.palette import (
    HATCHING,
    SEQUENCE_COLOURS,
    ink_on,
    line_colour,
    sequence_colour,
    soft_colour,
)
from minipaged.draw.style import style_sheet
from minipaged.serving.errors import ApiError
from minipaged.serving.messages import About
from minipaged.serving.pool_watch import PoolWatch

MOST = 8  # pages that watch at one time
PATH = "/pool"  # needs no key: it asks for one, and shows nothing before


def add_pool_page(
    app: FastAPI, watch: PoolWatch, name: str, about: About, *, needs_key: bool
) -> None:
    """Add the page, and what it reads: messages of the pool, and its last steps."""
    page = page_text(name, about.num_blocks, about.block_size, needs_key)

    @app.get(PATH)
    async def pool() -> Response:
        return HTMLResponse(page)

    @app.get(f"{PATH}/events")
    async def pool_events() -> Response:
        if watch.num_watching >= MOST:
            raise ApiError(429, f"{MOST} pages watch the pool already; close one")
        events = (f"data: {message}\n\n" async for message in watch.messages())
        return StreamingResponse(
            events,
            media_type="text/event-stream",
            headers={"Cache-Control": "no-store"},
        )

    @app.get(f"{PATH}/steps")
    async def pool_steps() -> Response:
        return Response(await watch.history(), media_type="application/json")


def page_text(name: str, num_blocks: int, block_size: int, needs_key: bool) -> str:
    """The page as HTML, with nothing of the pool but its size."""
    text = _read("pool.html")
    for word, value in (
        ("NAME", escape(name)),
        ("NUM_BLOCKS", str(num_blocks)),
        ("BLOCK_SIZE", str(block_size)),
        ("NEEDS_KEY", "yes" if needs_key else "no"),
        ("/* STYLE */", style_sheet() + _colours() + _read("pool.css")),
        ("/* SCRIPT */", _read("pool.js")),
    ):
        text = text.replace(word, value)
    return text


def _colours() -> str:
    """Of requests, by their number; and of cells that stand for many blocks."""
    rules = [
        f".c{at}{{--c:{sequence_colour(at)};--i:{ink_on(sequence_colour(at))};"
        f"--soft:{soft_colour(at)};--line:{line_colour(at)}}}"
        for at in range(len(SEQUENCE_COLOURS))
    ]
    many = f"--hatch:{HATCHING};--held:var(--rim);--several:{sequence_colour(0)}"
    return f".mp{{{many}}}{''.join(rules)}"


def _read(name: str) -> str:
    return resources.files("minipaged.serving").joinpath(name).read_text("utf-8")
