"""Lab: to a front, all replicas together are one host, which no single death ends."""

import asyncio
import logging
import socket
from itertools import count
from typing import Any

from ray.exceptions import RayError, RayTaskError
from ray.serve.exceptions import RayServeException
from ray.serve.handle import DeploymentHandle

from minipaged.decoding.strategy import Output
from minipaged.scheduling.routing import chain_hashes
from minipaged.serving.messages import Abort, About, Add, Ask, News, Unpacker, pack
from minipaged.serving.ray.parts import OtherAnswer, Part, Told, news_of

_log = logging.getLogger("ray.serve")
RESENDS = 2  # a request that ends whatever replica it reaches must not reach them all
_LOST = (
    "the replica has ended in the middle of this answer; ask again (a request with a "
    "seed, or of temperature 0, is sent again by the server)"
)
_OTHER = (
    "the replica has ended in the middle of this answer, and another one gives another "
    "answer; ask again, or start the server with --deterministic"
)


class Replicas(asyncio.Protocol):
    """A Host whose engine is all replicas: Serve's router says which of them answers.

    If a replica dies, its requests are sent again, if their clients notice nothing:
    see `Told.may_be_sent_again`. The others get an error.
    """

    def __init__(self, handle: DeploymentHandle, about: About):
        """handle: of the deployment of `Replica`."""
        self._handle, self.about = handle, about
        self._streaming = handle.options(stream=True)
        self._unpacker = Unpacker()
        self._tasks: dict[int, asyncio.Task] = {}
        self._told: dict[int, Told] = {}

    def start(self) -> socket.socket:
        """The front's socket. Called in the front's event loop."""
        ours, theirs = socket.socketpair()
        loop = asyncio.get_running_loop()
        self._opening = loop.create_task(
            loop.create_connection(lambda: self, sock=theirs)
        )
        return ours

    def stop(self) -> None:
        """Nothing is to be waited for: the replicas go on."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Called by the loop: what the front asks for."""
        for message in self._unpacker.feed(data):
            self._do(message)

    def connection_lost(self, _error: Exception | None) -> None:
        """Called by the loop: the front is gone."""
        for task in self._tasks.values():
            task.cancel()

    def _do(self, message: Add | Abort | Ask) -> None:
        number = message.number
        if isinstance(message, Abort):
            if number in self._tasks:
                self._tasks[number].cancel()
            return
        if isinstance(message, Ask):
            self._tasks[number] = asyncio.create_task(self._ask(message))
            self._tasks[number].add_done_callback(lambda _: self._tasks.pop(number))
            return
        told = Told(message)

        def end(task: asyncio.Task) -> None:
            """It may have been cancelled before it began."""
            del self._tasks[number]
            if task.cancelled() and not told.is_over:
                aborted = Output([told.tokens], "aborted")
                self._tell(news_of(number, Part(ended=aborted)))

        task = self._tasks[number] = asyncio.create_task(self._serve(message, told))
        task.add_done_callback(end)

    async def _serve(self, add: Add, told: Told) -> None:
        """Answer, whatever becomes of a replica meanwhile."""
        try:
            await self._send(add, told)
        except OtherAnswer:
            failed = 503, _OTHER
        except RayTaskError as error:
            _log.error("a replica failed", exc_info=error)
            failed = 500, "a replica failed; see its log"
        except (RayError, RayServeException) as error:
            _log.warning("a replica was lost, and with it a request: %s", error)
            failed = 503, _LOST
        else:
            return
        if not told.is_over:
            self._tell(news_of(add.number, Part(failed=failed)))

    async def _send(self, add: Add, told: Told) -> None:
        """Tell all parts as they come; send the request again if that is possible."""
        salt = add.arguments["cache_salt"]
        chain = chain_hashes(add.prompt, self.about.block_size, salt)
        for resends in count():
            parts = self._streaming.serve.remote(chain, add)
            try:
                async for part in parts:
                    self._tell(news_of(add.number, told.new(part)))
                return
            except RayTaskError:
                raise  # an error of ours, not of the machine
            except (RayError, RayServeException) as error:
                if told.is_over or resends == RESENDS or not told.may_be_sent_again:
                    raise
                _log.warning("a request is sent again: %s", type(error).__name__)
                told.begin_again()
            except BaseException:
                parts.cancel()  # it goes on, and nobody listens
                raise

    async def _ask(self, ask: Ask) -> None:
        answers: dict[str, Any] = {}
        if ask.what == "figures":
            response = self._handle.broadcast("figures")
            found = await response.results_async(return_exceptions=True)
            answers = dict(one for one in found if isinstance(one, tuple))
        self._tell(News(answers={ask.number: answers}))

    def _tell(self, news: News) -> None:
        if any(vars(news).values()):
            self._transport.write(pack(news))
