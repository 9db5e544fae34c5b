"""Appendix H: an engine whose model lies on several ranks (paper, section 4.6)."""

from collections.abc import Callable, Sequence
from itertools import count
from threading import current_thread, get_ident
from typing import TYPE_CHECKING, Any, NamedTuple

from minipaged.decoding.strategy import Output
from minipaged.engine.arguments import with_speculation
from minipaged.engine.engine import Engine
from minipaged.engine.stream import Stream
from minipaged.model.parallel import LeadingRunner, doing
from minipaged.model.ranks import Ranks
from minipaged.model.runner import Run, Runner, make_runner

if TYPE_CHECKING:
    from minipaged.decoding.speculation import Speculation
    from minipaged.memory.swap_space import SwapSpace


class News(NamedTuple):
    """What a step of rank 0 has brought, for the streams of the other ranks."""

    # A stream's number, its new tokens, and its Output if it has ended.
    of_streams: list[tuple[int, list[int], Output | None]]
    is_more_to_do: bool = False
    is_stopped: bool = False  # by Engine.stop


class OneOfRanks(Engine):
    """What the engines of all ranks have in common.

    All ranks add the same requests, in the same order, and call `step`, `run`, `serve`
    and `stop` alike. So a stream has the same number on all ranks.
    """

    def _runner_of_rank(self, run: Run | None, sizes: tuple[int, int, int]) -> Runner:
        """Of the same kind on all ranks: they capture their graphs together."""
        with self.paged.ranks.alike("Engine"):
            runner = make_runner(self.paged, run, *sizes)
        self.paged.ranks.runners.add(runner)
        return runner

    def serve_awaited(self, stream: Stream) -> None:
        """As `Engine.serve_awaited`; RuntimeError without `serve`.

        A thread that ended whenever no coroutine waits would end at another step on
        each rank.
        """
        if self._server is None:
            raise RuntimeError(
                "on several ranks, call engine.serve() before coroutines wait for "
                "tokens, and engine.stop() after them"
            )
        super().serve_awaited(stream)


class LeadingEngine(OneOfRanks):
    """Rank 0's engine, the only one that schedules.

    others_serve: have the other ranks called `serve`, while this one makes its steps
    otherwise? Then its `close` ends what they serve.
    """

    others_serve = False

    def __init__(self, *arguments: Any, **options: Any):
        """As `Engine`."""
        self._unsent: dict[Stream, None] = {}  # streams with news
        self._numbers_of: dict[Stream, int] = {}
        self._num_sent: dict[Stream, int] = {}  # tokens
        self._next_number = count()
        super().__init__(*arguments, **options)
        space = getattr(self.scheduler, "swap_space", None)
        if space is not None:
            self.scheduler.swap_space = _LeadingSwapSpace(space, self.paged.ranks)

    def _make_runner(
        self,
        run: Run | None,
        sizes: tuple[int, int, int],
        speculation: "Speculation | None",
    ) -> Runner:
        runner = LeadingRunner(self._runner_of_rank(run, sizes))
        return with_speculation(runner, self.paged, speculation)

    def add(self, *arguments: Any, **options: Any) -> Stream:
        """As `Engine.add`."""
        stream = super().add(*arguments, **options)
        self._numbers_of[stream] = next(self._next_number)
        return stream

    def step(self) -> bool:
        """As `Engine.step`; the other ranks compute with it, and hear its news."""
        return self._together(self._lead).is_more_to_do

    def _lead(self) -> News:
        with self.paged.ranks.watched():  # it waits for a GPU that waits for the others
            is_more_to_do = super().step()
        return self._news(is_more_to_do=is_more_to_do)

    def stop(self) -> None:
        """As `Engine.stop`, on all ranks."""
        server = self._server
        super().stop()
        if server is not None and server is not current_thread():
            self._together(lambda: self._news(is_stopped=True))

    def close(self) -> None:
        """As `Engine.close`."""
        super().close()
        if self.others_serve:
            self.others_serve = False
            self._together(lambda: self._news(is_stopped=True))

    def _together(self, decide: Callable[[], News]) -> News:
        return self.paged.ranks.together("Engine.step", decide, {})

    def _tell(self, stream: Stream, now: float) -> None:
        super()._tell(stream, now)
        self._unsent[stream] = None

    def _news(self, **state: bool) -> News:
        """The news of all streams since the last call."""
        news = []
        for stream in list(self._unsent):
            if stream not in self._numbers_of:
                continue  # another thread is about to number it
            del self._unsent[stream]
            start = self._num_sent.get(stream, 0)
            tokens = stream.tokens[start:]
            self._num_sent[stream] = start + len(tokens)
            news.append((self._numbers_of[stream], tokens, stream.output))
            if stream.finished:
                del self._numbers_of[stream], self._num_sent[stream]
        return News(news, **state)


