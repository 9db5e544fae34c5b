"""Right and wrong attempts at lesson 2's exercises, and what each is told."""

import torch


def slot_of(block_ids, size, position):
    index, offset = divmod(position, size)
    return size * block_ids[index] + offset


def position_of(block_ids, size, num_tokens, slot):
    slots = [slot_of(block_ids, size, position) for position in range(num_tokens)]
    return slots.index(slot) if slot in slots else None


def position_of_any(block_ids, size, num_tokens, slot):
    """Wrong: an empty slot of the last block has a position, too."""
    return position_of(block_ids, size, len(block_ids) * size, slot)


def attend(q, keys, values, block_ids, num_tokens):
    size, kv_heads = keys.shape[1:3]
    slots = [slot_of(block_ids, size, p) for p in range(num_tokens)]
    k, v = keys.flatten(0, 1)[slots], values.flatten(0, 1)[slots]
    q = q.view(kv_heads, -1, q.shape[1])
    weights = torch.softmax(torch.einsum("kgd,tkd->kgt", q, k) / q.shape[2] ** 0.5, -1)
    return torch.einsum("kgt,tkd->kgd", weights, v).flatten(0, 1)


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


def unmasked(q, keys, values, block_ids, num_tokens):
    """Reads the last block to its end."""
    return attend(q, keys, values, block_ids, len(block_ids) * keys.shape[1])


def whatever_is_written(q, keys, values, block_ids, num_tokens):
    """Takes NaN for the mark of an end, and reads all that is no NaN."""
    written = ~keys.isnan().flatten(0, 1).flatten(1).any(1)
    k, v = (x.flatten(0, 1)[written][:, None] for x in (keys, values))
    return attend(q, k, v, list(range(len(k))), len(k))


def spoils_the_cache(q, keys, values, block_ids, num_tokens):
    """Writes zeros over the poison."""
    keys.nan_to_num_()
    return attend(q, keys, values, block_ids, num_tokens)


def writes_over_others(q, keys, values, block_ids, num_tokens):
    """Clears the rest of the last block."""
    keys[block_ids[-1], num_tokens % keys.shape[1] or keys.shape[1] :] = 0
    return attend(q, keys, values, block_ids, num_tokens)


