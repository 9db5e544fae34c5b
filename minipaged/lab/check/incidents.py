"""Lab: checks of incidents: each has a cause, a repair and a guard."""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from minipaged.lab.check.diagnose import want
from minipaged.lab.check.verdict import Attempt, Rejected, exercise, many, short
from minipaged.lab.tour.harbour import SYSTEM, Kept, Office, found_of_system
from minipaged.lab.tour.kiosk import DAY, Chat, Kiosk, Row, who_must_go
from minipaged.lab.tour.studio import POOL, SIZE, Blocks, Studio


def parts_of(attempt: Attempt) -> Any:
    """The reader's answer: something with a cause that is written, repair and guard."""
    answer = attempt.shared()
    for name in ("cause", "repair", "guard"):
        want(f"something with a {name}", answer, hasattr(answer, name))
    if not str(answer.cause).strip():
        raise NotImplementedError
    return answer


def check_cause(answer: Any, cause: str, experiments: Mapping[str, str]) -> None:
    """Come last: whoever has only guessed a letter is not told whether it is right.

    experiments: for each other suspect, what to try; what comes out is not told.
    """
    found = str(answer.cause).strip().upper()
    if found in experiments:
        raise Rejected(f"cause {found}: how do you know? {experiments[found]}")
    if found != cause:
        letters = ", ".join(sorted([cause, *experiments]))
        raise Rejected(f"cause: {short(answer.cause)} is none of {letters}")


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
    answer = parts_of(attempt)
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
    broken = found_of_system(Office().day().log)
    repaired = found_of_system(Office(next_victim=answer.repair).day().log)
    cases: list[Any] = [
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
    cases += [
        (f"the {which} morning until chat {len(day) - 1}", [day], late_twice(day))
        for which, whole in (("ticket's", broken), ("repaired", repaired))
        for day in (whole[: n + 1] for n in range(len(whole)))
    ]
    check_guard(attempt, answer.guard, cases)
    check_cause(
        answer,
        "E",
        {
            "A": "Between chat 4 and chat 5, how many blocks were computed, and how "
            "many has the pool?",
            "B": "In which minutes do keys change? Which chats are late in others?",
            "C": "For how many late chats was there another one in the same minute?",
            "D": "Let each document have 6 lines, as many as a chat adds: "
            "`[one._replace(num_lines=min(6, one.num_lines)) for one in harbour.DAY]`. "
            "Which chats are late?",
        },
    )
    before, now = (sum(n < SYSTEM / 2 for n in day) for day in (broken, repaired))
    return lambda: (
        f"repaired: {many(now, 'late chat')}, not {before}: the first one of each key"
    )


def late_twice(found: Sequence[int]) -> bool:
    """Of the last ten chats, the very first one apart, did two find fewer than 4?"""
    return sum(one < SYSTEM / 2 for one in found[1:][-10:]) >= 2


@exercise
def incident_of_lesson_4(attempt: Attempt) -> Callable[[], str]:
    """A class with cause, repair(pool, table, letter), guard(free, total, running)."""
    answer = parts_of(attempt)
    draw = Random(1)
    for _ in range(30):
        _play(attempt, answer.repair, draw)
    studio = Studio(write=answer.repair).day()
    if studio.num_free != POOL:
        raise Rejected(f"repair: after the same day, {studio.num_free} blocks are free")
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
    check_cause(
        answer,
        "C",
        {
            "A": f"Ask alone, and leave. What is `{_alone('8, (9, 9), leaves=4')}`?",
            "B": f"Ask alone for two lengths. What is `{_alone('8, (6, 12)')}`?",
            "D": f"Compare `{_alone('8, (9, 9)')}` with `{_alone('7, (9, 9, 9)')}`",
            "E": f"Compare `{_alone('8, (9, 9), branch=4')}` with the same and "
            "branch=5",
        },
    )
    copies = studio.pool.num_copies
    return lambda: f"repaired: after {copies} copies, all {POOL} blocks are free"


def _alone(ask: str) -> str:
    """What to run: the blocks that are free after this request alone."""
    return f"studio.Studio().day([studio.Ask(0, {ask})]).num_free"


def _play(attempt: Attempt, write: Callable[..., Any], draw: Random) -> None:
    """Random writes, forks and ends; then holders and texts must be right."""
    pool, tables = Blocks(64), {0: ([], "")}
    num_copies = 0
    for number in range(1, 30):
        attempt.num_cases += 1
        name = draw.choice([*tables])
        table, text = tables[name]
        what = draw.choice(["write", "write", "write", "fork", "free"])
        sharing = 0
        if what == "write":
            letter = draw.choice("abc")
            if len(text) % SIZE:
                sharing = sum(table[-1] in own for own, _ in tables.values()) - 1
            num_copies += sharing > 0
            write(pool, table, letter)
            tables[name] = table, text + letter
        elif what == "fork" and len(tables) < 6:
            tables[number] = pool.fork(table), text
        elif what == "free" and len(tables) > 1:
            pool.free(table)
            del tables[name]
        for which, (own, said) in tables.items():
            found = "".join(pool.texts[block] for block in own)
            if found != said or len(own) != -(-len(said) // SIZE):
                shares = f" to a block that {many(sharing, 'other table')} had, too"
                whose = "its own" if which == name else "another table's"
                raise Rejected(
                    f"repair: after a {what}{shares if sharing else ''}: {whose} text "
                    f"is {found!r}, expected {said!r}"
                )
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


# (what they are, rows of a log, and must somebody be woken up?)
_LOGS = (
    ("nobody is preempted", [("starts", 0, ()), ("ends", 0, ((0, 3),))], False),
    (
        "of chats 0 and 1, chat 1 is preempted",
        [("is preempted", 1, ((0, 2), (1, 5)))],
        False,
    ),
    (
        "of chats 0 and 1, chat 0 is preempted",
        [("is preempted", 0, ((0, 5), (1, 2)))],
        True,
    ),
    (
        "chat 0 has fewer blocks than chat 1, and is preempted",
        [("is preempted", 0, ((0, 2), (1, 5)))],
        True,
    ),
    (
        "chat 0 has started again after chat 1, and chat 1 is preempted",
        [("is preempted", 1, ((1, 5), (0, 2)))],
        False,
    ),
    (
        "chat 0 has started again after chat 1, and chat 0 is preempted",
        [("is preempted", 0, ((1, 5), (0, 2)))],
        True,
    ),
    (
        "of chats 0, 1 and 2, chat 1 is preempted",
        [("is preempted", 1, ((0, 4), (1, 4), (2, 4)))],
        True,
    ),
    (
        "chat 0 is preempted alone, and chat 1 waits",
        [("arrives", 1, ((0, 9),)), ("is preempted", 0, ((0, 9),))],
        False,
    ),
    (
        "first chat 0 is preempted rightly, then wrongly",
        [("is preempted", 0, ((0, 9),)), ("is preempted", 0, ((0, 5), (1, 2)))],
        True,
    ),
    (
        "first chat 0 is preempted wrongly, then rightly",
        [("is preempted", 0, ((0, 5), (1, 2))), ("is preempted", 0, ((0, 9),))],
        True,
    ),
)


@exercise
def incident_of_appendix_b(attempt: Attempt) -> Callable[[], str]:
    """A class with cause, repair(running), guard(log)."""
    answer = parts_of(attempt)
    draw = Random(2)
    for _ in range(50):
        arrivals = draw.sample(range(9), 5)
        chats = [Chat(n, draw.randint(1, 9), draw.randint(0, 3)) for n in arrivals]
        attempt.num_cases += 1
        found = answer.repair([*chats])
        want("a Chat out of `running`", found, found in chats)
        if found.arrival != max(arrivals):
            raise Rejected(
                f"repair: of chats {' '.join(map(str, arrivals))} it takes "
                f"{found.arrival}; {max(arrivals)} came last"
            )
    days = [Kiosk(who_must_go=by).day() for by in (who_must_go, answer.repair)]
    cases: list[Any] = [("no log", [[]], False)]
    for what, lines, must_alarm in _LOGS:
        rows = [
            Row(step, did, chat, 5, 0, running)
            for step, (did, chat, running) in enumerate(lines)
        ]
        cases.append((what, [rows], must_alarm))
    cases.append(("the log of the ticket", [days[0].log], True))
    cases.append(("the log of a repaired day", [days[1].log], False))
    check_guard(attempt, answer.guard, cases)
    check_cause(
        answer,
        "A",
        {
            "B": "In step 16, chats 0, 1 and 6 wait. In which order do they start?",
            "C": "From step 23 to 36, chat 3 waits. Who starts, and how much is free?",
            "D": "In steps 23 and 63: who had come first of those that ran?",
            "E": "Run a day with `kiosk.Kiosk(budget=1000)`. How long does chat 3 "
            "take?",
        },
    )
    before, now = (_took(kiosk, 3) for kiosk in days)
    return lambda: f"repaired: chat 3 takes {now} steps, not {before}"


def _took(kiosk: Kiosk, chat: int) -> int:
    ends = next(one for one in kiosk.log if (one.what, one.chat) == ("ends", chat))
    return ends.step - DAY[chat].step
