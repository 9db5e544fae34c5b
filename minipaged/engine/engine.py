"""Appendix A: requests that come and go while the model runs (paper, section 4.3)."""

import logging
from bisect import insort
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from math import inf
from threading import RLock, current_thread, get_ident
from typing import TYPE_CHECKING, Any, Literal
from weakref import ref

from transformers import GenerationConfig, PreTrainedTokenizerBase

from minipaged.decoding.known_configs import KnownConfigs
from minipaged.decoding.own_processors import Processor
from minipaged.engine.arguments import (
    check_engine,
    check_speculation,
    make_requests,
    with_speculation,
)
from minipaged.engine.bell import Bell
from minipaged.engine.limits import (
    check_arrival,
    check_num_parallel,
    check_parts,
    check_swapping,
    limits_that_fit,
    make_scheduler,
    sizes_of_steps,
    tokens_of_sequence,
)
from minipaged.engine.serving import ServingThread, wake
from minipaged.engine.stats import Stats
from minipaged.engine.steps import make_steps
from minipaged.engine.stream import Stream
from minipaged.errors import Unpicklable, require_counts
from minipaged.model.paged_model import PagedModel
from minipaged.model.runner import Run, Runner, make_runner
from minipaged.progress import progress_bar
from minipaged.scheduling.clock import Clock
from minipaged.scheduling.interruption import all_or_nothing, collect_lost, give_back
from minipaged.scheduling.observer import Observer, Observers
from minipaged.scheduling.plan import Plan
from minipaged.scheduling.request import Request

if TYPE_CHECKING:
    from minipaged.decoding.speculation import Speculation
    from minipaged.decoding.strategy import Output
    from minipaged.memory.prefix_cache import PrefixCache


# Preemptions, refusals and undone steps. Off by default: to see them, call
# logging.basicConfig(level="INFO").
_log = logging.getLogger("minipaged.engine")


