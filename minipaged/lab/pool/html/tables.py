"""Lab: block tables as HTML: which block holds which positions of a sequence."""

from minipaged.lab.pool.html.geometry import ENTRIES, table_height
from minipaged.lab.pool.html.parts import chip, colour, count, handle, heading, span
from minipaged.lab.pool.snapshot import FrozenTable, Snapshot

LONG = 64  # of a table with more entries, the middle is left out


def names_to_show(now: Snapshot, before: Snapshot | None) -> list[str]:
    """All sequences, and those that have ended in this step."""
    return sorted({*now.tables, *(before.tables if before else ())})


def table_of(now: Snapshot, before: Snapshot | None, name: str) -> FrozenTable:
    """A sequence's table; of one that has ended, the last it had."""
    return now.tables[name] if name in now.tables else before.tables[name]


def tables(
    now: Snapshot, before: Snapshot | None, here: tuple[str, int] | None, is_large: bool
) -> str:
    """Each table; `here`: name and entry to point at.

    If they are large, with positions above block ids; else block ids alone, on a line
    or two: of a long table, both ends.
    """
    entries = _large_entries if is_large else _small_entries
    rows = []
    for name in names_to_show(now, before):
        table, is_gone = table_of(now, before, name), name not in now.tables
        height = f' style="height:{table_height(len(table.block_ids))}px"' * is_large
        rows.append(
            f'<div class="mp-seq {colour(name)}{" mp-gone" * is_gone}"{height}>'
            f'{_name(now, name, table)}<div class="mp-entries" '
            f"{_list(name, is_gone)}>{entries(now, before, name, here)}</div></div>"
        )
    return heading("Block tables", "in the order of the text") + "".join(rows)


def _large_entries(
    now: Snapshot, before: Snapshot | None, name: str, here: tuple[str, int] | None
) -> str:
    entries = ""
    for entry in range(len(table_of(now, before, name).block_ids)):
        line, column = entry // ENTRIES * 3 + 1, entry % ENTRIES + 2
        entries += (
            f'<span class="mp-e" style="grid-area:{line}/{column}">{entry}</span>'
            + _entry(now, before, name, entry, here, f"{line + 1}/{column}")
        )
    labels = (
        '<span class="mp-cut" title="entry">entry</span><span class="mp-l2">'
        '<span class="mp-cut" title="positions">positions</span><b>block</b></span>'
    )
    return (labels + entries) * bool(entries)


def _small_entries(
    now: Snapshot, before: Snapshot | None, name: str, here: tuple[str, int] | None
) -> str:
    shown = range(len(table_of(now, before, name).block_ids))
    if len(shown) > LONG:
        at = {here[1]} if here and here[0] == name else set()
        shown = sorted({*shown[:8], *shown[-8:]} | at)
    entries, last = "", -1
    for entry in shown:
        entries += '<span class="mp-more">…</span>' * (entry > last + 1)
        entries += _entry(now, before, name, entry, here)
        last = entry
    return entries


def _name(now: Snapshot, name: str, table: FrozenTable) -> str:
    is_gone = name not in now.tables
    tokens, blocks = table.num_tokens, len(table.block_ids)
    words = f"{count(tokens, 'token')} in {count(blocks, 'block')}"
    if is_gone:
        is_there = now.lanes is not None and name in now.lanes.names
        what = "is preempted" if is_there else "has ended"
        words = f"{what}; its table is gone"
    letter = chip(name) if is_gone else handle(name)
    return (
        f'<div class="mp-name">{letter} '
        f'<small class="mp-cut" title="{words}">{words}</small></div>'
    )


def _list(name: str, is_gone: bool) -> str:
    table = "former block table" if is_gone else "block table"
    gone = " data-gone" * is_gone
    return f'role="list" aria-label="{table} of {name}" data-table="{name}"{gone}'


def _entry(
    now: Snapshot,
    before: Snapshot | None,
    name: str,
    entry: int,
    here: tuple[str, int] | None,
    area: str = "",
) -> str:
    """One entry; with an `area` of the grid it is large, and tells its positions."""
    table, size = table_of(now, before, name), now.block_size
    block_id, is_gone = table.block_ids[entry], name not in now.tables
    first = entry * size
    last = min(table.num_tokens, first + size) - 1
    kinds = ["mp-entry", "mp-h", f"mp-h{name}", f"mp-k{block_id}"] + ["mp-here"] * (
        here == (name, entry)
    )
    old = before.tables.get(name) if before else table
    if not is_gone and (old is None or old.block_ids[entry : entry + 1] != (block_id,)):
        kinds.append("mp-changed")
    place = "positions" if last > first else "position"
    lie = f"{place} {span(first, last)}".replace("–", " to ")
    lie += " lie" if last > first else " lies"
    words = f"entry {entry} of {name}: {lie} in block {block_id}"
    words = f"entry {entry} of {name} was block {block_id}" if is_gone else words
    inside = f'<small class="mp-cut">{span(first, last)}</small>' if area else ""
    style = f' style="grid-area:{area}"' if area else ""
    stop = ' tabindex="0"' if area and not is_gone else ""
    return (
        f'<b role="listitem" class="{" ".join(kinds)}"{style}{stop} '
        f'data-b="{block_id}" data-of="{name}" title="{words}">{inside}{block_id}</b>'
    )
