"""Preempted at any moment, beside interruptions: always the right answers."""

from collections import deque
from itertools import chain

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from helpers.counting import count_calls
from helpers.preempting_machine import PreemptingMachine, run_operations
from helpers.scheduling_machine import HASHES, KINDS, Samples, all_or_nothing
from helpers.scheduling_rules import BITS, BUDGETS, Scheduling
from helpers.thorough import often
from minipaged.errors import BlockNotHeld, OutOfBlocks
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable
from minipaged.scheduling import preemption
from minipaged.scheduling.breed import breed
from minipaged.scheduling.preemption import (
    PreemptingScheduler,
    Swapped,
    blocks_needed_together,
)
from minipaged.scheduling.request import Request

# --- the scenarios of the field -------------------------------------------------------


class Greedy(Samples):
    """Never ends by itself."""

    def choose(self, tokens, index, turn):
        return 1


def make(num_blocks, block_size=16, **budget):
    return PreemptingScheduler(BlockPool(num_blocks, block_size), **budget)


def added(scheduler, num_tokens, max_new_tokens=50, num_parallel=1):
    request = Request([0] * num_tokens, max_new_tokens, Greedy(), num_parallel)
    scheduler.add(request)
    return request


def step(scheduler):
    """How many tokens each request has computed, in the order of the plan."""
    plan = scheduler.schedule()
    for request in dict.fromkeys(w.request for w in plan.works if w.num_logits):
        request.strategy.apply(request, plan.works, lambda: None)
    scheduler.commit(plan)
    return [work.num_tokens for work in plan.works]


def test_a_budget_is_shared_by_decodes_and_chunks_of_prompts():
    """Scenario 28; the first of those waiting takes what is left of the budget."""
    scheduler = make(200, max_tokens=1024)
    for _ in range(3):
        added(scheduler, 800)
    assert [step(scheduler) for _ in range(4)] == [
        [800, 224],
        [1, 576, 447],
        [1, 1, 353],
        [1, 1, 1],
    ]


def test_no_step_gives_prompts_more_than_their_share():
    """Scenario 28 with a cap of 400 on the prompts of a step."""
    scheduler = make(200, max_tokens=1024, max_prompt_tokens=400)
    for _ in range(3):
        added(scheduler, 800)
    steps = [step(scheduler) for _ in range(6)]
    assert steps == [[400], [400], [1, 400], [1, 400], [1, 1, 400], [1, 1, 400]]


def starts_of(scheduler, count):
    """So many short prompts come at once: how many start in each step?"""
    requests = [added(scheduler, 3) for _ in range(count)]
    starts = []
    while scheduler.waiting:
        before = len(scheduler.running)
        computed = step(scheduler)
        starts.append(len(scheduler.running) - before)
        assert computed == [1] * before + [3] * starts[-1]  # the others go on meanwhile
        assert scheduler.running == requests[: sum(starts)]  # in order
    return starts


@pytest.mark.parametrize(
    "limits, expected",
    [
        ({"max_starts": 4}, [4, 4, 2]),
        ({"max_starts": 1}, [1] * 10),
        ({"max_starts": 10}, [10]),
        ({"max_starts": 4, "max_sequences": 10}, [4, 4, 2]),
        ({}, [10]),
    ],
)
def test_no_step_starts_more_requests_than_it_may(limits, expected):
    assert starts_of(make(200, max_tokens=1024, **limits), 10) == expected


def test_earlier_steps_do_not_count():
    scheduler = make(200, max_tokens=1024, max_starts=4)
    assert starts_of(scheduler, 4) == [4]
    assert len(step(scheduler)) == 4
    added(scheduler, 3)
    assert step(scheduler) == [1] * 4 + [3]


class ForgetsToCount(PreemptingScheduler):
    """Wrong: each request is the first that starts in its step."""

    def _is_room(self, *arguments):
        self._num_started = 0
        return super()._is_room(*arguments)


def test_a_scheduler_that_does_not_count_is_noticed():
    scheduler = ForgetsToCount(BlockPool(200, 16), max_tokens=1024, max_starts=4)
    with pytest.raises(AssertionError):
        assert starts_of(scheduler, 10) == [4, 4, 2]


def test_who_is_preempted_keeps_the_token_and_computes_prompt_and_answer_again():
    """Scenario 30: the pool is full after the first tokens, and the later one goes."""
    scheduler = make(10, max_tokens=200)
    first, later = added(scheduler, 79), added(scheduler, 79)
    assert step(scheduler) == [79, 79] and scheduler.pool.num_free == 0
    assert step(scheduler) == [1, 1]
    assert step(scheduler) == [1]  # a block more for each: there is none
    assert list(scheduler.waiting) == [later] and not later.holds_blocks
    assert later.num_restarts == 1 and first.num_restarts == 0
    (sequence,) = later.sequences
    assert sequence.num_new == 2 and sequence.num_prefill_tokens == 81
    while first.live:
        step(scheduler)
    assert step(scheduler) == [81] and sequence.num_new == 3


