"""Blocks found again by their content: what must be found, and what must never be."""

import hashlib

import pytest
from xxhash import xxh64_digest, xxh64_intdigest

import minipaged as mp
from minipaged.errors import PoolBusy

HASHES = {
    "xxh64": xxh64_intdigest,
    "one bit": lambda data: xxh64_intdigest(data) & 1,
    "none": lambda data: 0,
    "Python's own": hash,  # negative in half of all cases
    "minus one": lambda data: -1,
    "more than 64 bits": lambda data: xxh64_intdigest(data) << 40,
}


@pytest.fixture(params=HASHES.values(), ids=HASHES)
def cache(request):
    """Over 10 blocks of 4 tokens; with hashes that collide, all must hold as well."""
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


def test_full_blocks_are_published_and_the_tail_is_not(cache):
    table = fill(cache, tokens(15))
    assert len(cache) == 3
    assert cache.find(tokens(16)) == table.block_ids[:3]


def test_a_prefix_is_shared_while_its_first_holder_lives(cache):
    first = fill(cache, tokens(15))
    free = cache.pool.num_free
    second = fill(cache, [*tokens(12), 99, 98])
    assert second.block_ids[:3] == first.block_ids[:3]
    assert [cache.pool.refcount(b) for b in first.block_ids] == [2, 2, 2, 1]
    assert cache.pool.num_free == free - 1


def test_a_freed_prefix_is_found_until_it_is_handed_out(cache):
    table = fill(cache, tokens(15))
    ids = list(table.block_ids)
    table.free()
    assert cache.pool.num_free == 10
    again = fill(cache, tokens(15))
    assert again.block_ids[:3] == ids[:3]
    assert cache.pool.num_free == 6
    assert [cache.pool.refcount(b) for b in ids[:3]] == [1, 1, 1]


def test_plain_blocks_go_first_then_the_oldest_the_prefix_last(cache):
    one, two = fill(cache, tokens(12)), fill(cache, tokens(13, 50))
    first, second = list(one.block_ids), list(two.block_ids)
    one.free()
    two.free()
    order = [cache.pool.allocate() for _ in range(10)]
    assert order[4:] == [*first[::-1], *second[:3][::-1]]
    assert len(cache) == 0 and not cache._by_hash


def test_what_is_found_again_is_evicted_later(cache):
    one, two = fill(cache, tokens(8)), fill(cache, tokens(8, 50))
    first, second = list(one.block_ids), list(two.block_ids)
    one.free()
    two.free()
    fill(cache, tokens(9)).free()  # uses the first again
    order = [cache.pool.allocate() for _ in range(10)]
    assert order[-4:] == [*second[::-1], *first[::-1]]


def test_a_block_that_is_handed_out_is_forgotten(cache):
    table = fill(cache, tokens(12))
    table.free()
    others = [cache.pool.allocate() for _ in range(8)]  # one cached block among them
    assert len(cache) == 2
    assert len(cache.find(tokens(16))) == 2  # the last block of the chain went first
    for block in others:
        cache.pool.release(block)
    assert len(cache.find(tokens(16))) == 2


def test_a_hit_is_taken_before_its_block_can_be_evicted(cache):
    one, two = fill(cache, tokens(4)), fill(cache, tokens(4, 50))
    (hit,), (other,) = one.block_ids, two.block_ids
    one.free()
    two.free()
    held = [cache.pool.allocate() for _ in range(8)]
    table = fill(cache, tokens(5))
    assert table.block_ids == [hit, other] and len(held) == 8


def test_a_prompt_that_is_wholly_cached_keeps_its_last_token_to_compute(cache):
    ids = fill(cache, tokens(12)).block_ids
    assert cache.match(tokens(12)) == ids[:2]
    assert cache.match(tokens(13)) == ids[:3]
    assert cache.match(tokens(4)) == []
    assert cache.match([]) == []


def test_nothing_is_found_after_the_first_miss(cache):
    ids = fill(cache, tokens(12)).block_ids
    changed = tokens(12)
    changed[5] = 77
    assert cache.find([*changed, 1]) == ids[:1]


