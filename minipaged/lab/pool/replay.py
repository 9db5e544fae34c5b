"""Lab: record a run, to step through it block by block afterwards."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from textwrap import fill
from typing import TYPE_CHECKING

from minipaged.decoding.beam import Beams
from minipaged.draw.letters import counted, listed
from minipaged.engine.engine import Engine
from minipaged.lab.pool.lane_words import joined, tell_line
from minipaged.lab.pool.lanes import Lanes, Reached
from minipaged.lab.pool.names import Names
from minipaged.lab.pool.snapshot import Snapshot
from minipaged.lab.pool.words import tell
from minipaged.memory.block_pool import BlockPool
from minipaged.model.paged_model import PagedModel
from minipaged.scheduling.observer import Observer
from minipaged.scheduling.plan import Plan
from minipaged.scheduling.request import Request
from minipaged.scheduling.sequence import Sequence

if TYPE_CHECKING:
    from minipaged.memory.prefix_cache import PrefixCache

FEW, WIDTH = 6, 76  # lines, and letters in a line, of a run in words
MOST = 60  # lines of an engine's run; then no forward more is told
GROWS = r"^[A-Z]\d* gets "
ARRIVES = r"([A-Z]\d*) arrives with .*, and waits$"
QUIET = rf"{GROWS}|can be found from now on$"  # of an engine: what is no event


@dataclass(frozen=True)
class Frame:
    """The pool as a forward finds it, and what happened since the frame before.

    The last frame of a run has no forward: it shows what is left.
    """

    num_computed: int  # tokens of this forward, of all sequences together
    snapshot: Snapshot
    words: tuple[str, ...]
    growing: Mapping[str, list[int]]  # new tokens of the living sequences
    ended: Mapping[str, list[int]]  # and of what is returned; of beams by their rank


class Recorder(Observer):
    """Looks at the pool whenever something happens, and remembers what it has seen.

    Of an engine it also sees who waits. Its requests are named in the order of `add`.

    Attributes: frames; running, the requests of the present step.
    """

    def __init__(self, pool: BlockPool):
        """Nothing has been seen yet, and no sequence has a name."""
        self._engine: Engine | None = None  # None: a run of `generate`
        self._plan: Plan | None = None
        self._reached = Reached()
        self._arrived: set[Request] = set()  # that were seen in line, or running
        self.frames: list[Frame] = []
        self.running: list[Request] = []
        self._pool = pool
        self._prefix_cache: PrefixCache | None = None
        self._names: dict[Sequence, str] = {}  # each is given once
        self._letters = Names()
        self._forked: dict[Sequence, Sequence] = {}  # child: parent
        self._living: list[Sequence] = []
        self._before = self._see()
        self._words: list[str] = []
        self._ended: dict[str, list[int]] = {}
        self._answered: set[Request] = set()  # beam searches that have ended

    def started(self, prefix_cache: "PrefixCache | None") -> None:
        """Know the run's prefix cache, and what is in it already."""
        if prefix_cache is not None and self._prefix_cache is None:
            self._prefix_cache = prefix_cache
            self._before = self._see()

    def admitted(self, request: Request) -> None:
        """Name it, and see what it found in the cache."""
        self._meet(request, is_new=True)
        self._arrived.add(request)
        if request not in self.running:
            self.running.append(request)
        self.look(self.running)

    def preempted(self, request: Request) -> None:
        """See which blocks it has given back."""
        self._meet(request)
        self._arrived.add(request)
        self.running = [one for one in self.running if one is not request]
        for sequence in request.sequences:  # whoever comes back is no new fork
            self._forked.pop(sequence, None)
        self.look(self.running)

    def planned(self, plan: Plan) -> None:
        """See which blocks were taken, and keep it as a frame."""
        if plan.works:
            self._meet(plan.works[0].request)
        if self._engine is not None:
            self._arrived.update(self._engine.scheduler.waiting)
        self._plan = plan
        self.look(self.running)
        self.take(plan.num_tokens)

    def committed(self, plan: Plan) -> None:
        """See who was forked, and who has ended."""
        self._reached.committed(plan)
        self._plan = None
        self.look(self.running)
        self.running = [request for request in self.running if request.live]

    def forked(self, parent: Sequence, child: Sequence) -> None:
        """Remember whose child it is."""
        self._forked[child] = parent
        self._reached.forked(parent, child)

    def meet(self, engine: Engine, newcomer: Request | None = None) -> None:
        """Know this engine, and what runs there already: that is no news."""
        self._engine, scheduler = engine, engine.scheduler
        if scheduler.prefix_cache is not None:
            self._prefix_cache = scheduler.prefix_cache
        self.running = [one for one in scheduler.running if one is not newcomer]
        self._arrived.update(self.running)
        if newcomer is None:
            self._arrived.update(scheduler.waiting)
        said, self._words = self._words, []
        self.look(self.running)
        self._words = said

    def look(self, requests: Iterable[Request]) -> None:
        """Name new sequences, and note what has happened since the last look."""
        requests = list(requests)
        for request in list(self._engine.streams if self._engine else ()):
            self._name(request.sequences[0])
        for request in requests:
            for sequence in request.sequences:
                self._name(sequence)
            self._note_answers(request)
        living = [one for request in requests for one in request.live]
        self._living = [one for one in living if one.table is not None]
        now = self._see()
        self._words += tell(self._before, now)
        self._before = now

    def say(self, words: str) -> None:
        """Add a sentence to those that the next frame shows."""
        self._words.append(words)

    def take(self, num_computed: int) -> None:
        """Keep what the last look has seen as a frame."""
        waiting = self._engine.scheduler.waiting if self._engine else ()
        texts = [one for request in waiting for one in request.live if one.num_new]
        growing = {self._names[one]: one.new_tokens for one in [*self._living, *texts]}
        words = self._words if self._engine is None else joined(self._words)
        words, self._words = tuple(words), []
        frame = Frame(num_computed, self._before, words, growing, dict(self._ended))
        self.frames.append(frame)

    def _meet(self, request: Request, is_new: bool = False) -> None:
        """Know whose request it is; an engine that is not known has only this one."""
        watching = request.observers
        engine = next((one for one in watching if isinstance(one, Engine)), None)
        if engine is None:
            self._engine = None
        elif engine is not self._engine:
            self.meet(engine, request if is_new else None)

    def _name(self, sequence: Sequence) -> None:
        if sequence not in self._names:
            self._names[sequence] = self._letters.new(self._names.values())

    def _see(self) -> Snapshot:
        tables = {self._names[one]: one.table for one in self._living}
        parents = {
            self._names[one]: self._names[self._forked[one]]
            for one in self._living
            if one in self._forked
        }
        lanes = None
        if self._engine is not None:
            lanes = Lanes.take(
                self._engine.scheduler,
                self._names,
                self._reached,
                self._plan,
                self._arrived.__contains__,
            )
        return Snapshot.take(
            self._pool, tables, self._prefix_cache, parents, lanes=lanes
        )

    def _note_answers(self, request: Request) -> None:
        if not isinstance(request.strategy, Beams):
            for sequence in request.sequences:
                if sequence.finish_reason is not None:
                    self._ended[self._names[sequence]] = sequence.new_tokens
        elif request.strategy.answers is not None and request not in self._answered:
            self._answered.add(request)
            number = len(self._answered)
            search = f"search {number}, " * (number > 1)
            for rank, hypothesis in enumerate(request.strategy.answers, start=1):
                self._ended[f"{search}beam {rank}"] = hypothesis.tokens


