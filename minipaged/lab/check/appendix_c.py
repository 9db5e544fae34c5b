"""Lab: checks of appendix C's exercises: waves of programs, and stretches of memory."""

import math
from collections.abc import Sequence
from itertools import pairwise
from numbers import Real
from random import Random
from typing import Any

from minipaged.lab.check.diagnose import (
    Rule,
    Rules,
    ask_each,
    is_list,
    refuse_a_float,
    tell,
)
from minipaged.lab.check.verdict import Attempt, Rejected, exercise, short


def _same(own: Any, right: float) -> bool:
    return isinstance(own, Real) and math.isclose(own, right, rel_tol=1e-6)


# --- 1: waves -------------------------------------------------------------------------

LAUNCHES = (  # programs, how many fit on a multiprocessor, multiprocessors
    (512, 3, 132),
    (512, 2, 132),
    (528, 4, 132),  # a wave that is full
    (529, 4, 132),  # and one program more
    (3000, 2, 132),
    (1056, 1, 132),
    (9, 2, 4),
    (25, 1, 6),
    (512, 4, 132),  # less than a wave
    (100, 3, 108),
    (1, 1, 1),
)


@exercise
def waves(attempt: Attempt) -> None:
    """(num_programs, fit, multiprocessors) -> how many waves, and how full they are."""
    answers = ask_each(attempt, LAUNCHES, _waves, same=_same_pair)
    for case, found in answers:
        _expect_two(attempt.call(*case), found, _waves(*case))
    if all(_same_pair(found[::-1], _waves(*case)) for case, found in answers):
        said = (
            f"got {short(answers[0][1][0])} first, expected {_waves(*LAUNCHES[0])[0]}"
        )
        said += "; the waves come first, then how full they are"
        raise Rejected(f"{attempt.call(*LAUNCHES[0])}: {said}")
    for number, (part, rule, flaws) in enumerate(PARTS):
        own = [(case, found[number]) for case, found in answers]
        call = lambda *case, part=part: f"{attempt.call(*case)}: {part}"  # noqa: E731
        tell(call, own, rule, flaws, same=_same)
    for case, (num_waves, _) in answers:
        if not isinstance(num_waves, int):
            said = f"got {num_waves}, a {type(num_waves).__name__}"
            said += "; a number of waves is whole: an int"
            raise Rejected(f"{attempt.call(*case)}: waves: {said}")


def _num_waves(programs: int, fit: int, multiprocessors: int) -> int:
    return math.ceil(programs / (fit * multiprocessors))


def _fullness(programs: int, fit: int, multiprocessors: int) -> float:
    num_waves = _num_waves(programs, fit, multiprocessors)
    return programs / (num_waves * fit * multiprocessors)


def _waves(*case: int) -> tuple[int, float]:
    return _num_waves(*case), _fullness(*case)


def _is_pair(found: Any) -> bool:
    return isinstance(found, tuple | list) and len(found) == 2


def _same_pair(found: Any, right: Sequence[float]) -> bool:
    return _is_pair(found) and all(map(_same, found, right))


def _expect_two(call: str, found: Any, right: tuple[int, float]) -> None:
    if not _is_pair(found):
        both = "return both: how many waves, and how full"
        said = "is a return missing?" if found is None else both
        expected = f"({right[0]}, {short(right[1])})"
        raise Rejected(f"{call}: got {short(found)}, expected {expected}; {said}")


