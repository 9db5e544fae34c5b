"""Appendix A: requests that come and go while the model runs (paper, section 4.3)."""

import heapq
from collections import deque
from collections.abc import Callable, Iterable
from itertools import count
from threading import Condition, Lock, get_ident
from typing import TYPE_CHECKING, Literal

from transformers import GenerationConfig, PreTrainedTokenizerBase

from minipaged.decoding.stop_strings import StopStrings
from minipaged.engine.ahead import make_steps
from minipaged.engine.arguments import (
    check_engine,
    check_limits,
    make_requests,
    make_scheduler,
    note_what_never_fits,
)
from minipaged.engine.clock import Clock
from minipaged.engine.stats import Stats
from minipaged.engine.stream import Stream
from minipaged.errors import Unpicklable
from minipaged.model.paged_model import PagedModel
from minipaged.model.runner import Run, make_runner
from minipaged.progress import progress_bar
from minipaged.scheduling.interruption import all_or_nothing
from minipaged.scheduling.observer import Observer, Observers
from minipaged.scheduling.plan import Plan
from minipaged.scheduling.request import Request

if TYPE_CHECKING:
    from minipaged.decoding.strategy import Output
    from minipaged.memory.prefix_cache import PrefixCache


class Engine(Observer, Unpicklable):
    """Serves requests that arrive at any time, over one pool: continuous batching.

    Every step computes one token of each sequence that decodes, and as much of the
    prompts as `max_tokens` leaves room for. A request starts as soon as there is room
    for its prompt; if blocks run out, the latest is preempted. What each one answers is
    what HuggingFace's `generate` answers it alone.

    It may be used from several threads. A step that raises, Ctrl-C included, is undone:
    nobody's text changes, and whoever ran starts again.

    Attributes: paged; scheduler; stats; streams (unfinished ones, in order of `add`).
    Source: PagedAttention paper, sections 4.3 and 4.5.
    """

    def __init__(
        self,
        paged: PagedModel,
        prefix_cache: "PrefixCache | None" = None,
        *,
        max_tokens: int = 2048,
        max_sequences: int = 256,
        preemption: Literal["recompute", "swap"] = "recompute",
        swap_blocks: int | None = None,
        observers: Iterable[Observer] = (),
        clock: Clock | None = None,
        tokenizer: PreTrainedTokenizerBase | None = None,
        run: Run | None = None,
    ):
        """An engine without requests.

        Args:
            paged: the model over its pool.
            prefix_cache: over `paged.pool`, if requests may share what is equal.
            max_tokens: computed in a step at most, of prompts and answers together.
            max_sequences: that run at one time; at most `max_tokens`.
            preemption: what becomes of K and V of a request that must give its blocks
                back: "recompute" drops them, "swap" keeps them in the CPU's memory.
            swap_blocks: how many blocks lie there at most; as many as in the pool.
            observers: are told what happens, besides `paged.observers`.
            clock: of arrivals and latencies; the wall clock unless given.
            tokenizer: the model's; needed for stop strings.
            run: "eager", kernel after kernel; "graphs" replays all but long prompts
                from CUDA graphs that live until `close`; "compiled" compiles layers,
                too. By default graphs if attention="triton" on a GPU, else eager.

        Raises MemoryError if there is no room for the graphs.
        """
        check_engine(paged, None, prefix_cache)
        check_limits(max_tokens, max_sequences, preemption, swap_blocks)
        self.paged = paged
        self.clock = clock or Clock()
        self._stop_strings = StopStrings(tokenizer)
        watching = Observers()
        self.scheduler = make_scheduler(
            paged, prefix_cache, preemption, swap_blocks,
            max_tokens=max_tokens, max_sequences=max_sequences, observers=watching,
        )  # fmt: skip
        self.stats = Stats(self.scheduler)
        watching += [paged.observers, self.stats, *observers, self]
        self._runner = make_runner(paged, run, max_sequences, max_tokens)
        self._steps = make_steps(self._runner, self.scheduler)
        self.streams: dict[Request, Stream] = {}
        self._numbers, self._places = count(), count()  # in `add`, and in line
        self._arriving: list[tuple[float, int, Stream]] = []  # a heap
        self._leaving: deque[Stream] = deque()  # aborted, or never to be run
        self._committed: deque[Plan] = deque()  # plans whose tokens nobody was told
        self._door = Lock()  # of these four
        self._thread: int | None = None  # the one that is in `run`
        self._stepped = Condition()
        self._is_closed = False
        watching.started(prefix_cache)

    def add(
        self,
        prompt: list[int],
        generation_config: GenerationConfig | None = None,
        *,
        arrival: float = 0.0,
        seed: int | None = None,
        cache_salt: bytes = b"",
    ) -> Stream:
        """Hand in a request; it is served with the others, first come first served.

        Args:
            prompt: token ids.
            generation_config: as HuggingFace's `generate` takes it.
            arrival: when it comes, on the engine's clock; what is past is now.
            seed: draw what HuggingFace draws after `torch.manual_seed(seed)`, whatever
                else is served. Without one all draw from torch's generator.
            cache_salt: only requests with the same salt share blocks.

        Returns its Stream. What can never fit, in the pool or in the model's positions,
        gets a Stream whose Output has finish_reason "error", and the reason.
        Raises ValueError, TypeError or UnsupportedOption for anything malformed.
        """
        if self._is_closed:
            raise ValueError("this engine is closed; make another one")
        (request,) = make_requests(
            self.paged,
            [prompt],
            generation_config,
            seed,
            cache_salt,
            self._stop_strings,
            remedy="tokenizer(text).input_ids",
        )
        note_what_never_fits(request, self.scheduler)
        stream = Stream(self, request, max(arrival, self.clock.now()))
        with self._door:
            try:
                self.streams[request] = stream
                if request.error is None:
                    entry = stream.arrival, next(self._numbers), stream
                    heapq.heappush(self._arriving, entry)
                else:
                    request.end("error")
                    self._leaving.append(stream)
            except BaseException:  # Ctrl-C: as if it had not been added
                request.end("aborted")
                self.streams.pop(request, None)
                raise
        return stream

    def abort(self, stream: Stream) -> None:
        """Let a request end: now, or after the step that another thread is making.

        Its Output has finish_reason "aborted", and what it has said so far.
        """
        with self._door:
            self._leaving.append(stream)
        if self._thread in (None, get_ident()) and not self.paged.alone.is_mine:
            with self.paged.alone():
                self._let_in_and_out()

    def step(self) -> bool:
        """Let in who has arrived, and compute a step; is there more to do?

        It does nothing while all requests are still to arrive. An exception leaves
        every request as it was before, but waiting to start again.
        Raises OutOfBlocks if others hold so many blocks that nobody can go on.
        """
        self.clock.start()
        with self.paged.alone():
            self._let_in_and_out()
            if self.scheduler.waiting or self.scheduler.running:
                self._steps.step()  # loop.step; or one ahead, on a GPU
                self._tell_streams()
        with self._stepped:
            self._stepped.notify_all()
        return bool(self.streams)

    def run(self) -> "list[Output]":
        """Step until all are answered; the Outputs, in the order of `add`.

        Of the requests that were not finished when it was called. What other threads
        add meanwhile is served, too. Between arrivals it sleeps.
        Raises ValueError if the model's weights have changed since it was wrapped.
        """
        self.paged.refuse_changes()
        streams = list(self.streams.values())
        self._thread = get_ident()
        try:
            with progress_bar(
                desc="serve", total=len(streams), unit=" requests"
            ) as bar:
                while self.step():
                    unfinished = len(self.streams)
                    bar.update(max(0, len(streams) - unfinished - bar.n))
                    self._sleep_until_arrival()
                bar.update(max(0, len(streams) - bar.n))
        finally:
            self._thread = None
            with self._stepped:
                self._stepped.notify_all()
        return [stream.output for stream in streams]

    def go_on(self, is_enough: Callable[[], bool]) -> None:
        """Make a step, or wait while the thread in `run` does; may return early."""
        if self._thread not in (None, get_ident()):
            with self._stepped:  # in case that thread dies, not for ever
                self._stepped.wait_for(
                    lambda: is_enough() or self._thread is None, timeout=0.5
                )
        else:
            self.step()
            if not is_enough():
                self._sleep_until_arrival()

    def close(self) -> None:
        """Abort whoever is unfinished, and free the graphs and their memory.

        The PagedModel stays as it is. Nothing can be added afterwards.
        """
        self._is_closed = True
        for stream in list(self.streams.values()):
            self.abort(stream)
        with self.paged.alone():
            self._let_in_and_out()
            self._runner.close()

    def committed(self, plan: Plan) -> None:
        """As an observer of its own steps: these requests may have new tokens."""
        self._committed.append(plan)

    def preempted(self, request: Request) -> None:
        """As such an observer: the stream counts it."""
        if request in self.streams:
            self.streams[request].num_preemptions += 1

    def _let_in_and_out(self) -> None:
        """Who has arrived waits now; who does not want to wait any more leaves."""
        self._tell_streams()  # what an interrupted call has left untold
        now = self.clock.now()
        with self._door:
            while self._arriving and self._arriving[0][0] <= now:
                *_, stream = self._arriving[0]
                waiting = self.scheduler.waiting
                is_in = waiting and waiting[-1] is stream.request  # interrupted here
                if stream.request.live and not is_in:
                    stream.request.number = next(self._places)
                    self.scheduler.add(stream.request)
                heapq.heappop(self._arriving)
        if self._leaving:
            self._steps.land()
            self._tell_streams()
        while self._leaving:
            stream = self._leaving[0]
            if not stream.finished:
                self._abort(stream.request)
            self._tell(stream, now)
            self._leaving.popleft()

    def _abort(self, request: Request) -> None:
        """Its blocks come back; interrupted, it is as if no step had been made."""
        all_or_nothing(self.scheduler, lambda undo: self.scheduler.abort(request))

    def _tell_streams(self) -> None:
        """Streams take over what was computed; done twice, it is the same."""
        while self._committed:
            now = self.clock.now()
            for request in dict.fromkeys([w.request for w in self._committed[0].works]):
                if request in self.streams:
                    self._tell(self.streams[request], now)
            self._committed.popleft()

    def _tell(self, stream: Stream, now: float) -> None:
        stream.catch_up(now)
        if stream.output is not None and stream.request in self.streams:
            self.stats.finished(stream)
            with self._door:
                self.streams.pop(stream.request, None)

    def _sleep_until_arrival(self) -> None:
        """If there is nothing to compute before."""
        if not (self.scheduler.waiting or self.scheduler.running) and self._arriving:
            self.clock.sleep_until(self._arriving[0][0])

    def __repr__(self) -> str:
        running, waiting = len(self.scheduler.running), len(self.scheduler.waiting)
        return (
            f"Engine({running} running, {waiting} waiting, {self.paged.pool}, "
            f'run="{self._runner.name}")'
        )
