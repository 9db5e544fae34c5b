"""Lab: a planted fault in each of three small systems: lessons 3 and 4, appendix B.

As in `incidents`, each `morning` runs the system with the function that it is given.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

# --- lesson 3: what is found ----------------------------------------------------------

ROOM, COMMON, OWN = 40, 8, 6  # blocks: of the pool, of the common prompt, of a question


class Kept(NamedTuple):
    """A free block whose content can be found."""

    block: int
    published: int  # number of the chat or text that computed its content
    used: int  # number of the last one that found or computed it


def next_victim(free: Sequence[Kept]) -> Kept:
    """The block that is handed out next: its content is lost."""
    return min(free, key=lambda one: one.published)


def morning_of_lesson_3(
    next_victim: Callable[[Sequence[Kept]], Kept] = next_victim, num_chats: int = 40
) -> list[int]:
    """How many blocks of the common prompt each chat finds.

    After each chat, a text without the common prompt is computed, as long as a chat.
    """
    kept: dict[tuple[int, int], Kept] = {}  # by content: (whose, place)
    found = []
    for now in range(2 * num_chats):
        is_chat = now % 2 == 0
        wanted = [(-1, place) for place in range(COMMON)] if is_chat else []
        wanted += [(now, place) for place in range(COMMON + OWN - len(wanted))]
        count = next((n for n, key in enumerate(wanted) if key not in kept), COMMON)
        if is_chat:
            found.append(count)
        for key in wanted[:count]:
            kept[key] = kept[key]._replace(used=now)
        for key in wanted[count:]:
            kept.pop(key, None)
            taken = {one.block for one in kept.values()}
            block = next((n for n in range(ROOM) if n not in taken), None)
            if block is None:
                free = [one for one in kept.values() if one.used < now]
                victim = next_victim(free)
                kept = {key: one for key, one in kept.items() if one != victim}
                block = victim.block
            kept[key] = Kept(block, now, now)
    return found


# --- lesson 4: copies -----------------------------------------------------------------

SIZE = 4  # letters in a block


class Blocks:
    """A pool whose blocks hold letters. Attributes: holders, texts; num_copies."""

    def __init__(self, num_blocks: int):
        self.holders, self.texts = [0] * num_blocks, [""] * num_blocks
        self.num_copies = 0

    @property
    def num_free(self) -> int:
        """Blocks without a holder."""
        return self.holders.count(0)

    def take(self, text: str = "") -> int:
        """A free block, held once, with this text."""
        block = self.holders.index(0)
        self.holders[block], self.texts[block] = 1, text
        return block

    def fork(self, table: Sequence[int]) -> list[int]:
        """Another table of the same blocks."""
        for block in table:
            self.holders[block] += 1
        return [*table]

    def free(self, table: Sequence[int]) -> None:
        """The table has ended."""
        for block in table:
            self.holders[block] -= 1


def write(pool: Blocks, table: list[int], letter: str) -> None:
    """Append a letter to a table's text; a shared block is copied first."""
    if not table or len(pool.texts[table[-1]]) == SIZE:
        table.append(pool.take())
    elif pool.holders[table[-1]] > 1:
        table[-1] = pool.take(pool.texts[table[-1]])
        pool.num_copies += 1
    pool.texts[table[-1]] += letter


Write = Callable[[Blocks, list[int], str], None]


def morning_of_lesson_4(
    write: Write = write, samples: Sequence[int] = (1, 3, 1, 3, 2, 1)
) -> list[dict[str, int]]:
    """Requests one after the other, each with so many samples; a row after each."""
    pool, rows = Blocks(24), []
    for number, count in enumerate(samples):
        prompt: list[int] = []
        for letter in "a story":
            write(pool, prompt, letter)
        tables = [prompt, *[pool.fork(prompt) for _ in range(count - 1)]]
        for table in tables:
            for letter in "of seals":
                write(pool, table, letter)
        for table in tables:
            pool.free(table)
        row = {"request": number, "n": count, "running": 0}
        rows.append(row | {"free_blocks": pool.num_free, "copies": pool.num_copies})
    return rows


# --- appendix B: who must go ----------------------------------------------------------

PROMPT, ANSWER, POOL = 8, 24, 18  # tokens, tokens, blocks of SIZE tokens


class Chat(NamedTuple):
    """A request that runs."""

    arrival: int
    num_blocks: int
    num_preemptions: int


def who_must_go(running: Sequence[Chat]) -> Chat:
    """No block is free: the request that gives all its blocks back, and waits."""
    return max(running, key=lambda chat: chat.num_blocks)


def morning_of_appendix_b(
    who_must_go: Callable[[Sequence[Chat]], Chat] = who_must_go, num_chats: int = 6
) -> list[dict[str, int]]:
    """Chats come at one time: when each has ended, how often it was preempted."""
    new, preempted = [0] * num_chats, [0] * num_chats
    waiting, running, ended = [*range(num_chats)], [], [0] * num_chats
    step = 0

    def blocks_of(chat: int) -> int:
        return -(-(PROMPT + new[chat]) // SIZE)

    def held() -> int:
        return sum(map(blocks_of, running))

    while waiting or running:
        step += 1
        while waiting and held() + blocks_of(waiting[0]) <= POOL:
            running.append(waiting.pop(0))
        for chat in [*running]:
            if chat not in running:
                continue
            new[chat] += 1
            while held() > POOL:
                chats = [Chat(n, blocks_of(n), preempted[n]) for n in running]
                victim = who_must_go(chats).arrival
                running.remove(victim)
                preempted[victim] += 1
                waiting = sorted([*waiting, victim])
            if chat in running and new[chat] == ANSWER:
                running.remove(chat)
                ended[chat] = step
        if step > 2000:
            raise RuntimeError("the chats never end")
    return [
        {"chat": number, "ended": ended[number], "preemptions": preempted[number]}
        for number in range(num_chats)
    ]


# --- tickets --------------------------------------------------------------------------


def incident_of(lesson: int | str) -> str:
    """The ticket of lesson 3, lesson 4 or appendix "B"."""
    return {3: _ticket_3, 4: _ticket_4, "B": _ticket_b}[lesson]()


def _ticket_3() -> str:
    found = morning_of_lesson_3()
    return (
        "All chats begin with the same prompt of 8 blocks, and each adds a question of "
        "6.\nBetween them, texts of 14 blocks are computed for others. The first token "
        "of\nevery second chat is late. Of the 8 blocks, these were found, chat "
        "by chat:\n"
        f"  {' '.join(map(str, found[:20]))}\n  {' '.join(map(str, found[20:]))}\n"
        "The pool has 40 blocks."
    )


def _ticket_4() -> str:
    return (
        "Each night, the server stops: no block is free, though nobody is served. A "
        "restart\nhelps until the next night. Here is the log of a short test. Each "
        "request asks for n\nsamples of one prompt of 7 letters; the pool has 24 "
        "blocks of 4 letters. After each:\n" + _table(morning_of_lesson_4())
    )


def _ticket_b() -> str:
    return (
        "In the rush, the user who came last is answered first. All came at one time, "
        "in\nthis order; here is the step in which each chat ended:\n"
        + _table(morning_of_appendix_b())
    )


def _table(rows: Sequence[dict[str, int]]) -> str:
    heads = [*rows[0]]
    lines = [" ".join(f"{head:>11}" for head in heads)]
    lines += [" ".join(f"{row[head]:11}" for head in heads) for row in rows]
    return "\n".join(lines)