WAVE_FLAWS: Rules = {
    "programs that are left over need a wave, too": [
        lambda n, fit, m: n // (fit * m),
        lambda n, fit, m: max(1, n // (fit * m)),
    ],
    "a wave that is less than half full is a wave, too": [
        lambda n, fit, m: round(n / (fit * m)),
        lambda n, fit, m: max(1, round(n / (fit * m))),
    ],
    "one wave too many if the last one is just full": [
        lambda n, fit, m: n // (fit * m) + 1
    ],
    "a number of waves is whole; the last one need not be full": [
        lambda n, fit, m: n / (fit * m)
    ],
    "so many fit on each multiprocessor; how many run on all of them?": [
        lambda n, fit, m: math.ceil(n / fit),
        lambda n, fit, m: n // fit,
    ],
    "more than one may fit on a multiprocessor": [
        lambda n, fit, m: math.ceil(n / m),
        lambda n, fit, m: n // m,
    ],
}
FULLNESS_FLAWS: Rules = {
    "that is the last wave alone; all waves count": [
        lambda n, fit, m: 1 + n / (fit * m) - _num_waves(n, fit, m),
        lambda n, fit, m: n % (fit * m) / (fit * m),
    ],
    "that is in percent; a share is from 0 to 1": [
        lambda *case: 100 * _fullness(*case)
    ],
    "above 1? Each wave has places of its own": [lambda n, fit, m: n / (fit * m)],
    "so many fit on each multiprocessor; how many run on all of them?": [
        lambda n, fit, m: n / (_num_waves(n, fit, m) * fit),
        lambda n, fit, m: n / fit,
    ],
    "more than one may fit on a multiprocessor": [
        lambda n, fit, m: n / (_num_waves(n, fit, m) * m)
    ],
    "that is the share that stays empty": [lambda *case: 1 - _fullness(*case)],
    "upside down: programs by places, not places by programs": [
        lambda *case: 1 / _fullness(*case)
    ],
    "empty places of the last wave count, too": [lambda *case: 1.0],
    "// rounds down to a whole number": [lambda *case: int(_fullness(*case))],
    "leave it as it is, not rounded": [
        lambda *case: round(_fullness(*case), 2),
        lambda *case: round(_fullness(*case), 3),
    ],
}
PARTS = (("waves", _num_waves, WAVE_FLAWS), ("fullness", _fullness, FULLNESS_FLAWS))

# --- 2: stretches ---------------------------------------------------------------------


def _warp(start: int, apart: int, num_threads: int = 32) -> list[int]:
    return [start + apart * thread for thread in range(num_threads)]


def _shuffled(addresses: list[int]) -> list[int]:
    return Random(0).sample(addresses, len(addresses))


def _anywhere(draw: Random) -> tuple[list[int], int]:
    """From few addresses or many, also the same ones, and stretches of some size."""
    reach = draw.choice((16, 64, 256, 1024))
    addresses = [4 * draw.randrange(reach, 2 * reach) for _ in range(32)]
    return addresses, draw.choice((32, 64, 128))


READS = {  # where 32 threads read, and the size of a stretch
    "side by side": (_warp(4096, 4), 64),
    "64 bytes apart": (_warp(4096, 64), 64),
    "128 bytes apart": (_warp(4096, 128), 64),
    "all from one address": ([4132] * 32, 64),
    "side by side from address 4140 on": (_warp(4140, 4), 64),
    "backwards": (_warp(4140, 4)[::-1], 64),
    "shuffled": (_shuffled(_warp(4096, 4)), 64),
    "8 bytes apart, shuffled": (_shuffled(_warp(4140, 8)), 64),
    "two rows, 256 bytes apart": (_warp(4096, 4, 16) + _warp(4352, 4, 16), 64),
    "from two rows in turns": (
        [row + 4 * column for column in range(16) for row in (4112, 4368)],
        64,
    ),
    "side by side, in stretches of 32": (_warp(4096, 4), 32),
    "side by side, in stretches of 128": (_warp(4100, 4), 128),
}


@exercise
def stretches(attempt: Attempt) -> None:
    """(addresses, size) -> how many stretches of memory come for a warp's loads."""
    draw = Random(0)
    reads = READS | {f"anywhere ({number})": _anywhere(draw) for number in range(30)}
    answers = ask_each(attempt, [*reads.values()], _num_stretches, same=_same)

    def call(*given: Any) -> str:
        where = next(name for name, case in reads.items() if case == given)
        return f"{where}: {attempt.call(*given)}"

    odd = {"return how many, not which": is_list}
    tell(call, answers, _num_stretches, STRETCH_FLAWS, odd=odd, same=_same)
    refuse_a_float(attempt, READS["side by side"])


def _num_stretches(addresses: Sequence[int], size: int) -> int:
    return len({address // size for address in addresses})


def _changes(addresses: Sequence[int], size: int) -> int:
    """How often a thread reads from another stretch than the one before."""
    numbers = [address // size for address in addresses]
    return sum(a != b for a, b in pairwise(numbers))


def _from(origin: Rule) -> Rule:
    """As if stretches began at one of the addresses."""
    return lambda addresses, size: len(
        {(address - origin(addresses)) // size for address in addresses}
    )


STRETCH_FLAWS: Rules = {
    "a stretch that nobody reads from does not come": [
        lambda a, size: (max(a) - min(a)) // size + 1,
        lambda a, size: max(a) // size - min(a) // size + 1,
        lambda a, size: math.ceil((max(a) - min(a) + 4) / size),
        lambda a, size: (max(a) - min(a)) // size,
    ],
    "it matters where they read, not only how much": [
        lambda a, size: 4 * len(a) // size,
        lambda a, size: 4 * len(set(a)) // size,
        lambda a, size: math.ceil(4 * len(set(a)) / size),
    ],
    "a stretch comes once, in whatever order the threads read from it": [
        lambda a, size: 1 + _changes(a, size)
    ],
    "the first stretch comes, too": [_changes],
    "threads that read from the same stretch share it": [
        lambda a, size: len(set(a)),
        lambda a, size: len(a),
    ],
    "a stretch begins at a multiple of its size, not where somebody reads": [
        _from(min),
        _from(lambda addresses: addresses[0]),
    ],
    "that is where they read inside of a stretch; in which one?": [
        lambda a, size: len({address % size for address in a})
    ],
    "a stretch ends where the next one begins: round down": [
        lambda a, size: len({round(address / size) for address in a}),
        lambda a, size: len({math.ceil(address / size) for address in a}),
    ],
    "a stretch need not have 64 bytes": [lambda a, size: _num_stretches(a, 64)],
    "that is in bytes": [lambda a, size: size * _num_stretches(a, size)],
}
