"""Lab: record a run of `generate`, to step through it block by block afterwards."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from unittest.mock import patch

import torch

from minipaged.decoding.request import Request
from minipaged.decoding.sequence import Sequence
from minipaged.engine import generate as engine
from minipaged.lab.pool.names import Names
from minipaged.lab.pool.snapshot import Snapshot
from minipaged.lab.pool.words import tell
from minipaged.memory.block_pool import BlockPool
from minipaged.model.paged_model import PagedModel
from minipaged.model.ragged_batch import RaggedBatch

if TYPE_CHECKING:
    from minipaged.memory.prefix_cache import PrefixCache


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


class Recorder:
    """Looks at the pool whenever it is told to, and remembers what it has seen.

    Attributes: frames.
    """

    def __init__(self, pool: BlockPool):
        """Nothing has been seen yet, and no sequence has a name."""
        self.frames: list[Frame] = []
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

    def meet(self, prefix_cache: "PrefixCache | None") -> None:
        """Know the run's prefix cache, and what is in it already."""
        if prefix_cache is not None and self._prefix_cache is None:
            self._prefix_cache = prefix_cache
            self._before = self._see()

    def note_fork(self, parent: Sequence, child: Sequence) -> None:
        """Remember whose child it is."""
        self._forked[child] = parent

    def look(self, requests: Iterable[Request]) -> None:
        """Name new sequences, and note what has happened since the last look."""
        requests = list(requests)
        for request in requests:
            for sequence in request.sequences:
                self._name(sequence)
            self._note_answers(request)
        self._living = [one for request in requests for one in request.live]
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
        if request.beams is None:
            for sequence in request.sequences:
                if sequence.finish_reason is not None:
                    self._ended[self._names[sequence]] = sequence.new_tokens
        elif request.hypotheses is not None and request not in self._answered:
            self._answered.add(request)
            number = len(self._answered)
            search = f"search {number}, " * (number > 1)
            for rank, hypothesis in enumerate(request.hypotheses, start=1):
                self._ended[f"{search}beam {rank}"] = hypothesis.tokens


@contextmanager
def record(paged: PagedModel) -> Iterator[list[Frame]]:
    """Take a frame for every forward of `generate` inside the `with` block.

    The run itself is not changed, and outside the block nothing is watched. If it
    fails, the last frame says so.
    """
    recorder = Recorder(paged.pool)
    admit, step, forward, fork = engine.admit, engine.step, paged.forward, Sequence.fork
    running: list[Request] = []  # those of the present step

    def watched_admit(
        waiting: deque[Request],
        admitted: list[Request],
        pool: BlockPool,
        prefix_cache: "PrefixCache | None" = None,
    ) -> None:
        if pool is paged.pool:
            recorder.meet(prefix_cache)
        admit(waiting, admitted, pool, prefix_cache)

    def watched_step(
        own: PagedModel,
        requests: list[Request],
        max_prompt_tokens: int | None = None,
        prefix_cache: "PrefixCache | None" = None,
    ) -> None:
        if own is not paged:
            step(own, requests, max_prompt_tokens, prefix_cache)
            return
        running[:] = requests
        recorder.look(running)
        step(own, requests, max_prompt_tokens, prefix_cache)
        recorder.look(running)

    def watched_forward(batch: RaggedBatch) -> torch.Tensor:
        recorder.look(running)
        recorder.take(len(batch.tokens))
        return forward(batch)

    def watched_fork(parent: Sequence) -> Sequence:
        child = fork(parent)
        recorder.note_fork(parent, child)
        return child

    with (
        patch.object(engine, "admit", watched_admit),
        patch.object(engine, "step", watched_step),
        patch.object(paged, "forward", watched_forward),
        patch.object(Sequence, "fork", watched_fork),
    ):
        try:
            yield recorder.frames
        except BaseException as error:
            recorder.say(f"the run was interrupted: {error!r}")
            raise
        finally:
            recorder.look(running)
            recorder.take(0)


def tell_frame(frames: list[Frame], number: int) -> str:
    """Which frame this is, in words."""
    computed = frames[number].num_computed
    if not computed:
        return "the end"
    return f"forward {number} computes {computed} token{'s' * (computed > 1)}"


def tell_run(frames: list[Frame]) -> str:
    """What happened to the blocks, forward by forward, in words."""
    lines = []
    for number, frame in enumerate(frames):
        lines.append(tell_frame(frames, number))
        lines += [f"    {line}" for line in frame.words]
    return "\n".join(lines)
