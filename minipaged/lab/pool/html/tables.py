"""Lab: block tables as HTML: which block holds which positions of a sequence."""

from typing import NamedTuple

from minipaged.draw.letters import counted, from_to
from minipaged.lab.pool.html.geometry import ENTRIES, table_height
from minipaged.lab.pool.html.parts import chip, colour, handle, heading
from minipaged.lab.pool.snapshot import FrozenTable, Snapshot
from minipaged.lab.pool.words import name_positions

LONG = 64  # of a table with more entries, the middle is left out
LABELS = (
    '<span class="mp-cut" title="entry">entry</span><span class="mp-l2">'
    '<span class="mp-cut" title="positions">positions</span><b>block</b></span>'
)


def tables_to_show(now: Snapshot, before: Snapshot) -> dict[str, FrozenTable]:
    """Of all sequences; of those that have ended in this step, the last they had."""
    return dict(sorted({**before.tables, **now.tables}.items()))


def tables(
    now: Snapshot, before: Snapshot, here: tuple[str, int] | None, is_large: bool
) -> str:
    """Each table; `here`: name and entry to point at.

    If they are large, with positions above block ids; else block ids alone, on a line
    or two: of a long table, both ends.
    """
    rows = []
    for name, table in tables_to_show(now, before).items():
        old = before.tables[name].block_ids if name in before.tables else ()
        at = here[1] if here and here[0] == name else None
        shown = _Table(name, table, old, now, at)
        entries = shown.large() if is_large else shown.small()
        height = f' style="height:{table_height(len(table.block_ids))}px"' * is_large
        rows.append(
            f'<div class="mp-seq {colour(name)}{" mp-gone" * shown.is_gone}"{height}>'
            f"{shown.head()}{entries}</div></div>"
        )
    return heading("Block tables", "in the order of the text") + "".join(rows)


class _Table(NamedTuple):
    """A sequence's table, as it is shown."""

    name: str
    table: FrozenTable
    old: tuple[int, ...]  # its block ids before
    now: Snapshot
    at: int | None  # the entry to point at

    @property
    def is_gone(self) -> bool:
        """It has ended in this step."""
        return self.name not in self.now.tables

    def head(self) -> str:
        """The sequence's letter, how much it has, and the beginning of the list."""
        tokens, blocks = self.table.num_tokens, len(self.table.block_ids)
        words = f"{counted(tokens, 'token')} in {counted(blocks, 'block')}"
        letter, what, gone = handle(self.name), "block table", ""
        if self.is_gone:
            lanes = self.now.lanes
            is_there = lanes is not None and self.name in lanes.names
            words = "is preempted" if is_there else "has ended"
            words += "; its table is gone"
            letter, what, gone = chip(self.name), "former block table", " data-gone"
        return (
            f'<div class="mp-name">{letter} '
            f'<small class="mp-cut" title="{words}">{words}</small></div>'
            f'<div class="mp-entries" role="list" aria-label="{what} of {self.name}" '
            f'data-table="{self.name}"{gone}>'
        )

    def large(self) -> str:
        """Entries with their positions, and their numbers above."""
        entries = ""
        for entry in range(len(self.table.block_ids)):
            line, column = entry // ENTRIES * 3 + 1, entry % ENTRIES + 2
            place = f"grid-area:{line}/{column}"
            entries += f'<span class="mp-e" style="{place}">{entry}</span>'
            entries += self._entry(entry, f"{line + 1}/{column}")
        return (LABELS + entries) * bool(entries)

    def small(self) -> str:
        """Entries with block ids alone; of many, the first and the last."""
        shown = range(len(self.table.block_ids))
        if len(shown) > LONG:
            at = set() if self.at is None else {self.at}
            shown = sorted({*shown[:8], *shown[-8:]} | at)
        entries, last = "", -1
        for entry in shown:
            entries += '<span class="mp-more">…</span>' * (entry > last + 1)
            entries += self._entry(entry)
            last = entry
        return entries

    def _entry(self, entry: int, area: str = "") -> str:
        """One entry; with an `area` of the grid it is large, and has its positions."""
        name, block_id = self.name, self.table.block_ids[entry]
        first = entry * self.now.block_size
        last = min(self.table.num_tokens, first + self.now.block_size) - 1
        kinds = f"mp-entry mp-h mp-h{name} mp-k{block_id}"
        kinds += " mp-here" * (self.at == entry)
        kinds += " mp-changed" * (self.old[entry : entry + 1] != (block_id,))
        lie = "lie" if last > first else "lies"
        words = (
            f"entry {entry} of {name}: {name_positions(first, last)} {lie} in block "
        )
        words += f"{block_id}"
        words = (
            f"entry {entry} of {name} was block {block_id}" if self.is_gone else words
        )
        inside = f'<small class="mp-cut">{from_to(first, last)}</small>' if area else ""
        style = f' style="grid-area:{area}"' if area else ""
        stop = ' tabindex="0"' if area and not self.is_gone else ""
        return (
            f'<b role="listitem" class="{kinds}"{style}{stop} data-b="{block_id}" '
            f'data-of="{name}" title="{words}">{inside}{block_id}</b>'
        )
