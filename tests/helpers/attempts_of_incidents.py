"""Right and wrong answers to the incidents of lessons 3 and 4, and of appendix B."""

from minipaged.lab.tour import harbour, kiosk, studio


class OfLesson3:
    cause = "E"

    def repair(self, free):
        return sorted(free, key=lambda one: one.used)[0]

    def guard(self, found):
        return len([one for one in found[1:][-10:] if one < 4]) > 1


class OfLesson4:
    cause = "C"

    def repair(self, pool, table, letter):
        is_full = not table or len(pool.texts[table[-1]]) == studio.SIZE
        if not is_full and pool.holders[table[-1]] > 1:
            shared = table.pop()
            pool.num_copies += 1
            pool.holders[shared] -= 1
            table.append(pool.take(pool.texts[shared]))
        elif is_full:
            table.append(pool.take())
        pool.texts[table[-1]] += letter

    def guard(self, free, total, running):
        return free != total and not running


class OfAppendixB:
    cause = "A"

    def repair(self, running):
        return sorted(running)[-1]

    def guard(self, log):
        for row in log:
            if row.what == "is preempted" and (row.chat,) < max(row.running)[:1]:
                return True
        return False


def with_(right, **parts):
    """The right answer with other parts."""
    return type("Wrong", (right,), parts)


def no_copy(self, pool, table, letter):
    if not table or len(pool.texts[table[-1]]) == studio.SIZE:
        table.append(pool.take())
    pool.texts[table[-1]] += letter


def held_twice(self, pool, table, letter):
    before = len(table)
    OfLesson4().repair(pool, table, letter)
    pool.holders[table[-1]] += len(table) > before


def never_found_first(self, free):
    return min(free, key=lambda one: (one.used > one.published, one.used))


def of_last(number):
    """A guard that looks at so many chats instead of ten."""
    return lambda self, found: sum(one < 4 for one in found[1:][-number:]) > 1


def first_counts_at_ten(self, found):
    return sum(one < 4 for one in (found[-10:] if found[9:] else found[1:])) > 1


def fewest_blocks(self, running):
    return min(running, key=lambda chat: (chat.num_blocks, -chat.arrival))


def uncounted(self, pool, table, letter):
    copies = pool.num_copies
    OfLesson4().repair(pool, table, letter)
    pool.num_copies = copies


def copy_of_all(self, pool, table, letter):
    """Copies full blocks, too."""
    if table and pool.holders[table[-1]] > 1:
        pool.holders[table[-1]] -= 1
        table[-1] = pool.take(pool.texts[table[-1]])
        pool.num_copies += 1
    OfLesson4().repair(pool, table, letter)


def preempted(is_wrong):
    """A guard that judges each preemption by itself."""

    def guard(self, log):
        return any(is_wrong(row) for row in log if row.what == "is preempted")

    return guard


def started_last(row):
    return row.running[-1][0] != row.chat


def has_most_blocks(row):
    blocks = dict(row.running)
    return len(blocks) > 1 and blocks[row.chat] == max(blocks.values())


def came_first(row):
    return len(row.running) > 1 and row.chat == min(row.running)[0]


def later_than_any(self, log):
    """Takes those for running who have arrived."""
    latest = -1
    for row in log:
        latest = max(latest, row.chat, *[chat for chat, _ in row.running])
        if row.what == "is preempted" and row.chat < latest:
            return True
    return False


def of_one(which):
    """A guard that looks at one preemption only: 0, the first; -1, the last."""

    def guard(self, log):
        rows = [row for row in log if row.what == "is preempted"]
        return bool(rows) and OfAppendixB().guard([rows[which]])

    return guard


