"""Right and wrong attempts at appendix B's exercises."""

from collections import deque

from minipaged.errors import OutOfBlocks


def num_preempted(held, wanted, free):
    """By recursion, unlike the solution in the notebook."""
    if len(held) < 2 or sum(wanted) <= free:
        return 0
    return 1 + num_preempted(held[:-1], wanted[:-1], free + held[-1])


def swap_out(tables, rows, store):
    """Counts by sets, unlike the solution in the notebook."""
    wanted = len({block for table in tables for block in table.block_ids})
    if wanted > rows.num_free:
        raise OutOfBlocks(wanted, rows.num_free, rows.num_blocks)
    row_of, places = {}, []
    for table in tables:
        for block in table.block_ids:
            if block not in row_of:
                row_of[block] = rows.allocate()
                store(block, row_of[block])
        places.append([row_of[block] for block in table.block_ids])
    for table in tables:
        table.free()
    return places


def schedule(
    requests,
    num_blocks,
    block_size,
    victim=-1,
    more=1,
    last=1,
    to_end=False,
    copied=True,
    patient=True,
):
    """With lists for both lines, unlike the solution in the notebook."""
    waiting, running, steps = deque(range(len(requests))), [], []
    said, held = [0 for _ in requests], [0 for _ in requests]
    came_back = [False for _ in requests]

    def wanted(one, extra=0):
        prompt, new = requests[one]
        end = min(prompt + said[one] + extra, prompt + new - last)
        return max(0, (end + block_size - 1) // block_size - held[one])

    while waiting or running:
        while len(running) > 1 and sum(map(wanted, running)) + sum(held) > num_blocks:
            gone = running.pop(victim)
            held[gone] = 0
            came_back[gone] = True
            (waiting.append if to_end else waiting.appendleft)(gone)
        spare = num_blocks - sum(held) - sum(map(wanted, running))
        while waiting and wanted(waiting[0], more) <= spare:
            is_new = not came_back[waiting[0]]
            if patient and is_new and any(came_back[one] for one in running):
                break
            spare -= wanted(waiting[0], more)
            running.append(waiting.popleft())
        if not running or len(steps) > 500:
            return steps
        steps.append(running.copy())
        for one in steps[-1] if copied else running:
            held[one] += wanted(one)
            said[one] += 1
            if said[one] == requests[one][1]:
                running.remove(one)
                held[one] = 0
    return steps


# --- what is wrong --------------------------------------------------------------------


def blocks_stay_taken(held, wanted, free):
    count = 0
    while count < len(held) - 1 and sum(wanted[: len(wanted) - count]) > free:
        count += 1
    return count


def wishes_stay(held, wanted, free):
    count, total = 0, sum(wanted)
    while count < len(held) - 1 and total > free:
        count += 1
        free += held[-count]
    return count


def all_may_go(held, wanted, free):
    count = 0
    while count < len(held) and sum(wanted[: len(wanted) - count]) > free:
        count += 1
        free += held[-count]
    return count


def the_earliest_go(held, wanted, free):
    return num_preempted(held[::-1], wanted[::-1], free)


def at_most_one(held, wanted, free):
    return min(1, num_preempted(held, wanted, free))


def all_but_one(held, wanted, free):
    return (len(held) - 1) * (sum(wanted) > free)


def which_go(held, wanted, free):
    count = num_preempted(held, wanted, free)
    return list(range(len(held)))[len(held) - count :]


def table_by_table(tables, rows, store):
    """A shared block is stored once for each of its holders."""
    wanted = sum(len(table.block_ids) for table in tables)
    if wanted > rows.num_free:
        raise OutOfBlocks(wanted, rows.num_free, rows.num_blocks)
    places = []
    for table in tables:
        places.append([rows.allocate() for _ in table.block_ids])
        for block, row in zip(table.block_ids, places[-1], strict=True):
            store(block, row)
    for table in tables:
        table.free()
    return places


def frees_first(tables, rows, store):
    held = [list(table.block_ids) for table in tables]
    if len({block for own in held for block in own}) > rows.num_free:
        return swap_out(tables, rows, store)  # which refuses
    for table in tables:
        table.free()
    row_of = {block: rows.allocate() for own in held for block in own}
    for block, row in row_of.items():
        store(block, row)
    return [[row_of[block] for block in own] for own in held]


def never_frees(tables, rows, store):
    children = [table.fork() for table in tables]
    return swap_out(children, rows, store)


def never_refuses(tables, rows, store):
    row_of = {}
    for table in tables:
        for block in table.block_ids:
            if block not in row_of and rows.num_free:
                row_of[block] = rows.allocate()
                store(block, row_of[block])
    places = [[row_of.get(block) for block in t.block_ids] for t in tables]
    for table in tables:
        table.free()
    return places


def half_done(tables, rows, store):
    """Takes rows before it has counted."""
    row_of = {}
    for table in tables:
        for block in table.block_ids:
            if block not in row_of:
                if not rows.num_free:
                    raise OutOfBlocks(1, 0, rows.num_blocks)
                row_of[block] = rows.allocate()
                store(block, row_of[block])
    places = [[row_of[block] for block in table.block_ids] for table in tables]
    for table in tables:
        table.free()
    return places


def stores_nothing(tables, rows, store):
    return swap_out(tables, rows, lambda block, row: None)


def same_numbers(tables, rows, store):
    """As if row 3 were kept for block 3."""
    places = [list(table.block_ids) for table in tables]
    swap_out(tables, rows, store)
    return places


def returns_nothing(tables, rows, store):
    swap_out(tables, rows, store)


def counts_table_by_table(tables, rows, store):
    """Stores shared blocks once, and asks for more rows."""
    wanted = sum(len(table.block_ids) for table in tables)
    if wanted > rows.num_free:
        raise OutOfBlocks(wanted, rows.num_free, rows.num_blocks)
    return swap_out(tables, rows, store)


def earliest(requests, num_blocks, block_size):
    return schedule(requests, num_blocks, block_size, victim=0)


def to_the_end(requests, num_blocks, block_size):
    return schedule(requests, num_blocks, block_size, to_end=True)


def nothing_more(requests, num_blocks, block_size):
    return schedule(requests, num_blocks, block_size, more=0)


def last_one_too(requests, num_blocks, block_size):
    return schedule(requests, num_blocks, block_size, last=0)


def lets_new_ones_in(requests, num_blocks, block_size):
    """As soon as they fit, though somebody runs who was preempted."""
    return schedule(requests, num_blocks, block_size, patient=False)


def one_after_another(requests, num_blocks, block_size):
    return [[n] for n, (_, new) in enumerate(requests) for _ in range(new)]


def all_at_once(requests, num_blocks, block_size):
    """As if there were room for all."""
    most = max(new for _, new in requests)
    return [
        [n for n, (_, new) in enumerate(requests) if new > at] for at in range(most)
    ]


def the_same_list(requests, num_blocks, block_size):
    """Every step is the list of those who run, which changes later."""
    return [[]] * len(schedule(requests, num_blocks, block_size))


def skips_the_next(requests, num_blocks, block_size):
    """Removes from the list that it goes through."""
    return schedule(requests, num_blocks, block_size, copied=False)


def blocks_never_come_back(requests, num_blocks, block_size):
    """Somebody always waits, and nobody can start: it never ends."""
    held, steps = 0, []
    for number, (prompt, new) in enumerate(requests):
        wanted = -(-(prompt + new - 1) // block_size)
        while held + wanted > num_blocks:
            steps.append([])
        held += wanted
        steps += [[number]] * new
    return steps


def returns_no_schedule(requests, num_blocks, block_size):
    schedule(requests, num_blocks, block_size)


def the_last_none_is_all(held, wanted, free):
    number, count = 0, len(held)
    while number < count - 1:
        needed, room = sum(wanted[: count - number]), free + sum(held[-number:])
        if needed <= room:
            return number
        number += 1
    return number


def goes_to_a_free_row(tables, rows, store):
    def release_first(block, row):
        rows.release(row)
        store(block, row)

    return swap_out(tables, rows, release_first)


def holds_a_block_twice(tables, rows, store):
    for table in tables:
        for block in table.block_ids[:1]:
            table.pool.share(block)
    return swap_out(tables, rows, store)


def frees_and_refuses(tables, rows, store):
    wanted = len({block for table in tables for block in table.block_ids})
    if wanted > rows.num_free:
        for table in tables:
            table.free()
        raise OutOfBlocks(wanted, rows.num_free, rows.num_blocks)
    return swap_out(tables, rows, store)


def asks_for_three_more(tables, rows, store):
    try:
        return swap_out(tables, rows, store)
    except OutOfBlocks as error:
        raise OutOfBlocks(error.wanted + 3, 0, rows.num_blocks) from None


def takes_a_row_more(tables, rows, store):
    places = swap_out(tables, rows, store)
    if rows.num_free:
        rows.allocate()
    return places


# What the check must say of each mistake.
FAULTS = {
    "num_preempted": [
        (lambda held, wanted, free: 0, "more is wanted than is free"),
        (blocks_stay_taken, "the blocks of those who go are free for the others"),
        (wishes_stay, "who goes wants nothing any more"),
        (all_may_go, "the earliest always stays"),
        (the_earliest_go, "the latest go, which stand last"),
        (at_most_one, "one may not be enough"),
        (all_but_one, "only as many go as must"),
        (the_last_none_is_all, "held[-n:] is the whole list if n is 0"),
        (which_go, "return how many go, not which"),
        (lambda held, wanted, free: None, "is a return missing?"),
        (
            lambda held, wanted, free: num_preempted(held, wanted, free - 1),
            "it fits if as many are wanted as are free",
        ),
        (
            lambda held, wanted, free: max(0, sum(wanted) - free),
            "that is the number of blocks that are missing",
        ),
    ],
    "swap_out": [
        (table_by_table, "it is shared: once"),
        (counts_table_by_table, "a shared block needs one row"),
        (frees_first, "store first, then free"),
        (never_frees, "free it"),
        (never_refuses, "no OutOfBlocks was raised"),
        (half_done, "rows were taken; count first"),
        (stores_nothing, "is never stored"),
        (same_numbers, "the rows of each table, in the order of its blocks"),
        (returns_nothing, "expected a list of rows for each table"),
        (goes_to_a_free_row, "which is free; rows.allocate() gives a row"),
        (holds_a_block_twice, "free afterwards, expected 15"),
        (frees_and_refuses, "rightly refused, but tables were freed; count first"),
        (asks_for_three_more, "but the error says 6 wanted, not 3"),
        (takes_a_row_more, "rows taken: got 4, expected 3"),
    ],
    "schedule": [
        (earliest, "the latest goes, not the earliest"),
        (to_the_end, "who was preempted is first in line"),
        (nothing_more, "a request starts only if a token more fits, too"),
        (last_one_too, "the last token is never computed: it needs no slot"),
        (lets_new_ones_in, "until all who were preempted have ended"),
        (one_after_another, "compute, expected"),
        (all_at_once, "compute, expected"),
        (the_same_list, "each step needs a list of its own"),
        (skips_the_next, "removing from a list skips the next one"),
        (blocks_never_come_back, "does not end"),
        (returns_no_schedule, "is a return missing?"),
    ],
}
