"""Lab: the check of the ten-minute start: when is a block copied before a write?"""

from collections.abc import Callable
from itertools import product
from typing import Any

from minipaged.lab.check.diagnose import Rule, compare, want
from minipaged.lab.check.verdict import Attempt, exercise
from minipaged.lab.tour.toys import WordPool, WordTable, speak


@exercise
def must_copy(attempt: Attempt) -> Callable[[], str]:
    """(num_tokens, block_size, num_holders) -> is the last block copied first?

    For one more token; num_holders are those of the sequence's last block.
    """
    first = [(19, 4, 2), (19, 4, 1), (20, 4, 2)]  # the notebook's chats, and a full one
    cases = [*first, *product(range(1, 10), (1, 3, 4), (1, 2, 3))]
    rule = _is_written_by_one_of_several
    compare(attempt, cases, rule, MISTAKES, read=_yes_or_no, same=_are_alike)
    return lambda: _two_texts(attempt.function)


def _is_written_by_one_of_several(num_tokens: int, size: int, holders: int) -> bool:
    return num_tokens % size != 0 and holders > 1


def _yes_or_no(found: Any) -> bool | int:
    """As it was returned, so that the verdict names a 1 as a 1."""
    want("True or False", found, isinstance(found, bool | int))
    return found


def _are_alike(one: bool | int, other: bool | int) -> bool:
    return bool(one) == bool(other)


MISTAKES: dict[str, Rule | list[Rule]] = {
    "a full block is not written: the next token opens a new block": (
        lambda n, size, holders: holders > 1
    ),
    "the only holder harms nobody, so it writes in place": [
        lambda n, size, holders: n % size != 0,
        lambda n, size, holders: True,
    ],
    "the last block is part-filled, so the token goes into a shared block": [
        lambda n, size, holders: n % size == 0 and holders > 1,
        lambda n, size, holders: False,
    ],
    "one other holder is enough: it reads this block, too": (
        lambda n, size, holders: n % size != 0 and holders > 2
    ),
    "the sequence may have several blocks: what remains of num_tokens counts": (
        lambda n, size, holders: n < size and holders > 1
    ),
    "that says where to write in place": (
        lambda *case: not _is_written_by_one_of_several(*case)
    ),
}


def _two_texts(rule: Rule) -> str:
    """What two sequences read that begin alike, if the rule decides about copies."""

    class Table(WordTable):
        def append(self) -> None:
            """Copy if the rule says so, then make room."""
            pool, shared = self.pool, self.block_ids[-1] if self.block_ids else None
            if shared is not None and rule(
                self.num_tokens, pool.block_size, pool.refcount(shared)
            ):
                self.block_ids[-1] = pool.allocate()
                pool.words[self.block_ids[-1]] = list(pool.words[shared])
                pool.release(shared)
            super().append()

    pool = WordPool(num_blocks=8, block_size=4)
    d = Table(pool)
    speak(d, "Mia has a horse. Ben has a")
    e = Table(pool, map(pool.share, d.block_ids), d.num_tokens)
    speak(d, "dog.")
    speak(e, "cat.")
    read = (" ".join(table.read()[-4:]) for table in (d, e))
    return "By your rule, D reads: {} E reads: {}".format(*read)
