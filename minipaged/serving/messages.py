"""Lab: what a front and its engine tell each other, over a socket.

So the engine can run in a process of its own, and no Python of the front slows its
steps down. Every message is one of the types here, pickled, after its length.
"""

import pickle
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from transformers import GenerationConfig

from minipaged.decoding.strategy import Output, TokenLogprob
from minipaged.engine.engine import Engine
from minipaged.model.positions import num_positions

_HEAD = 4  # bytes of a message's length


class About(NamedTuple):
    """What a front must know of an engine."""

    generation_config: GenerationConfig  # the model's own
    num_embeddings: int
    num_positions: int | None
    num_blocks: int
    block_size: int
    max_sequences: int
    shares_prefixes: bool

    @classmethod
    def of(cls, engine: Engine) -> "About":
        """This engine."""
        paged, scheduler = engine.paged, engine.scheduler
        return cls(
            paged.model.generation_config,
            paged.num_embeddings,
            num_positions(paged.model.config),
            paged.pool.num_blocks,
            paged.pool.block_size,
            scheduler.max_sequences,
            scheduler.prefix_cache is not None,
        )


class Add(NamedTuple):
    """To the engine: a request, with what `Engine.add` takes."""

    number: int
    prompt: list[int]
    arguments: dict[str, Any]
    is_streamed: bool = True  # does the client see tokens before the end?


class Abort(NamedTuple):
    """To the engine: nobody waits for this request any more."""

    number: int


class Ask(NamedTuple):
    """To the engine: `what` is a key of `EngineEnd.answers`."""

    number: int
    what: str


class Begun(NamedTuple):
    """A request has its first token."""

    waited: float  # seconds in the engine, until it first ran
    num_cached_tokens: int
    prompt_logprobs: list[TokenLogprob | None] | None


@dataclass
class News:
    """To the front: all that a step has brought. Keys are the numbers of requests."""

    accepted: list[int] = field(default_factory=list)
    restarted: list[int] = field(default_factory=list)  # their answers begin anew
    begun: dict[int, Begun] = field(default_factory=dict)
    tokens: dict[int, list[int]] = field(default_factory=dict)
    logprobs: dict[int, list[TokenLogprob]] = field(default_factory=dict)
    ended: dict[int, Output] = field(default_factory=dict)
    failed: dict[int, tuple[int, str]] = field(default_factory=dict)  # status, message
    answers: dict[int, Any] = field(default_factory=dict)  # of Ask


def pack(message: Any) -> bytes:
    """The message as bytes, after their number."""
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return len(data).to_bytes(_HEAD) + data


class Unpacker:
    """Finds messages in a stream of bytes."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> Iterator[Any]:
        """All messages that are complete with these bytes."""
        self._bytes += data
        while len(self._bytes) >= _HEAD:
            stop = _HEAD + int.from_bytes(self._bytes[:_HEAD])
            if len(self._bytes) < stop:
                break
            message = pickle.loads(memoryview(self._bytes)[_HEAD:stop])
            del self._bytes[:stop]
            yield message
