"""Lab: the check of lesson 4's first exercise: how many blocks beams hold."""

from itertools import product
from typing import Any

from minipaged.lab.check.verdict import (
    Attempt,
    Rejected,
    exercise,
    expect,
    refuse_a_float,
)
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable

COUNTED = ((8, 64, 10, 4, 16),)  # the lesson's; what is held, and the arguments
COUNTED += tuple(
    (None, *case)
    for case in product((1, 3, 4, 5, 8, 9), (1, 2, 4, 5, 9), (1, 2, 5), (1, 4))
)


@exercise
def beam_blocks(attempt: Attempt) -> None:
    """(prompt, new, beams, block_size) -> blocks held, each beam's new tokens its own.

    Compared with real tables that are forked and appended to.
    """
    for expected, *case in COUNTED:
        right = _held_by_tables(*case)
        assert expected in (None, right)
        found = attempt(*case)
        try:
            expect(attempt.call(*case), found, right)
        except Rejected as error:
            raise Rejected(f"{error}{_why_miscounted(attempt, found)}") from None
    refuse_a_float(attempt, COUNTED[0][1:])


def _held_by_tables(prompt: int, new: int, beams: int, block_size: int) -> int:
    pool = BlockPool(beams * (prompt + new), block_size)
    first = BlockTable(pool)
    first.append(prompt)
    for table in [first, *(first.fork() for _ in range(beams - 1))]:
        table.append(new)
    return pool.num_blocks - pool.num_free


def _why_miscounted(attempt: Attempt, found: Any) -> str:
    """The mistake that gives all these answers, if it is a usual one."""
    if isinstance(found, float) and not found.is_integer():
        return "; blocks are whole: a part-filled one counts, so round up"
    cases = [case for _, *case in COUNTED]
    try:
        answers = [attempt.function(*case) for case in cases]
    except Exception:
        return ""
    wrong = zip(*(_usual_counts(*case).items() for case in cases), strict=True)
    for counts in wrong:
        if answers == [count for _, count in counts]:
            return f"; {counts[0][0]}"
    return ""


def _usual_counts(prompt: int, new: int, beams: int, size: int) -> dict[str, int]:
    """What usual mistakes give, and what to say of them."""
    whole, held = prompt // size, -(-prompt // size)
    total = -(-(prompt + new) // size)
    stays = "the prompt's part-filled block"
    return {
        "nothing is shared: all beams hold the prompt's full blocks": beams * total,
        "K and V of all tokens are stored, the last one too": whole
        + beams * (-(-(prompt + new - 1) // size) - whole),
        "if the last block is just full, none follows: round up": whole
        + beams * ((prompt + new) // size + 1 - whole),
        "a part-filled last block counts, too: round up": whole
        + beams * ((prompt + new) // size - whole),
        f"{stays} is not shared any more: each beam writes into it": held
        + beams * -(-new // size),
        f"{stays} is written by all: each beam has one of its own": held
        + beams * (total - held),
        f"each beam has the end of the prompt in its first block: {stays}": whole
        + beams * -(-new // size),
        f"{stays} counts once too often: the last holder writes in place": whole
        + beams * (total - whole)
        + (whole < held),
        "no beam may write into another's block": -(-(prompt + beams * new) // size),
        "no beam may write into another's block; and round up": (prompt + beams * new)
        // size,
        "blocks are not always of 16 tokens; see block_size": prompt // 16
        + beams * (-(-(prompt + new) // 16) - prompt // 16),
    }
