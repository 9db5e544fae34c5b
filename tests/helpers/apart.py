"""A thread of its own for what needs a new event loop."""

import asyncio
from concurrent.futures import ThreadPoolExecutor


def in_a_thread(function, **arguments):
    """Called where no event loop runs: in this thread one may, of an open browser."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function, **arguments).result()


def run_in_a_thread(coroutine, *arguments):
    """What `coroutine(*arguments)` returns, from a loop of its own."""
    return in_a_thread(lambda: asyncio.run(coroutine(*arguments)))
