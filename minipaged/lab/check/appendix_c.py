"""Lab: checks of appendix C's exercises: waves of programs, and stretches of memory."""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from numbers import Real
from random import Random
from typing import Any

from minipaged.lab.check.verdict import (
    Attempt,
    Rejected,
    exercise,
    expect,
    refuse_a_float,
    short,
)

Rule = Callable[..., Any]
Flaws = Mapping[str, Sequence[Rule]]  # what is told of rules that are wrong alike


def _answers(attempt: Attempt, cases: Sequence[Any], is_right: Rule) -> list[Any]:
    """All answers; or those before an error, if one of them is wrong already."""
    found = []
    for case in cases:
        try:
            found.append(attempt(*case))
        except Rejected:
            if all(map(is_right, found, cases)):
                raise
            break
    return found


def _expect_each(
    calls: Sequence[str],
    found: Sequence[Any],
    cases: Sequence[Any],
    rule: Rule,
    flaws: Flaws,
) -> None:
    """Raise Rejected at the first wrong answer; all of them together tell the flaw."""
    for call, own, case in zip(calls, found, cases, strict=False):
        if not _same(own, right := rule(*case)):
            told = (
                f"; {words}"
                for words, rules in flaws.items()
                if any(_agrees(flaw, found, cases) for flaw in rules)
            )
            try:
                expect(call, own, right)
            except Rejected as error:
                raise Rejected(f"{error}{next(told, '')}") from None


def _agrees(rule: Rule, found: Sequence[Any], cases: Sequence[Any]) -> bool:
    return all(_same(own, rule(*case)) for own, case in zip(found, cases, strict=False))


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
    found = _answers(attempt, LAUNCHES, _is_right)
    calls = [attempt.call(*case) for case in LAUNCHES]
    for call, own, case in zip(calls, found, LAUNCHES, strict=False):
        _expect_two(call, own, case)
    _expect_order(calls[0], found)
    for number, (part, rule, flaws) in enumerate(PARTS):
        own = [answer[number] for answer in found]
        _expect_each([f"{call}: {part}" for call in calls], own, LAUNCHES, rule, flaws)
    for call, (num_waves, _) in zip(calls, found, strict=True):
        if not isinstance(num_waves, int):
            said = f"got {num_waves}, a {type(num_waves).__name__}"
            raise Rejected(f"{call}: waves: {said}; a number of waves is whole: an int")


def _num_waves(programs: int, fit: int, multiprocessors: int) -> int:
    return math.ceil(programs / (fit * multiprocessors))


def _fullness(programs: int, fit: int, multiprocessors: int) -> float:
    num_waves = _num_waves(programs, fit, multiprocessors)
    return programs / (num_waves * fit * multiprocessors)


def _is_right(answer: Any, case: Sequence[int]) -> bool:
    if not isinstance(answer, tuple | list) or len(answer) != 2:
        return False
    return _same(answer[0], _num_waves(*case)) and _same(answer[1], _fullness(*case))


def _expect_two(call: str, answer: Any, case: Sequence[int]) -> None:
    right = f"({_num_waves(*case)}, {short(_fullness(*case))})"
    if answer is None:
        expect(call, None, right)
    if not isinstance(answer, tuple | list) or len(answer) != 2:
        said = f"got {short(answer)}, expected {right}"
        raise Rejected(f"{call}: {said}; return both: how many waves, and how full")


def _expect_order(call: str, found: Sequence[Sequence[Any]]) -> None:
    if all(
        _is_right(own[::-1], case) for own, case in zip(found, LAUNCHES, strict=False)
    ):
        said = f"got {short(found[0][0])} first, expected {_num_waves(*LAUNCHES[0])}"
        raise Rejected(f"{call}: {said}; the waves come first, then how full they are")


WAVE_FLAWS: Flaws = {
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
FULLNESS_FLAWS: Flaws = {
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
PARTS = (
    ("waves", _num_waves, WAVE_FLAWS),
    ("fullness", _fullness, FULLNESS_FLAWS),
)

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
    drawn = {f"anywhere ({number})": _anywhere(draw) for number in range(30)}
    cases = [*READS.values(), *drawn.values()]
    calls = [
        f"{where}: {attempt.call(*case)}" for where, case in (READS | drawn).items()
    ]
    found = _answers(
        attempt, cases, lambda own, case: _same(own, _num_stretches(*case))
    )
    if isinstance(found[0], list | tuple | set):
        said = f"got {short(found[0])}, expected {_num_stretches(*cases[0])}"
        raise Rejected(f"{calls[0]}: {said}; return how many, not which")
    _expect_each(calls, found, cases, _num_stretches, STRETCH_FLAWS)
    refuse_a_float(attempt, cases[0])


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


STRETCH_FLAWS: Flaws = {
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
