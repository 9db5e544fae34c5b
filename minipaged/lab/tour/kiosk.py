"""Lab: a kiosk's rush: chats, a full pool, preemptions (an incident of appendix B).

Time is counted in steps. A step computes BUDGET tokens at most; a chat that goes on
needs one of them, a chat that starts, or starts again, needs its whole text.
"""

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import NamedTuple

SIZE = 4  # tokens in a block
POOL = 26  # blocks
BUDGET = 16  # tokens that a step computes


class Ask(NamedTuple):
    """A user asks; the place in the list is the chat's number."""

    step: int
    prompt: int  # tokens
    answer: int


class Row(NamedTuple):
    """A line of the log: what happens to a chat.

    It arrives, starts, is preempted, goes on (all it had lost is computed), ends.
    """

    step: int
    what: str
    chat: int
    blocks: int  # that the chat holds; before it starts: that it needs
    free: int  # blocks, before this
    running: tuple[tuple[int, int], ...]  # (chat, its blocks), by last start

    def __str__(self) -> str:
        return (
            f"step {self.step:3}  chat {self.chat:2} {self.what + ',':13} "
            f"its blocks: {self.blocks:2}, free: {self.free:2}"
        )


class Chat(NamedTuple):
    """A chat that runs."""

    arrival: int  # its number
    num_blocks: int
    num_preemptions: int


def who_must_go(running: Sequence[Chat]) -> Chat:
    """No block is free: the chat that gives all its blocks back, and waits."""
    return max(running, key=lambda chat: chat.num_blocks)


class Kiosk:
    """`day` lets users ask; `log` tells what happened to their chats."""

    def __init__(
        self,
        num_blocks: int = POOL,
        who_must_go: Callable[[Sequence[Chat]], Chat] = who_must_go,
        budget: int = BUDGET,
    ):
        """who_must_go: chooses among the running chats when no block is free."""
        self.num_blocks, self.budget = num_blocks, budget
        self.log: list[Row] = []
        self.now = 0
        self._who_must_go = who_must_go
        self._asks: list[Ask] = []
        self._computed: dict[int, int] = {}  # tokens, of who runs, in order of start
        self._text: list[int] = []  # tokens of prompt and answer so far
        self._preempted: list[int] = []
        self._behind: set[int] = set()  # who computes lost tokens again
        self._waiting: list[int] = []

    @property
    def num_free(self) -> int:
        """Free blocks; below 0, somebody must go."""
        return self.num_blocks - sum(map(self._blocks, self._computed))

    def _blocks(self, chat: int) -> int:
        return -(-self._text[chat] // SIZE)

    def day(self, asks: Iterable[Ask] | None = None) -> "Kiosk":
        """Let these users ask, one after the other. Returns itself.

        Raises ValueError, before anybody starts, if a chat does not fit into the pool.
        """
        coming = [*(DAY if asks is None else asks)]
        for number, ask in enumerate(coming, len(self._asks)):
            needed = -(-(ask.prompt + ask.answer) // SIZE)
            if needed > self.num_blocks:
                raise ValueError(
                    f"chat {number} needs {needed} blocks in the end, and the pool has "
                    f"{self.num_blocks}: raise num_blocks, or ask for fewer tokens"
                )
        while coming or self._waiting or self._computed:
            while coming and coming[0].step <= self.now:
                self._asks.append(coming.pop(0))
                self._text.append(self._asks[-1].prompt)
                self._preempted.append(0)
                self._waiting.append(len(self._asks) - 1)
                self._note("arrives", self._waiting[-1])
            self._start()
            self._step()
            if self.now > 5000:
                raise RuntimeError("the chats never end")
        return self

    def _start(self) -> None:
        """First come, first served: nobody starts before the first who waits."""
        while self._waiting and self._blocks(self._waiting[0]) <= self.num_free:
            chat = self._waiting.pop(0)
            self._note("starts", chat)
            self._computed[chat] = 0

    def _step(self) -> None:
        self.now += 1
        budget = self.budget
        for chat in [*self._computed]:
            if chat not in self._computed:  # another chat took its blocks
                continue
            new = min(budget, self._text[chat] - self._computed[chat])
            budget -= new
            self._computed[chat] += new
            if not new or self._computed[chat] < self._text[chat]:
                continue
            if chat in self._behind:
                self._behind.remove(chat)
                self._note("goes on", chat)
            ask = self._asks[chat]
            if self._text[chat] == ask.prompt + ask.answer:
                self._note("ends", chat)
                del self._computed[chat]
                continue
            self._text[chat] += 1
            while self.num_free < 0:
                self._preempt()

    def _preempt(self) -> None:
        chats = [
            Chat(chat, self._blocks(chat), self._preempted[chat])
            for chat in self._computed
        ]
        victim = self._who_must_go(chats).arrival
        self._note("is preempted", victim)
        del self._computed[victim]
        self._preempted[victim] += 1
        self._behind.add(victim)
        self._waiting = sorted([*self._waiting, victim])

    def _note(self, what: str, chat: int) -> None:
        running = tuple((one, self._blocks(one)) for one in self._computed)
        free = max(self.num_free, 0)
        self.log.append(Row(self.now, what, chat, self._blocks(chat), free, running))


def _a_day() -> tuple[Ask, ...]:
    draw, step, asks = Random(0), 0, []
    for _ in range(14):
        prompt = draw.choice([4, 6, 8, 8, 12, 20])
        asks.append(Ask(step, prompt, draw.choice([8, 12, 16, 28, 36])))
        step += draw.randint(0, 6)
    return tuple(asks)


DAY = _a_day()