def masked_too_late(q, keys, values, block_ids, num_tokens):
    """0 x NaN = NaN."""
    size = keys.shape[1]
    k, v = keys[block_ids].flatten(0, 1), values[block_ids].flatten(0, 1)
    k, v = (x.repeat_interleave(len(q) // keys.shape[2], 1) for x in (k, v))
    logits = torch.einsum("hd,thd->ht", q, k) / q.shape[1] ** 0.5
    unused = torch.arange(len(block_ids) * size) >= num_tokens
    weights = logits.masked_fill(unused, -torch.inf).softmax(-1)
    return torch.einsum("ht,thd->hd", weights, v)


def without_groups(q, keys, values, block_ids, num_tokens):
    """As if every head had a KV head of its own."""
    k, v = (x[block_ids].flatten(0, 1)[:num_tokens] for x in (keys, values))
    logits = torch.einsum("hd,thd->ht", q, k) / q.shape[1] ** 0.5
    return torch.einsum("ht,thd->hd", logits.softmax(-1), v)


def but_for_the_position(wrong):
    """The right position, taken for the wrong one: wrong(case, position)."""

    def attempt(block_ids, size, num_tokens, slot):
        case = block_ids, size, num_tokens, slot
        return wrong(*case, position_of(*case))

    return attempt


def attend_by(scale=None, axis=-1):
    """With another scale of q and head_dim, or a softmax over another axis."""

    def attempt(q, keys, values, block_ids, num_tokens):
        slots = [slot_of(block_ids, keys.shape[1], p) for p in range(num_tokens)]
        group = len(q) // keys.shape[2]
        k, v = (x.flatten(0, 1)[slots] for x in (keys, values))
        k, v = (x.repeat_interleave(group, 1) for x in (k, v))
        factor = scale(*q.shape) if scale else q.shape[1] ** -0.5
        weights = (torch.einsum("hd,thd->ht", q, k) * factor).softmax(axis)
        return torch.einsum("ht,thd->hd", weights, v)

    return attempt


# What the check must say of each fault.
FAULTS = {
    "ragged_row": [
        (counts_from_zero, "the new tokens begin at position `start`"),
        (reads_the_ids_in_order, "the table has an order"),
        (fails_without_works, "query_starts: got [], expected [0]"),
        (but_for(0, positions), "those are positions; the table says where they lie"),
        (but_for(0, blocks), "those are blocks, not slots"),
        (but_for(0, nested), "one list for all sequences"),
        (but_for(0, entries_of_positions), "position // block_size is the entry"),
        (but_for(1, lambda *case: ragged_row(*case)[1][:-1]), "the end of the row"),
        (but_for(1, lambda *case: ragged_row(*case)[1][1:]), "begins at 0"),
        (but_for(1, lengths), "those are lengths; where in the row does each begin?"),
        (but_for(1, starts), "those are positions, not places"),
        (but_for(2, lengths), "a token looks at the earlier ones, too"),
        (but_for(2, starts), "a token looks at itself, too"),
        (
            but_for(2, lambda size, works: [stop - 1 for *_, stop in works]),
            "itself, too",
        ),
        (
            but_for(2, lambda size, works: [len(ids) * size for ids, *_ in works]),
            "empty",
        ),
        (lambda *case: ragged_row(*case)[:2], "three lists: got ([7, 21, 24,"),
        (lambda *case: ragged_row(*case)[0], "three lists: got [7, 21, 24,"),
        (takes_the_last_token_alone, "slots: got [7, 21, 44], expected [7, 21, 24"),
        (only_blocks_of_four, "slots: got [13, 14, 0], expected [1, 2, 0]"),
        (forgets_the_last_slot, "slots: got [7, 21, 24, 25"),
    ],
    "position_of": [
        (position_of_any, "expected None; the slot is in the last block, but empty"),
        (
            lambda ids, size, n, slot: slot,
            "(ids=[8, 9, 10, 11, 7], size=4, n=18, slot=43): got 43, expected 11; "
            "that is the slot; which token is in it?",
        ),
        (
            lambda ids, size, n, slot: ids.index(slot // size),
            "got 2, expected 11; that is the entry in the table; how many tokens",
        ),
        (lambda ids, size, n, slot: slot // size, "got 10, expected 11"),
        (
            lambda *case: position_of(*case) or None,
            "got None, expected 0; a token of this table lies there, or is a return",
        ),
        (lambda *case: position_of(*case) or 0, "got 0, expected None"),
        (
            lambda ids, size, n, slot: position_of(ids, 4, n, slot),
            "IndexError: list index out of range; the table lists block ids: look for",
        ),
        (
            lambda ids, size, n, slot: ids[slot // size] * size,
            "IndexError: list index out of range; the table lists block ids: look for",
        ),
        (
            lambda ids, size, n, slot: position_of(sorted(ids), size, n, slot),
            "got 15, expected 11",
        ),
        (
            lambda ids, size, n, slot: slot_of(ids, size, min(slot, n - 1)),
            "got 29, expected 11",
        ),
        (lambda *case: (position_of(*case), 0), "got (11, 0), expected 11"),
        (lambda *case: None, "got None, expected 11; a token of this table lies there"),
        (
            but_for_the_position(
                lambda ids, size, n, slot, at: ids.index(slot // size) * size
            ),
            "there its block begins; how far inside is the slot?",
        ),
        (
            but_for_the_position(lambda ids, size, n, slot, at: slot % size),
            "so far it is inside its block; how many tokens are before?",
        ),
        (
            but_for_the_position(
                lambda ids, size, n, slot, at: ids.index(slot // size) and at
            ),
            "is not in list; the slot's block need not be in the table",
        ),
        (
            but_for_the_position(
                lambda ids, size, n, slot, at: at if slot // size in ids else 5
            ),
            "got 5, expected None; the slot's block is not in the table",
        ),
    ],
    "attend": [
        (unmasked, "NaN; a slot was read that was never written"),
        (masked_too_late, "(a mask comes too late: 0 × NaN is NaN)"),
        (whatever_is_written, "off by up to"),
        (spoils_the_cache, "keys or values were changed; others need them"),
        (writes_over_others, "keys or values were changed; others need them"),
        (
            lambda q, k, v, ids, n: attend(q, k, v, sorted(ids), n),
            "Read the blocks in the table's order",
        ),
        (
            lambda q, k, v, ids, n: attend(
                q, k, v, ids if k.isnan().any() else sorted(ids), n
            ),
            "it is right if blocks were read by id: the table has an order",
        ),
        (lambda q, *rest: attend(q * 2, *rest), "off by up to 0.37"),
        (lambda q, *rest: attend(q * 4, *rest), "off by up to 0.79\n"),  # no more
        (lambda *case: attend(*case)[:1], "shape: got (1, 8), expected (4, 8)"),
        (lambda *case: attend(*case).tolist(), "expected a tensor"),
        (lambda *case: None, "got None, expected a tensor; is a return missing?"),
        (lambda q, k, v, *rest: attend(q, k.flip(2), v.flip(2), *rest), "off by up to"),
        (lambda q, k, v, *rest: attend(q, k, k, *rest), "it is right if keys were the"),
        (
            lambda q, k, v, ids, n: attend(q, k, v, ids, max(1, n - 1)),
            "right if the last token did not count",
        ),
        (
            lambda q, k, v, ids, n: attend(q, k, v, ids, n - 1),
            "right if the last token did not count",
        ),
        (without_groups, "6 heads share 2 KV heads"),
        (attend_by(lambda heads, dim: 1.0), "but for the scale, which is 1"),
        (attend_by(lambda heads, dim: dim**0.5), "which is head_dim ** 0.5"),
        (attend_by(lambda heads, dim: 1 / dim), "which is 1 / head_dim"),
        (attend_by(lambda heads, dim: dim), "but for the scale, which is head_dim"),
        (attend_by(lambda heads, dim: heads**-0.5), "which is num_heads ** -0.5"),
        (attend_by(axis=0), "it is right if softmax ran over heads, not over tokens"),
    ],
}