def test_a_shorter_one_does_not_overtake_who_was_preempted():
    """Scenario 29: also while it waits to come back."""
    scheduler = make(10, max_tokens=200)
    first, later = added(scheduler, 79), added(scheduler, 79)
    small = added(scheduler, 3, max_new_tokens=2)
    for _ in range(5):
        step(scheduler)
    assert scheduler.running == [first]
    assert list(scheduler.waiting) == [later, small]


@pytest.mark.parametrize("num_steps", [0, 1, 4])
def test_aborted_waiting_running_and_preempted(num_steps):
    """Scenario 34: lines empty, all blocks free."""
    scheduler = make(10, max_tokens=200)
    requests = [added(scheduler, 79) for _ in range(2)]
    for _ in range(num_steps):
        step(scheduler)
    for request in requests:
        scheduler.abort(request)
    assert scheduler.pool.num_free == 10
    assert not scheduler.waiting and not scheduler.running


class Rows:
    """A swap space that keeps count, and nothing else."""

    def __init__(self, num_blocks):
        self.pool = BlockPool(num_blocks, 4)

    def store(self, block_ids):
        return [self.pool.allocate() for _ in block_ids]

    def load(self, rows, block_ids):
        assert len(rows) == len(block_ids)


def test_blocks_of_who_came_back_are_counted_once():
    """All three fit exactly: those who were preempted come back in the same step."""
    scheduler = make(9, 4, swap_space=Rows(9))
    requests = [added(scheduler, 8) for _ in range(3)]
    for _ in range(2):
        step(scheduler)
    for latest in requests[:0:-1]:
        scheduler.preempt(latest)
    assert scheduler.pool.num_free == 6
    assert step(scheduler) == [1, 1, 1]


def test_who_comes_back_from_the_swap_space_starts_too():
    """Two come back, one a step, and a new one waits until both are there."""
    space = Rows(40)
    scheduler = make(40, max_tokens=200, max_starts=1, swap_space=space)
    first, second = added(scheduler, 20), added(scheduler, 20)
    while scheduler.waiting:
        step(scheduler)
    scheduler.preempt(second)
    scheduler.preempt(first)
    new = added(scheduler, 20)
    running = []
    for _ in range(3):
        step(scheduler)
        running.append(list(scheduler.running))
    assert running == [[first], [first, second], [first, second, new]]
    assert not space.pool.num_blocks - space.pool.num_free


def test_a_request_that_grows_beyond_the_pool_fails_in_words():
    """Scenario 35: it does not wait for ever; an engine refuses it before."""
    scheduler = make(3, max_tokens=200)
    added(scheduler, 40, max_new_tokens=20)
    with pytest.raises(OutOfBlocks):
        for _ in range(20):
            step(scheduler)


@pytest.mark.parametrize("holders", [1, 2, 5])
@pytest.mark.parametrize("writers", [1, 2, 5])
def test_siblings_need_together_exactly_what_they_take(holders, writers):
    pool = BlockPool(num_blocks=64, block_size=4)
    tables = [BlockTable(pool)]
    tables[0].append(6)
    tables += [tables[0].fork() for _ in range(holders - 1)]
    appends = [(table, 3) for table in tables[:writers]]
    announced, free = blocks_needed_together(appends), pool.num_free
    for table, n in appends:
        table.append(n)
    assert free - pool.num_free == announced


def test_no_more_sequences_than_allowed_but_one_request_always():
    scheduler = make(100, max_sequences=4)
    for num_parallel in (3, 2, 2, 6, 1):
        added(scheduler, 5, 3, num_parallel)
    seen = []
    while scheduler.waiting or scheduler.running:
        step(scheduler)
        seen.append(sum(one.num_parallel for one in scheduler.running))
    assert max(seen) == 6 and 4 in seen and 5 not in seen


def test_nobody_starves():
    """Many short ones come all the time: the long ones end, in their order."""
    scheduler, ended = make(12, 4, max_tokens=16), []
    long = [added(scheduler, 20, 12) for _ in range(3)]
    for _ in range(300):
        if len(scheduler.waiting) < 4:
            added(scheduler, 3, 2)
        step(scheduler)
        ended += [one for one in long if not one.live and one not in ended]
    assert ended == long


def test_a_step_costs_no_more_while_ten_thousand_wait():
    def calls(num_waiting):
        scheduler = make(4, max_tokens=64)
        for _ in range(num_waiting):
            added(scheduler, 30)
        step(scheduler)

        def step_or_nothing():
            with all_or_nothing(scheduler):
                step(scheduler)

        return count_calls(step_or_nothing)

    assert calls(10_000) == calls(10)


