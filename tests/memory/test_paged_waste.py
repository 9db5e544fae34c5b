"""What is wasted in a block pool: by hand, against lesson 1, and at random."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.thorough import often
from minipaged.memory import paged_waste
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.contiguous import RequestLengths, reserve_oracle
from minipaged.memory.paged_waste import simulate_paged
from minipaged.memory.waste import simulate

REQUESTS = st.lists(
    st.builds(RequestLengths, st.integers(0, 20), st.integers(1, 20)), min_size=1
)


def test_one_request_by_hand():
    """3 tokens in, 2 out, blocks of 4: full at first, then 3 slots that stay empty."""
    report = simulate_paged([RequestLengths(3, 2)], num_slots=16, block_size=4)
    assert report.slot_iterations == (4 + 5, 0, 3, 12 + 8)
    assert (report.mean_running, report.peak_running) == (1, 1)
    assert report.num_steps == 2


def test_the_tail_is_reserved_while_it_will_be_used():
    """1 in, 3 out, a block of 8: of the 6, 5, 4 empty slots 2, 1, 0 are to be used."""
    report = simulate_paged([RequestLengths(1, 3)], num_slots=8, block_size=8)
    assert report.slot_iterations == (2 + 3 + 4, 2 + 1 + 0, 3 * 4, 0)


def test_slots_that_make_no_whole_block_are_external():
    report = simulate_paged([RequestLengths(1, 1)], num_slots=11, block_size=4)
    assert report.slot_iterations == (2, 0, 2, 4 + 3)


def test_the_newest_is_preempted_and_both_are_served():
    """Two fit with their prompts, not with their answers."""
    two = [RequestLengths(3, 6), RequestLengths(3, 6)]
    report = simulate_paged(two, num_slots=12, block_size=4)
    # Each fills a block with its first token; then only one finds a block for the next.
    # The newest gives up its 4 tokens, and all 9 of it are computed in the end.
    assert (report.preemptions, report.recomputed_tokens) == (1, 4)
    assert report.peak_running == 1  # of the steps in which somebody waits


def test_without_load_it_counts_the_tokens_that_lesson_1_counts():
    requests = [RequestLengths(5, 9), RequestLengths(2, 30), RequestLengths(16, 1)]
    paged = simulate_paged(requests, num_slots=512, block_size=1)
    oracle = simulate(requests, reserve_oracle, num_slots=512, max_length=64)
    assert paged.slot_iterations[0] == oracle.slot_iterations[0]
    assert paged.mean_running == oracle.mean_running
    assert paged.num_steps == oracle.num_steps == 30


@pytest.mark.parametrize(
    "requests",
    [[], [RequestLengths(9, 8)], [RequestLengths(3, 0)], [RequestLengths(-1, 3)]],
)
def test_what_can_never_be_served_is_refused(requests):
    with pytest.raises(ValueError, match=r"never fits|no requests|no such lengths"):
        simulate_paged(requests, num_slots=16, block_size=4)


def test_blocks_kept_free_save_work_and_cost_memory():
    requests = [RequestLengths(5 + i % 7, 3 + i * 5 % 23) for i in range(80)]
    reports = [simulate_paged(requests, 120, 4, keep_free=n) for n in (0, 4, 12)]
    lost = [report.recomputed_tokens for report in reports]
    assert lost[0] > lost[1] > lost[2] >= 0
    assert reports[0].token_states > reports[2].token_states


def test_a_prompt_that_leaves_no_block_to_keep_is_served_alone():
    report = simulate_paged([RequestLengths(14, 2)] * 2, 16, 4, keep_free=3)
    assert (report.peak_running, report.preemptions) == (1, 0)


def test_a_negative_number_of_blocks_cannot_be_kept():
    with pytest.raises(ValueError, match="keep 0 blocks free, or more"):
        simulate_paged([RequestLengths(1, 1)], 16, 4, keep_free=-1)


def reference(requests, num_slots, size, keep_free):
    """The same server written down plainly: lists of lengths, no pool and no table."""
    total = num_slots // size
    waiting = [[*request] for request in requests]
    # Of running: [tokens in memory, tokens to come]
    running, rows, lost = [], [], []

    def blocks(tokens):
        return -(-tokens // size)

    def free():
        return total - sum(blocks(tokens) for tokens, _ in running)

    while waiting or running:
        while sum(tokens % size == 0 for tokens, _ in running) > free():
            tokens, left = running.pop(-1)
            lost.append(tokens)
            waiting.insert(0, [tokens, left])
        running = [[tokens + 1, left - 1] for tokens, left in running]
        while waiting:
            prompt, output = waiting[0]
            if blocks(prompt + 1) + (keep_free if running else 0) > free():
                break
            running.append([prompt + 1, output - 1])
            waiting.pop(0)
        kinds = [0, 0, 0, free() * size + num_slots - total * size]
        for tokens, left in running:
            tail = blocks(tokens) * size - tokens
            kinds[0] += tokens
            kinds[1] += min(tail, left)
            kinds[2] += tail - min(tail, left)
        rows.append((bool(waiting), kinds, len(running)))
        running = [one for one in running if one[1] > 0]
    counted = [row for row in rows if row[0]] or rows
    kinds = tuple(sum(row[1][i] for row in counted) for i in range(4))
    ran = [row[2] for row in counted]
    return kinds, sum(ran) / len(ran), max(ran), len(lost), sum(lost), len(rows)


@settings(deadline=None, max_examples=often(300), derandomize=True)
@given(
    requests=REQUESTS,
    size=st.integers(1, 9),
    spare=st.integers(0, 30),
    keep_free=st.integers(0, 4),
)
def test_it_equals_the_plain_reference(requests, size, spare, keep_free):
    num_slots = -(-max(map(sum, requests)) // size) * size + spare
    report = simulate_paged(requests, num_slots, size, keep_free=keep_free)
    assert reference(requests, num_slots, size, keep_free) == (
        report.slot_iterations,
        report.mean_running,
        report.peak_running,
        report.preemptions,
        report.recomputed_tokens,
        report.num_steps,
    )


@settings(deadline=None, max_examples=often(60), derandomize=True)
@given(requests=REQUESTS, size=st.integers(1, 9), spare=st.integers(0, 30))
def test_every_slot_is_counted_once_and_only_tails_are_wasted(requests, size, spare):
    pools = []

    class Watched(BlockPool):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            pools.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paged_waste, "BlockPool", Watched)
        num_slots = -(-max(map(sum, requests)) // size) * size + spare
        report = simulate_paged(requests, num_slots, size)
    tokens, reserved, internal, _external = report.slot_iterations
    iterations = sum(report.slot_iterations) / num_slots
    assert iterations == int(iterations) >= 1
    assert reserved + internal <= (size - 1) * report.mean_running * iterations + 1e-6
    assert min(report.slot_iterations) >= 0 < tokens
    (pool,) = pools
    assert pool.num_free == pool.num_blocks
