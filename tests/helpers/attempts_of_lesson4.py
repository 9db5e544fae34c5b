"""Right and wrong attempts at lesson 4's exercises."""

from minipaged.errors import OutOfBlocks


def beam_blocks(prompt, new, beams, block_size):
    whole = prompt // block_size
    return whole + beams * ((prompt + new + block_size - 1) // block_size - whole)


def append(pool, block_ids, num_tokens, n):
    wanted = -(-(num_tokens + n) // pool.block_size) - len(block_ids)
    copies = []
    if n and num_tokens % pool.block_size and pool.refcount(block_ids[-1]) > 1:
        wanted += 1
        copies = [block_ids[-1]]
    if wanted > pool.num_free:
        raise OutOfBlocks(wanted, pool.num_free, pool.num_blocks)
    taken = [pool.allocate() for _ in range(wanted)]
    if copies:
        block_ids.pop()
        pool.release(copies[0])
        copies = [(copies[0], taken[0])]
    block_ids += taken
    return copies


def next_beams(tables, scores, log_probs, eos, few=False, late=False):
    """Forks for every child, and frees all parents: simple, and as right."""
    width, vocabulary = log_probs.shape
    count = width if few else 2 * width
    best, index = (log_probs + scores[:, None]).flatten().topk(count)
    going, ended = [], []
    pairs = zip(best.tolist(), index.tolist(), strict=True)
    for rank, (total, one) in enumerate(pairs):
        beam, token = divmod(one, vocabulary)
        if token != eos:
            going.append((tables[beam], token, total))
        elif rank < width or late:
            ended.append((beam, total))
    going = going[:width]
    children = [table.fork() for table, _, _ in going]
    for table in tables:
        table.free()
    return children, [t for _, t, _ in going], [s for _, _, s in going], ended


# --- what is wrong --------------------------------------------------------------------


def never_copies(pool, block_ids, num_tokens, n):
    wanted = -(-(num_tokens + n) // pool.block_size) - len(block_ids)
    if wanted > pool.num_free:
        raise OutOfBlocks(wanted, pool.num_free, pool.num_blocks)
    block_ids += [pool.allocate() for _ in range(wanted)]
    return []


def always_copies(pool, block_ids, num_tokens, n):
    """Also if nobody else holds the block."""
    copies = append(pool, block_ids, num_tokens, n)
    if n and num_tokens % pool.block_size and not copies and pool.num_free:
        at = num_tokens // pool.block_size
        tail, block_ids[at] = block_ids[at], pool.allocate()
        pool.release(tail)
        return [(tail, block_ids[at])]
    return copies


def copies_for_nothing(pool, block_ids, num_tokens, n):
    """Also if no token is to be written."""
    if n == 0 and num_tokens % pool.block_size and pool.refcount(block_ids[-1]) > 1:
        tail, block_ids[-1] = block_ids[-1], pool.allocate()
        pool.release(tail)
        return [(tail, block_ids[-1])]
    return append(pool, block_ids, num_tokens, n)


def copies_a_full_tail(pool, block_ids, num_tokens, n):
    copies = []
    if block_ids and pool.refcount(block_ids[-1]) > 1:
        tail, block_ids[-1] = block_ids[-1], pool.allocate()
        pool.release(tail)
        copies = [(tail, block_ids[-1])]
    never_copies(pool, block_ids, num_tokens, n)
    return copies


def keeps_its_hold(pool, block_ids, num_tokens, n):
    copies = append(pool, block_ids, num_tokens, n)
    for source, _ in copies:
        pool.share(source)
    return copies


def looks_at_the_first_block(pool, block_ids, num_tokens, n):
    if n and num_tokens % pool.block_size and pool.refcount(block_ids[0]) > 1:
        tail, block_ids[-1] = block_ids[-1], pool.allocate()
        pool.release(tail)
        never_copies(pool, block_ids, num_tokens, n)
        return [(tail, block_ids[-1])]
    return append(pool, block_ids, num_tokens, n)


def lets_go_first(pool, block_ids, num_tokens, n):
    """If nothing is free, the hold is lost."""
    if n and num_tokens % pool.block_size and pool.refcount(block_ids[-1]) > 1:
        pool.release(block_ids[-1])
        tail, block_ids[-1] = block_ids[-1], pool.allocate()
        never_copies(pool, block_ids, num_tokens, n)
        return [(tail, block_ids[num_tokens // pool.block_size])]
    return append(pool, block_ids, num_tokens, n)


def half_done(pool, block_ids, num_tokens, n):
    """Copies before it has counted."""
    copies = []
    if n and num_tokens % pool.block_size and pool.refcount(block_ids[-1]) > 1:
        tail, block_ids[-1] = block_ids[-1], pool.allocate()
        pool.release(tail)
        copies = [(tail, block_ids[-1])]
    never_copies(pool, block_ids, num_tokens, n)
    return copies


def forgets_the_copy_in_the_count(pool, block_ids, num_tokens, n):
    """Counts new blocks only, and finds too late that there is none for the copy."""
    wanted = -(-(num_tokens + n) // pool.block_size) - len(block_ids)
    if wanted > pool.num_free:
        raise OutOfBlocks(wanted, pool.num_free, pool.num_blocks)
    return half_done(pool, block_ids, num_tokens, n)


def the_other_way_round(pool, block_ids, num_tokens, n):
    copies = append(pool, block_ids, num_tokens, n)
    return [(copy, source) for source, copy in copies]


def copies_everything(pool, block_ids, num_tokens, n):
    copies = []
    for index, block_id in enumerate(block_ids):
        if pool.refcount(block_id) > 1:
            block_ids[index] = pool.allocate()
            pool.release(block_id)
            copies.append((block_id, block_ids[index]))
    never_copies(pool, block_ids, num_tokens, n)
    return copies


def refuses_the_last_holder(pool, block_ids, num_tokens, n):
    if pool.num_free == 0:
        raise OutOfBlocks(1, 0, pool.num_blocks)
    return append(pool, block_ids, num_tokens, n)


def one_token_only(pool, block_ids, num_tokens, n):
    return append(pool, block_ids, num_tokens, min(n, 1))


def returns_nothing(pool, block_ids, num_tokens, n):
    append(pool, block_ids, num_tokens, n)


def returns_a_pair(pool, block_ids, num_tokens, n):
    copies = append(pool, block_ids, num_tokens, n)
    return copies[0] if copies else []


def one_table_for_all(tables, scores, log_probs, eos):
    """No fork: siblings hold one table object."""
    before = [table.block_ids[:] for table in tables]
    children, tokens, best, ended = next_beams(
        [table.fork() for table in tables], scores, log_probs, eos
    )
    parents = [before.index(child.block_ids) for child in children]
    for table in children:
        table.free()
    for number, table in enumerate(tables):
        if number not in parents:
            table.free()
    return [tables[parent] for parent in parents], tokens, best, ended


def never_frees(tables, scores, log_probs, eos):
    return next_beams([table.fork() for table in tables], scores, log_probs, eos)


def frees_first(tables, scores, log_probs, eos):
    for table in tables:
        table.free()
    return next_beams(tables, scores, log_probs, eos)


def the_best_child_of_each(tables, scores, log_probs, eos):
    best, tokens = log_probs.max(dim=1)
    ends = [(beam, s) for beam, s in enumerate(best.tolist()) if tokens[beam] == eos]
    return tables, tokens.tolist(), (best + scores).tolist(), ends


def forgets_the_past(tables, scores, log_probs, eos):
    return next_beams(tables, scores * 0, log_probs, eos)


def worst_first(tables, scores, log_probs, eos):
    *parts, ended = next_beams(tables, scores, log_probs, eos)
    return *(part[::-1] for part in parts), ended


def appends_too(tables, scores, log_probs, eos):
    children, *rest = next_beams(tables, scores, log_probs, eos)
    for child in children:
        child.append(1)
    return children, *rest


def probabilities(tables, scores, log_probs, eos):
    return next_beams(tables, scores, log_probs.exp(), eos)


def few_candidates(tables, scores, log_probs, eos):
    """As many as beams: too few, if some of them end."""
    return next_beams(tables, scores, log_probs, eos, few=True)


def all_may_end(tables, scores, log_probs, eos):
    """Also those that are not among the best."""
    return next_beams(tables, scores, log_probs, eos, late=True)


def nothing_ends(tables, scores, log_probs, eos):
    return next_beams(tables, scores, log_probs, eos=-1)


def forgets_who_ended(tables, scores, log_probs, eos):
    *parts, _ = next_beams(tables, scores, log_probs, eos)
    return *parts, []


def sums_without_beams(tables, scores, log_probs, eos):
    *parts, ended = next_beams(tables, scores, log_probs, eos)
    return *parts, [total for _, total in ended]


def three_lists(tables, scores, log_probs, eos):
    return next_beams(tables, scores, log_probs, eos)[:3]


WRONG = {
    "beam_blocks": [
        lambda prompt, new, beams, size: 12,  # as a well-known lesson counts
        lambda prompt, new, beams, size: beams * -(-(prompt + new) // size),
        lambda prompt, new, beams, size: -(-prompt // size) + beams * -(-new // size),
        lambda prompt, new, beams, size: prompt // size + beams * -(-new // size),
        lambda prompt, new, beams, size: beam_blocks(prompt, new, beams, 16),
        lambda prompt, new, beams, size: -(-(prompt + beams * new) // size),
    ],
    "append": [
        never_copies,
        always_copies,
        copies_for_nothing,
        copies_a_full_tail,
        keeps_its_hold,
        looks_at_the_first_block,
        lets_go_first,
        half_done,
        forgets_the_copy_in_the_count,
        the_other_way_round,
        copies_everything,
        refuses_the_last_holder,
        one_token_only,
        returns_nothing,
        returns_a_pair,
    ],
    "next_beams": [
        one_table_for_all,
        never_frees,
        frees_first,
        the_best_child_of_each,
        forgets_the_past,
        worst_first,
        appends_too,
        probabilities,
        few_candidates,
        all_may_end,
        nothing_ends,
        forgets_who_ended,
        sums_without_beams,
        three_lists,
    ],
}
