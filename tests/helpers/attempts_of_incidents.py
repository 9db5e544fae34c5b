"""Right and wrong answers to the incidents of lessons 3 and 4, and of appendix B."""

from minipaged.lab.tour import incidents_of_lessons as incidents


class OfLesson3:
    cause = "B"

    def repair(self, free):
        return sorted(free, key=lambda one: one.used)[0]

    def guard(self, found):
        return len([one for one in found[1:][-10:] if one < 4]) > 1


class OfLesson4:
    cause = "C"

    def repair(self, pool, table, letter):
        is_full = not table or len(pool.texts[table[-1]]) == incidents.SIZE
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
        return running[-1]  # they run as they arrived

    def guard(self, ended):
        return ended != sorted(ended)


def with_(right, **parts):
    """The right answer with other parts."""
    return type("Wrong", (right,), parts)


def no_copy(self, pool, table, letter):
    if not table or len(pool.texts[table[-1]]) == incidents.SIZE:
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


FAULTS = {
    "incident_of_lesson_3": [
        (with_(OfLesson3, cause="A"), "with too few blocks"),
        (with_(OfLesson3, cause="C"), "hashes collide"),
        (with_(OfLesson3, cause="D"), "chat 1"),
        (
            with_(OfLesson3, repair=lambda self, free: incidents.next_victim(free)),
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
        (with_(OfLesson4, cause="A"), "[1] * 6"),
        (with_(OfLesson4, cause="B"), "n = 3"),
        (with_(OfLesson4, cause="D"), "[1] * 50"),
        (
            with_(OfLesson4, repair=lambda self, *case: incidents.write(*case)),
            "and 2 tables name it",
        ),
        (with_(OfLesson4, repair=held_twice), "2 holders, and 1 table names it"),
        (with_(OfLesson4, repair=no_copy), "a text is"),
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
        (with_(OfAppendixB, cause="B"), "asks for"),
        (with_(OfAppendixB, cause="C"), "in the line"),
        (with_(OfAppendixB, cause="D"), "next token"),
        (
            with_(OfAppendixB, repair=lambda self, all_: incidents.who_must_go(all_)),
            "came last",
        ),
        (with_(OfAppendixB, repair=fewest_blocks), "came last"),
        (with_(OfAppendixB, repair=lambda self, running: running[0]), "it takes 0; "),
        (with_(OfAppendixB, repair=lambda self, running: 4), "a Chat out of"),
        (with_(OfAppendixB, guard=lambda self, ended: max(ended) > 48), "silence"),
        (with_(OfAppendixB, guard=lambda self, ended: False), "an alarm"),
        (
            with_(OfAppendixB, guard=lambda self, ended: ended[0] > ended[-1]),
            "an alarm",
        ),
        (
            with_(OfAppendixB, guard=lambda self, ended: ended[-1] < max(ended)),
            "[24, 33, 32, 40]",
        ),
        (
            with_(
                OfAppendixB,
                guard=lambda self, ended: any(map(int.__ge__, ended, ended[1:])),
            ),
            "silence",
        ),
    ],
}
