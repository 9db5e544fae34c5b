"""Lab: checks of appendix B's exercises: who must go, and a group swapped out."""

from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import Any

from minipaged.errors import OutOfBlocks
from minipaged.lab.check.diagnose import compare, is_list, telling, want
from minipaged.lab.check.verdict import Attempt, Rejected, exercise, many, short
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable

# --- 1: who must go -------------------------------------------------------------------


@exercise
def num_preempted(attempt: Attempt) -> None:
    """(held, wanted, free) -> how many of the latest must go."""
    sizes = [(3, 4, 4), (9, 2), (5,), (2, 2, 2, 2), (1, 6, 1)]
    cases = [
        (list(held), list(wanted), free)
        for held in sizes
        for wanted in product((0, 1, 2), repeat=len(held))
        for free in (0, 1, 3)
    ]
    compare(
        attempt, cases, _goes, _RULES, odd={"return how many go, not which": is_list}
    )


def _goes(
    held: Sequence[int],
    wanted: Sequence[int],
    free: int,
    *,
    frees: bool = True,
    drops_wish: bool = True,
    spares_first: bool = True,
    earliest: bool = False,
) -> int:
    """How many go, by the right rule or by a wrong one."""
    held, wanted, count = list(held), list(wanted), 0
    total = sum(wanted)
    while held and total > free:
        if spares_first and len(held) == 1:
            break
        at = 0 if earliest else -1
        blocks, wish = held.pop(at), wanted.pop(at)
        free += blocks * frees
        total -= wish * drops_wish
        count += 1
    return count


def _with_all_of_them(held: Sequence[int], wanted: Sequence[int], free: int) -> int:
    """Takes the last 0 for all: `held[-0:]`."""
    count = 0
    while count < len(held) - 1:
        if sum(wanted[: len(wanted) - count]) <= free + sum(held[-count:]):
            break
        count += 1
    return count


_RULES = {
    "the blocks of those who go are free for the others": partial(_goes, frees=False),
    "who goes wants nothing any more": partial(_goes, drops_wish=False),
    "the earliest always stays, so that somebody goes on": (
        partial(_goes, spares_first=False)
    ),
    "the latest go, which stand last; not the earliest": partial(_goes, earliest=True),
    "it fits if as many are wanted as are free": lambda h, w, f: _goes(h, w, f - 1),
    "only as many go as must": lambda h, w, f: (len(h) - 1) * (sum(w) > f),
    "one may not be enough": lambda h, w, f: min(1, _goes(h, w, f)),
    "more is wanted than is free: somebody must go (or do you slice? held[-n:] is the "
    "whole list if n is 0)": _with_all_of_them,
    "that is the number of blocks that are missing": lambda h, w, f: max(0, sum(w) - f),
}

# --- 2: a group is swapped out --------------------------------------------------------

# Block ids by table, of a group; the same number is the same block.
_GROUPS = (
    ([0, 1, 2],),
    ([0, 1], [0, 1]),
    ([0, 1, 2], [0, 1, 3]),
    ([0], [1, 2]),
    ([3, 1], [3, 0], [3, 1, 2]),
    ([],),
)


@exercise
def swap_out(attempt: Attempt) -> None:
    """(tables, rows, store) -> places: a group leaves the pool, shared blocks once."""
    for group, num_other, spare in product(_GROUPS, (0, 2), (4, 0)):
        _Leaving(attempt, group, num_other, spare).goes()
    for group in _GROUPS[:5]:
        wanted = len({block for own in group for block in own})
        _Leaving(attempt, group, 1, 0).refuses(wanted)


