"""Lab: contiguous memory as HTML: reservations in a row, and who does not fit."""

from minipaged.draw.palette import sequence_colour
from minipaged.lab.pool.html.parts import chip, colour, heading
from minipaged.lab.pool.twin import Resident, TwinState
from minipaged.lab.pool.words import tell_reserved, tell_twin
from minipaged.memory.contiguous import Piece


def twin(now: TwinState, before: TwinState | None = None) -> str:
    """The strip of all slots; above it, what each reserves, or where one would go."""
    above = [_bracket(name, one) for name, one in _held(now)]
    pieces = [_piece(name, one) for name, one in _held(now)]
    pieces += [_gap(gap, before) for gap in now.free_pieces]
    label = f"{now.num_slots - now.num_free} of {now.num_slots} slots are reserved"
    kind, sign, role = "mp-fine", "", ""
    for name, one in list(now.waiting.items())[:1]:
        places = _places(now, one)
        above = [_ghost(name, one, place) for place in places]
        pieces += [_hit(one, place) for place in places]
        kind, sign, role = "mp-bad", "<b>✕</b> ", ' role="alert"'
    return (
        f'<div class="mp-twin" style="--slots:{now.num_slots}">'
        + heading("The same clicks in contiguous memory", f"{now.num_slots} slots, too")
        + f'<div class="mp-strip mp-above">{"".join(above)}</div>'
        f'<div class="mp-strip" role="list" aria-label="{label}">'
        f"{''.join(pieces)}</div>"
        f'<div class="mp-strip mp-axis" aria-hidden="true">{_axis(now)}</div>'
        f'<div class="mp-message"><p class="{kind}"{role}>{sign}'
        f"{tell_twin(now, before)}</p></div></div>"
    )


def _held(now: TwinState) -> list[tuple[str, Resident]]:
    return [(name, one) for name, one in now.residents.items() if one.piece]


def _columns(start: int, size: int) -> str:
    return f"grid-column:{start + 1}/span {size}"


def _bracket(name: str, one: Resident) -> str:
    words = f"{name} reserves {one.wanted}"
    columns, title = _columns(*one.piece), tell_reserved(name, one)
    return f'<em class="mp-cut" title="{title}" style="{columns}">{words}</em>'


def _piece(name: str, one: Resident) -> str:
    used = min(one.num_tokens, one.wanted)
    start, size = one.piece
    words = (
        f"{name} reserves slots {start} to {start + size - 1}; {used} hold a token, "
        f"{size - used} are empty"
    )
    empty = f'<span class="mp-cut">{size - used} empty</span>' * (used < size)
    return (
        f'<div role="listitem" class="mp-piece {colour(name)}" title="{words}" '
        f'style="{_columns(start, size)};--size:{size};--f:{100 * used / size:.4g}%" '
        f'data-piece="{name}" data-start="{start}" data-size="{size}">'
        f"{chip(name)}{empty}</div>"
    )


def _gap(gap: Piece, before: TwinState | None) -> str:
    """A free piece; one that somebody held before fades from that one's colour."""
    start, size = gap
    kinds, style = "mp-piece mp-gap", f"{_columns(start, size)};--size:{size}"
    for name, one in before.residents.items() if before else ():
        inside = one.piece and start <= one.piece.start < start + size
        if inside and one.piece not in before.free_pieces:
            kinds += " mp-out"
            style += f";--was:{sequence_colour(name)}"
    words = f"slots {start} to {start + size - 1} are free: {size} in a row"
    return (
        f'<div role="listitem" class="{kinds}" title="{words}" style="{style}" '
        f'data-piece="" data-start="{start}" data-size="{size}">'
        f'<span class="mp-cut">{size} free</span></div>'
    )


def _places(now: TwinState, one: Resident) -> list[tuple[int, Piece]]:
    """Where it would lie, gap by gap: from the gap's start, or up to the memory's end.

    Of places that overlap each other, the first; none that is longer than the memory.
    """
    found: list[tuple[int, Piece]] = []
    end = 0
    for gap in now.free_pieces:
        start = min(gap.start, now.num_slots - one.wanted)
        if start >= end:
            found.append((start, gap))
            end = start + one.wanted
    return found


def _ghost(name: str, one: Resident, place: tuple[int, Piece]) -> str:
    start, gap = place
    over = one.wanted - gap.size
    text = f'<span class="mp-cut" style="--size:{gap.size}">{chip(name)} '
    text += f"<i>reserves </i>{one.wanted}</span>"
    more = f'<b class="mp-cut" style="--size:{over}">+{over}</b>'
    parts = text + more if start == gap.start else more + text
    words = f"{tell_reserved(name, one)}; here it is {over} too long"
    columns = _columns(start, one.wanted)
    return f'<div title="{words}" style="{columns}">{parts}</div>'


def _hit(one: Resident, place: tuple[int, Piece]) -> str:
    start, gap = place
    over = one.wanted - gap.size
    first = gap.start + gap.size if start == gap.start else start
    return f'<div class="mp-hit" style="{_columns(first, over)}"></div>'


def _axis(now: TwinState) -> str:
    """Where pieces begin, and the last slot; too close to each other, none is said."""
    pieces = [one.piece for _, one in _held(now)] + list(now.free_pieces)
    last, apart, shown, before = now.num_slots, now.num_slots // 8, "", -now.num_slots
    for edge in sorted(piece.start for piece in pieces):
        if before + apart <= edge <= last - apart:
            shown += f'<span style="grid-column:{edge + 1}">{edge}</span>'
            before = edge
    return f'{shown}<span class="mp-end" style="grid-column:{last}">{last - 1}</span>'
