"""Lab: checks of lesson 1's exercises: contiguous memory."""

from collections.abc import Sequence
from math import isclose
from random import Random

from minipaged.lab.check.verdict import (
    Attempt,
    Rejected,
    attempted,
    exercise,
    expect,
    short,
)
from minipaged.memory.contiguous import NoChunk

GIB = 2**30
REFUSED = "NoChunk"  # what an allocate() that finds no room must raise


@exercise
def max_chats(attempt: Attempt) -> None:
    """(gpu_bytes, weight_bytes, bytes_per_token, max_length) -> chats that fit."""
    kib_800 = 800 * 1024
    attempt.expect(7, 38 * GIB, 26 * GIB, kib_800, 2048)
    attempt.expect(0, 26 * GIB, 26 * GIB, kib_800, 2048)  # the weights fill it
    attempt.expect(0, 24 * GIB, 26 * GIB, kib_800, 2048)  # they do not even fit
    attempt.expect(1, 2048 + 7, 7, 1, 2048)  # exactly one
    attempt.expect(0, 2047 + 7, 7, 1, 2048)  # a slot too few
    attempt.expect(3, 100, 10, 7, 4)  # 12 slots, and 6 bytes over


@exercise
def padding_waste(attempt: Attempt) -> None:
    """(lengths) -> shares of the tokens, and of the token pairs, that are padding."""
    rng = Random(0)
    cases = [[128, 64, 32, 8], [5], [9, 9, 9], [1, 100], [1, 1, 2]]
    cases += [[rng.randint(1, 300) for _ in range(rng.randint(2, 9))] for _ in range(9)]
    for lengths in cases:
        tokens, pairs = (
            1 - sum(n**power for n in lengths) / (len(lengths) * max(lengths) ** power)
            for power in (1, 2)
        )
        found = attempt(lengths)
        call = f"{attempt.name}({short(lengths)})"
        if not isinstance(found, Sequence) or len(found) != 2:
            raise Rejected(f"{call}: got {short(found)}, expected a pair of shares")
        for what, got, right in zip(
            ("tokens", "pairs"), found, (tokens, pairs), strict=True
        ):
            if not isclose(got, right, abs_tol=1e-9):
                raise Rejected(f"{call}, share of {what}: got {got}, expected {right}")


@exercise
def first_fit(attempt: Attempt) -> None:
    """A class with allocate(slots) -> start and free(start), at the lowest address."""
    _exact_fit_and_merging(attempt)
    for seed in range(20):
        _random_walk(attempt, Random(seed))


def _exact_fit_and_merging(attempt: Attempt) -> None:
    memory = attempt(12)
    starts = [_allocate(memory, 4) for _ in range(3)]
    expect("three pieces of 4 from 12 slots, where they start", starts, [0, 4, 8])
    expect("a fourth piece, with no slot free", _allocate(memory, 1), REFUSED)
    for freed in ([0, 4], [4, 0], [8, 4]):
        for start in freed:
            _free(memory, start)
        story = f"12 slots full, then the pieces at {freed} freed; a piece of 8 starts"
        expect(story, _allocate(memory, 8), min(freed))
        _free(memory, min(freed))
        again = [_allocate(memory, 4) for _ in range(2)]
        expect(f"{story}, is freed, and two of 4 start", again, sorted(freed))
    for start, what in ((0, "freed twice"), (3, "never handed out")):
        memory = attempt(12)
        _allocate(memory, 4)
        if what == "freed twice":
            _free(memory, start)
        try:
            memory.free(start)
        except ValueError:
            continue
        raise Rejected(f"free({start}), {what}, raised no ValueError")


def _random_walk(attempt: Attempt, rng: Random) -> None:
    """Compare with the plainest memory there is: one flag per slot."""
    num_slots = rng.randint(5, 40)
    memory, used, held = attempt(num_slots), [False] * num_slots, {}
    for _ in range(60):
        attempt.num_cases += 1
        picture = "".join(".#"[flag] for flag in used)
        if held and rng.random() < 0.45:
            start = rng.choice(sorted(held))
            size = held.pop(start)
            _free(memory, start)
            used[start : start + size] = [False] * size
            continue
        size = rng.randint(1, num_slots // 2)
        fits = (
            at for at in range(num_slots - size + 1) if not any(used[at : at + size])
        )
        start = next(fits, REFUSED)
        story = f"memory {picture} (# is used); where a piece of {size} starts"
        expect(story, _allocate(memory, size), start)
        if start != REFUSED:
            held[start] = size
            used[start : start + size] = [True] * size


def _allocate(memory: object, slots: int) -> int | str:
    """Where the piece starts, or REFUSED."""
    try:
        return attempted(f"allocate({slots})", memory.allocate, slots)
    except Rejected as error:
        if isinstance(error.__cause__, NoChunk):
            return REFUSED
        raise


def _free(memory: object, start: int) -> None:
    attempted(f"free({start})", memory.free, start)
