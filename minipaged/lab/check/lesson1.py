"""Lab: checks of lesson 1's exercises: contiguous memory."""

from collections.abc import Callable
from random import Random
from typing import Any

from minipaged.lab.check.verdict import (
    Attempt,
    Rejected,
    attempted,
    exercise,
    expect,
    short,
)
from minipaged.lab.measure.traces import sharegpt_like
from minipaged.memory.contiguous import NoPiece, Piece, reserve_oracle
from minipaged.memory.waste import simulate

REFUSED = "NoPiece raised"  # what an allocate() that finds no room must do


@exercise
def max_chats(attempt: Attempt) -> None:
    """(gpu_bytes, weight_bytes, bytes_per_token, max_length) -> chats that fit."""
    _expect_chats(attempt, 7, 38_000, 26_000, 8, 200)
    _expect_chats(attempt, 0, 26_000, 26_000, 8, 200)  # the weights fill it
    _expect_chats(attempt, 0, 24_000, 26_000, 8, 200)  # they do not even fit
    _expect_chats(attempt, 1, 2048 + 7, 7, 1, 2048)  # exactly one
    _expect_chats(attempt, 0, 2047 + 7, 7, 1, 2048)  # a slot too few
    _expect_chats(attempt, 3, 100, 10, 7, 4)  # 12 slots, and 6 bytes over
    _expect_chats(attempt, 0, 100, 10, 7, 13)  # those 6 bytes make no 13th
    _expect_chats(attempt, 7, 38 * 2**30, 26 * 2**30, 800 * 1024, 2048)  # OPT-13B


def _expect_chats(attempt: Attempt, expected: int, *case: int) -> None:
    """Raise Rejected unless that many chats fit, with the likeliest cause."""
    gpu_bytes, weight_bytes, bytes_per_token, max_length = case
    found, free = attempt(*case), max(0, gpu_bytes - weight_bytes)
    try:
        expect(attempt.call(*case), found, expected)
    except Rejected as error:
        if isinstance(found, int | float) and found < 0:
            raise Rejected(f"{error}; no room is 0 chats, not fewer") from error
        if found == gpu_bytes // bytes_per_token // max_length:
            raise Rejected(f"{error}; the weights take room, too") from error
        if found and found == free // (2 * bytes_per_token) // max_length:
            message = f"{error}; bytes_per_token counts K and V already"
            raise Rejected(message) from error
        if found == free // bytes_per_token:
            raise Rejected(f"{error}; that is slots, not chats") from error
        if isinstance(found, int | float) and abs(found - expected) <= 1:
            raise Rejected(f"{error}; whole chats: round down") from error
        raise


@exercise
def first_fit(attempt: Attempt) -> Callable[[], str]:
    """A class with allocate(slots) -> Piece, at the lowest address, and free(piece)."""
    _exact_fit_and_merging(attempt)
    for seed in range(20):
        _random_walk(attempt, Random(seed))

    def put_to_use() -> str:
        chats = sharegpt_like(500)
        before = simulate(chats, reserve_oracle, 15_728, 2048)
        report = simulate(chats, reserve_oracle, 15_728, 2048, attempt.function)
        return (
            f"Orca (Oracle), 500 chats, with your allocator: {report.token_states:.0%} "
            f"of the memory holds tokens, {report.external:.0%} is external (with the "
            f"buddy allocator: {before.token_states:.0%} and {before.external:.0%})."
        )

    return put_to_use


def _exact_fit_and_merging(attempt: Attempt) -> None:
    for freed in ([0, 4], [4, 0], [8, 4]):
        memory = attempt(12)
        pieces = [_allocate(memory, 4) for _ in range(3)]
        at = [getattr(piece, "start", piece) for piece in pieces]
        expect("three pieces of 4 from 12 slots, where they start", at, [0, 4, 8])
        try:
            found = _start(memory, 1)
        except Rejected as error:
            if error.__cause__ is None:  # something was returned
                raise
            raise Rejected(f"{error}; no slot is free: raise NoPiece") from error
        expect("a fourth piece, with no slot free", found, REFUSED)
        for start in freed:
            _free(memory, pieces[start // 4])
        story = f"12 slots full, then the pieces at {freed} freed; a piece of 8 starts"
        found = _start(memory, 8)
        if found == REFUSED:
            story = f"{story} (free neighbours become one)"
        expect(story, found, min(freed))
    for what in ("freed twice", "never handed out", "part of one that is held"):
        memory = attempt(12)
        piece = _allocate(memory, 4)
        if what == "freed twice":
            _free(memory, piece)
        else:
            piece = Piece(3, 4) if what == "never handed out" else Piece(0, 3)
        try:
            memory.free(piece)
        except ValueError:
            continue
        except Exception as error:
            name = type(error).__name__
            message = f"free({piece}), {what}, raised {name}, expected a ValueError"
            raise Rejected(message) from error
        raise Rejected(f"free({piece}), {what}, raised nothing, expected a ValueError")


def _random_walk(attempt: Attempt, rng: Random) -> None:
    """Compare with the plainest memory there is: one flag per slot."""
    num_slots = rng.randint(5, 40)
    memory, used, held = attempt(num_slots), [False] * num_slots, []
    for _ in range(60):
        attempt.num_cases += 1
        picture = "".join(".#"[flag] for flag in used)
        if held and rng.random() < 0.45:
            piece = held.pop(rng.randrange(len(held)))
            _free(memory, piece)
            used[piece.start : piece.start + piece.size] = [False] * piece.size
            continue
        size = rng.randint(1, num_slots // 2)
        fits = (
            at for at in range(num_slots - size + 1) if not any(used[at : at + size])
        )
        start = next(fits, REFUSED)
        story = f"memory {picture} (# is used); a piece of {size}"
        wanted = REFUSED if start == REFUSED else Piece(start, size)
        expect(story, found := _allocate(memory, size), wanted)
        if start != REFUSED:
            held.append(found)
            used[start : start + size] = [True] * size


def _allocate(memory: Any, slots: int) -> Any:
    """What is handed out, or REFUSED."""
    try:
        piece = attempted(f"allocate({slots})", memory.allocate, slots)
    except Rejected as error:
        if isinstance(error.__cause__, NoPiece):
            return REFUSED
        raise
    if not isinstance(piece, Piece):
        message = f"allocate({slots}) returned {short(piece)}, which is no Piece"
        raise Rejected(f"{message}; without room it raises NoPiece")
    return piece


def _start(memory: Any, slots: int) -> Any:
    piece = _allocate(memory, slots)
    return getattr(piece, "start", piece)


def _free(memory: Any, piece: Piece) -> None:
    try:
        attempted(f"free({piece})", memory.free, piece)
    except NotImplementedError:
        raise Rejected(f"free({piece}) is not written yet") from None
