"""Right and wrong attempts at appendix H's exercises."""


def heads(rank, num_ranks, num_heads, num_kv_heads):
    """Ranges, and the group, unlike the solution in the notebook."""
    if num_kv_heads % num_ranks:
        raise ValueError("cannot be shared out")
    group = num_heads // num_kv_heads
    own = [h for h in range(num_kv_heads) if h * num_ranks // num_kv_heads == rank]
    return range(own[0] * group, (own[-1] + 1) * group), own


def shares(gate, up, down, num_ranks):
    """Slices, unlike the solution in the notebook."""
    part, rest = divmod(gate.shape[0], num_ranks)
    if rest:
        raise ValueError("cannot be shared out")
    found = []
    for rank in range(num_ranks):
        own = slice(rank * part, (rank + 1) * part)
        found.append((gate[own], up[own], down[:, own]))
    return found


def all_reduce(numbers, rank, num_ranks, send, receive):
    """Pieces that go round, with their number, unlike the solution in the notebook."""
    size = -(-len(numbers) // num_ranks)
    pieces = [numbers[n * size : (n + 1) * size] for n in range(num_ranks)]
    for turn in range(2 * (num_ranks - 1)):
        send(pieces[(rank - turn) % num_ranks])
        came = (rank - turn - 1) % num_ranks
        got = receive()
        if turn < num_ranks - 1:
            got = [a + b for a, b in zip(pieces[came], got, strict=True)]
        pieces[came] = got
    return [number for piece in pieces for number in piece]


# --- what is wrong --------------------------------------------------------------------


def in_turn(rank, num_ranks, num_heads, num_kv_heads):
    if num_kv_heads % num_ranks:
        raise ValueError
    return [*range(rank, num_heads, num_ranks)], [*range(rank, num_kv_heads, num_ranks)]


def refuses_nothing(rank, num_ranks, num_heads, num_kv_heads):
    part, kv = num_heads // num_ranks, num_kv_heads // num_ranks
    return (
        [*range(rank * part, (rank + 1) * part)],
        [*range(rank * kv, (rank + 1) * kv)],
    )


def all_keys(rank, num_ranks, num_heads, num_kv_heads):
    return heads(rank, num_ranks, num_heads, num_kv_heads)[0], range(num_kv_heads)


def exchanged(*case):
    return heads(*case)[::-1]


def always_the_first(rank, *case):
    return heads(0, *case)


def down_by_outputs(gate, up, down, num_ranks):
    return [*zip(*(w.chunk(num_ranks) for w in (gate, up, down)), strict=True)]


def rows_first(gate, up, down, num_ranks):
    if gate.shape[0] % num_ranks:
        raise ValueError
    cut = [gate.chunk(num_ranks, 1), up.chunk(num_ranks, 1), down.chunk(num_ranks)]
    return [*zip(*cut, strict=True)]


def whole(gate, up, down, num_ranks):
    return [(gate, up, down)] * num_ranks


def other_places(gate, up, down, num_ranks):
    own = shares(gate, up, down, num_ranks)
    return [(gate[r::num_ranks], up[r::num_ranks], own[r][2]) for r in range(num_ranks)]


def the_same_for_all(gate, up, down, num_ranks):
    return shares(gate, up, down, num_ranks)[:1] * num_ranks


def uneven(gate, up, down, num_ranks):
    cut = [gate.tensor_split(num_ranks), up.tensor_split(num_ranks)]
    return [*zip(*cut, down.tensor_split(num_ranks, 1), strict=True)]


def everything_round(numbers, rank, num_ranks, send, receive):
    total, own = [*numbers], numbers
    for _ in range(num_ranks - 1):
        send(own)
        own = receive()
        total = [a + b for a, b in zip(total, own, strict=True)]
    return total


def receives_first(numbers, rank, num_ranks, send, receive):
    if num_ranks > 1:
        got = receive()
        send(numbers)
        return got
    return numbers


def its_own(numbers, rank, num_ranks, send, receive):
    return numbers


def once_round(numbers, rank, num_ranks, send, receive):
    """Each rank has one whole piece then, and nobody else hears of it."""
    size = -(-len(numbers) // num_ranks)
    pieces = [numbers[n * size : (n + 1) * size] for n in range(num_ranks)]
    for turn in range(num_ranks - 1):
        send(pieces[(rank - turn) % num_ranks])
        came = (rank - turn - 1) % num_ranks
        pieces[came] = [a + b for a, b in zip(pieces[came], receive(), strict=True)]
    return [number for piece in pieces for number in piece]


def never_received(numbers, rank, num_ranks, send, receive):
    found = all_reduce(numbers, rank, num_ranks, send, receive)
    send([])
    return found


def drops_the_rest(numbers, rank, num_ranks, send, receive):
    even = len(numbers) // num_ranks * num_ranks
    return all_reduce(numbers[:even], rank, num_ranks, send, receive)


FAULTS = {
    "heads": [
        (in_turn, "a query head and the KV head that it reads"),
        (refuses_nothing, "expected a ValueError"),
        (all_keys, "the KV heads of its own query heads only"),
        (exchanged, "the KV heads come second"),
        (always_the_first, "these are the heads of rank 0"),
        (lambda *case: [3], "expected two lists"),
    ],
    "shares": [
        (down_by_outputs, "down must be cut along the numbers that it reads"),
        (rows_first, "silu of a part of a sum"),
        (whole, "each rank has all of the weights"),
        (other_places, "the same places of gate, of up and of down"),
        (the_same_for_all, "two ranks have the same share"),
        (uneven, "expected a ValueError"),
    ],
    "all_reduce": [
        (everything_round, "sends 12 numbers, and"),
        (receives_first, "send before you receive"),
        (its_own, "these are its own numbers"),
        (once_round, "lack the numbers of some ranks"),
        (never_received, "has not received all that was sent"),
        (drops_the_rest, "3 ranks with 7 numbers"),
    ],
}