def test_equal_blocks_after_different_pasts_are_different(cache):
    """The heart of the matter: K and V depend on all that came before."""
    one = fill(cache, [1, 1, 1, 1, 7, 7, 7, 7])
    two = fill(cache, [2, 2, 2, 2, 7, 7, 7, 7])
    assert cache.find([1, 1, 1, 1, 7, 7, 7, 7, 0]) == one.block_ids
    assert cache.find([2, 2, 2, 2, 7, 7, 7, 7, 0]) == two.block_ids
    assert cache.find([3, 3, 3, 3, 7, 7, 7, 7, 0]) == []
    assert cache.find([7, 7, 7, 7, 0]) == []


def test_a_salt_keeps_users_apart(cache):
    ids = fill(cache, tokens(8), b"one").block_ids
    assert cache.find(tokens(9), b"one") == ids
    assert cache.find(tokens(9), b"two") == cache.find(tokens(9)) == []
    twin = fill(cache, tokens(8), b"two")
    assert set(twin.block_ids).isdisjoint(ids)
    assert cache.find(tokens(9), b"two") == twin.block_ids


def test_twins_are_all_indexed(cache):
    """Two prompts computed in one step; one evicted, the other is still found."""
    one, two = mp.BlockTable(cache.pool), mp.BlockTable(cache.pool)
    for table in (one, two):
        table.append(8)
    for table in (one, two):
        cache.publish(tokens(8), table.block_ids)
    assert len(cache) == 4
    three = fill(cache, tokens(12))  # its third block's parent has one name, two blocks
    ids = list(two.block_ids)
    assert three.block_ids[:2] == one.block_ids
    three.free()
    one.free()
    held = [cache.pool.allocate() for _ in range(8)]  # all but the second's
    assert cache.find(tokens(13)) == ids
    for block in held:
        cache.pool.release(block)
    two.free()


def test_a_child_is_found_through_its_parents_twin(cache):
    one, two = mp.BlockTable(cache.pool), mp.BlockTable(cache.pool)
    one.append(4)
    two.append(8)
    cache.publish(tokens(4), one.block_ids)
    cache.publish(tokens(8), two.block_ids)
    assert cache.find(tokens(9)) == [one.block_ids[0], two.block_ids[1]]


def test_publishing_as_a_sequence_grows(cache):
    table = mp.BlockTable(cache.pool)
    for n in range(1, 14):
        table.append(1)
        cache.publish(tokens(n), table.block_ids)
        assert len(cache) == n // 4
    assert cache.find(tokens(14)) == table.block_ids[:3]


def test_publishing_costs_only_the_new_blocks():
    hashed = []
    cache = mp.PrefixCache(
        mp.BlockPool(300, 4), lambda data: hashed.append(data) or xxh64_intdigest(data)
    )
    table = mp.BlockTable(cache.pool)
    table.append(1000)
    cache.publish(tokens(1000), table.block_ids)
    table.append(4)
    hashed.clear()
    cache.publish(tokens(1004), table.block_ids)
    assert len(hashed) <= 2


def test_statistics_count_matches_only(cache):
    fill(cache, tokens(12))
    cache.find(tokens(12))
    fill(cache, tokens(14))
    assert (cache.tokens_asked, cache.tokens_hit) == (26, 12)
    assert "46% of tokens found" in repr(cache)


def test_clear_is_refused_while_blocks_are_held(cache):
    table = fill(cache, tokens(8))
    with pytest.raises(ValueError, match="2 cached blocks are in use"):
        cache.clear()
    assert len(cache) == 2
    table.free()
    cache.clear()
    assert len(cache) == 0 and cache.find(tokens(9)) == []
    assert len({cache.pool.allocate() for _ in range(10)}) == 10


def test_bad_publishing_changes_nothing(cache):
    table = mp.BlockTable(cache.pool)
    table.append(8)
    with pytest.raises(ValueError, match="fill more than 2 blocks"):
        cache.publish(tokens(12), table.block_ids)
    ids = list(table.block_ids)
    table.free()
    with pytest.raises(ValueError, match="before you free them"):
        cache.publish(tokens(8), ids)
    assert len(cache) == 0 and cache.pool.num_free == 10


def test_a_table_that_lists_a_block_twice_cannot_be_published(cache):
    block = cache.pool.allocate()
    cache.pool.share(block)
    table = mp.BlockTable(cache.pool, [block, block], 8)
    with pytest.raises(ValueError, match="one twice"):
        cache.publish(tokens(8), table.block_ids)
    assert len(cache) == 0 and cache.find(tokens(9)) == []