class Engine(Observer, Unpicklable):
    """Serves requests that arrive at any time, over one pool: continuous batching.

    Every step computes one token of each sequence that decodes, and as much of the
    prompts as `max_tokens` leaves room for. A request starts as soon as there is room
    for its prompt, but no more than 64 in a step: see `limits.MAX_STARTS`. If blocks
    run out, the latest request is preempted. In float32, each request gets the answer
    that HuggingFace's `generate` gives it alone. In half precision, its text may depend
    on what else is served, unless the model is `deterministic`: see `PagedModel`.

    `run` answers what there is; `serve` goes on until `stop`, in a thread of its own.
    It may be used from several threads, and `add` and `abort` in signal handlers. A
    step that raises, Ctrl-C included, is undone: no text changes, and requests that ran
    start again. Python's garbage collector waits for the end of a step. Blocks come
    back when the engine is closed, by `with mp.Engine(...)` or `close`, or when the
    program has dropped the engine and all of its streams.

    Attributes: paged; scheduler; stats; streams (of unfinished requests, in the order
    of `add`).
    Source: PagedAttention paper, sections 4.3 and 4.5.
    """

    def __new__(cls, paged: PagedModel, *_arguments: Any, **_options: Any) -> "Engine":
        """Where the model lies on several ranks, this rank's kind of engine."""
        if cls is Engine and getattr(paged, "ranks", None) is not None:
            from minipaged.engine.one_of_ranks import engine_class  # appendix H

            cls = engine_class(paged.ranks)
        return super().__new__(cls)

    def __init__(
        self,
        paged: PagedModel,
        prefix_cache: "PrefixCache | None" = None,
        *,
        max_tokens: int | None = None,
        max_sequences: int | None = None,
        preemption: Literal["recompute", "swap"] = "recompute",
        swap_blocks: int | None = None,
        observers: Iterable[Observer] = (),
        clock: Clock | None = None,
        tokenizer: PreTrainedTokenizerBase | None = None,
        run: Run | None = None,
        speculation: "Speculation | None" = None,
    ):
        """An engine without requests.

        Args:
            paged: the model over its pool.
            prefix_cache: over `paged.pool`, if requests may share equal prefixes.
            max_tokens: the most tokens that a step computes, of prompts and answers
                together; by default 2,048, or `max_sequences` if that is more.
            max_sequences: the most sequences that run at one time, up to `max_tokens`;
                by default 256, or `max_tokens` if that is less.
            preemption: what becomes of K and V of a request that must give its blocks
                back: "recompute" drops them, "swap" keeps them in the CPU's memory.
            swap_blocks: the most blocks that "swap" keeps; by default as many as the
                pool has.
            observers: they are told what happens, after `paged.observers`.
            clock: of arrivals and latencies; the wall clock unless given.
            tokenizer: the model's; needed for stop strings.
            run: "eager", kernel after kernel; "graphs" replays all but long prompts
                from CUDA graphs that live until `close`; "compiled" compiles layers,
                too. By default graphs if attention="triton" on a GPU, else eager.
            speculation: guesses the next tokens of all requests: see `generate`. Beams
                are refused then. A request may ask for fewer guesses: see `add`.

        Raises MemoryError if there is no room for the graphs.
        """
        check_engine(paged, None, prefix_cache)
        check_parts(observers, clock, tokenizer)
        check_speculation(speculation)
        max_tokens, max_sequences = limits_that_fit(
            max_tokens, max_sequences, tokens_of_sequence(speculation)
        )
        check_swapping(preemption, swap_blocks)
        if paged.pool.num_free < paged.pool.num_blocks:
            collect_lost(paged.pool)  # an earlier engine of the same cell, say
        self.paged = paged
        self.clock = clock or Clock()
        self._configs = KnownConfigs(paged.model, tokenizer, speculation)
        watching = Observers()
        self.scheduler = make_scheduler(
            paged, prefix_cache, preemption, swap_blocks, speculation,
            max_tokens=max_tokens, max_sequences=max_sequences, observers=watching,
        )  # fmt: skip
        self.stats = Stats(self.scheduler)
        watching += [paged.observers, self.stats, *observers, self]
        sizes = sizes_of_steps(max_sequences, max_tokens, speculation)
        self._runner = self._make_runner(run, sizes, speculation)
        self._steps = make_steps(self._runner, self.scheduler)
        if speculation is not None and self._runner.runs_ahead:
            watching.append(speculation.new_pace())
        self.streams: dict[Request, Stream] = {}
        self._numbers = count()  # of requests, in the order of `add`
        self._places = count()  # of requests, in the order in which they wait
        self._arriving: list[tuple[float, int, Stream]] = []  # the earliest first
        # Other threads and signal handlers only append to these: no lock is needed.
        self._added: deque[tuple[float, int, Stream]] = deque()  # by `add`
        self._leaving: deque[Stream] = deque()  # aborted, or never to be run
        # Streams are not told of these yet.
        self._committed: list[Plan] = []
        self._preempted: list[Request] = []
        self._was_undone = False  # a step, since then
        self._thread: int | None = None  # the thread that is in `run`, or serves
        self._server: ServingThread | None = None
        self._serves_idle = False  # until `stop`
        self._server_lock = RLock()  # of the two lines above
        self._awaited: dict[Stream, None] = {}  # by coroutines, and unfinished
        self._told: list[Stream] = []  # of these, since coroutines were woken
        self._bell = Bell()  # rings when something has changed
        self._must_check_model = self._must_check_weights = True
        self._is_closed = False
        watching.started(prefix_cache)

    def _make_runner(
        self,
        run: Run | None,
        sizes: tuple[int, int, int],
        speculation: "Speculation | None",
    ) -> Runner:
        """What computes the steps; on several ranks, each kind has its own."""
        runner = make_runner(self.paged, run, *sizes)
        return with_speculation(runner, self.paged, speculation)

    def add(
        self,
        prompt: list[int],
        generation_config: GenerationConfig | None = None,
        *,
        arrival: float = 0.0,
        seed: int | None = None,
        cache_salt: bytes = b"",
        logprobs: int | None = None,
        prompt_logprobs: int | None = None,
        logits_processor: Sequence[Processor] | None = None,
        num_guesses: int | None = None,
        stops_in_prompt: bool = True,
    ) -> Stream:
        """Hand in a request; it is served with the others, first come first served.

        Args:
            prompt: token ids.
            generation_config: as HuggingFace's `generate` takes it.
            arrival: when it comes, on the engine's clock; a past time means now.
            seed: draw what HuggingFace draws after `torch.manual_seed(seed)`, whatever
                else is served. Without a seed, draw from torch's global generator.
            cache_salt: only requests with the same salt share blocks.
            logprobs, prompt_logprobs, logits_processor: as `generate` takes them.
            num_guesses: at a time, if the engine speculates; 0: it goes without. By
                default, and at most, as many as the engine guesses.
            stops_in_prompt: may a stop string begin in the prompt? With HuggingFace it
                may; False looks at the answer alone, as OpenAI and vLLM do.

        Returns its Stream. A request that can never fit, in the pool or in the model's
        positions, gets a Stream whose Output has finish_reason "error", and the reason.
        Raises ValueError, TypeError or UnsupportedOption for anything malformed.
        """
        self._refuse_if_closed()
        check_arrival(arrival)
        if num_guesses not in (None, 0):
            require_counts(num_guesses=num_guesses)
        (request,) = make_requests(
            self.paged,
            [prompt],
            generation_config,
            seed,
            cache_salt,
            self._configs,
            remedy="tokenizer(text).input_ids",
            logprobs=logprobs,
            prompt_logprobs=prompt_logprobs,
            logits_processor=logits_processor,
            num_guesses=num_guesses,
            stops_in_prompt=stops_in_prompt,
        )
        check_num_parallel(request, self.scheduler.max_tokens)
        stream = Stream(self, request, max(float(arrival), self.clock.now()))
        try:
            self.streams[request] = stream
            if request.error is None:
                self._added.append((stream.arrival, next(self._numbers), stream))
            else:
                _log.info("refused a request: %s", request.error)
                request.end("error")
                self._leaving.append(stream)
            self._refuse_if_closed()  # it may have been closed meanwhile
        except BaseException:  # Ctrl-C, too: the request was not added
            self.streams.pop(request, None)
            self._leaving.append(stream)  # a step may have let it in already
            raise
        self._bell.ring()
        return stream

    def abort(self, stream: Stream) -> None:
        """End a request: now, or when the present step ends.

        Its Output has finish_reason "aborted", and its tokens so far. A request that
        has an Output keeps it. Raises TypeError or ValueError if `stream` is no Stream
        of this engine.
        """
        if not isinstance(stream, Stream):
            raise TypeError(
                f"abort takes the Stream that add has returned, got {stream!r:.60}"
            )
        if not stream.is_of(self):
            raise ValueError("this stream is another engine's; abort it there")
        self._leaving.append(stream)
        self._bell.ring()
        if self._thread in (None, get_ident()) and not self.paged.alone.is_mine:
            with self.paged.alone():
                self._let_in_and_out()

    def step(self) -> bool:
        """Let arrived requests in, and compute a step; is there more to do?

        It does nothing while all requests are still to arrive. An exception leaves
        every request as it was before, but waiting to start again.
        Raises OutOfBlocks if others hold so many blocks that no request can go on, and
        ValueError if the model has changed since it was wrapped. Weights written
        through `.data` are noticed when no request runs, or by `run`.
        """
        self.clock.start()
        with self.paged.alone():
            self._let_in_and_out()
            try:
                if self.scheduler.waiting or self.scheduler.running:
                    self._check_model()
                    self._steps.step()  # `loop.step`; on a GPU, a step ahead
                    self._tell_streams()
            finally:
                if self._leaving or self._is_closed:  # since the step began
                    self._let_in_and_out()
        self._bell.ring()
        return bool(self.streams)

    def run(self) -> "list[Output]":
        """Step until all requests are answered; return Outputs, in the order of `add`.

        These are of the requests that were unfinished when it was called. Requests that
        other threads add meanwhile are served, too. Between arrivals it sleeps.
        Raises ValueError if the model has changed since it was wrapped.
        """
        self._must_check_weights = True
        streams = list(self.streams.values())
        if self._thread not in (None, get_ident()):  # another thread makes the steps
            bar = progress_bar(streams, desc="serve", unit=" requests")
            return [stream.result() for stream in bar]
        try:
            self._thread = get_ident()
            with progress_bar(
                desc="serve", total=len(streams), unit=" requests"
            ) as bar:
                while self.step():
                    unfinished = len(self.streams)
                    bar.update(max(0, len(streams) - unfinished - bar.n))
                    self._sleep_until_arrival()
                bar.update(max(0, len(streams) - bar.n))
        finally:
            self._leave_it_to_others()
        return [stream.output for stream in streams]

    def serve(self) -> None:
        """Serve in a thread of its own, idle or not, until `stop` or `close`.

        If a step raises, serving ends, and whoever waits for a stream gets the error;
        `stop` raises it, too. A second call changes nothing.

        A program that only serves should call Python's `gc.freeze()` before. Otherwise
        its garbage collector stops all threads now and then, for a third of a second,
        to look at every object, most of them torch's.
        """
        self._refuse_if_closed()
        self._must_check_weights = True
        self._serves_idle = True
        self._start_serving()

    def stop(self) -> None:
        """End what `serve` has begun, after the present step; requests stay.

        Raises what a step raised, if that has ended it.
        """
        with self._server_lock:
            self._serves_idle = False
            server, self._server = self._server, None
        if server is not None and server is not current_thread():
            server.must_stop = True
            self._bell.ring()
            server.join()
            if server.error is not None:
                raise server.error

    def serve_awaited(self, stream: Stream) -> None:
        """See that a thread makes steps until this stream has finished.

        Raises what a step of that thread raised.
        """
        if not stream.finished:
            self._awaited[stream] = None
        if self._thread is None:
            self._start_serving()

    @property
    def is_served(self) -> bool:
        """Does a thread make steps, in `run`, by `serve`, or for coroutines?"""
        return self._thread is not None or self._server is not None

    def _start_serving(self) -> None:
        with self._server_lock:
            if self._server is None:
                self._server = ServingThread(self._go_on_serving)
                self._server.start()
            elif (error := self._server.error) is not None:
                self._server = None
                raise error

    def _go_on_serving(self) -> Callable[[], None] | None:
        """A step, in the serving thread; returns how to rest, or None at the end."""
        server = current_thread()
        with self._server_lock:
            is_wanted = self._serves_idle or self._awaited
            if self._is_closed or not is_wanted or server.must_stop:
                if server is self._server:
                    self._server = None
                self._leave_it_to_others()
                return None
            self._thread = get_ident()
        try:
            if self.step():
                self._sleep_until_arrival(lambda: server.must_stop)
                return lambda: None
            if not self._serves_idle:
                return lambda: None
        except BaseException as error:
            server.error = error
            self._leave_it_to_others()
            return None
        engine = ref(self)  # an engine without requests is not kept alive

        def is_something_to_do() -> bool:
            alive = engine()
            return alive is None or server.must_stop or alive.is_called

        return partial(self._bell.wait, is_something_to_do, seconds=inf)

    @property
    def is_called(self) -> bool:
        """Has anything come for an idle engine: a request, an abort, `close`?"""
        return bool(self._added or self._leaving or self.streams or self._is_closed)

    def _leave_it_to_others(self) -> None:
        """This thread makes no more steps: whoever waits must see to it."""
        self._thread = None
        self._bell.ring()
        wake([stream.listeners for stream in self._awaited.copy()])

    def go_on(self, is_enough: Callable[[], bool]) -> None:
        """Make a step, or wait while the thread in `run` makes it; may return early."""
        if self._thread not in (None, get_ident()):
            # Half a second at most: a signal may have stopped that thread as it rang.
            self._bell.wait(lambda: is_enough() or self._thread is None, seconds=0.5)
        else:
            self.step()
            if not is_enough():
                self._sleep_until_arrival(is_enough)

    def close(self) -> None:
        """Abort unfinished requests, and free the graphs and their memory.

        The PagedModel stays as it is. Nothing can be added afterwards. In the middle of
        a step, as in a signal handler, it closes when the step ends. A second call
        changes nothing.
        """
        self._is_closed = True
        self._bell.ring()
        for stream in list(self.streams.values()):
            self.abort(stream)
        if not self.paged.alone.is_mine:
            with suppress(Exception):  # it was raised where it was waited for
                self.stop()
            with self.paged.alone():
                self._let_in_and_out()
        self._bell.ring()

    def __enter__(self) -> "Engine":
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __del__(self) -> None:
        if "_is_closed" in vars(self):  # `__init__` did not fail
            give_back(self.scheduler)
            self._bell.ring()

    def committed(self, plan: Plan) -> None:
        """Called after each step, as an observer: its requests may have new tokens."""
        self._committed.append(plan)

    def preempted(self, request: Request) -> None:
        """Called after a preemption, as an observer: the stream will count it."""
        self._preempted.append(request)
        pool = self.paged.pool
        _log.info(
            "preempted a request of %d prompt tokens, with %d new ones so far (%s): "
            "%d blocks are free of %d",
            len(request.prompt),
            request.answers[0].num_new,
            "swapped out" if request.swapped else "to be computed again",
            pool.num_free,
            pool.num_blocks,
        )

    def save_counts(self) -> tuple[list[Plan], list[Request]]:
        """Called before each step, as an observer: what streams are not told yet."""
        return self._committed.copy(), self._preempted.copy()

    def restore_counts(self, saved: tuple[list[Plan], list[Request]]) -> None:
        """Called when a step is undone: streams are not told of it."""
        self._committed, self._preempted = saved[0].copy(), saved[1].copy()
        self._was_undone = True
        _log.info("a step was undone; its requests start again")

    def _refuse_if_closed(self) -> None:
        if self._is_closed:
            raise ValueError("this engine is closed; make another one")

    def _check_model(self) -> None:
        """Raise ValueError if the model has changed; called when a request has come.

        If no other request runs, or when `run` is called, all weights are read, too.
        """
        if self._must_check_weights or (
            self._must_check_model and not self.scheduler.running
        ):
            self.paged.refuse_changes()
        elif self._must_check_model:
            self.paged.refuse_altered_modules()
        self._must_check_model = self._must_check_weights = False

    def _let_in_and_out(self) -> None:
        """Arrived requests begin to wait; aborted and refused requests leave."""
        self._tell_streams()  # what an interrupted call has left untold
        now = self.clock.now()
        while self._added:
            insort(self._arriving, self._added[0])
            self._added.popleft()
        while self._arriving and self._arriving[0][0] <= now:
            stream = self._arriving[0][2]
            waiting = self.scheduler.waiting
            # After an interruption here or above, the stream comes a second time.
            is_in = waiting and waiting[-1] is stream.request
            if stream.request.is_live and not is_in:
                stream.request.number = next(self._places)
                self._must_check_model = True
                self.scheduler.add(stream.request)
            del self._arriving[0]
        if self._leaving:
            self._steps.land()
            self._tell_streams()
        while self._leaving:
            stream = self._leaving[0]
            if not stream.finished:
                self._abort(stream.request)
            self._tell(stream, now)
            self._leaving.popleft()
        self._wake_coroutines()
        if self._is_closed:
            self._steps.close()
            self._runner.close()

    def _abort(self, request: Request) -> None:
        """Take the blocks back; an interruption undoes all, as in a step."""
        all_or_nothing(self.scheduler, lambda undo: self.scheduler.abort(request))

    def _tell_streams(self) -> None:
        """Streams take over what was computed; a second call changes nothing."""
        while self._preempted:
            if stream := self.streams.get(self._preempted[-1]):
                stream.num_preemptions += 1
            del self._preempted[-1]  # no signal comes between these two lines
        if self._was_undone:
            self._tell_ended()
        while self._committed:
            now = self.clock.now()
            works = self._committed[0].works
            for request in dict.fromkeys([work.request for work in works]):
                if request in self.streams:
                    self._tell(self.streams[request], now)
            del self._committed[0]
        self._wake_coroutines()

    def _tell_ended(self) -> None:
        """Who had ended, but had blocks in the step that was undone."""
        now = self.clock.now()
        for stream in list(self.streams.values()):
            if not stream.request.is_live:
                self._tell(stream, now)
        self._was_undone = False

    def _wake_coroutines(self) -> None:
        """Those whose streams have news."""
        if self._told:
            wake([stream.listeners for stream in self._told])
            self._told.clear()

    def _tell(self, stream: Stream, now: float) -> None:
        stream.catch_up(now)
        if stream in self._awaited:
            self._told.append(stream)
        if stream.finished:
            self._awaited.pop(stream, None)
        if stream.output is not None and stream.request in self.streams:
            self.stats.finished(stream)
            self.streams.pop(stream.request, None)

    def _sleep_until_arrival(
        self, is_enough: Callable[[], bool] = lambda: False
    ) -> None:
        """Sleep until a request arrives, unless there is something to do before."""

        def is_something_to_do() -> bool:
            busy = self.scheduler.waiting or self.scheduler.running
            return bool(self._added or self._leaving or busy or is_enough())

        first = self._arriving[:1]  # one operation: another thread may empty it
        if first and not is_something_to_do():
            wait = partial(self._bell.wait, is_something_to_do)
            self.clock.sleep_until(first[0][0], wait)

    def __repr__(self) -> str:
        running = len(self.scheduler.running)
        waiting = len(self.scheduler.waiting)
        return (
            f"Engine({running} running, {waiting} waiting, {self.paged.pool}, "
            f'run="{self._runner.name}")'
        )
