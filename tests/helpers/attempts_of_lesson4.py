"""Right and wrong attempts at lesson 4's exercises."""

from minipaged.errors import OutOfBlocks


def is_done(kept, k, best_sum, n, longest, alpha, early_stopping):
    if len(kept) < k or early_stopping is True:
        return len(kept) == k
    length = longest if early_stopping == "never" and alpha > 0 else n
    return best_sum / length**alpha <= kept[-1]


def turned_round(kept, k, best_sum, n, longest, alpha, early_stopping):
    if len(kept) < k or early_stopping is True:
        return len(kept) == k
    length = longest if early_stopping == "never" and alpha > 0 else n
    return best_sum / length**alpha > kept[-1]


def divides_by_zero(kept, k, best_sum, n, longest, alpha, early_stopping):
    """Times alpha, which may be 0."""
    if len(kept) < k or early_stopping is True:
        return len(kept) == k
    length = longest if early_stopping == "never" and alpha > 0 else n
    return best_sum / (length * alpha) <= kept[-1]


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


def forgets_the_empty_slots(pool, block_ids, num_tokens, n):
    """As if the new tokens began a block."""
    wanted = -(-n // pool.block_size)
    if wanted > pool.num_free:
        raise OutOfBlocks(wanted, pool.num_free, pool.num_blocks)
    return append(pool, block_ids, num_tokens, n)


def forgets_the_empty_slots_of_a_copy(pool, block_ids, num_tokens, n):
    """As if the copy were full, and the new tokens began a block."""
    if n and num_tokens % pool.block_size and pool.refcount(block_ids[-1]) > 1:
        wanted = 1 - (-n // pool.block_size)
        if wanted > pool.num_free:
            raise OutOfBlocks(wanted, pool.num_free, pool.num_blocks)
    return append(pool, block_ids, num_tokens, n)


def one_token_only(pool, block_ids, num_tokens, n):
    return append(pool, block_ids, num_tokens, min(n, 1))


def one_too_many(pool, block_ids, num_tokens, n):
    """A next block as soon as the last one is just full."""
    copies = append(pool, block_ids, num_tokens, n)
    if n and (num_tokens + n) % pool.block_size == 0:
        if not pool.num_free:
            raise OutOfBlocks(1, 0, pool.num_blocks)
        block_ids.append(pool.allocate())
    return copies


def counts_a_copy_of_a_full_block(pool, block_ids, num_tokens, n):
    """Copies nothing that it need not, but wants the room for it."""
    wanted = -(-(num_tokens + n) // pool.block_size) - len(block_ids)
    wanted += bool(n and block_ids and pool.refcount(block_ids[-1]) > 1)
    if wanted > pool.num_free:
        raise OutOfBlocks(wanted, pool.num_free, pool.num_blocks)
    return append(pool, block_ids, num_tokens, n)


def a_list_of_its_own(pool, block_ids, num_tokens, n):
    return append(pool, list(block_ids), num_tokens, n)


def points_to_the_old_block(pool, block_ids, num_tokens, n):
    copies = append(pool, block_ids, num_tokens, n)
    for source, copy in copies:
        block_ids[block_ids.index(copy)] = source
    return copies


def keeps_silent_about_the_copy(pool, block_ids, num_tokens, n):
    append(pool, block_ids, num_tokens, n)
    return []


def takes_what_there_is(pool, block_ids, num_tokens, n):
    """Never refuses."""
    size = pool.block_size
    room = (len(block_ids) + pool.num_free) * size - num_tokens
    tail = num_tokens % size and n and pool.refcount(block_ids[-1]) > 1
    if tail and not pool.num_free:
        return []
    return append(pool, block_ids, num_tokens, min(n, room - tail * size))


def says_nothing_of_the_copy(pool, block_ids, num_tokens, n):
    """Refuses when it should, and says that fewer blocks are wanted."""
    try:
        return append(pool, block_ids, num_tokens, n)
    except OutOfBlocks as error:
        wanted = -(-(num_tokens + n) // pool.block_size) - len(block_ids)
        raise OutOfBlocks(wanted, error.free, error.total) from None


def sorts_the_blocks(pool, block_ids, num_tokens, n):
    copies = append(pool, block_ids, num_tokens, n)
    block_ids.sort()
    return copies


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


def ends_go_on(tables, scores, log_probs, eos):
    """They are answers, and beams as well."""
    width = len(tables)
    *parts, _ = next_beams(tables, scores, log_probs, eos=-1)
    ended = [
        (0, total)
        for token, total in zip(parts[1][:width], parts[2], strict=True)
        if token == eos
    ]
    return *parts, ended


def swaps_beam_and_token(tables, scores, log_probs, eos):
    vocabulary = log_probs.shape[1]
    _, index = (log_probs + scores[:, None]).flatten().topk(2 * len(tables))
    going = [one // vocabulary for one in index.tolist()]
    going = [token for token in going if token != eos][: len(tables)]
    children, _, *rest = next_beams(tables, scores, log_probs, eos)
    return children, going, *rest


def looks_for_a_beam_by_its_token(tables, scores, log_probs, eos):
    vocabulary = log_probs.shape[1]
    index = (log_probs + scores[:, None]).flatten().topk(2 * len(tables))[1].tolist()
    children = [tables[one % vocabulary].fork() for one in index]
    return children, index, scores, []


def frees_only_the_childless(tables, scores, log_probs, eos):
    before = [list(table.block_ids) for table in tables]
    held = [table.fork() for table in tables]
    answer = next_beams(tables, scores, log_probs, eos)
    parents = [table.block_ids for table in answer[0]]
    for block_ids, table in zip(before, held, strict=True):
        if block_ids not in parents:
            table.free()
    return answer


def tables_in_pairs(tables, scores, log_probs, eos):
    kept = list(tables)
    *parts, ended = next_beams(tables, scores, log_probs, eos)
    return *parts, [(kept[beam], total) for beam, total in ended]


def ends_take_places(tables, scores, log_probs, eos):
    children, tokens, sums, ended = next_beams(tables, scores, log_probs, eos)
    going = len(children) - len(ended)
    for child in children[going:]:
        child.free()
    return children[:going], tokens[:going], sums[:going], ended


def tokens_in_pairs(tables, scores, log_probs, eos):
    *parts, ended = next_beams(tables, scores, log_probs, eos)
    return *parts, [(eos, total) for _, total in ended]


def ranks_in_pairs(tables, scores, log_probs, eos):
    width, vocabulary = log_probs.shape
    *parts, _ = next_beams(tables, scores, log_probs, eos)
    best, index = (log_probs + scores[:, None]).flatten().topk(width)
    ranked = enumerate(zip(index.tolist(), best.tolist(), strict=True))
    return *parts, [(i, s) for i, (one, s) in ranked if one % vocabulary == eos]


def the_heir_takes_over(tables, scores, log_probs, eos):
    """Right: the first child of a beam gets its table, as in the package."""
    width, vocabulary = log_probs.shape
    best, index = (log_probs + scores[:, None]).flatten().topk(2 * width)
    pairs = [divmod(one, vocabulary) for one in index.tolist()]
    ranked = [(*pair, total) for pair, total in zip(pairs, best.tolist(), strict=True)]
    ended = [(beam, total) for beam, token, total in ranked[:width] if token == eos]
    going = [one for one in ranked if one[1] != eos][:width]
    children, heirs = [], set()
    for beam, _, _ in going:
        children.append(tables[beam].fork() if beam in heirs else tables[beam])
        heirs.add(beam)
    for beam, table in enumerate(tables):
        if beam not in heirs:
            table.free()
    return children, [t for _, t, _ in going], [s for _, _, s in going], ended


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


def all_go_on(tables, scores, log_probs, eos):
    """Every candidate that does not end, more than k of them."""
    width, vocabulary = log_probs.shape
    best, index = (log_probs + scores[:, None]).flatten().topk(2 * width)
    rows = zip(best.tolist(), index.tolist(), strict=True)
    going = [(*divmod(one, vocabulary), total) for total, one in rows]
    going = [one for one in going if one[1] != eos]
    children = [tables[beam].fork() for beam, _, _ in going]
    for table in tables:
        table.free()
    return children, [one[1] for one in going], [one[2] for one in going], []


def nothing_ends(tables, scores, log_probs, eos):
    return next_beams(tables, scores, log_probs, eos=-1)


def forgets_who_ended(tables, scores, log_probs, eos):
    *parts, _ = next_beams(tables, scores, log_probs, eos)
    return *parts, []


def sums_without_beams(tables, scores, log_probs, eos):
    *parts, ended = next_beams(tables, scores, log_probs, eos)
    return *parts, [total for _, total in ended]


def sums_first(tables, scores, log_probs, eos):
    *parts, ended = next_beams(tables, scores, log_probs, eos)
    return *parts, [pair[::-1] for pair in ended]


def forks_what_has_ended(tables, scores, log_probs, eos):
    """Wrong: nobody frees the fork of a text that ended."""
    forks = [table.fork() for table in tables]
    *parts, ended = next_beams(forks, scores, log_probs, eos)
    held = {beam for beam, _ in ended}
    for beam, table in enumerate(tables):
        if beam not in held:
            table.free()
    return *parts, ended


def three_lists(tables, scores, log_probs, eos):
    return next_beams(tables, scores, log_probs, eos)[:3]


def takes_the_longest(kept, k, best_sum, n, longest, alpha, way):
    """Wrong: with "never", also where a longer text has a lower score."""
    if len(kept) < k or way is True:
        return len(kept) == k
    return best_sum / (longest if way == "never" else n) ** alpha <= kept[-1]


def times_alpha(kept, k, best_sum, n, longest, alpha, early_stopping):
    if len(kept) < k or early_stopping is True:
        return len(kept) == k
    length = longest if early_stopping == "never" and alpha > 0 else n
    return best_sum / (length * alpha or 1) <= kept[-1]


def must_be_worse(kept, k, best_sum, n, longest, alpha, way):
    """Wrong: goes on with a beam that is only as good."""
    done = is_done(kept, k, best_sum, n, longest, alpha, way)
    length = longest if way == "never" and alpha > 0 else n
    return done and (way is True or best_sum / length**alpha != kept[-1])


def takes_the_next_block(pool, block_ids, num_tokens, n):
    """Of a block that is just full, the next one at once."""
    copies = append(pool, block_ids, num_tokens, n)
    if n and (num_tokens + n) % pool.block_size == 0 and pool.num_free:
        block_ids.append(pool.allocate())
    return copies


def shares_the_last(pool, block_ids, num_tokens, n):
    copies = append(pool, block_ids, num_tokens, n)
    if n:
        pool.share(block_ids[-1])
    return copies


def loses_a_block(pool, block_ids, num_tokens, n):
    copies = append(pool, block_ids, num_tokens, n)
    if pool.num_free:
        pool.allocate()
    return copies


def loses_a_block_when_it_refuses(pool, block_ids, num_tokens, n):
    try:
        return append(pool, block_ids, num_tokens, n)
    except OutOfBlocks:
        if pool.num_free:
            pool.allocate()
        raise


def adds_sums_of_no_row(tables, scores, log_probs, eos):
    return next_beams(tables, scores, log_probs + scores, eos)


def wrong_sums_of_the_ended(*case):
    *others, ended = next_beams(*case)
    return *others, [(beam, total + 1) for beam, total in ended]


def one_table_more(*case):
    tables, *others = next_beams(*case)
    return [*tables, tables[0].fork()], *others


# What the check must say of each mistake.
FAULTS = {
    "is_done": [
        (lambda *case: not is_done(*case), "that says whether the search goes on"),
        (lambda *case: None, "is a return missing?"),
        (
            lambda kept, k, *rest: bool(kept) and is_done(kept, len(kept), *rest),
            "got True, expected False; with fewer than k answers it goes on",
        ),
        (
            lambda kept, k, *rest: (
                rest[-1] is True or (bool(kept) and is_done(kept, len(kept), *rest))
            ),
            "with fewer than k answers it goes on, whatever else is asked for",
        ),
        (
            lambda kept, k, *rest: (
                len(kept) == k and (bool(rest[-1]) or is_done(kept, k, *rest))
            ),
            'the text "never" counts as true',
        ),
        (
            lambda *case: is_done(*case[:-1], case[-1] is True),
            '"never" is not False: it takes the best possible length',
        ),
        (
            lambda *case: is_done(*case[:-1], case[-1] or "never"),
            "False takes the present length, L",
        ),
        (takes_the_longest, "the best length for alpha > 0 only"),
        (turned_round, "the comparison is turned round"),
        (divides_by_zero, "raised to the power alpha: length ** alpha"),
        (
            lambda kept, *rest: is_done(kept[:1] * len(kept), *rest),
            "the worst answer kept, not the best",
        ),
        (
            lambda kept, k, best, n, longest, alpha, way: is_done(
                kept, k, best, n, longest, 0.0, way
            ),
            "the sum must be divided by length ** alpha",
        ),
        (must_be_worse, "with equal scores it stops"),
        (
            lambda kept, k, *rest: rest[-1] is True or is_done(kept, k, *rest),
            "with fewer than k answers it goes on, also with True",
        ),
        (times_alpha, "length ** alpha"),
        (
            lambda kept, k, best, n, longest, *rest: is_done(
                kept, k, best, n, longest - n, *rest
            ),
            "'never'): got True, expected False",
        ),
        (
            lambda kept, k, best, n, longest, *rest: is_done(
                kept, k, best, n, longest - 1, *rest
            ),
            "'never'): got True, expected False",
        ),
        (
            lambda kept, k, best, n, longest, alpha, way: is_done(
                kept, k, best, n, longest, 1.0, way
            ),
            "divide by length ** alpha, not by the length",
        ),
        (
            lambda *case: case[-1] != "never" and is_done(*case),
            '"never" stops, too, if nothing better is possible',
        ),
        (
            lambda kept, k, best, n, longest, alpha, way: (
                len(kept) == k
                and (
                    way is True
                    or best / (longest if way == "never" and alpha > 0 else n) ** alpha
                    >= kept[-1]
                )
            ),
            "it goes on if the beam is better than the worst answer kept",
        ),
    ],
    "append": [
        (never_copies, "block 1 is written, though others hold it too"),
        (always_copies, "block 1 has no other holder: it is written in place"),
        (copies_for_nothing, "n = 0 writes nothing"),
        (copies_a_full_tail, "block 1 is full: a full block is never copied"),
        (
            counts_a_copy_of_a_full_block,
            "refused, but it fits: 1 block needed, 1 free; block 1 is full: a full",
        ),
        (one_too_many, "a block that is just full needs no next one yet"),
        (keeps_its_hold, "has 2 holders, expected 1; release the block that was"),
        (looks_at_the_first_block, "and no other holder: no new block, no copy"),
        (
            lets_go_first,
            "rightly refused, but its blocks now have [1] holders, not [2]",
        ),
        (half_done, "rightly refused, but the table now is"),
        (half_done, "count first, then take"),
        (forgets_the_copy_in_the_count, "a copy needs a block, too"),
        (forgets_the_copy_in_the_count, "rightly refused, but the table now is [2]"),
        (takes_what_there_is, "raised no OutOfBlocks; 1 needed"),
        (
            says_nothing_of_the_copy,
            "the error says 0 wanted; 1 needed, one of them for the copy",
        ),
        (the_other_way_round, "first the source, then the copy"),
        (keeps_silent_about_the_copy, "else nobody copies the content"),
        (points_to_the_old_block, "let it point to the copy"),
        (copies_everything, "block 1 is full: a full block is never copied"),
        (sorts_the_blocks, "the blocks before the last one must stay"),
        (
            refuses_the_last_holder,
            "refused, but it fits: 1 more goes into block 1, which has 3 empty slots "
            "and no other holder: no new block, no copy",
        ),
        (
            forgets_the_empty_slots,
            "refused, but it fits: 1 more goes into block 1, which has 3 empty slots "
            "and no other holder: no new block, no copy",
        ),
        (
            forgets_the_empty_slots_of_a_copy,
            "refused, but it fits: 1 block needed, 1 free; only block 1 must be "
            "copied: 1 more goes into the copy, with 3 empty slots",
        ),
        (one_token_only, "is there room for all 2 tokens?"),
        (a_list_of_its_own, "append the new blocks to the list itself"),
        (returns_nothing, "got None, expected a list of pairs; is a return missing?"),
        (takes_the_next_block, "a block that is just full needs no next one yet"),
        (shares_the_last, "a block that is written has no other holder"),
        (loses_a_block, "free blocks afterwards: got 1, expected 2"),
        (loses_a_block_when_it_refuses, "are free now, not"),
        (returns_a_pair, "returned (1, 2), expected a list of pairs: [(1, 2)]"),
    ],
    "next_beams": [
        (one_table_for_all, "siblings hold one table: fork the parent for each child"),
        (never_frees, "free all parents after forking"),
        (frees_only_the_childless, "free all parents after forking"),
        (frees_first, "fork for all children, then free the parents"),
        (the_best_child_of_each, "that is the best token of each beam"),
        (forgets_the_past, "that is the ranking by log_probs alone; add sums"),
        (worst_first, "worst first; they must be best first"),
        (appends_too, "appending is left to the next step"),
        (probabilities, "probabilities, not their logarithms, were added"),
        (swaps_beam_and_token, "index // V is the beam, index % V the token"),
        (looks_for_a_beam_by_its_token, "is index // V the beam, and index % V the"),
        (few_candidates, "look at 2k candidates: k go on"),
        (all_go_on, "only the best k go on"),
        (all_may_end, "an end behind the first k candidates does not count"),
        (nothing_ends, "token 1 is eos: a text that ended does not go on"),
        (ends_go_on, "token 1 is eos: a text that ended does not go on"),
        (forgets_who_ended, "a candidate whose token is 1 (eos) has ended"),
        (tables_in_pairs, "a pair is (index of the beam, sum), no table"),
        (ends_take_places, "k go on, beside those that ended"),
        (tokens_in_pairs, "a pair is (index of the beam, sum), without the token"),
        (ranks_in_pairs, "that is its place among the candidates; of what beam is it?"),
        (sums_without_beams, "expected pairs"),
        (sums_first, "a pair is (beam, sum), in this order"),
        (forks_what_has_ended, "neither for a text that ended"),
        (three_lists, "expected four lists"),
        (adds_sums_of_no_row, "there is a sum for each row: sums[:, None]"),
        (wrong_sums_of_the_ended, "sums of those that ended: got"),
        (one_table_more, "number of tables, tokens, sums: got [3, 2, 2], expected [2"),
        (
            lambda *arguments: None,
            "got None, expected four lists; is a return missing?",
        ),
    ],
}
