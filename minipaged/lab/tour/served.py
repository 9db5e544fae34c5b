"""Lab: an app that answers on a free port of this machine, while a notebook goes on."""

import asyncio
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import uvicorn
from starlette.types import ASGIApp


class AppThread(Thread):
    """Runs an app in an event loop of its own. Attributes: url; server, uvicorn's.

    tasks_left: coroutines that had not ended when the server had.
    """

    def __init__(self, app: ASGIApp):
        """On a free port of 127.0.0.1; nobody is answered yet."""
        super().__init__(name="app", daemon=True)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._config = uvicorn.Config(
            app, log_level="critical", timeout_graceful_shutdown=10
        )
        self.server = uvicorn.Server(self._config)
        self.tasks_left: list[asyncio.Task] = []

    def run(self) -> None:
        """Serve, until `server.should_exit`."""
        loop_factory = self._config.get_loop_factory()  # uvloop's, if it is there
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            runner.run(self._serve())
        self._listener.close()

    async def _serve(self) -> None:
        await self.server.serve([self._listener])
        self.tasks_left += asyncio.all_tasks() - {asyncio.current_task()}


@contextmanager
def serving(app: ASGIApp) -> Iterator[AppThread]:
    """The app is served inside the `with` block, and has ended after it."""
    thread = AppThread(app)
    thread.start()
    try:
        while not thread.server.started and thread.is_alive():
            time.sleep(0.01)
        yield thread
    finally:
        thread.server.should_exit = True
        thread.join(30)
