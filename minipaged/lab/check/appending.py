"""Lab: the check of lesson 4's second exercise: room for tokens, with copy-on-write."""

from itertools import product
from typing import Any, NamedTuple

from minipaged.errors import OutOfBlocks
from minipaged.lab.check.diagnose import telling, want, why
from minipaged.lab.check.verdict import Attempt, Rejected, exercise, many, short
from minipaged.memory.block_pool import BlockPool

JUST_FULL = "a block that is just full needs no next one yet"


class _Case(NamedTuple):
    """A table's tokens, how many more; holders of its last block, and of the others."""

    num_tokens: int
    n: int
    others: int
    last: int
    size: int

    @property
    def must_copy(self) -> bool:
        """Would a block be written that others hold, too?"""
        return self.n > 0 and self.num_tokens % self.size > 0 and self.last > 1

    @property
    def new_blocks(self) -> int:
        """How many blocks the table grows by."""
        size = self.size
        return -(-(self.num_tokens + self.n) // size) - -(-self.num_tokens // size)

    @property
    def wanted(self) -> int:
        """How many free blocks it takes, one for a copy included."""
        return self.new_blocks + self.must_copy


@exercise
def append(attempt: Attempt) -> None:
    """(pool, block_ids, num_tokens, n): room for n tokens more; returns the copies."""
    # Holders of the earlier blocks, and of the last one: not always the same number.
    holders = (1, 1), (2, 2), (2, 1), (1, 2), (3, 3)
    # n = 0 last: then what it is refused for is no other mistake. What the error says
    # is judged when nothing else is wrong.
    misleading = []
    for size, n, num_tokens, counts in product(
        (4, 1), (1, 2, 4, 5, 0), range(7), holders
    ):
        if num_tokens or counts == holders[0]:
            case = _Case(num_tokens, n, *counts, size)
            for num_free in (case.wanted, case.wanted + 2):
                _Asked(attempt, case, num_free).appends()
            for num_free in {0, case.wanted - 1} if case.wanted else ():
                misleading.append(_Asked(attempt, case, num_free).refuses())
    for said in filter(None, misleading):
        raise Rejected(said)


class _Asked:
    """One case: a pool, a table's blocks in it, and what is asked for, in words."""

    def __init__(self, attempt: Attempt, case: _Case, num_free: int):
        self.attempt, self.case, self.num_free = attempt, case, num_free
        held = -(-case.num_tokens // case.size)
        self.pool = BlockPool(held + num_free + 1, case.size)
        self.pool.allocate()  # somebody else's
        # Not in ascending order, as in a pool that has been used for a while.
        self.block_ids = [self.pool.allocate() for _ in range(held)][::-1]
        for index, block_id in enumerate(self.block_ids):
            for _ in range((case.last if index == held - 1 else case.others) - 1):
                self.pool.share(block_id)
        self.before = list(self.block_ids)
        self.holders = self.count()
        self.story = self.tell()

    def count(self) -> list[int]:
        """How many hold each of the blocks that the table had."""
        return [self.pool.refcount(block_id) for block_id in self.before]

    def tell(self) -> str:
        """Which table, in which pool, and what is asked for."""
        held = f"an empty table, blocks of {self.case.size}"
        if self.before:
            holders = "holder" if self.holders == [1] else "holders"
            held = f"{many(self.case.num_tokens, 'token')} in blocks {self.before} of "
            held += f"{self.case.size} with {self.holders} {holders}"
        return f"{held}, {many(self.num_free, 'block')} free; {self.case.n} more"

    def ask(self) -> tuple[Any, Any]:
        """What the attempt returns, or its OutOfBlocks."""
        arguments = self.pool, self.block_ids, self.case.num_tokens, self.case.n
        return self.attempt.or_refused(OutOfBlocks, *arguments)

    def why_no_copy(self) -> str:
        """Why the last block needs none."""
        last = self.before[-1] if self.before else None
        if self.case.n == 0:
            return "n = 0 writes nothing"
        if self.case.num_tokens % self.case.size == 0:
            return f"block {last} is full: a full block is never copied"
        return f"block {last} has no other holder: it is written in place"

    def appends(self) -> None:
        """It fits: the table grows, and a copy is made if one is needed."""
        copies, refused = self.ask()
        with telling(self.story):
            if refused:
                raise Rejected(f"refused, but it fits: {self.why_it_fits()}")
            if isinstance(copies, tuple) and len(copies) == 2:
                raise Rejected(
                    f"returned {copies}, expected a list of pairs: [{copies}]"
                )
            want("a list of pairs", copies, isinstance(copies, list))
            self.table_is_right(copies)
            self.pairs_are_right(copies)
            self.holders_are_right()

    def why_it_fits(self) -> str:
        """Why so many blocks are not needed."""
        case, needed = self.case, ""
        if case.wanted:
            needed = f"{many(case.wanted, 'block')} needed, {self.num_free} free; "
        room = -case.num_tokens % case.size
        is_just_full = (case.num_tokens + case.n) % case.size == 0
        if case.n and room:
            where = self.where_they_go(room)
            return f"{needed}{where}{f'; {JUST_FULL}' * is_just_full}"
        if case.n and is_just_full and not (self.before and case.last > 1):
            return f"{needed}{JUST_FULL}"
        return needed + self.why_no_copy() if self.before else needed.rstrip("; ")

    def where_they_go(self, room: int) -> str:
        """How many of the new tokens find room in the part-filled last block."""
        case, last = self.case, self.before[-1]
        goes = "goes" if case.n == 1 else "go"
        fit = f"{case.n} more {goes}" if case.n <= room else f"{room} of {case.n} go"
        slots = many(room, "empty slot")
        if case.must_copy:
            return (
                f"only block {last} must be copied: {fit} into the copy, with {slots}"
            )
        into = f"{fit} into block {last}, which has {slots} and no other holder"
        return f"{into}: {'no new block, ' * (case.n <= room)}no copy"

    def table_is_right(self, copies: list[Any]) -> None:
        """As many blocks as its tokens fill; those that stay are the same."""
        case, found = self.case, len(self.block_ids)
        right = len(self.before) + case.new_blocks
        if found != right:
            is_just_full = (case.num_tokens + case.n) % case.size == 0
            mistakes = {
                JUST_FULL: found > right and is_just_full,
                "append the new blocks to the list itself": (
                    self.pool.num_free < self.num_free - case.must_copy
                ),
                f"is there room for all {case.n} tokens?": found < right,
            }
            said = f"the table has {many(found, 'block')}, expected {right}"
            raise Rejected(said + why(found, mistakes))
        last, now = len(self.before) - 1, self.block_ids
        for index, (old, new) in enumerate(zip(self.before, now, strict=False)):
            if index < last and new != old:
                said = f"the table now is {now}; the blocks before the last one"
                raise Rejected(f"{said} must stay")
            if index == last and (new != old) != case.must_copy:
                said = f"the table is now {now}, but {self.why_no_copy()}"
                if case.must_copy:
                    said = f"the table now is {now}: block {old} is written, though "
                    said += "others hold it too"
                    said += "; let it point to the copy" * bool(copies)
                raise Rejected(said)

    def pairs_are_right(self, copies: list[Any]) -> None:
        """What the cache is told to copy."""
        pairs = []
        if self.case.must_copy:
            pairs = [(self.before[-1], self.block_ids[len(self.before) - 1])]
        try:
            found = [tuple(pair) for pair in copies]
        except TypeError:
            found = copies
        if found != pairs:
            mistakes = {
                "first the source, then the copy": found == [p[::-1] for p in pairs],
                "else nobody copies the content": not found,
            }
            said = f"returned {short(copies)}, expected {pairs}"
            raise Rejected(said + why(found, mistakes))

    def holders_are_right(self) -> None:
        """Nobody else holds what is written; of all others, nothing has changed."""
        case = self.case
        first = case.num_tokens // case.size
        for block_id in self.block_ids[first:] if case.n else ():
            if (found := self.pool.refcount(block_id)) != 1:
                said = "expected 1: a block that is written has no other holder"
                raise Rejected(f"block {block_id} has {many(found, 'holder')}, {said}")
        holders = zip(self.before, self.holders, self.count(), strict=True)
        for block_id, old, new in holders:
            right = old - (case.must_copy and block_id == self.before[-1])
            if new != right:
                said = f"block {block_id} has {many(new, 'holder')}, expected {right}"
                said += "; release the block that was copied" * (old == new)
                raise Rejected(said)
        found, left = self.pool.num_free, self.num_free - case.wanted
        if found != left:
            raise Rejected(f"free blocks afterwards: got {found}, expected {left}")

    def refuses(self) -> str:
        """It does not fit, and nothing may change; what the error says wrongly."""
        wanted, copy = self.case.wanted, ", one of them for the copy"
        needed = f"{wanted} needed{copy * self.case.must_copy}"
        _, refused = self.ask()
        with telling(self.story):
            if not refused:
                raise Rejected(f"raised no OutOfBlocks; {needed}")
            holders, free = self.count(), many(self.pool.num_free, "block")
            changes = {
                f"the table now is {self.block_ids}, not {self.before}": (
                    self.block_ids != self.before
                ),
                f"its blocks now have {holders} holders, not {self.holders}": (
                    holders != self.holders
                ),
                f"{free} are free now, not {self.num_free}": (
                    self.pool.num_free != self.num_free
                ),
            }
            for changed, is_so in changes.items():
                if is_so:
                    advice = "count first, then take (a copy needs a block, too)"
                    raise Rejected(f"rightly refused, but {changed}; {advice}")
        if refused.wanted == wanted:
            return ""
        said = f"the error says {refused.wanted} wanted; {needed}"
        return f"{self.story}: rightly refused, but {said}"