class FollowingEngine(OneOfRanks):
    """The engine of any other rank: it computes what rank 0 plans, and passes news on.

    Its streams are like those of rank 0, but not its scheduler, pool and stats: these
    see nothing of the steps.
    """

    def __init__(self, *arguments: Any, **options: Any):
        """As `Engine`."""
        self._streams_by_number: dict[int, Stream] = {}
        self._next_number = count()
        super().__init__(*arguments, **options)
        self._doing = doing(self._runner)
        space = getattr(self.scheduler, "swap_space", None)
        if space is not None:
            followed = _FollowingSwapSpace(space)
            self._doing |= {"store": followed.store, "load": followed.load}

    def _make_runner(
        self,
        run: Run | None,
        sizes: tuple[int, int, int],
        speculation: "Speculation | None",
    ) -> Runner:
        return self._runner_of_rank(run, sizes)  # rank 0 guesses for all

    def add(self, *arguments: Any, **options: Any) -> Stream:
        """As `Engine.add`; but rank 0 serves the request."""
        stream = super().add(*arguments, **options)
        self._streams_by_number[next(self._next_number)] = stream
        return stream

    def step(self) -> bool:
        """Compute rank 0's next step; is there more to do?"""
        return self._follow().is_more_to_do

    def stop(self) -> None:
        """Wait until rank 0 has stopped serving; raise what ended it."""
        with self._server_lock:
            self._serves_idle = False
            server, self._server = self._server, None
        if server is not None and server is not current_thread():
            server.join()
            if server.error is not None:
                raise server.error

    def _follow(self) -> News:
        ranks = self.paged.ranks
        news = ranks.together("Engine.step", self._cannot_decide, self._doing)
        now = self.clock.now()
        for number, tokens, output in news.of_streams:
            stream = self._streams_by_number.get(number)
            if stream is not None:
                stream.hear(tokens, output, now)
                self._tell(stream, now)
            if output is not None:
                self._streams_by_number.pop(number, None)
        self._let_in_and_out()
        self._bell.ring()
        return news

    def _cannot_decide(self) -> News:
        raise RuntimeError("rank 0 alone decides")

    def _go_on_serving(self) -> Callable[[], None] | None:
        self._thread = get_ident()
        try:
            if not self._follow().is_stopped:
                return lambda: None
        except BaseException as error:
            current_thread().error = error
        self._leave_it_to_others()
        return None

    def _let_in_and_out(self) -> None:
        """Nothing is let in; what leaves here gets its Output at once."""
        self._added.clear()
        while self._leaving:
            stream = self._leaving.popleft()
            if not stream.finished:
                stream.request.end("aborted")
            self._tell(stream, self.clock.now())
        self._wake_coroutines()
        if self._is_closed:
            self._runner.close()


class _LeadingSwapSpace:
    """Rank 0's swap space: the others store and load their K and V, too."""

    def __init__(self, space: "SwapSpace", ranks: Ranks):
        self._space = space
        self._ranks = ranks
        self.pool = space.pool

    def store(self, block_ids: Sequence[int]) -> list[int]:
        """As SwapSpace's, on all ranks."""
        rows = self._space.store(block_ids)
        self._ranks.tell("store", block_ids, rows)
        return rows

    def load(self, rows: Sequence[int], block_ids: Sequence[int]) -> None:
        """As SwapSpace's, on all ranks."""
        self._ranks.tell("load", rows, block_ids)
        self._space.load(rows, block_ids)


class _FollowingSwapSpace:
    """Another rank's swap space, whose rows have other numbers than rank 0's."""

    def __init__(self, space: "SwapSpace"):
        self._space = space
        self._row_of: dict[int, int] = {}  # by rank 0's number

    def store(self, block_ids: Sequence[int], rows: Sequence[int]) -> None:
        """Store blocks that rank 0 has stored in these rows."""
        for row in rows:
            if row in self._row_of:  # rank 0 has given its content up
                self._space.pool.release(self._row_of.pop(row))
        self._row_of |= zip(rows, self._space.store(block_ids), strict=True)

    def load(self, rows: Sequence[int], block_ids: Sequence[int]) -> None:
        """Load what rank 0 has in these rows."""
        self._space.load([self._row_of[row] for row in rows], block_ids)


def engine_class(ranks: Ranks) -> type[Engine]:
    """The class of this rank's engine."""
    return FollowingEngine if ranks.rank else LeadingEngine