@contextmanager
def record(run: PagedModel | Engine) -> Iterator[list[Frame]]:
    """Take a frame for every forward inside the `with` block.

    Of `generate` and of engines on this PagedModel; or give an engine on it. With an
    engine the frames also have lanes: who waits, who runs, who was swapped out. The
    run itself is not changed, and outside the block nothing is watched. If it fails,
    the last frame says so.
    """
    paged = run.paged if isinstance(run, Engine) else run
    recorder = Recorder(paged.pool)
    if isinstance(run, Engine):
        recorder.meet(run)
    paged.observers.append(recorder)
    try:
        yield recorder.frames
    except BaseException as error:
        recorder.say(f"the run was interrupted: {error!r}")
        raise
    finally:
        paged.observers.remove(recorder)
        recorder.look(recorder.running)
        recorder.take(0)


def tell_frame(frames: list[Frame], number: int) -> str:
    """Which frame this is, in words."""
    computed = frames[number].num_computed
    if not computed:
        return "the end"
    return f"forward {number} computes {counted(computed, 'token')}"


def tell_run(frames: list[Frame]) -> str:
    """A run in a few lines: how many blocks it held, and what came before growth.

    Of an engine's run the whole story, as far as it is not too long.
    """
    snapshots = [frame.snapshot for frame in frames]
    most = max(now.num_held for now in snapshots)
    head = (
        f"{len(frames) - 1} forwards, at most {most} of {snapshots[0].num_blocks} "
        "blocks held (run the cell to step through them)"
    )
    if any(now.lanes is not None for now in snapshots):
        return "\n".join(_story(frames, head))
    told = [
        f"{tell_frame(frames, number).split(' computes')[0]}: {line}"
        for number, frame in enumerate(frames)
        for line in frame.words
        if not re.search(GROWS, line)
    ]
    lines = [head, *told[:FEW]]
    lines += [f"and {len(told) - FEW} more"] * (len(told) > FEW)
    return "\n".join(map(_lines, lines))


def _story(frames: list[Frame], head: str) -> Iterator[str]:
    """Each forward in which more happens than growth: who runs, and what happened."""
    made, left = [_lines(head)], 0
    for number, frame in enumerate(frames):
        lines = [line for line in frame.words if not re.search(QUIET, line)]
        if not lines:
            continue
        if sum(one.count("\n") + 1 for one in made) >= MOST:
            left += 1
            continue
        when, lanes = tell_frame(frames, number), frame.snapshot.lanes
        when += f" ({tell_line(lanes)})" * bool(lanes is not None and lanes.names)
        made += [_lines(when), *(_lines(line, "   ") for line in _together(lines))]
    yield from made
    if left:
        yield f"and {counted(left, 'forward')} more in which something happens"


def _lines(text: str, indent: str = "") -> str:
    return fill(text, WIDTH, initial_indent=indent, subsequent_indent=f"{indent}   ")


def _together(lines: list[str]) -> list[str]:
    """Those that arrive at one time, and wait, in one sentence."""
    names = [found[1] for line in lines if (found := re.match(ARRIVES, line))]
    if len(names) < 2:
        return lines
    rest = [line for line in lines if not re.match(ARRIVES, line)]
    return [*rest, f"{listed(names)} arrive, and wait"]
