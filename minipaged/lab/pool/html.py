"""Lab: a snapshot of a pool as HTML, on light and on dark pages.

The same language as the pictures: a colour for each sequence, hatched if shared, pale
if free, a dashed rim if free but still to be found. All that a colour says is said in
letters too, and in each block's title, which a screen reader reads.
"""

from collections.abc import Iterable, Mapping
from html import escape
from importlib import resources

from minipaged.lab.plots.palette import (
    CACHED_RIM,
    SEQUENCE_COLOURS,
    ink_on,
    sequence_colour,
)
from minipaged.lab.pool.snapshot import Snapshot

COMPACT = 256  # a pool of more blocks is drawn in small squares, without writing
LONG = 64  # of a table with more entries, the middle is left out

_COLOURS = "".join(
    f".mp-c{index}{{--c:{colour};--i:{ink_on(colour)}}}"
    for index, colour in enumerate(SEQUENCE_COLOURS)
)
_RIM = f".mp-cached i,i.mp-cached{{border:2px dashed {CACHED_RIM}}}"
_CSS = resources.files("minipaged.lab.pool").joinpath("pool.css").read_text("utf-8")
STYLE = f"<style>{_CSS}{_COLOURS}{_RIM}</style>"


def page(*parts: str) -> str:
    """These parts, to be shown on a page that has `STYLE` somewhere."""
    return f'<div class="mp">{"".join(parts)}</div>'


def prose(*sentences: str, head: str = "", bold: str = "") -> str:
    """Sentences in a row, those that are not empty, between two that are bold."""
    said = [escape(one) for one in sentences if one]
    said = [f"<b>{escape(head)}.</b>"] * bool(head) + said
    return f"<p>{' '.join([*said, f'<b>{escape(bold)}</b>'])}</p>"


def sequence(snapshot: Snapshot, name: str) -> str:
    """A sequence's letter on its colour, and how long it is."""
    table = snapshot.tables[name]
    chip = f'<b class="mp-chip {_colour(name)}" data-sequence="{name}">{name}</b>'
    tokens, blocks = table.num_tokens, len(table.block_ids)
    return f"{chip} {_count(tokens, 'token')}, {_count(blocks, 'block')}"


def written(texts: Mapping[str, str], snapshot: Snapshot) -> str:
    """What each sequence has written so far; those in the snapshot in their colour."""
    rows = []
    for name, text in sorted(texts.items()):
        name = escape(name)
        chip = f'class="mp-chip {_colour(name)}" data-sequence="{name}"'
        mark = f" {chip}" if name in snapshot.tables else ""
        rows.append(f"<p><b{mark}>{name}</b> {escape(text)}</p>")
    return f'<div class="mp-answers">{"".join(rows)}</div>'


def translation(position: int, slot: int, block_size: int) -> str:
    """How a position becomes a slot."""
    entry, offset = divmod(position, block_size)
    return prose(
        f"{position} = {entry} × {block_size} + {offset}: entry {entry} of its table "
        f"is block {slot // block_size}; {slot // block_size} × {block_size} + "
        f"{offset} =",
        bold=f"slot {slot}",
    )


def grid(snapshot: Snapshot, here: int | None = None) -> str:
    """Every physical block; `here` is one to point at."""
    small = " mp-small" if snapshot.num_blocks > COMPACT else ""
    cells = (_block(snapshot, id_, id_ == here) for id_ in range(snapshot.num_blocks))
    label = f"{snapshot.num_held} of {snapshot.num_blocks} blocks are held"
    return (
        f'<div class="mp-grid{small}" role="list" aria-label="{label}">'
        f"{''.join(cells)}</div>"
    )


