"""Lab: the engine's end of a link: it makes the steps, and tells what they bring."""

import logging
import socket
import time
from dataclasses import replace
from multiprocessing.connection import wait

import torch

from minipaged.engine.engine import Engine
from minipaged.engine.stream import Stream
from minipaged.errors import RankFailed
from minipaged.scheduling.observer import Observer
from minipaged.scheduling.plan import Plan
from minipaged.scheduling.request import Request
from minipaged.serving.errors import internal
from minipaged.serving.messages import Abort, Add, Ask, Begun, News, Unpacker, pack
from minipaged.serving.metrics import figures_of
from minipaged.serving.pool_states import PoolStates

_log = logging.getLogger("minipaged.serving")
_MOST = 1 << 20  # bytes that are read at a time
_PATIENCE = 0.005  # seconds of a step's start, in which requests are handed in


class _Served:
    """A request at the engine's end."""

    def __init__(self, number: int, stream: Stream):
        self.number, self.stream = number, stream
        self.wants_logprobs = stream.logprobs is not None
        self.waited = 0.0
        self.has_begun = False
        self.num_told = 0  # tokens


class EngineEnd(Observer):
    """Makes an engine's steps, and tells the front after each of them.

    Attributes: answers, functions that a front can ask for.
    """

    def __init__(self, engine: Engine, connection: socket.socket):
        """It observes the engine from now on."""
        self._engine, self._socket = engine, connection
        self._unpacker = Unpacker()
        self._served: dict[int, _Served] = {}
        self._of: dict[Request, _Served] = {}
        self._touched: dict[Request, None] = {}  # that may have news
        self._arrived: dict[int, Add] = {}  # not handed to the engine yet
        self._news = News()
        states = PoolStates(engine)
        self.answers = {
            "figures": lambda: {"": figures_of(engine)},
            "pool": states.take,
            "nobody watches": states.forget,
        }
        engine.scheduler.observers.append(self)

    def run(self) -> None:
        """Serve until the front is gone; then close the engine."""
        try:
            while self._listen():
                self._step()
                self._tell()
        except OSError:  # the front is gone, in the middle of a message
            pass
        finally:
            self._engine.close()
            self._socket.close()

    def admitted(self, request: Request) -> None:
        """A request starts: it has waited until now."""
        served = self._of.get(request)
        if served is not None and not request.num_restarts:
            served.waited = self._engine.clock.now() - served.stream.arrival

    def committed(self, plan: Plan) -> None:
        """A step is over. If it is undone, nothing is found to tell."""
        self._touched.update(dict.fromkeys([work.request for work in plan.works]))

    def _listen(self) -> bool:
        """Do what the front asks for; if idle, wait for it. False: it is gone.

        Of many requests that come at once, only some are handed to the engine before
        its next step: to prepare them all would keep the device waiting.
        """
        is_idle = not (self._engine.streams or self._served or self._arrived)
        seconds = None if is_idle else 0
        while wait([self._socket], seconds):
            data = self._socket.recv(_MOST)
            if not data:
                return False
            for message in self._unpacker.feed(data):
                self._do(message)
            seconds = 0
        end = time.perf_counter() + _PATIENCE
        while self._arrived and time.perf_counter() < end:
            self._add(next(iter(self._arrived)))
        self._send()  # who is accepted or refused need not wait for the step
        return True

    def _do(self, message: Add | Abort | Ask) -> None:
        number = message.number
        if isinstance(message, Add):
            self._arrived[number] = message
        elif isinstance(message, Ask):
            self._news.answers[number] = self.answers[message.what]()
        else:
            if number in self._arrived:
                self._add(number)
            if number in self._served:  # else it has ended meanwhile
                stream = self._served[number].stream
                self._engine.abort(stream)
                self._touched[stream.request] = None

    def _add(self, number: int) -> None:
        asked = self._arrived.pop(number)
        try:
            stream = self._engine.add(asked.prompt, **asked.arguments)
        except (ValueError, TypeError) as error:
            self._news.failed[number] = 400, str(error)
            return
        except Exception as error:
            self._fail(number, error)
            return
        if stream.request.error is not None:
            self._news.failed[number] = 400, stream.request.error
            return
        self._served[number] = self._of[stream.request] = _Served(number, stream)
        self._news.accepted.append(number)

    def _step(self) -> None:
        """If it raises, the request that came first is told; the others go on."""
        try:
            self._engine.step()
        except (torch.AcceleratorError, RankFailed):
            raise  # no step can be made any more
        except Exception as error:
            for stream in list(self._engine.streams.values())[:1]:
                self._engine.abort(stream)
                self._fail(self._forget(stream.request).number, error)

    def _fail(self, number: int, error: Exception) -> None:
        _log.error("a request failed", exc_info=error)
        failure = internal(error)
        self._news.failed[number] = failure.status, failure.message

    def _forget(self, request: Request) -> _Served:
        served = self._of.pop(request)
        del self._served[served.number]
        return served

    def _tell(self) -> None:
        with self._engine.paged.alone():  # another thread may make steps, too
            for request in self._touched:
                if (served := self._of.get(request)) is not None:
                    self._look(served)
            self._touched.clear()
            # The program whose engine this is may have aborted some.
            ended = [one for one in self._served.values() if one.stream.finished]
            for served in ended:
                self._look(served)
        self._send()

    def _send(self) -> None:
        news = self._news
        if any(vars(news).values()):
            self._news = News()
            self._socket.sendall(pack(news))

    def _look(self, served: _Served) -> None:
        """Note what is new of a request."""
        number, stream, news = served.number, served.stream, self._news
        if not served.has_begun and stream.first_token_at is not None:
            served.has_begun = True
            strategy = stream.request.strategy
            of_prompt = None
            if strategy.options.prompt_logprobs is not None:
                of_prompt = strategy.prompt_logprobs
            news.begun[number] = Begun(
                served.waited, stream.num_cached_tokens, of_prompt
            )
        if tokens := stream.tokens_from(served.num_told):
            news.tokens[number] = tokens
            if served.wants_logprobs:
                news.logprobs[number] = stream.logprobs[served.num_told :]
            served.num_told += len(tokens)
        if (output := stream.output) is not None:
            self._forget(stream.request)
            if stream.request.num_parallel == 1:  # the front has its logprobs already
                output = replace(output, logprobs=None)
            news.ended[number] = replace(output, prompt_logprobs=None)
