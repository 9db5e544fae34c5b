"""Lab: an engine's requests as HTML: in lanes, by whether they wait or run."""

from collections.abc import Iterable

from minipaged.draw.letters import counted, from_to
from minipaged.lab.pool.html.parts import chip, colour, handle, heading
from minipaged.lab.pool.lanes import Card, Room
from minipaged.lab.pool.snapshot import Snapshot
from minipaged.lab.pool.words import name_positions

MOST_CARDS = 8  # in a lane; of more, the last one says how many
MOST_BOXES = 24  # in a card
MOST_LETTERS = 4  # on a card


def with_lanes(now: Snapshot, room: Room, stage: str) -> str:
    """The lanes, above a stage: letters of the one point at blocks of the other."""
    return f'<div class="mp-run">{_lanes(now, room)}{stage}</div>'


def _lanes(now: Snapshot, room: Room) -> str:
    lanes = now.lanes
    waiting = _lane(
        "Waiting",
        counted(len(lanes.waiting), "request"),
        [_waiting(card) for card in lanes.waiting],
        room.waiting,
    )
    swapped = ""
    if lanes.num_places is not None:
        used = sum(card.num_places for card in lanes.swapped)
        boxes = min(room.boxes, MOST_BOXES)
        swapped = _lane(
            "Swapped",
            f"{used} of {lanes.num_places} CPU blocks",
            [_swapped(card, now.block_size, boxes) for card in lanes.swapped],
            room.swapped,
            _card((), "", "", more=_boxes([], boxes)),
        )
    num = sum(one.stop - one.start for card in lanes.running for one in card.spans)
    running = _lane(
        "Running",
        f"{counted(num, 'token')} now",
        [_running(card) for card in lanes.running],
        room.running,
    )
    return f'<div class="mp-lanes">{waiting}{swapped}{running}</div>'


def _lane(name: str, remark: str, cards: list[str], most: int, blank: str = "") -> str:
    """As high as if it held `most` cards."""
    more = len(cards) - MOST_CARDS
    if more > 0:
        rest = counted(more + 1, "request")
        last = f'<small class="mp-cut" title="and {rest}">and {rest}</small>'
        cards = [*cards[: MOST_CARDS - 1], _card((), last, f"and {rest}")]
    blank = (blank or _card((), "", "")).replace("mp-card", "mp-card mp-unseen", 1)
    blank = blank.replace('role="listitem"', 'aria-hidden="true"')
    blanks = blank * (max(1, min(most, MOST_CARDS)) - len(cards))
    nobody = '<small class="mp-nobody">nobody</small>' * (not cards)
    letters = f"{name}: {remark}"
    return (
        f'<div class="mp-lane">{heading(name, remark)}'
        f'<div class="mp-cards" role="list" aria-label="{letters}">'
        f"{''.join(cards)}{blanks}{nobody}</div></div>"
    )


def _card(
    names: Iterable[str], inside: str, title: str, load: str = "", more: str = ""
) -> str:
    kinds = "".join(f" mp-h{name}" for name in names)
    kinds = f" mp-h{kinds} {colour(names[0])}" if names else ""
    of = f' data-card="{names[0]}"' if names else ""
    bar = "" if more else f'<i class="mp-load"{load}></i>'
    return (
        f'<div role="listitem" class="mp-card{kinds}"{of} title="{title}">'
        f'<div class="mp-card-head">{inside}</div>{bar}{more}</div>'
    )


def _letters(card: Card, are_handles: bool) -> str:
    shown = card.names[:MOST_LETTERS]
    more = len(card.names) - len(shown)
    letters = "".join(map(handle if are_handles else chip, shown))
    return letters + f"<small>+{more}</small>" * (more > 0)


def _head(card: Card, words: str, are_handles: bool, more: str = "") -> str:
    title = "" if more else f' title="{words}"'  # else the card's says it all
    small = f'<small class="mp-cut"{title}>{words}{more}</small>'
    return _letters(card, are_handles) + small


def _who(card: Card) -> str:
    return ", ".join(card.names)


def _place(card: Card) -> str:
    return "first in line" if not card.place else f"{card.place} before it in line"


def _waiting(card: Card) -> str:
    needs = f"needs {counted(card.num_wanted, 'block')}"
    more = f", {counted(card.num_tokens, 'token')}"
    title = f"{_who(card)}: {needs}{more}; {_place(card)}"
    if card.num_lost:
        title += f"; {counted(card.num_lost, 'token')} to be computed again"
    load = f' style="--l:{100 * card.num_lost / card.num_tokens:.4g}%"'
    head = _head(card, needs, False, f'<span class="mp-wide">{more}</span>')
    return _card(card.names, head, title, load)


def _running(card: Card) -> str:
    words, start = "skips this step", card.num_computed
    if len(card.spans) == 1:
        (one,) = card.spans
        start, last = one.start, one.stop - 1
        words = f"position{'s' * (last > start)} {from_to(start, last)}"
        if last < one.num_prefill - 1:  # a chunk
            words += f" of {one.num_prefill}"
    elif card.spans:
        start -= sum(one.stop - one.start for one in card.spans)
        words = counted(card.num_computed - start, "token")
    again = sum(one.num_again for one in card.spans)
    words += f", {again} again" * bool(again)
    title = f"{_who(card)}: {words}"
    every = max(card.num_tokens, 1)
    load = f"--f:{100 * start / every:.4g}%;--g:{100 * card.num_computed / every:.4g}%"
    return _card(card.names, _head(card, words, True), title, f' style="{load}"')


def _swapped(card: Card, size: int, num_boxes: int) -> str:
    words = f"{counted(card.num_places, 'block')}, needs {card.num_wanted}"
    title = f"{_who(card)}: {words} to come back; {_place(card)}"
    holders: dict[int, list[tuple[str, int, int]]] = {}
    for name, table in card.tables.items():
        for entry, place in enumerate(table.block_ids):
            held = min(size, table.num_tokens - entry * size)
            holders.setdefault(place, []).append((name, entry * size, held))
    boxes = [_box(place, own, size) for place, own in holders.items()]
    more = _boxes(boxes, num_boxes)
    return _card(card.names, _head(card, words, True), title, more=more)


def _box(place: int, holders: list[tuple[str, int, int]], size: int) -> str:
    name, first, held = holders[0]
    who = ", ".join(one for one, *_ in holders)
    title = f"place {place}: {name_positions(first, first + held - 1)} of {who}"
    shared = " mp-shared" * (len(holders) > 1)
    return (
        f'<b class="mp-box {colour(name)}{shared}" data-place="{place}" '
        f'style="--f:{100 * held / size:.4g}%" title="{title}">{place}</b>'
    )


def _boxes(boxes: list[str], most: int) -> str:
    """So many boxes, with unseen ones to fill the place."""
    more = len(boxes) - MOST_BOXES
    rest = f"<small>+{more}</small>" * (more > 0)
    blanks = '<b class="mp-box mp-unseen">0</b>' * (most - len(boxes))
    return f'<div class="mp-boxes">{"".join(boxes[:MOST_BOXES])}{rest}{blanks}</div>'
