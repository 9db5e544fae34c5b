"""Lab: a harbour office: chats and documents over one pool (an incident of lesson 3).

Each line of a text fills a block. Time is counted in minutes from 8 o'clock.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from random import Random
from typing import NamedTuple

POOL = 48  # blocks
SYSTEM = 8  # lines of the system prompt
OWN = 6  # lines of a question and its answer: no other chat has them


class Event(NamedTuple):
    """What happens: a chat, a document, a notice, a new key."""

    minute: int
    what: str
    name: str
    num_lines: int  # that it brings


class Row(NamedTuple):
    """A line of the log: a chat or a document, and what the pool did for it."""

    minute: int
    name: str
    lines: int  # blocks of its whole text
    found: int  # of these; the others are computed
    overwritten: tuple[str, ...]  # lines that were lost for it, in this order

    def __str__(self) -> str:
        time = f"{8 + self.minute // 60}:{self.minute % 60:02}"
        return (
            f"{time:>5}  {self.name:12}{self.lines:3} lines, {self.found:2} found, "
            f"{len(self.overwritten):2} overwritten"
        )


class Kept(NamedTuple):
    """A free block whose line can be found."""

    block: int
    published: int  # number of the text that computed it
    used: int  # number of the last text that found or computed it


def a_day() -> tuple[Event, ...]:
    """What happens in two hours."""
    draw, names = Random(20), ["Tides", "Crane", "Fog", "Pier", "Buoys"]
    counts = {"chat": 0, "document": 0}
    events = []

    def add(what: str, num_lines: int) -> None:
        events.append(Event(minute, what, f"{what} {counts[what]}", num_lines))
        counts[what] += 1

    for minute in range(0, 120, 2):
        if minute % 24 == 10:
            events.append(Event(minute, "notice", names.pop(0), 1))
        if minute % 40 == 26:
            events.append(Event(minute, "key", f"key {minute // 40 + 2}", 0))
            add("chat", OWN)
        elif draw.random() < 0.7:
            for _ in range(1 + (draw.random() < 0.25)):
                add("chat", OWN)
        else:
            add("document", draw.choice([6, 10, 14]))
    return tuple(events)


DAY = a_day()


def next_victim(free: Sequence[Kept]) -> Kept:
    """The block that is handed out next: its line is lost."""
    return min(free, key=lambda one: one.published)


class Office:
    """`day` lets events happen; `log` has a Row for each chat and each document."""

    def __init__(
        self,
        num_blocks: int = POOL,
        next_victim: Callable[[Sequence[Kept]], Kept] = next_victim,
    ):
        """next_victim: which of the free blocks is overwritten, if all have a line."""
        self.log: list[Row] = []
        self._next_victim = next_victim
        self._empty = [*range(num_blocks)]
        self._notices: list[str] = []
        self._key = "key 1"
        self._number = 0  # of this text
        # By key and all lines up to this one, the tail of a text before its beginning.
        self._kept: dict[tuple[str, ...], Kept] = {}
        self._held: set[int] = set()

    def day(self, events: Iterable[Event] = DAY) -> "Office":
        """Let these events happen. Returns itself.

        The texts of a minute start together. At its end, they can be found.
        """
        for _, together in groupby(events, key=lambda event: event.minute):
            ended: list[tuple[tuple[str, ...], Kept]] = []
            for event in together:
                if event.what == "notice":
                    self._notices.append(event.name)
                elif event.what == "key":
                    self._key = event.name
                else:
                    ended = [*reversed(self._compute(event).items()), *ended]
            for past, kept in ended:
                if past in self._kept:  # two texts of this minute have computed it
                    self._empty.append(kept.block)
                else:
                    self._kept[past] = kept
            self._held.clear()
        return self

    def _compute(self, event: Event) -> dict[tuple[str, ...], Kept]:
        """Find what can be found, compute the others: they are returned."""
        lines = [f"{event.name}, line {n}" for n in range(event.num_lines)]
        if event.what == "chat":
            notices = [f"notice {name}" for name in self._notices]
            lines = [*(f"system, line {n}" for n in range(SYSTEM)), *notices, *lines]
        pasts = [(self._key, *lines[: n + 1]) for n in range(len(lines))]
        kept = [past in self._kept for past in pasts]
        found = [*kept, False].index(False)
        for past in pasts[:found]:
            self._kept[past] = self._kept[past]._replace(used=self._number)
            self._held.add(self._kept[past].block)
        computed, overwritten = {}, []
        for past in pasts[found:]:
            if not self._empty:
                overwritten.append(self._overwrite())
            computed[past] = Kept(self._empty.pop(0), self._number, self._number)
        row = Row(event.minute, event.name, len(lines), found, tuple(overwritten))
        self.log.append(row)
        self._number += 1
        return computed

    def _overwrite(self) -> str:
        free = [one for one in self._kept.values() if one.block not in self._held]
        victim = self._next_victim(free)
        past = next(past for past, one in self._kept.items() if one == victim)
        del self._kept[past]
        self._empty.append(victim.block)
        return f"{past[-1]} ({past[0]})"


def found_of_system(log: Iterable[Row]) -> list[int]:
    """How many lines of the system prompt each chat has found."""
    return [min(row.found, SYSTEM) for row in log if row.name.startswith("chat")]