def tables(snapshot: Snapshot, here: tuple[str, int] | None = None) -> str:
    """Each sequence's page table; `here`: the name of one, and an entry to point at.

    Of a long table, only both ends, and what is pointed at.
    """
    rows = []
    for name, table in sorted(snapshot.tables.items()):
        at = here[1] if here and here[0] == name else None
        head, body, last = "", "", -1
        for entry in _entries_to_show(len(table.block_ids), at):
            if entry > last + 1:
                head, body = f"{head}<th>…</th>", f"{body}<td>…</td>"
            mark = ' class="mp-here"' if entry == at else ""
            head += f'<th scope="col">{entry}</th>'
            body += f"<td{mark}>{table.block_ids[entry]}</td>"
            last = entry
        rows.append(
            f'<div role="group" aria-label="page table of {name}">'
            '<table class="mp-table"><tr>'
            f'<th rowspan="2" class="{_colour(name)}" data-sequence="{name}">'
            f"{name}</th>"
            f'<th scope="row">entry</th>{head}</tr>'
            f'<tr><th scope="row">block</th>{body}</tr></table></div>'
        )
    return f'<div class="mp-tables">{"".join(rows)}</div>'


def figures(snapshot: Snapshot) -> str:
    """Blocks held; and without sharing; and if each sequence had reserved its room.

    Room for a quarter of the pool, or for the longest of them, if that is more.
    """
    held, size = snapshot.num_held, snapshot.block_size
    lengths = [table.num_tokens for table in snapshot.tables.values()]
    longest = max(snapshot.num_blocks * size // 4, *lengths, 0)
    reserved = len(snapshot.tables) * -(-longest // size)
    empty = snapshot.num_empty
    share = f" ({100 * empty / (held * size):.0f} %)" if held else ""
    rows = (
        (f"{held} of {snapshot.num_blocks}", "blocks held"),
        (snapshot.num_unshared, "blocks if nothing were shared"),
        (reserved, f"blocks if each reserved {longest} tokens"),
        (f"{empty}{share}", "slots held but empty"),
    )
    cells = (f"<div><b>{number}</b> {what}</div>" for number, what in rows)
    return f'<div class="mp-figures">{"".join(cells)}</div>'


def events(lines: Iterable[str]) -> str:
    """What happened, in this order; what was refused is marked."""
    wrong = ' class="mp-wrong"'
    said = [
        f"<p{wrong * line.startswith('refused')}>{escape(line)}</p>" for line in lines
    ]
    return f'<div class="mp-events" role="log" aria-live="polite">{"".join(said)}</div>'


def _block(snapshot: Snapshot, block_id: int, is_here: bool) -> str:
    holders, contents = snapshot.refcounts[block_id], snapshot.contents
    owners = contents.owners.get(block_id, [])
    filled = contents.filled.get(block_id, snapshot.block_size if holders else 0)
    kind, inside = [], ""
    words = f"block {block_id}: free"
    if holders:
        kind.append(_colour(owners[0]) if owners else "mp-others")
        words = f"block {block_id}: held by {', '.join(owners) or 'others'}; "
        words += f"{filled} of {snapshot.block_size} slots filled"
    elif block_id in contents.cached:
        digits = f"{snapshot.cached[block_id]:016x}"[:4]
        kind.append("mp-cached")
        inside, words = digits, f"{words}, can still be found; its hash: {digits}…"
    if holders > 1:
        kind.append("mp-shared")
        words += f"; {holders} holders"
    if is_here:
        kind.append("mp-here")
    share = 100 * filled / snapshot.block_size
    common = (
        f'role="listitem" title="{words}" style="--f:{share:.4g}%" '
        f'data-block="{block_id}" data-holders="{holders}"'
    )
    if owners:  # the sequence whose colour it has
        common += f' data-sequence="{owners[0]}"'
    classes = " ".join(kind)
    if snapshot.num_blocks > COMPACT:  # as few elements as possible, for speed
        return f'<i class="mp-b {classes}" {common}></i>'
    count = f"<b>×{holders}</b> " if holders > 1 else ""
    label = f"{block_id} {count}{''.join(owners)}"
    return (
        f'<div class="mp-b {classes}" {common}><span>{label}</span>'
        f"<i>{inside}</i></div>"
    )


def _entries_to_show(num_entries: int, at: int | None) -> Iterable[int]:
    if num_entries <= LONG:
        return range(num_entries)
    ends = {*range(8), *range(num_entries - 8, num_entries)}
    return sorted(ends if at is None else ends | {at})


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _colour(name: str) -> str:
    return f"mp-c{SEQUENCE_COLOURS.index(sequence_colour(name))}"