FAULTS = {
    "incident_of_lesson_3": [
        (with_(OfLesson3, cause="A"), "Between chat 4 and chat 5"),
        (with_(OfLesson3, cause="B"), "keys change"),
        (with_(OfLesson3, cause="C"), "in the same minute"),
        (with_(OfLesson3, cause=" d "), "Let each document"),
        (with_(OfLesson3, cause="F"), "none of A, B, C, D, E"),
        (
            with_(OfLesson3, repair=lambda self, free: harbour.next_victim(free)),
            "was used longest ago (",
        ),
        (with_(OfLesson3, repair=never_found_first), "was used longest ago ("),
        (with_(OfLesson3, guard=lambda self, found: min(found) < 8), "silence"),
        (with_(OfLesson3, guard=lambda self, found: False), "an alarm"),
        (
            with_(OfLesson3, guard=lambda self, found: sum(n < 4 for n in found) > 1),
            "silence",
        ),
        (
            with_(
                OfLesson3,
                guard=lambda self, found: sum(n < 4 for n in found[-10:]) > 1,
            ),
            "[0, 3, 8, 8]",
        ),
        (
            with_(
                OfLesson3,
                guard=lambda self, found: sum(n <= 4 for n in found[1:][-10:]) > 1,
            ),
            "found 4",
        ),
        (with_(OfLesson3, guard=of_last(9)), "an alarm"),
        (with_(OfLesson3, guard=of_last(11)), "silence"),
        (with_(OfLesson3, guard=first_counts_at_ten), "[0, 3] + [8]*8"),
    ],
    "incident_of_lesson_4": [
        (with_(OfLesson4, cause="A"), "leaves=4"),
        (with_(OfLesson4, cause="B"), "(6, 12)"),
        (with_(OfLesson4, cause="D"), "Ask(0, 7, (9, 9, 9))"),
        (with_(OfLesson4, cause="E"), "branch=5"),
        (
            with_(OfLesson4, repair=lambda self, *case: studio.write(*case)),
            "and 2 tables name it",
        ),
        (with_(OfLesson4, repair=held_twice), "2 holders, and 1 table names it"),
        (with_(OfLesson4, repair=no_copy), "other tables had, too: another table's"),
        (with_(OfLesson4, repair=copy_of_all), "0 blocks had to be copied"),
        (with_(OfLesson4, repair=uncounted), "num_copies"),
        (with_(OfLesson4, guard=lambda self, free, total, run: not free), "an alarm"),
        (with_(OfLesson4, guard=lambda self, free, total, run: free < 9), "23 of 24"),
        (
            with_(
                OfLesson4,
                guard=lambda self, free, total, run: run <= 1 and free < total,
            ),
            "20 of 24 free, one runs",
        ),
        (
            with_(
                OfLesson4, guard=lambda self, free, total, run: not run and free != 24
            ),
            "100 of 100",
        ),
    ],
    "incident_of_appendix_b": [
        (with_(OfAppendixB, cause="B"), "In step 16"),
        (with_(OfAppendixB, cause="C"), "step 23 to 36"),
        (with_(OfAppendixB, cause="D"), "steps 23 and 63"),
        (with_(OfAppendixB, cause="E"), "budget=1000"),
        (
            with_(OfAppendixB, repair=lambda self, all_: kiosk.who_must_go(all_)),
            "came last",
        ),
        (with_(OfAppendixB, repair=fewest_blocks), "came last"),
        (with_(OfAppendixB, repair=lambda self, running: running[0]), "came last"),
        (with_(OfAppendixB, repair=lambda self, running: running[-1]), "came last"),
        (with_(OfAppendixB, repair=lambda self, running: 4), "a Chat out of"),
        (with_(OfAppendixB, guard=lambda self, log: False), "an alarm"),
        (with_(OfAppendixB, guard=preempted(lambda row: True)), "silence"),
        (with_(OfAppendixB, guard=preempted(started_last)), "silence"),
        (with_(OfAppendixB, guard=preempted(has_most_blocks)), "silence"),
        (with_(OfAppendixB, guard=preempted(came_first)), "0, 1 and 2"),
        (with_(OfAppendixB, guard=later_than_any), "and chat 1 waits"),
        (with_(OfAppendixB, guard=of_one(0)), "rightly, then wrongly"),
        (with_(OfAppendixB, guard=of_one(-1)), "wrongly, then rightly"),
    ],
}