# --- at random ------------------------------------------------------------------------


class Preempting(Scheduling):
    """The same rules, with a scheduler that starts requests early."""

    @initialize(
        num_blocks=st.integers(4, 14),
        size=st.integers(1, 4),
        hash_function=st.sampled_from([None, *HASHES]),
        budgets=st.tuples(BUDGETS, BUDGETS, BUDGETS),
        num_rows=st.integers(0, 14),
    )
    def start(self, num_blocks, size, hash_function, budgets, num_rows):
        names = "max_tokens", "max_prompt_tokens", "max_sequences"
        given = {n: b for n, b in zip(names, budgets, strict=True) if b is not None}
        self.machine = PreemptingMachine(
            num_blocks, size, hash_function, num_rows, **given
        )

    @rule(kind=st.sampled_from(list(KINDS)), prompt=BITS, length=st.integers(8, 24))
    def add_what_grows(self, kind, prompt, length):
        self.machine.add(kind, prompt, length, 2)

    @rule(count=st.integers(2, 8))
    def several_steps(self, count):
        for _ in range(count):
            self.machine.step()

    @rule()
    def preempt(self):
        self.machine.preempt()


class TestPreempting(Preempting.TestCase):
    settings = settings(max_examples=often(100), stateful_step_count=40, deadline=None)


def test_ten_thousand_operations():
    seen = run_operations(seed=0, count=10_000)
    assert seen.keys() >= {*KINDS, "Interrupted", "OutOfBlocks", "ahead", "aborts"}
    assert seen["swapped"] > 100 and seen["recomputed"] > 100 and seen["groups"] > 50
    assert seen["came back"] > 500 and seen["answers"] > 1000


# --- wrong versions, which the driver must reject -------------------------------------

ADMIT, MAKE_ROOM = PreemptingScheduler._admit, PreemptingScheduler._make_room
PREEMPT, RESUME = PreemptingScheduler.preempt, PreemptingScheduler._resume
IS_ROOM, LOSE = PreemptingScheduler._is_room, preemption.lose_blocks


def preempts_the_earliest(scheduler, request):
    """Wrong: takes the blocks of who came first; so all may start over for ever."""
    PREEMPT(scheduler, scheduler.running[0])


def preempts_the_last_as_well(scheduler):
    """Wrong: takes blocks even where only one is running; so nobody goes on."""
    count = len(scheduler.running)
    while scheduler.running and not scheduler._fits(scheduler._pick_works()):
        scheduler.preempt(scheduler.running[-1])
    return len(scheduler.running) < count


def preempts_in_flight(scheduler):
    """Wrong: takes blocks that a plan in flight is writing to."""
    plans, scheduler.in_flight = scheduler.in_flight, deque()
    try:
        return MAKE_ROOM(scheduler)
    finally:
        scheduler.in_flight = plans


def frees_a_part(scheduler, request):
    """Wrong: of several sequences one keeps its blocks."""
    *others, last = request.sequences
    table = last.table if others else None
    if table is not None:
        last.table = None
    PREEMPT(scheduler, request)
    last.table = table


def forgets_the_last_token(request):
    """Wrong: the token that was chosen and not computed yet is gone."""
    for sequence in request.live:
        if sequence.num_new:
            sequence.tokens.pop()
    LOSE(request)


def swap_out(scheduler, request, tables, blocks, num_rows):
    """As it is, but for which blocks are stored, and how much room there seems."""
    if scheduler.swap_space is None or not blocks or len(blocks) > num_rows:
        return None
    scheduler.swapped.append(request)
    place = dict(zip(blocks, scheduler.swap_space.store(blocks), strict=True))
    return Swapped(
        [one for one in request.sequences if one.table is not None],
        [[place[block_id] for block_id in table.block_ids] for table in tables],
        [table.num_tokens for table in tables],
    )


def stores_shared_blocks_twice(scheduler, request, tables):
    """Wrong: each sequence stores all of its blocks."""
    blocks = list(chain.from_iterable(table.block_ids for table in tables))
    space = scheduler.swap_space
    return swap_out(scheduler, request, tables, blocks, space and space.pool.num_free)


def counts_all_rows(scheduler, request, tables):
    """Wrong: takes rows for free in which another one's blocks lie."""
    blocks = list(dict.fromkeys(chain(*(table.block_ids for table in tables))))
    space = scheduler.swap_space
    return swap_out(scheduler, request, tables, blocks, space and space.pool.num_blocks)


def counts_no_second_holder(scheduler, request):
    """Wrong: a block that several sequences come back to is counted once."""
    scheduler.pool.share = lambda block_id: None
    try:
        return RESUME(scheduler, request)
    finally:
        del scheduler.pool.share


