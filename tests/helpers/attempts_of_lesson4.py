"""Right and wrong attempts at lesson 4's exercises."""

from minipaged.errors import OutOfBlocks


def beam_blocks(prompt, new, beams, block_size):
    whole = prompt // block_size
    return whole + beams * ((prompt + new + block_size - 1) // block_size - whole)


def append_one(pool, block_ids, num_tokens):
    if num_tokens == len(block_ids) * pool.block_size:
        block_ids.append(pool.allocate())
        return []
    tail = block_ids[-1]
    if pool.refcount(tail) == 1:
        return []
    block_ids[-1] = pool.allocate()
    pool.release(tail)
    return [(tail, block_ids[-1])]


def next_beams(tables, scores, log_probs):
    """Forks for every child, and frees all parents: simple, and as right."""
    width, vocabulary = log_probs.shape
    best, index = (log_probs + scores[:, None]).flatten().topk(width)
    children = [tables[parent].fork() for parent in (index // vocabulary).tolist()]
    for table in tables:
        table.free()
    return children, (index % vocabulary).tolist(), best.tolist()


# --- what is wrong --------------------------------------------------------------------


def never_copies(pool, block_ids, num_tokens):
    if num_tokens == len(block_ids) * pool.block_size:
        block_ids.append(pool.allocate())
    return []


def always_copies(pool, block_ids, num_tokens):
    if num_tokens == len(block_ids) * pool.block_size:
        block_ids.append(pool.allocate())
        return []
    tail, block_ids[-1] = block_ids[-1], pool.allocate()
    pool.release(tail)
    return [(tail, block_ids[-1])]


def copies_a_full_tail(pool, block_ids, num_tokens):
    copies = []
    if block_ids and pool.refcount(block_ids[-1]) > 1:
        tail, block_ids[-1] = block_ids[-1], pool.allocate()
        pool.release(tail)
        copies = [(tail, block_ids[-1])]
    if num_tokens == len(block_ids) * pool.block_size:
        block_ids.append(pool.allocate())
    return copies


def keeps_its_hold(pool, block_ids, num_tokens):
    before = list(block_ids)
    copies = append_one(pool, block_ids, num_tokens)
    for source, _ in copies:
        pool.share(source)
    assert before is not block_ids
    return copies


def looks_at_the_first_block(pool, block_ids, num_tokens):
    if num_tokens % pool.block_size and pool.refcount(block_ids[0]) > 1:
        tail, block_ids[-1] = block_ids[-1], pool.allocate()
        pool.release(tail)
        return [(tail, block_ids[-1])]
    return append_one(pool, block_ids, num_tokens)


def lets_go_first(pool, block_ids, num_tokens):
    """If nothing is free, the hold is lost."""
    if num_tokens % pool.block_size and pool.refcount(block_ids[-1]) > 1:
        pool.release(block_ids[-1])
        tail, block_ids[-1] = block_ids[-1], pool.allocate()
        return [(tail, block_ids[-1])]
    return append_one(pool, block_ids, num_tokens)


def the_other_way_round(pool, block_ids, num_tokens):
    copies = append_one(pool, block_ids, num_tokens)
    return [(copy, source) for source, copy in copies]


def copies_everything(pool, block_ids, num_tokens):
    copies = []
    for index, block_id in enumerate(block_ids):
        if pool.refcount(block_id) > 1:
            block_ids[index] = pool.allocate()
            pool.release(block_id)
            copies.append((block_id, block_ids[index]))
    if num_tokens == len(block_ids) * pool.block_size:
        block_ids.append(pool.allocate())
    return copies


def refuses_the_last_holder(pool, block_ids, num_tokens):
    if pool.num_free == 0:
        raise OutOfBlocks(1, 0, pool.num_blocks)
    return append_one(pool, block_ids, num_tokens)


def returns_nothing(pool, block_ids, num_tokens):
    append_one(pool, block_ids, num_tokens)


def one_table_for_all(tables, scores, log_probs):
    """No fork: siblings hold one table object."""
    width, vocabulary = log_probs.shape
    best, index = (log_probs + scores[:, None]).flatten().topk(width)
    parents = (index // vocabulary).tolist()
    for number, table in enumerate(tables):
        if number not in parents:
            table.free()
    return [tables[p] for p in parents], (index % vocabulary).tolist(), best.tolist()


def never_frees(tables, scores, log_probs):
    width, vocabulary = log_probs.shape
    best, index = (log_probs + scores[:, None]).flatten().topk(width)
    children = [tables[parent].fork() for parent in (index // vocabulary).tolist()]
    return children, (index % vocabulary).tolist(), best.tolist()


def frees_first(tables, scores, log_probs):
    width, vocabulary = log_probs.shape
    best, index = (log_probs + scores[:, None]).flatten().topk(width)
    for table in tables:
        table.free()
    parents = (index // vocabulary).tolist()
    return (
        [tables[p].fork() for p in parents],
        (index % vocabulary).tolist(),
        best.tolist(),
    )


def the_best_child_of_each(tables, scores, log_probs):
    best, tokens = log_probs.max(dim=1)
    return tables, tokens.tolist(), (best + scores).tolist()


def two_children_at_most(tables, scores, log_probs):
    width = len(tables)
    best, tokens = log_probs.topk(2, dim=1)
    kept, index = (best + scores[:, None]).flatten().topk(width)
    children = [tables[parent].fork() for parent in (index // 2).tolist()]
    for table in tables:
        table.free()
    return children, tokens.flatten()[index].tolist(), kept.tolist()


def forgets_the_past(tables, scores, log_probs):
    return next_beams(tables, scores * 0, log_probs)


def worst_first(tables, scores, log_probs):
    return tuple(part[::-1] for part in next_beams(tables, scores, log_probs))


def appends_too(tables, scores, log_probs):
    children, tokens, best = next_beams(tables, scores, log_probs)
    for child in children:
        child.append(1)
    return children, tokens, best


def probabilities(tables, scores, log_probs):
    return next_beams(tables, scores, log_probs.exp())


WRONG = {
    "beam_blocks": [
        lambda prompt, new, beams, size: 12,  # as a well-known lesson counts
        lambda prompt, new, beams, size: beams * -(-(prompt + new) // size),
        lambda prompt, new, beams, size: -(-prompt // size) + beams * -(-new // size),
        lambda prompt, new, beams, size: prompt // size + beams * -(-new // size),
        lambda prompt, new, beams, size: beam_blocks(prompt, new, beams, 16),
        lambda prompt, new, beams, size: -(-(prompt + beams * new) // size),
    ],
    "append_one": [
        never_copies,
        always_copies,
        copies_a_full_tail,
        keeps_its_hold,
        looks_at_the_first_block,
        lets_go_first,
        the_other_way_round,
        copies_everything,
        refuses_the_last_holder,
        returns_nothing,
    ],
    "next_beams": [
        one_table_for_all,
        never_frees,
        frees_first,
        the_best_child_of_each,
        two_children_at_most,
        forgets_the_past,
        worst_first,
        appends_too,
        probabilities,
    ],
}