class _Leaving:
    """One case: a group's tables in a pool, and rows to store blocks in."""

    def __init__(
        self, attempt: Attempt, group: Sequence[list[int]], num_other: int, spare: int
    ):
        self.attempt, self.group, self.stored = attempt, group, []
        self.pool, size = BlockPool(16, 4), 4
        self.pool.allocate()  # somebody else's
        ids: dict[int, int] = {}
        self.tables = []
        for own in group:
            held = []
            for number in own:
                if number in ids:
                    held.append(self.pool.share(ids[number]))
                else:
                    held.append(ids.setdefault(number, self.pool.allocate()))
            self.tables.append(BlockTable(self.pool, held, size * len(held)))
        self.held = [list(table.block_ids) for table in self.tables]
        self.num_blocks = len(ids)
        self.outside = num_other and bool(ids)  # a holder who is no part of the group
        if self.outside:
            self.pool.share(next(iter(ids.values())))
        self.rows = BlockPool(self.num_blocks + spare + 2, 4)
        for _ in range(2):  # another group's
            self.rows.allocate()
        self.story = f"a group with the blocks {self.held}, {self.num_blocks} in all"

    def store(self, block_id: int, row: int) -> None:
        """The reader's K and V move."""
        self.stored.append((block_id, row))
        if self.pool.refcount(block_id) == 0:
            said = "is stored when nobody holds it any more; store first, then free"
            raise Rejected(f"{self.story}: block {block_id} {said}")
        if self.rows.refcount(row) == 0:
            said = f"goes to row {row}, which is free; rows.allocate() gives a row"
            raise Rejected(f"{self.story}: block {block_id} {said}")

    def goes(self) -> None:
        """There are rows enough."""
        free = self.rows.num_free
        places, refused = self.ask()
        with telling(self.story):
            if refused:
                said = f"refused, but {many(self.num_blocks, 'row')} are enough"
                said += f"; {free} are free; a shared block needs one row"
                raise Rejected(said)
            self.stored_once()
            self.places_are_right(places)
            if (taken := free - self.rows.num_free) != self.num_blocks:
                raise Rejected(f"rows taken: got {taken}, expected {self.num_blocks}")
            for table in self.tables:
                if ids := table.block_ids:
                    raise Rejected(f"a table still has the blocks {ids}; free it")
            right = self.pool.num_blocks - 1 - bool(self.outside)
            if (now := self.pool.num_free) != right:
                said = f"{many(now, 'block')} free afterwards, expected {right}"
                raise Rejected(said)

    def ask(self) -> tuple[Any, Any]:
        """What the attempt returns, or its OutOfBlocks."""
        arguments = self.tables, self.rows, self.store
        return self.attempt.or_refused(OutOfBlocks, *arguments)

    def stored_once(self) -> None:
        """Each block of the group, and none twice."""
        blocks = [block for block, _ in self.stored]
        twice = next((block for block in blocks if blocks.count(block) > 1), None)
        if twice is not None:
            raise Rejected(
                f"block {twice} is stored more than once; it is shared: once"
            )
        missing = {block for own in self.held for block in own} - set(blocks)
        if missing:
            raise Rejected(f"block {min(missing)} is never stored")

    def places_are_right(self, places: Any) -> None:
        """The rows of each table, in the order of its blocks."""
        want("a list of rows for each table", places, places is not None)
        row_of = dict(self.stored)
        right = [[row_of[block] for block in own] for own in self.held]
        try:
            found = [list(own) for own in places]
        except TypeError:
            found = places
        if found != right:
            said = f"returned {short(places)}, expected {short(right)}"
            said += "; the rows of each table, in the order of its blocks"
            raise Rejected(said)

    def refuses(self, wanted: int) -> None:
        """A row too few."""
        self.rows.allocate()
        free = self.rows.num_free
        _, refused = self.ask()
        with telling(self.story):
            if not refused:
                raise Rejected(f"{free} rows free, and no OutOfBlocks was raised")
            if [table.block_ids for table in self.tables] != self.held:
                raise Rejected("rightly refused, but tables were freed; count first")
            if self.rows.num_free != free:
                raise Rejected("rightly refused, but rows were taken; count first")
            if (said := refused.wanted) != wanted:
                said = f"the error says {said} wanted, not {wanted}"
                raise Rejected(f"rightly refused, but {said}")