def resumes_in_another_order(scheduler, request):
    """Wrong: its blocks come back, but in another order."""
    places = [own[::-1] for own in request.swapped.places]
    request.swapped = request.swapped._replace(places=places)
    return RESUME(scheduler, request)


def joins_the_end(scheduler, request):
    """Wrong: who was preempted waits behind all others."""
    PREEMPT(scheduler, request)
    scheduler.waiting.rotate(-1)


def is_overtaken(scheduler):
    """Wrong: while there is no room for who was preempted, the next may start."""
    waiting = scheduler.waiting
    ADMIT(scheduler)
    if len(waiting) > 1 and waiting[0].num_restarts and not waiting[1].swapped:
        first = waiting.popleft()
        super(PreemptingScheduler, scheduler)._admit()
        waiting.appendleft(first)


def admits_all_the_same(scheduler):
    """Wrong: counts anew and goes on: who was preempted may come back at once."""
    MAKE_ROOM(scheduler)
    size = scheduler.pool.block_size
    soon = (preemption.blocks_soon(one, size) for one in scheduler.running)
    scheduler._soon = sum(soon)
    return False


def counts_found_blocks_as_taken(scheduler, request, cached, num_blocks):
    """Wrong: cached blocks on the free list use up free blocks, too."""
    soon = preemption.blocks_soon(request, scheduler.pool.block_size) - len(cached)
    return request.swapped is None and IS_ROOM(scheduler, request, soon, 0)


def counts_the_first_only(scheduler, *arguments):
    """Wrong: each of those admitted in a step counts on the same free blocks."""
    before = scheduler._soon
    try:
        return IS_ROOM(scheduler, *arguments)
    finally:
        scheduler._soon = before


def counts_requests(scheduler, request):
    """Wrong: `max_sequences` is compared with the number of requests."""
    running = len(scheduler.running)
    return running > 0 and running + 1 > scheduler.max_sequences


def tidies_too_much(scheduler):
    """Wrong: rows of those that still wait to come back are handed out again."""
    if scheduler.swap_space:
        pool = scheduler.swap_space.pool
        pool.restore([0] * pool.num_blocks)


ENOUGH = 20_000  # random operations; the first wrong one ends the run

WRONG = {
    "preempts the earliest": ("preempt", preempts_the_earliest),
    "preempts the last": ("_make_room", preempts_the_last_as_well),
    "preempts in flight": ("_make_room", preempts_in_flight),
    "frees a part": ("preempt", frees_a_part),
    "forgets a token": ("lose_blocks", forgets_the_last_token),
    "stores twice": ("_swap_out", stores_shared_blocks_twice),
    "counts all rows": ("_swap_out", counts_all_rows),
    "counts no holder": ("_resume", counts_no_second_holder),
    "another order": ("_resume", resumes_in_another_order),
    "joins the end": ("preempt", joins_the_end),
    "is overtaken": ("_admit", is_overtaken),
    "admits all the same": ("_make_room", admits_all_the_same),
    "counts found blocks": ("_may_start", counts_found_blocks_as_taken),
    "counts the first": ("_is_room", counts_the_first_only),
    "counts requests": ("_is_crowded", counts_requests),
    "tidies too much": ("_tidy_swap_space", tidies_too_much),
    "never tidies": ("_tidy_swap_space", lambda scheduler: None),
}


@pytest.mark.parametrize("name", WRONG)
def test_the_driver_rejects(monkeypatch, name):
    what, wrong = WRONG[name]
    where = preemption if hasattr(preemption, what) else PreemptingScheduler
    monkeypatch.setattr(where, what, wrong)
    with pytest.raises((AssertionError, OutOfBlocks, BlockNotHeld)):
        for seed in (1, 2, 3):
            run_operations(seed=seed, count=ENOUGH)


def test_beams_that_share_their_answers_need_few_blocks_soon():
    """A request of four beams; all continue the first, so all but the end is shared."""
    scheduler = make(64, block_size=4)
    request = Request([0] * 6, 60, num_parallel=4, drops_sequences=True)
    scheduler.add(request)
    needed = []
    for _ in range(41):
        soon = preemption.blocks_soon(request, 4)
        free = scheduler.pool.num_free
        plan = scheduler.schedule()
        needed.append((free - scheduler.pool.num_free, soon))
        parents = request.answers if len(needed) > 1 else request.answers * 4
        request.answers = breed(request, parents, [(0, beam) for beam in range(4)])
        scheduler.commit(plan)
    # The first is for the prompt and its forks. Each beam takes a block, or a copy.
    assert all(taken <= soon <= 4 for taken, soon in needed[1:])
    assert {taken for taken, _ in needed[1:]} == {3, 4}
