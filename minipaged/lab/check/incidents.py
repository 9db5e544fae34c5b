"""Lab: checks of incidents: each has a cause, a repair and a guard."""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from minipaged.lab.check.diagnose import want
from minipaged.lab.check.verdict import Attempt, Rejected, exercise, many, short
from minipaged.lab.tour.incidents_of_lessons import (
    COMMON,
    SIZE,
    Blocks,
    Chat,
    Kept,
    morning_of_appendix_b,
    morning_of_lesson_3,
    morning_of_lesson_4,
    who_must_go,
)


def parts_of(attempt: Attempt, cause: str, experiments: Mapping[str, str]) -> Any:
    """The reader's answer, whose cause must be right.

    experiments: for each other suspect, what to try; what comes out is not told.
    """
    answer = attempt.shared()
    for name in ("cause", "repair", "guard"):
        want(f"something with a {name}", answer, hasattr(answer, name))
    found = str(answer.cause).strip().upper()
    if not found:
        raise NotImplementedError
    if found in experiments:
        raise Rejected(f"cause {found}: how do you know? {experiments[found]}")
    if found != cause:
        letters = ", ".join(sorted([cause, *experiments]))
        raise Rejected(f"cause: {short(answer.cause)} is none of {letters}")
    return answer


def check_guard(
    attempt: Attempt, guard: Callable[..., Any], cases: Sequence[Any]
) -> None:
    """Each case: what it is, the arguments, and must there be an alarm?"""
    for what, arguments, must_alarm in cases:
        attempt.num_cases += 1
        found = guard(*arguments)
        if bool(found) != must_alarm:
            raise Rejected(
                f"guard: {what}, and it says {short(found)}; expected "
                f"{'an alarm' if must_alarm else 'silence'}"
            )


@exercise
def incident_of_lesson_3(attempt: Attempt) -> Callable[[], str]:
    """A class with cause, repair(free), guard(found)."""
    answer = parts_of(
        attempt,
        "B",
        {
            "A": "Count the blocks of a chat and a text: how many of 40 stay free? And "
            "with too few blocks, would any chat find something?",
            "C": "Compare how often a chat is late with how often hashes collide",
            "D": "Look at what chat 1 has found: who computed it?",
        },
    )
    draw = Random(0)
    for _ in range(50):
        times = draw.sample(range(100), 8)
        free = [Kept(n, draw.randint(0, t), t) for n, t in enumerate(times)]
        attempt.num_cases += 1
        right = min(free, key=lambda one: one.used)
        found = answer.repair([*free])
        want("a Kept out of `free`", found, found in free)
        if found != right:
            raise Rejected(
                f"repair: of {len(free)} free blocks it takes {found.block}, used in "
                f"{found.used}; block {right.block} was used longest ago ({right.used})"
            )
    repaired, broken = morning_of_lesson_3(answer.repair), morning_of_lesson_3()
    cases = [("this morning", [broken], True), ("a repaired one", [repaired], False)]
    cases += [
        ("the first chat finds nothing, as nobody came before", [[0, 8, 8]], False),
        ("one chat of the last ten finds 3", [[0, 8, 8, 3] + [8] * 7], False),
        ("the first finds 0, the second 3: [0, 3, 8, 8]", [[0, 3, 8, 8]], False),
        ("two of the last ten found 4: [8]*8 + [4, 4]", [[8] * 8 + [4, 4]], False),
        ("two chats of the last ten find 3", [[0, 3, 8, 8, 3, 8]], True),
        ("two chats find 3, but ten chats ago", [[0, 3, 3] + [8] * 10], False),
        (
            "the tenth chat from the end finds 3, and one after it",
            [[0, 8, 3] + [8] * 4 + [3] + [8] * 4],
            True,
        ),
        (
            "the eleventh chat from the end finds 3, and one after it",
            [[0, 8, 3] + [8] * 5 + [3] + [8] * 4],
            False,
        ),
        ("of ten, the second finds 3: [0, 3] + [8]*8", [[0, 3] + [8] * 8], False),
    ]
    check_guard(attempt, answer.guard, cases)
    late = sum(found < COMMON for found in broken)
    return lambda: f"repaired: one late chat of {len(repaired)}, not {late}"


