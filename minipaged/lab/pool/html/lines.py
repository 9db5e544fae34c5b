"""Lab: the lines from table entries to their blocks: one SVG over both."""

from collections.abc import Sequence
from itertools import count
from math import hypot

from minipaged.lab.pool.html import geometry as place
from minipaged.lab.pool.html.blocks import MOST_SLOTS
from minipaged.lab.pool.html.tables import tables_to_show
from minipaged.lab.pool.snapshot import Snapshot

ROUND = 9  # pixels: how round a line's corners are
_numbers = count()  # of arrow heads: each picture on a page needs one of its own
Point = tuple[float, float]


def lines(
    now: Snapshot,
    before: Snapshot,
    here: tuple[str, int, int] | None,
    num_shown: int,
) -> str:
    """A line for each entry whose block is among the first `num_shown`.

    Only the line of `here` (name, entry, offset) is seen at once, and ends at the slot;
    CSS shows another while its entry or block is pointed at. Lines run between rows.
    """
    shown, tops = tables_to_show(now, before), [place.HEAD]
    for table in shown.values():
        tops.append(tops[-1] + place.table_height(len(table.block_ids)))
    bottom = tops[-1] + place.BETWEEN + place.HEAD
    tip = f"mp-tip-{next(_numbers)}"
    corners = (place.POOL_LEFT, place.HEAD), (0, bottom)
    groups = []
    for which, corner, trunk in zip(
        ("mp-wide", "mp-narrow"), corners, place.TRUNKS, strict=True
    ):
        paths = [
            _path(now, name, entry, here, tops[number], corner, trunk + number % 4 * 5)
            for number, name in enumerate(shown)
            if name in now.tables
            for entry, block_id in enumerate(now.tables[name].block_ids)
            if block_id < num_shown
        ]
        groups.append(f'<g class="{which}">{"".join(paths)}</g>')
    return (
        f'<svg class="mp-lines" aria-hidden="true" style="marker-end:url(#{tip})">'
        f'<defs><marker id="{tip}" viewBox="0 0 8 8" refX="5" refY="4" '
        'markerWidth="4.2" markerHeight="4.2" orient="auto"><path d="M0 0L8 4L0 8z"/>'
        f"</marker></defs>{''.join(groups)}</svg>"
    )


def _path(
    now: Snapshot,
    name: str,
    entry: int,
    here: tuple[str, int, int] | None,
    table_top: int,
    corner: tuple[int, int],
    trunk: int,
) -> str:
    is_here = here is not None and here[:2] == (name, entry)
    block_id = now.tables[name].block_ids[entry]
    x, y = place.below_entry(table_top, entry)
    left, top = place.above_block(block_id, *corner)
    has_slots = is_here and now.block_size <= MOST_SLOTS
    end = left + place.BLOCK[0] / 2
    if has_slots:
        end = left + place.SLOT + here[2] * place.SLOT_STEP
    stops = [
        (x, y + 1),
        (x, y + 10),
        (trunk, y + 10),
        (trunk, top - 8),
        (end, top - 8),
        (end, top - 2),
    ]
    return (
        f'<path class="mp-line mp-h mp-h{name} mp-k{block_id}{" mp-here" * is_here}" '
        f'pathLength="1" data-b="{block_id}" d="{_road(stops)}"/>'
    )


def _road(points: Sequence[Point]) -> str:
    """Straight pieces with round corners."""
    made = f"M{_at(points[0])}"
    for last, corner, onward in zip(points, points[1:], points[2:], strict=False):
        made += f"L{_at(_toward(corner, last))}Q{_at(corner)} "
        made += _at(_toward(corner, onward))
    return made + f"L{_at(points[-1])}"


def _toward(start: Point, end: Point) -> Point:
    across, down = end[0] - start[0], end[1] - start[1]
    length = hypot(across, down) or 1
    share = min(ROUND, length / 2) / length
    return start[0] + across * share, start[1] + down * share


def _at(point: Point) -> str:
    return f"{point[0]:g} {point[1]:g}"
