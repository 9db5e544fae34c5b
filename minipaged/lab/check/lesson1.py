"""Lab: checks of lesson 1's exercises: contiguous memory."""

from collections.abc import Callable
from random import Random
from typing import Any

from minipaged.lab.check.diagnose import diagnose
from minipaged.lab.check.verdict import (
    Attempt,
    Hints,
    Rejected,
    attempted,
    exercise,
    short,
)
from minipaged.lab.measure.traces import sharegpt_like
from minipaged.memory.contiguous import NoPiece, Piece, reserve_oracle
from minipaged.memory.waste import simulate

REFUSED = "NoPiece raised"  # what an allocate() that finds no room must do


@exercise
def four_kinds(attempt: Attempt) -> None:
    """(prompt, answer, steps, reservation, piece) -> slots of each kind."""
    _expect_kinds(attempt, 21, 45, 5, 72, 128)  # the lesson's A, four steps later
    _expect_kinds(attempt, 7, 2, 1, 72, 128)  # B, whose answer is complete
    _expect_kinds(attempt, 13, 14, 0, 72, 128)  # C, just after its prefill
    _expect_kinds(attempt, 13, 1, 0, 16, 16)  # an answer of one token takes no slot
    _expect_kinds(attempt, 21, 45, 44, 65, 65)  # nothing is lost: the end of Oracle
    _expect_kinds(attempt, 1, 48, 20, 2048, 2048)
    rng = Random(0)
    for _ in range(50):
        prompt, answer = rng.randint(1, 99), rng.randint(1, 99)
        reservation = prompt + answer - 1 + rng.choice([0, 1, rng.randint(0, 99)])
        piece = reservation + rng.choice([0, 1, rng.randint(0, 99)])
        steps = rng.randrange(answer)
        _expect_kinds(attempt, prompt, answer, steps, reservation, piece)


def _expect_kinds(attempt: Attempt, *case: int) -> None:
    """Raise Rejected unless those are the four numbers, with the likeliest cause."""
    prompt, answer, steps, reservation, piece = case
    held, at_end, call = prompt + steps, prompt + answer - 1, attempt.call(*case)
    expected = [held, at_end - held, reservation - at_end, piece - reservation]
    found = attempt(*case)
    if isinstance(found, tuple):
        found = list(found)
    if found == expected and any(type(number) is not int for number in found):
        raise Rejected(f"{call}: got {found}; slots are counted in ints")
    if not isinstance(found, list) or len(found) != 4:
        diagnose(call, found, expected)
    no_slot = "the last token of an answer needs no slot"
    mistakes = {
        "token states": {
            "those will be held at the end; how many are now?": prompt + answer,
            "the last token has been chosen, but not computed yet": held + 1,
            "each decode step stores a token": prompt,
        },
        "reserved": {
            "slots that are filled wait no longer": (
                lambda found: found in (answer, at_end - prompt)
            ),
            "some of these are for after the answer's end": (
                lambda found: found in (reservation - held, piece - held)
            ),
            no_slot: at_end - held + 1,
        },
        "internal": {
            "some of these wait for tokens of this answer": reservation - held,
            "what the allocator adds is in no reservation: external": piece - at_end,
            no_slot: reservation - at_end - 1,
        },
        "external": {
            "what is reserved and never used is internal": piece - at_end,
            "what the allocator adds to the reservation is external": 0,
        },
    }
    kinds = zip(mistakes.items(), found, expected, strict=True)
    for (name, known), number, right in kinds:
        known[f"the four must add up to {piece}"] = True
        diagnose(f"{call}: {name}", number, right, known, write=str)


@exercise
def first_fit(attempt: Attempt) -> Callable[[], str]:
    """A class with allocate(slots) -> Piece, at the lowest address, and free(piece)."""
    _exact_fit_and_merging(attempt)
    for seed in range(20):
        _random_walk(attempt, Random(seed))

    def put_to_use() -> str:
        chats = sharegpt_like(2000)
        before = simulate(chats, reserve_oracle, 15_728, 2048)
        report = simulate(chats, reserve_oracle, 15_728, 2048, attempt.function)
        return (
            "Orca (Oracle), 2,000 chats, with your allocator: "
            f"{report.token_states:.0%} of the memory holds tokens, "
            f"{report.external:.0%} is external (with the buddy allocator: "
            f"{before.token_states:.0%} and {before.external:.0%})."
        )

    return put_to_use


def _exact_fit_and_merging(attempt: Attempt) -> None:
    for freed in ([0, 4], [4, 0], [8, 4]):
        memory = attempt(12)
        pieces = [_allocate(memory, 4) for _ in range(3)]
        at = [getattr(piece, "start", piece) for piece in pieces]
        diagnose("three pieces of 4 from 12 slots, where they start", at, [0, 4, 8])
        found = _start(memory, 1, {Exception: "no slot is free: raise NoPiece"})
        diagnose("a fourth piece, with no slot free", found, REFUSED)
        for start in freed:
            _free(memory, pieces[start // 4])
        story = f"12 slots full, then the pieces at {freed} freed; a piece of 8 starts"
        found = _start(memory, 8)
        if found == REFUSED:
            story = f"{story} (free neighbours become one)"
        diagnose(story, found, min(freed))
    for what in ("freed twice", "never handed out", "part of one that is held"):
        memory = attempt(12)
        piece = _allocate(memory, 4)
        if what == "freed twice":
            _free(memory, piece)
        else:
            piece = Piece(3, 4) if what == "never handed out" else Piece(0, 3)
        raised = "nothing"
        try:
            memory.free(piece)
        except ValueError:
            continue
        except Exception as error:
            raised = type(error).__name__
        said = f"raised {raised}, expected a ValueError"
        raise Rejected(f"free({piece}), {what}, {said}")


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
        diagnose(story, found := _allocate(memory, size), wanted)
        if start != REFUSED:
            held.append(found)
            used[start : start + size] = [True] * size


def _allocate(memory: Any, slots: int, hints: Hints | None = None) -> Any:
    """What is handed out, or REFUSED."""
    try:
        piece = attempted(f"allocate({slots})", memory.allocate, slots, hints=hints)
    except Rejected as error:
        if isinstance(error.__cause__, NoPiece):
            return REFUSED
        raise
    if not isinstance(piece, Piece):
        message = f"allocate({slots}) returned {short(piece)}, which is no Piece"
        raise Rejected(f"{message}; without room it raises NoPiece")
    return piece


def _start(memory: Any, slots: int, hints: Hints | None = None) -> Any:
    piece = _allocate(memory, slots, hints)
    return getattr(piece, "start", piece)


def _free(memory: Any, piece: Piece) -> None:
    try:
        attempted(f"free({piece})", memory.free, piece)
    except NotImplementedError:
        raise Rejected(f"free({piece}) is not written yet") from None