@exercise
def incident_of_lesson_4(attempt: Attempt) -> Callable[[], str]:
    """A class with cause, repair(pool, table, letter), guard(free, total, running)."""
    answer = parts_of(
        attempt,
        "C",
        {
            "A": "Run morning_of_lesson_4(samples=[1] * 6): how many blocks are free?",
            "B": "Compare the blocks of a sample with what a request with n = 3 loses",
            "D": "Run morning_of_lesson_4(samples=[1] * 50): how long a night is that?",
        },
    )
    draw = Random(1)
    for _ in range(30):
        _play(attempt, answer.repair, draw)
    rows = morning_of_lesson_4(answer.repair)
    if rows[-1]["free_blocks"] != 24:
        raise Rejected(
            f"repair: after the same test, {rows[-1]['free_blocks']} are free"
        )
    cases = [
        ("24 of 24 free, nobody runs", [24, 24, 0], False),
        ("23 of 24 free, nobody runs", [23, 24, 0], True),
        ("3 of 24 free, five run", [3, 24, 5], False),
        ("20 of 24 free, one runs", [20, 24, 1], False),
        ("none free, nobody runs", [0, 24, 0], True),
        ("100 of 100 free, nobody runs", [100, 100, 0], False),
        ("99 of 100 free, nobody runs", [99, 100, 0], True),
    ]
    check_guard(attempt, answer.guard, cases)
    copies = rows[-1]["copies"]
    return lambda: f"repaired: after {copies} copies, 24 of 24 blocks are free"


def _play(attempt: Attempt, write: Callable[..., Any], draw: Random) -> None:
    """Random writes, forks and ends; then holders and texts must be right."""
    pool, tables = Blocks(64), {0: ([], "")}
    num_copies = 0
    for number in range(1, 30):
        attempt.num_cases += 1
        name = draw.choice([*tables])
        table, text = tables[name]
        what = draw.choice(["write", "write", "write", "fork", "free"])
        if what == "write":
            letter = draw.choice("abc")
            num_copies += len(text) % SIZE > 0 and pool.holders[table[-1]] > 1
            write(pool, table, letter)
            tables[name] = table, text + letter
        elif what == "fork" and len(tables) < 6:
            tables[number] = pool.fork(table), text
        elif what == "free" and len(tables) > 1:
            pool.free(table)
            del tables[name]
        for own, said in tables.values():
            found = "".join(pool.texts[block] for block in own)
            if found != said or len(own) != -(-len(said) // SIZE):
                raise Rejected(f"repair: a text is {found!r}, expected {said!r}")
        holders = [0] * len(pool.holders)
        for own, _ in tables.values():
            for block in own:
                holders[block] += 1
        for block, right in enumerate(holders):
            if pool.holders[block] != right:
                found = many(pool.holders[block], "holder")
                name_it = f"{many(right, 'table')} name{'s' * (right == 1)} it"
                raise Rejected(
                    f"repair: after a {what}, block {block} has {found}, and {name_it}"
                )
        if pool.num_copies != num_copies:
            raise Rejected(
                f"repair: {many(num_copies, 'block')} had to be copied, and num_copies "
                f"is {pool.num_copies}"
            )


@exercise
def incident_of_appendix_b(attempt: Attempt) -> Callable[[], str]:
    """A class with cause, repair(running), guard(ended)."""
    answer = parts_of(
        attempt,
        "A",
        {
            "B": "Look at how many tokens each chat asks for",
            "C": "Follow a preempted chat: where in the line does it wait?",
            "D": "Count the steps from where it runs again to its next token",
        },
    )
    draw = Random(2)
    for _ in range(50):
        arrivals = sorted(draw.sample(range(9), 5))
        chats = [Chat(n, draw.randint(1, 9), draw.randint(0, 3)) for n in arrivals]
        attempt.num_cases += 1
        found = answer.repair([*chats])
        want("a Chat out of `running`", found, found in chats)
        if found != chats[-1]:
            raise Rejected(
                f"repair: of arrivals {' '.join(map(str, arrivals))} it takes "
                f"{found.arrival}; {arrivals[-1]} came last"
            )
    cases: list[Any] = []
    first = {}
    for number in (20, 9, 6):
        for which, by in (("this", who_must_go), ("a repaired", answer.repair)):
            ended = [row["ended"] for row in morning_of_appendix_b(by, number)]
            what = f"{which} morning, with {number} chats that end after {ended} steps"
            cases.append((what, [ended], by is who_must_go))
            first[which] = ended[0]
    cases += [
        ("all end after one step: [24, 24, 24]", [[24, 24, 24]], False),
        ("the second ends after the third: [24, 33, 32]", [[24, 33, 32]], True),
        ("the last of four ends last: [24, 33, 32, 40]", [[24, 33, 32, 40]], True),
        ("a single chat", [[24]], False),
    ]
    check_guard(attempt, answer.guard, cases)
    return lambda: (
        f"repaired, the first of six chats ends in step {first['a repaired']}, "
        f"not {first['this']}"
    )
