"""Lab: a studio: samples and branches of a prompt (an incident of lesson 4).

Blocks hold letters. Time is counted in steps: each sample gets a letter in each.
"""

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import NamedTuple

SIZE = 4  # letters in a block
POOL = 64  # blocks


class Blocks:
    """A pool whose blocks hold letters. Attributes: holders, texts; num_copies."""

    def __init__(self, num_blocks: int):
        self.holders, self.texts = [0] * num_blocks, [""] * num_blocks
        self.num_copies = 0

    @property
    def num_free(self) -> int:
        """Blocks without a holder."""
        return self.holders.count(0)

    def take(self, text: str = "") -> int:
        """A free block, held once, with this text."""
        block = self.holders.index(0)
        self.holders[block], self.texts[block] = 1, text
        return block

    def fork(self, table: Sequence[int]) -> list[int]:
        """Another table of the same blocks."""
        for block in table:
            self.holders[block] += 1
        return [*table]

    def free(self, table: Sequence[int]) -> None:
        """The table has ended."""
        for block in table:
            self.holders[block] -= 1


def write(pool: Blocks, table: list[int], letter: str) -> None:
    """Append a letter to a table's text; a shared block is copied first."""
    if not table or len(pool.texts[table[-1]]) == SIZE:
        table.append(pool.take())
    elif pool.holders[table[-1]] > 1:
        table[-1] = pool.take(pool.texts[table[-1]])
        pool.num_copies += 1
    pool.texts[table[-1]] += letter


Write = Callable[[Blocks, list[int], str], None]


class Ask(NamedTuple):
    """A user asks for samples of a prompt."""

    step: int
    prompt: int  # letters
    samples: tuple[int, ...]  # letters of each; all grow from one prompt
    branch: int = 0  # after so many steps, the last sample goes on as the first: a fork
    leaves: int = 0  # after so many steps, the user leaves; 0: never


class Row(NamedTuple):
    """A line of the log."""

    step: int
    what: str  # asks, branches, sample ends, leaves, ends
    request: int
    running: int  # requests, after this
    free: int  # blocks, after this


class Studio:
    """`ask`, make `step`s, `leave`; read `num_free`, `running` and the `log`."""

    def __init__(self, num_blocks: int = POOL, write: Write = write):
        """write: appends a letter to the text of a table."""
        self.pool = Blocks(num_blocks)
        self.log: list[Row] = []
        self.now = 0
        self.running: dict[int, Ask] = {}
        self._write = write
        self._tables: dict[int, dict[int, list[int]]] = {}  # of samples that go on
        self._said: dict[int, dict[int, int]] = {}
        self._num_asked = 0

    @property
    def num_free(self) -> int:
        """Free blocks."""
        return self.pool.num_free

    def ask(
        self, prompt: int, samples: Sequence[int], branch: int = 0, leaves: int = 0
    ) -> int:
        """A request for these samples, as an Ask describes it: its number."""
        number, table = self._num_asked, []
        self._num_asked += 1
        for position in range(prompt):
            self._write(self.pool, table, "prompt"[position % 6])
        tables = [table, *[self.pool.fork(table) for _ in samples[1:]]]
        self._tables[number] = dict(enumerate(tables))
        self._said[number] = dict.fromkeys(range(len(samples)), 0)
        self.running[number] = Ask(self.now, prompt, tuple(samples), branch, leaves)
        self._note("asks", number)
        return number

    def step(self) -> None:
        """Each sample gets a letter; who has enough of them, ends."""
        self.now += 1
        for number, ask in [*self.running.items()]:
            tables, said = self._tables[number], self._said[number]
            since = self.now - ask.step
            for sample in [*tables]:
                self._write(self.pool, tables[sample], "story"[self.now % 5])
                said[sample] += 1
                if said[sample] >= ask.samples[sample]:
                    self.pool.free(tables.pop(sample))
                    if tables:
                        self._note("sample ends", number)
            if since == ask.branch and len(tables) > 1:
                first, *_, last = tables
                self.pool.free(tables[last])
                tables[last], said[last] = self.pool.fork(tables[first]), said[first]
                self._note("branches", number)
            if not tables:
                self._end("ends", number)
            elif since == ask.leaves:
                self.leave(number)

    def leave(self, number: int) -> None:
        """The user of this request leaves."""
        for table in self._tables[number].values():
            self.pool.free(table)
        self._end("leaves", number)

    def _end(self, what: str, number: int) -> None:
        del self.running[number]
        self._note(what, number)

    def _note(self, what: str, number: int) -> None:
        row = Row(self.now, what, number, len(self.running), self.num_free)
        self.log.append(row)

    def day(self, asks: Iterable[Ask] | None = None) -> "Studio":
        """Let these users ask, and all end. Returns itself."""
        waiting = [*(DAY if asks is None else asks)]
        while waiting or self.running:
            while waiting and waiting[0].step <= self.now:
                _, *rest = waiting.pop(0)
                self.ask(*rest)
            self.step()
        return self


def _a_day() -> tuple[Ask, ...]:
    draw, step, asks = Random(1), 0, []
    for _ in range(10):
        for _ in range(draw.choice([1, 2, 2, 3])):
            count = draw.choice([1, 2, 3, 3])
            samples = [draw.choice([6, 9, 9, 12]) for _ in range(count)]
            prompt = draw.choice([5, 7, 8, 8, 10, 12])
            branch = draw.choice([0, 0, 4, 3]) if count > 1 else 0
            leaves = draw.choice([0, 0, 5, 8])
            asks.append(Ask(step, prompt, tuple(samples), branch, leaves))
            step += draw.randint(1, 4)
        step += 14
    return tuple(asks)


DAY = _a_day()
