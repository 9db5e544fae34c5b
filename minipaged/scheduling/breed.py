"""Lesson 4: beams become their children (paper, sections 4.4 and 5.2)."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from minipaged.scheduling.request import Request
    from minipaged.scheduling.sequence import Sequence


def breed(
    request: "Request", parents: "list[Sequence]", children: list[tuple[int, int]]
) -> "list[Sequence]":
    """Fork, append and end, so that every child is a sequence; return them in order.

    children: the index of each child's parent, and its token. For example: of two
    parents, the children [(0, 5), (0, 7)] fork the first and end the second.
    """
    places_of: dict[Sequence, list[int]] = {parent: [] for parent in parents}
    for place, (source, _) in enumerate(children):
        places_of[parents[source]].append(place)
    sequences: list[Sequence | None] = [None] * len(children)
    for parent, places in places_of.items():
        if not places:
            parent.end("dropped")
            continue
        sequences[places[0]] = parent
        for place in places[1:]:  # forked before the first child's token is appended
            sequences[place] = request.fork(parent)
    for sequence, (_, token) in zip(sequences, children, strict=True):
        sequence.append(token)
    return sequences