def test_a_newer_cache_takes_the_place_of_an_older_one(cache):
    """As in a notebook, where a cell is run twice."""
    pool = cache.pool
    held = fill(cache, tokens(9))
    fill(cache, tokens(9, first=50)).free()
    assert pool.prefix_cache is cache and len(cache) == 4
    newer = mp.PrefixCache(pool)
    assert pool.prefix_cache is newer and newer.find(tokens(9)) == []
    assert pool.num_free == 7  # what is held stays held
    newer.publish(tokens(9), held.block_ids)  # and its K and V are there
    shared = held.block_ids[:2]
    held.free()
    assert newer.num_findable == 2 and newer.match(tokens(9)) == shared


def test_an_older_cache_finds_nothing_whatever_the_pool_hands_out(cache):
    pool = cache.pool
    fill(cache, tokens(9)).free()
    newer = mp.PrefixCache(pool)
    others = mp.BlockTable(pool)
    others.append(40)  # all of the pool: what was cached is overwritten
    newer.publish([*range(60, 100)], others.block_ids)
    for used in (cache.find, cache.match):
        assert used(tokens(9)) == []
    with pytest.raises(ValueError, match=r"a newer prefix cache has .* pool\.prefix_c"):
        cache.publish(tokens(8), others.block_ids)
    cache.repair()
    cache.clear()
    assert (len(cache), cache.num_findable, len(newer)) == (0, 0, 10)
    assert repr(cache) == "PrefixCache(replaced by a newer one)"
    others.free()
    assert (newer.num_findable, pool.num_free) == (10, 10)


def test_no_cache_comes_while_another_thread_makes_a_step(cache):
    fill(cache, tokens(9)).free()
    cache.pool.reserved_for = -1
    with pytest.raises(PoolBusy):
        mp.PrefixCache(cache.pool)
    assert cache.is_attached and len(cache.find(tokens(9))) == 2


NO_HASHES = {
    "a float": lambda data: 1.5,
    "nothing": lambda data: None,
    "bytes": xxh64_digest,
    "an object of hashlib": hashlib.sha256,
}


@pytest.mark.parametrize("name", NO_HASHES)
def test_a_hash_that_is_no_whole_number_is_refused_at_once(name):
    pool = mp.BlockPool(4, 4)
    with pytest.raises(TypeError, match="hash_function must give a whole number, got"):
        mp.PrefixCache(pool, NO_HASHES[name])
    mp.PrefixCache(pool)  # the pool is still without one


def test_a_hash_that_breaks_later_does_no_harm():
    numbers = iter([1, 2, 3, 1.5])
    cache = mp.PrefixCache(mp.BlockPool(4, 4), lambda data: next(numbers))
    table = mp.BlockTable(cache.pool)
    table.append(12)
    with pytest.raises(TypeError, match=r"a whole number, got 1\.5"):
        cache.publish(tokens(12), table.block_ids)
    assert len(cache) == 1  # what was published before, and is right
    table.free()
    assert cache.pool.num_free == 4


@pytest.mark.parametrize("pool", [None, 8, mp.BlockPool])
def test_what_is_no_pool_is_refused(pool):
    with pytest.raises(TypeError, match="pool must be a BlockPool, got"):
        mp.PrefixCache(pool)


@pytest.mark.parametrize("salt", [None, "a user", 7])
def test_a_salt_that_is_no_bytes_is_refused(cache, salt):
    table = mp.BlockTable(cache.pool)
    table.append(9)
    for action in (
        lambda: cache.match(tokens(9), salt),
        lambda: cache.publish(tokens(9), table.block_ids, salt),
    ):
        with pytest.raises(TypeError, match=f"a salt must be bytes, .* got {salt!r}"):
            action()
    assert (len(cache), cache.tokens_asked, cache.pool.num_free) == (0, 0, 7)


def test_only_a_cached_free_block_can_be_revived(cache):
    table = fill(cache, tokens(5))
    published, plain = table.block_ids
    for block in (published, plain, 9):
        with pytest.raises(ValueError, match="revive"):
            cache.pool.revive(block)
    table.free()
    with pytest.raises(ValueError, match="revive"):
        cache.pool.revive(plain)
    assert cache.pool.revive(published) == published
    assert cache.pool.refcount(published) == 1


def test_exhaustion_is_clean_with_everything_cached(cache):
    table = fill(cache, tokens(40))
    with pytest.raises(mp.OutOfBlocks):
        table.append(1)
    table.free()
    for _ in range(10):
        cache.pool.allocate()
    with pytest.raises(mp.OutOfBlocks):
        cache.pool.allocate()
