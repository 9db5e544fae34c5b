"""Right and wrong attempts at lesson 2's ragged row."""

import torch


def ragged_row(block_size, works):
    """With tensors of whole sequences, unlike the solution in the notebook."""
    slots, query_starts = [], [0]
    for block_ids, start, stop in works:
        first = torch.tensor(block_ids)[:, None] * block_size
        table = (first + torch.arange(block_size)).flatten()
        slots += table[start:stop].tolist()
        query_starts.append(len(slots))
    return slots, query_starts, [stop for *_, stop in works]


def but_for(at, wrong):
    """The right lists, but for the one that is made wrong of block_size and works."""

    def attempt(block_size, works):
        found = list(ragged_row(block_size, works))
        found[at] = wrong(block_size, works)
        return tuple(found)

    return attempt


def counts_from_zero(block_size, works):
    """As if every sequence were in prefill."""
    works = [(ids, 0, stop - start) for ids, start, stop in works]
    return ragged_row(block_size, works)


def reads_the_ids_in_order(block_size, works):
    return ragged_row(block_size, [(sorted(ids), *span) for ids, *span in works])


def takes_the_last_token_alone(block_size, works):
    """As if every sequence decoded."""
    return ragged_row(block_size, [(ids, stop - 1, stop) for ids, _, stop in works])


def only_blocks_of_four(block_size, works):
    return ragged_row(4, works)


def forgets_the_last_slot(block_size, works):
    """The row ends before its last token, and its end says so."""
    slots, starts, lengths = ragged_row(block_size, works)
    return slots[:-1], [*starts[:-1], len(slots) - 1], lengths


def fails_without_works(block_size, works):
    return ragged_row(block_size, works) if works else ([], [], [])


def starts(block_size, works):
    return [start for _, start, _ in works]


def lengths(block_size, works):
    return [stop - start for _, start, stop in works]


def positions(block_size, works):
    return [position for _, *span in works for position in range(*span)]


def blocks(block_size, works):
    return [slot // block_size for slot in ragged_row(block_size, works)[0]]


def nested(block_size, works):
    return [ragged_row(block_size, [work])[0] for work in works]


def entries_of_positions(block_size, works):
    return [ids[position] for ids, *span in works for position in range(*span)]


RAGGED_ROW = {
    counts_from_zero: "the new tokens begin at position `start`",
    reads_the_ids_in_order: "the table has an order",
    fails_without_works: "query_starts: got [], expected [0]",
    but_for(0, positions): "those are positions; the table says where they lie",
    but_for(0, blocks): "those are blocks, not slots",
    but_for(0, nested): "one list for all sequences",
    but_for(0, entries_of_positions): "position // block_size is the entry",
    but_for(1, lambda *case: ragged_row(*case)[1][:-1]): "the end of the row",
    but_for(1, lambda *case: ragged_row(*case)[1][1:]): "begins at 0",
    but_for(1, lengths): "those are lengths; where in the row does each begin?",
    but_for(1, starts): "those are positions, not places",
    but_for(2, lengths): "a token looks at the earlier ones, too",
    but_for(2, starts): "a token looks at itself, too",
    but_for(2, lambda size, works: [stop - 1 for *_, stop in works]): "itself, too",
    but_for(2, lambda size, works: [len(ids) * size for ids, *_ in works]): "empty",
    lambda *case: ragged_row(*case)[:2]: "three lists: got ([7, 21, 24,",
    lambda *case: ragged_row(*case)[0]: "three lists: got [7, 21, 24,",
}
WRONG = {
    "ragged_row": [
        *RAGGED_ROW,
        takes_the_last_token_alone,
        only_blocks_of_four,
        forgets_the_last_slot,
    ]
}
NAMED = {"ragged_row": [*RAGGED_ROW.items()]}
