"""Lab: record a run of `generate`, to step through it block by block afterwards."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import torch

from minipaged.decoding.request import Request
from minipaged.decoding.sequence import Sequence
from minipaged.engine import generate as engine
from minipaged.lab.names import Names
from minipaged.lab.snapshot import Snapshot
from minipaged.lab.words import tell
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


@dataclass
class Recorder:
    """Takes a frame whenever it is told to look."""

    pool: BlockPool
    frames: list[Frame] = field(default_factory=list)
    names: dict[Sequence, str] = field(default_factory=dict)
    free_names: Names = field(default_factory=Names)
    requests: list[Request] = field(default_factory=list)
    answered: list[Request] = field(default_factory=list)  # beam searches that ended
    prefix_cache: "PrefixCache | None" = None
    words: list[str] = field(default_factory=list)
    ended: dict[str, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.before = Snapshot.take(self.pool, {})

    def look(self) -> Snapshot:
        """Name new sequences, and note what has happened since the last look."""
        for request in self.requests:
            self._note_ended(request)
            for sequence in request.live:
                if sequence not in self.names:
                    self.names[sequence] = self.free_names.new(self.names.values())
        living = [one for request in self.requests for one in request.live]
        self.names = {one: self.names[one] for one in living}
        tables = {name: sequence.table for sequence, name in self.names.items()}
        now = Snapshot.take(self.pool, tables, self.prefix_cache)
        self.words += tell(self.before, now)
        self.before = now
        return now

    def take(self, num_computed: int) -> None:
        """Look, and keep what is seen as a frame."""
        now = self.look()
        growing = {name: one.new_tokens for one, name in self.names.items()}
        words, self.words = tuple(self.words), []
        frame = Frame(num_computed, now, words, growing, dict(self.ended))
        self.frames.append(frame)

    def _note_ended(self, request: Request) -> None:
        """The answers that have come since the last look."""
        for sequence in request.sequences:
            name = self.names.get(sequence)
            if name and request.beams is None and sequence.finish_reason is not None:
                self.ended[name] = sequence.new_tokens
        if request.hypotheses is not None and request not in self.answered:
            self.answered.append(request)
            number = f"{len(self.answered)}: " * (len(self.answered) > 1)
            for rank, hypothesis in enumerate(request.hypotheses, start=1):
                self.ended[f"{number}beam {rank}"] = hypothesis.tokens


@contextmanager
def record(paged: PagedModel) -> Iterator[list[Frame]]:
    """Take a frame for every forward of `generate` inside the `with` block.

    The run itself is not changed, and outside the block nothing is watched.
    """
    recorder = Recorder(paged.pool)
    step, forward = engine.step, paged.forward

    def watched_step(own: PagedModel, requests: list[Request], *rest: Any) -> None:
        if own is paged:
            recorder.requests, recorder.prefix_cache = requests, rest[-1]
            recorder.look()
        step(own, requests, *rest)
        if own is paged:
            recorder.look()

    def watched_forward(batch: RaggedBatch) -> torch.Tensor:
        recorder.take(len(batch.tokens))
        return forward(batch)

    with (
        patch.object(engine, "step", watched_step),
        patch.object(paged, "forward", watched_forward),
    ):
        yield recorder.frames
    recorder.take(0)


def tell_run(frames: list[Frame]) -> str:
    """What happened to the blocks, forward by forward, in words."""
    lines = []
    for number, frame in enumerate(frames):
        lines.append(f"forward {number}" if frame.num_computed else "the end")
        lines[-1] += f" of {frame.num_computed} tokens" * (frame.num_computed > 0)
        lines += [f"    {line}" for line in frame.words]
    return "\n".join(lines)
