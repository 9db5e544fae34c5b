"""Pool, tables and prefix cache in small scenes, each followed to its very end."""

import pytest
from xxhash import xxh64_intdigest

import minipaged as mp
from minipaged.errors import BlockNotHeld

HASHES = {"xxh64": xxh64_intdigest, "none": lambda data: 0}


@pytest.fixture(params=HASHES.values(), ids=HASHES)
def cache(request):
    """Over 10 blocks of 4 tokens; with hashes that all collide, all must hold too."""
    return mp.PrefixCache(mp.BlockPool(10, 4), request.param)


def fill(cache, tokens, salt=b""):
    """What generate does: match, make room for the rest, compute, publish."""
    found = cache.match(tokens, salt)
    table = mp.BlockTable(cache.pool, found, len(found) * cache.pool.block_size)
    table.append(len(tokens) - table.num_tokens)
    cache.publish(tokens, table.block_ids, salt)
    return table


def tokens(n, first=0):
    return list(range(first, first + n))


# --- free blocks, plain and cached ----------------------------------------------------


def test_a_cached_block_that_is_free_can_be_neither_released_nor_shared(cache):
    table = fill(cache, tokens(4))
    (block,) = table.block_ids
    table.free()
    for use in (cache.pool.release, cache.pool.share):
        with pytest.raises(BlockNotHeld):
            use(block)
    assert (cache.pool.num_free, cache.pool.refcount(block)) == (10, 0)
    assert cache.find(tokens(5)) == [block]
    assert sorted(cache.pool.allocate() for _ in range(10)) == list(range(10))


def test_a_block_taken_from_the_middle_leaves_the_others_in_order(cache):
    tables = [fill(cache, tokens(4, first)) for first in (0, 20, 40)]
    (one,), (two,), (three,) = (list(table.block_ids) for table in tables)
    for table in tables:
        table.free()
    assert cache.match(tokens(5, 20)) == [two]
    order = []
    for left in range(8, -1, -1):
        order.append(cache.pool.allocate())
        assert cache.pool.num_free == left
    assert order[7:] == [one, three] and two not in order
    with pytest.raises(mp.OutOfBlocks):
        cache.pool.allocate()
    cache.pool.release(two)
    assert cache.pool.num_free == 1
    assert cache.pool.allocate() == two


def test_tails_go_first_then_what_was_never_used_then_the_prefix_from_its_end(cache):
    first = fill(cache, tokens(15))
    second = fill(cache, [*tokens(12), 99, 98])
    *prefix, tail = first.block_ids
    other_tail = second.block_ids[-1]
    first.free()
    second.free()
    assert cache.pool.num_free == 10
    order = [cache.pool.allocate() for _ in range(10)]
    assert order == [other_tail, tail, 5, 6, 7, 8, 9, *prefix[::-1]]


def test_other_tokens_push_a_prefix_out_from_its_end(cache):
    table = fill(cache, tokens(12))
    prefix = list(table.block_ids)
    table.free()
    other, left = mp.BlockTable(cache.pool), []
    for n in range(4, 44, 4):
        other.append(4)
        cache.publish(tokens(n, 50), other.block_ids)
        left.append(len(cache.find(tokens(13))))
    assert left == [3, 3, 3, 3, 3, 3, 3, 2, 1, 0]
    assert other.block_ids[7:] == prefix[::-1]
    assert len(cache) == 10
    assert cache.find(tokens(41, 50)) == other.block_ids


def test_a_cached_block_that_becomes_a_tail_is_plain_again(cache):
    """Freed once more, it is handed out before one that was cached all the time."""
    one, two = fill(cache, tokens(4)), fill(cache, tokens(4, 50))
    (old,), (kept,) = list(one.block_ids), list(two.block_ids)
    one.free()
    two.free()
    held = [cache.pool.allocate() for _ in range(8)]
    tail = fill(cache, tokens(3))
    assert tail.block_ids == [old] and old not in held
    assert len(cache) == 1 and cache.find(tokens(5)) == []
    tail.free()
    assert cache.pool.allocate() == old
    assert cache.find(tokens(5, 50)) == [kept]


def test_an_append_that_does_not_fit_evicts_nothing(cache):
    published = fill(cache, tokens(12))
    prefix = list(published.block_ids)
    published.free()
    table = mp.BlockTable(cache.pool)
    table.append(28)
    ids = list(table.block_ids)
    with pytest.raises(mp.OutOfBlocks, match="wanted 4 blocks, 3 free of 10"):
        table.append(16)
    assert (table.block_ids, table.num_tokens) == (ids, 28)
    assert cache.find(tokens(13)) == prefix
    assert [cache.pool.allocate() for _ in range(3)] == prefix[::-1]


# --- the index ------------------------------------------------------------------------


@pytest.mark.parametrize("goes_first", [0, 1])
def test_of_twins_the_other_is_found_until_it_goes_too(cache, goes_first):
    twins = [mp.BlockTable(cache.pool), mp.BlockTable(cache.pool)]
    for table in twins:
        table.append(4)
    for table in twins:
        cache.publish(tokens(4), table.block_ids)
    for _ in range(8):
        cache.pool.allocate()
    first, last = twins[goes_first], twins[1 - goes_first]
    (evicted,), (found,) = list(first.block_ids), list(last.block_ids)
    first.free()
    assert cache.pool.allocate() == evicted
    assert cache.find(tokens(5)) == [found]
    last.free()
    assert cache.find(tokens(5)) == [found]
    assert cache.pool.allocate() == found
    assert cache.find(tokens(5)) == []
    assert len(cache) == 0 and not cache._by_hash


