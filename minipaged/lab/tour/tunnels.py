"""Lab: users on trains, whose lines break and come back (an incident of G).

Time is counted in steps. A `Setup` says how the server is set up; each part is right.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from transformers import GenerationConfig

from minipaged.engine.engine import Engine
from minipaged.engine.stream import Stream
from minipaged.model.load import load
from minipaged.model.paged_model import PagedModel

LENGTH = 60  # tokens of an answer
STEPS = 400  # after which all has ended


class Setup(NamedTuple):
    """How the server is set up."""

    num_blocks: int = 20  # of 16 tokens
    patience: int = 25  # steps after which the answer of a user who is gone is aborted
    writes_in_vain: int = 6  # steps until the server sees that a line is broken
    may_end_early: bool = True  # by the token for the end


class Event(NamedTuple):
    """A line of the log."""

    step: int
    what: str  # arrives, departs, finished, aborted, preempted
    user: str
    connection: int  # -1: of none


class Trip(NamedTuple):
    """What a user does."""

    user: str
    starts: int  # the step in which the user asks
    tunnels: Sequence[tuple[int, int]]  # (steps until the line breaks, steps without)


DAY = (
    Trip("Ada", 0, []),
    Trip("Ben", 1, [(12, 3)]),
    Trip("Cleo", 2, [(9, 14)]),
    Trip("Dov", 4, [(20, 2), (11, 12)]),
    Trip("Eve", 5, [(14, 200)]),
    Trip("Finn", 8, [(25, 18)]),
    Trip("Gus", 9, [(30, 4)]),
)


def gone_since(events: Sequence[Event]) -> dict[str, int]:
    """Users who have been here and are gone, and since which step."""
    gone: dict[str, int] = {}
    for event in events:
        if event.what == "arrives":
            gone.pop(event.user, None)
        elif event.what == "departs":
            gone[event.user] = event.step
    return gone


class Server:
    """Users `connect`, lines `break_line`; `step` sends, and aborts for who is gone.

    Attributes: log; received, the tokens that each user has; now, the step.
    """

    def __init__(
        self,
        setup: Setup | None = None,
        gone_since: Callable[[Sequence[Event]], Mapping[str, int]] = gone_since,
    ):
        """gone_since: says who is gone, as `gone_since` does."""
        self.setup, self._gone_since = setup or Setup(), gone_since
        self._model, self.tokenizer = _pocket()
        paged = PagedModel(self._model, num_blocks=self.setup.num_blocks, block_size=16)
        self.engine = Engine(paged)
        self.log: list[Event] = []
        self.received: dict[str, list[int]] = {}
        self.now = 0
        self._streams: dict[str, Stream] = {}
        self._preempted: dict[str, int] = {}  # how often the log says so of each
        self._users: list[str] = []  # of each connection
        self._open: dict[int, int] = {}  # connections, and what was sent on them
        self._broken: dict[int, int] = {}  # of these; since when

    def connect(self, user: str) -> int:
        """A new line: its number. The answer goes on after what the user has."""
        connection = len(self._users)
        self._users.append(user)
        has = len(self.received.setdefault(user, []))
        if user not in self._streams:
            text = f"<|user|>Tell {user} a story.<|end|><|assistant|>"
            prompt = self.tokenizer(text, add_special_tokens=False).input_ids
            vocab = self._model.config.vocab_size
            ends = {} if self.setup.may_end_early else {"eos_token_id": vocab}
            config = GenerationConfig(max_new_tokens=LENGTH, **ends)
            self._streams[user] = self.engine.add(prompt, config)
        self._open[connection] = has
        self._note("arrives", user, connection)
        return connection

    def break_line(self, connection: int) -> None:
        """Nobody tells the server: it goes on to write."""
        if connection in self._open:
            self._broken[connection] = self.now

    def step(self) -> None:
        """The engine computes; the server sends, and looks for who is gone."""
        self.engine.step()
        self.now += 1
        for user, stream in self._streams.items():
            if stream.num_preemptions > self._preempted.get(user, 0):
                self._preempted[user] = stream.num_preemptions
                self._note("preempted", user, -1)
        for connection in [*self._open]:
            self._write(connection)
        for user, since in self._gone_since(self.log).items():
            stream = self._streams[user]
            if self.now - since >= self.setup.patience and not stream.finished:
                stream.abort()
                self._note("aborted", user, -1)

    def _write(self, connection: int) -> None:
        user, sent = self._users[connection], self._open[connection]
        stream = self._streams[user]
        new = stream.tokens[sent:]
        self._open[connection] += len(new)
        if connection in self._broken:  # what is written is lost
            in_vain = self.now - self._broken[connection]
            if in_vain >= self.setup.writes_in_vain:
                self._close(connection)
            return
        self.received[user] += new
        if stream.finished:
            self._close(connection)

    def _close(self, connection: int) -> None:
        user = self._users[connection]
        output = self._streams[user].output
        is_broken = self._broken.pop(connection, None) is not None
        del self._open[connection]
        if not is_broken and output.finish_reason != "aborted":
            self._note("finished", user, connection)
        self._note("departs", user, connection)

    def _note(self, what: str, user: str, connection: int) -> None:
        self.log.append(Event(self.now, what, user, connection))

    def metrics(self) -> dict[str, int]:
        """Gauges and counters."""
        running = len(self.engine.scheduler.running)
        return {
            "connections": len(self._open),
            "num_requests_running": running,
            "num_requests_waiting": len(self.engine.streams) - running,
            "num_preemptions": self.engine.stats.num_preemptions,
            "finished": sum(event.what == "finished" for event in self.log),
            "aborted": sum(event.what == "aborted" for event in self.log),
        }

    def day(self, trips: Sequence[Trip] = DAY) -> "Server":
        """These users come, each as its trip says. Returns itself."""
        lines: dict[str, int] = {}
        todo = {trip.user: trip.starts for trip in trips}
        tunnels = {trip.user: [*trip.tunnels] for trip in trips}
        while self.now < STEPS and (todo or self.engine.streams or self._open):
            for user, when in [*todo.items()]:
                if when != self.now:
                    continue
                if user in lines:  # the line breaks
                    self.break_line(lines.pop(user))
                    todo[user] = self.now + tunnels[user].pop(0)[1]
                    continue
                lines[user] = self.connect(user)
                del todo[user]
                if tunnels[user]:
                    todo[user] = self.now + tunnels[user][0][0]
            self.step()
        self.engine.close()
        return self


@cache
def _pocket() -> tuple[Any, Any]:
    return load("pocket", device="cpu")
