"""Lab: record a run of `generate`, to step through it block by block afterwards."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from textwrap import fill
from typing import TYPE_CHECKING

from minipaged.decoding.beam import Beams
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

    Attributes: frames; running, the requests of the present step.
    """

    def __init__(self, pool: BlockPool):
        """Nothing has been seen yet, and no sequence has a name."""
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
        self.running.append(request)
        self.look(self.running)

    def planned(self, plan: Plan) -> None:
        """See which blocks were taken, and keep it as a frame."""
        self.look(self.running)
        self.take(plan.num_tokens)

    def committed(self, plan: Plan) -> None:
        """See who was forked, and who has ended."""
        self.look(self.running)
        self.running = [request for request in self.running if request.live]

    def forked(self, parent: Sequence, child: Sequence) -> None:
        """Remember whose child it is."""
        self._forked[child] = parent

    def look(self, requests: Iterable[Request]) -> None:
        """Name new sequences, and note what has happened since the last look."""
        requests = list(requests)
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
        growing = {self._names[one]: one.new_tokens for one in self._living}
        words, self._words = tuple(self._words), []
        frame = Frame(num_computed, self._before, words, growing, dict(self._ended))
        self.frames.append(frame)

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
        return Snapshot.take(self._pool, tables, self._prefix_cache, parents)

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
def record(paged: PagedModel) -> Iterator[list[Frame]]:
    """Take a frame for every forward of `generate` inside the `with` block.

    The run itself is not changed, and outside the block nothing is watched. If it
    fails, the last frame says so.
    """
    recorder = Recorder(paged.pool)
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
    return f"forward {number} computes {computed} token{'s' * (computed > 1)}"


def tell_run(frames: list[Frame]) -> str:
    """A run in a few lines: how many blocks it held, and what came before growth."""
    snapshots = [frame.snapshot for frame in frames]
    most = max(now.num_held for now in snapshots)
    told = [
        f"{tell_frame(frames, number).split(' computes')[0]}: {line}"
        for number, frame in enumerate(frames)
        for line in frame.words
        if not re.search(r"^[A-Z]\d* gets ", line)
    ]
    lines = [
        f"{len(frames) - 1} forwards, at most {most} of {snapshots[0].num_blocks} "
        "blocks held (run the cell to step through them)",
        *told[:FEW],
    ]
    lines += [f"and {len(told) - FEW} more"] * (len(told) > FEW)
    return "\n".join(fill(line, WIDTH, subsequent_indent="   ") for line in lines)
