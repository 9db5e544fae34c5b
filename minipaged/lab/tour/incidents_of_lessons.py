"""Lab: the tickets of the incidents in lessons 3 and 4 and in appendix B.

A fault is planted in each of three small systems: `harbour`, `studio`, `kiosk`.
"""

from collections.abc import Sequence
from itertools import groupby

from minipaged.lab.tour.harbour import SYSTEM, Office
from minipaged.lab.tour.kiosk import DAY, Kiosk
from minipaged.lab.tour.studio import POOL, Studio


def incident_of(lesson: int | str) -> str:
    """The ticket of lesson 3, lesson 4 or appendix "B"."""
    return {3: _ticket_3, 4: _ticket_4, "B": _ticket_b}[lesson]()


def _ticket_3() -> str:
    rows = []
    for half, part in groupby(Office().day().log, key=lambda row: row.minute // 30):
        log = [*part]
        chats = [row for row in log if row.name.startswith("chat")]
        late = sum(row.found < SYSTEM / 2 for row in chats)
        row = {"from": f"{8 + half // 2}:{half % 2 * 30:02}", "chats": len(chats)}
        row |= {"late": late, "documents": len(log) - len(chats)}
        rows.append(row | {"overwritten": sum(len(one.overwritten) for one in log)})
    return (
        "A harbour office answers chats, and reads documents, over one pool. All chats "
        "have\nthe same system prompt, which fills 8 blocks. Again and again, the "
        "first token of a\nchat is late. A late chat is one that finds fewer than 4 "
        "of the 8 blocks. The last\ncolumn counts the blocks that were overwritten, "
        "for chats and for documents:\n" + _table(rows)
    )


def _ticket_4() -> str:
    rows, asked = [], 0
    for row in Studio().day().log:
        asked += row.what == "asks"
        if not row.running:
            counts = {"requests": asked, "free_blocks": row.free}
            rows.append({"step": row.step} | counts)
    return (
        "A studio writes stories: each request asks for samples of one prompt. Each "
        "night,\nthe server stops: no block is free, though nobody is served. A "
        "restart helps until\nthe next night. This is a short day with a pool of "
        f"{POOL} blocks, at the moments when\nnobody was served, "
        "with the requests so far:\n" + _table(rows)
    )


def _ticket_b() -> str:
    kiosk = Kiosk().day()
    rows = []
    for number, ask in enumerate(DAY):
        own = [row for row in kiosk.log if row.chat == number]
        row = {"chat": number, "came": ask.step, "prompt": ask.prompt}
        rows.append(row | {"answer": ask.answer, "took": own[-1].step - ask.step})
    third, sixth = (rows[number] for number in (3, 6))
    later = int(sixth["came"]) - int(third["came"])
    earlier = int(third["took"]) - int(sixth["took"]) - later
    return (
        f"In the rush, a few users wait very long: chat 3 took {third['took']} steps, "
        "though it needs 37\nwhen nobody else is there. Chat 6 asks for as many "
        f"tokens; it came {later} steps later,\nand ended {earlier} steps earlier. "
        "Lengths are in tokens, times in steps:\n" + _table(rows)
    )


def _table(rows: Sequence[dict[str, int | str]]) -> str:
    heads = [*rows[0]]
    widths = [max(12, len(head)) for head in heads]
    lines = [" ".join(f"{head:>{w}}" for head, w in zip(heads, widths, strict=True))]
    lines += [
        " ".join(f"{row[head]:>{w}}" for head, w in zip(heads, widths, strict=True))
        for row in rows
    ]
    return "\n".join(lines)