def test_blocks_whose_hashes_collide_are_indexed_side_by_side():
    """None is rejected: whoever looks compares tokens and parent."""
    cache = mp.PrefixCache(mp.BlockPool(2, 4), lambda data: 7)
    one, two = fill(cache, tokens(4)), fill(cache, tokens(4, 50))
    (first,), (second,) = list(one.block_ids), list(two.block_ids)
    assert list(cache._by_hash[7]) == [first, second]
    assert cache.find(tokens(5)) == [first]
    assert cache.find(tokens(5, 50)) == [second]
    one.free()
    assert cache.pool.allocate() == first
    assert list(cache._by_hash[7]) == [second]
    assert cache.find(tokens(5)) == []
    assert cache.find(tokens(5, 50)) == [second]
    two.free()
    cache.clear()
    assert not cache._by_hash


def test_no_past_is_given_the_name_of_another():
    """Serials are never used again: D must not be taken for C, which X comes after."""
    cache = mp.PrefixCache(mp.BlockPool(6, 4), lambda data: 7)
    gone = [fill(cache, tokens(4, first)) for first in (0, 10)]
    chain = fill(cache, [*tokens(4, 20), *tokens(4, 30)])
    for table in gone:
        table.free()
    for _ in range(4):  # two plain ones, and the two of those that are gone
        cache.pool.allocate()
    cache.pool.release(0)
    assert len(cache) == 2
    other = fill(cache, tokens(4, 40))
    assert cache.find([*tokens(4, 40), *tokens(4, 30), 0]) == other.block_ids
    assert cache.find([*tokens(4, 20), *tokens(4, 30), 0]) == chain.block_ids


def test_a_salt_is_hashed_once_and_changes_every_hash_after_it():
    hashed = []
    cache = mp.PrefixCache(
        mp.BlockPool(10, 4), lambda data: hashed.append(data) or xxh64_intdigest(data)
    )
    chains = []
    for salt in (b"one", b"two"):
        table = mp.BlockTable(cache.pool)
        table.append(12)
        hashed.clear()
        cache.publish(tokens(12), table.block_ids, salt)
        assert hashed[0] == salt
        chains.append(hashed[1:])
    assert [len(data) for data in chains[0]] == [8 + 4 * 8] * 3
    assert all(mine != yours for mine, yours in zip(*chains, strict=True))


def test_nothing_of_another_user_is_found_behind_ones_own_first_block(cache):
    fill(cache, tokens(12), b"one")
    own = fill(cache, tokens(4), b"two").block_ids
    assert cache.find(tokens(13), b"two") == own


def test_a_tail_can_be_found_once_it_is_full_before_the_next_block_is_taken(cache):
    table = fill(cache, tokens(13))
    free = cache.pool.num_free
    for n, published in ((14, 3), (15, 3), (16, 4)):
        table.append(1)
        cache.publish(tokens(n), table.block_ids)
        assert (cache.pool.num_free, len(cache)) == (free, published)
    assert cache.find(tokens(17)) == table.block_ids
    table.append(1)
    cache.publish(tokens(17), table.block_ids)
    assert (cache.pool.num_free, len(cache)) == (free - 1, 4)


# --- tables ---------------------------------------------------------------------------


@pytest.mark.parametrize("parent_writes_first", [False, True])
@pytest.mark.parametrize("block_size", [1, 8, 16])
@pytest.mark.parametrize("length", [1, 9, 16, 129])
def test_the_first_writer_copies_a_part_filled_tail_and_no_full_one(
    block_size, length, parent_writes_first
):
    pool = mp.BlockPool(num_blocks=200, block_size=block_size)
    parent = mp.BlockTable(pool)
    parent.append(length)
    shared, free = list(parent.block_ids), pool.num_free
    tables = [parent.fork(), parent]
    first, second = reversed(tables) if parent_writes_first else tables
    copies = first.append(1)
    assert pool.num_free == free - 1  # a copy, or a new block
    assert second.block_ids == shared and second.num_tokens == length
    if length % block_size:
        own = first.block_ids[-1]
        assert copies == [(shared[-1], own)] and own not in shared
        assert first.block_ids == [*shared[:-1], own]
        assert (pool.refcount(shared[-1]), pool.refcount(own)) == (1, 1)
    else:
        assert copies == [] and first.block_ids[:-1] == shared
        assert {pool.refcount(block) for block in shared} == {2}
    written = list(first.block_ids)
    assert second.append(1) == []
    assert second.block_ids[: len(shared)] == shared and first.block_ids == written
    assert first.slot(length) != second.slot(length)


def test_room_for_no_token_copies_nothing():
    parent = mp.BlockTable(mp.BlockPool(4, 4))
    parent.append(6)
    child = parent.fork()
    assert child.blocks_needed(0) == 0 and child.append(0) == []
    assert child.block_ids == parent.block_ids


@pytest.mark.parametrize("block_size", [1, 8, 16])
@pytest.mark.parametrize("length", [1, 9, 16, 129])
def test_what_append_has_made_room_for_takes_no_block_later(block_size, length):
    """To reserve is to append: there is no second step, in which blocks could lack."""
    pool = mp.BlockPool(num_blocks=200, block_size=block_size)
    table = mp.BlockTable(pool)
    table.append(length)
    for k in (1, 5, block_size):
        start = table.num_tokens
        table.append(k)
        free, ids = pool.num_free, list(table.block_ids)
        slots = [table.slot(start + i) for i in range(k)]
        assert len({*slots, *table.slots(0, start)}) == start + k
        assert {slot // block_size for slot in slots} <= set(ids)
        assert (pool.num_free, table.block_ids) == (free, ids)
