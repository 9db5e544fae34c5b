"""Who starts, who computes what, and when blocks come back; no torch."""

import subprocess
import sys

import pytest

from helpers.scheduling_machine import all_or_nothing
from minipaged.errors import OutOfBlocks
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable
from minipaged.memory.prefix_cache import PrefixCache
from minipaged.scheduling.next_works import NextWorks
from minipaged.scheduling.observer import Observer
from minipaged.scheduling.request import Request
from minipaged.scheduling.scheduler import Scheduler


class Strategy(NextWorks):
    """Remembers nothing: the tests choose the tokens."""

    def save(self):
        return None

    def restore(self, saved):
        pass


def make(num_blocks=8, block_size=4, cached=False, **budget):
    pool = BlockPool(num_blocks, block_size)
    return Scheduler(pool, PrefixCache(pool) if cached else None, **budget)


def added(scheduler, prompt, max_new_tokens=4, num_parallel=1, **options):
    """A request that waits; a number stands for so many tokens like no others."""
    if isinstance(prompt, int):
        prompt = [100 + len(scheduler.waiting)] * prompt
    strategy = Strategy()
    request = Request(prompt, max_new_tokens, strategy, num_parallel, **options)
    scheduler.add(request)
    return request


def choose(plan, token=5):
    """Every sequence that has logits goes on; a group is forked first."""
    for work in [work for work in plan.works if work.num_logits]:
        request = work.request
        while len(request.sequences) < request.num_parallel:
            request.fork(work.sequence)
    for request in dict.fromkeys(work.request for work in plan.works):
        logits = [w.num_logits for w in plan.works if w.request is request]
        for sequence in request.live if all(logits) else ():
            sequence.append(token)
            if len(sequence.tokens) > request.max_computed:
                sequence.end("length")


def step(scheduler, token=5):
    plan = scheduler.schedule()
    choose(plan, token)
    scheduler.commit(plan)
    return plan


def finish(scheduler, limit=100):
    plans = []
    while scheduler.waiting or scheduler.running:
        plans.append(step(scheduler))
        assert len(plans) < limit, "it spins"
    return plans


def others_hold(scheduler, num_blocks):
    table = BlockTable(scheduler.pool)
    table.append(num_blocks * scheduler.pool.block_size)
    return table


def spans(plan):
    return [(work.start, work.stop, work.num_logits) for work in plan.works]


def ahead(scheduler):
    """The plan in flight has logits for each; the next one is made before they come."""
    for work in scheduler.in_flight[-1].works:
        work.sequence.num_pending += work.num_logits
    return scheduler.schedule()


# --- who starts -----------------------------------------------------------------------


def test_a_request_keeps_a_prompt_of_its_own():
    prompt = [1, 2, 3]
    request = added(make(), prompt)
    prompt.append(4)
    assert request.prompt == [1, 2, 3] == request.sequences[0].tokens


def test_a_small_request_does_not_overtake_a_large_one():
    scheduler = make(num_blocks=8)
    first, large, small = (added(scheduler, n) for n in (10, 20, 1))
    step(scheduler)
    assert scheduler.running == [first]
    assert list(scheduler.waiting) == [large, small]
    finish(scheduler)
    assert [len(one.sequences[0].new_tokens) for one in (first, large, small)] == [
        4
    ] * 3


@pytest.mark.parametrize("missing", [0, 1])
def test_a_request_starts_if_its_worst_case_is_certain(missing):
    """10 + 5 tokens, the last one without K and V: 14 positions, 4 blocks."""
    scheduler = make(num_blocks=8)
    others_hold(scheduler, 4 + missing)
    request = added(scheduler, 10, max_new_tokens=5)
    if missing:
        with pytest.raises(OutOfBlocks, match="wanted 4 blocks, 3 free of 8"):
            scheduler.schedule()
        assert list(scheduler.waiting) == [request]
    else:
        finish(scheduler)
        assert len(request.sequences[0].new_tokens) == 5


@pytest.mark.parametrize("missing", [0, 1])
def test_what_those_running_may_still_take_is_promised(missing):
    """The first holds 1 block and may take 2 more: 5 of 8 are left for the second."""
    scheduler = make(num_blocks=8 - missing)
    added(scheduler, 4, max_new_tokens=9)
    step(scheduler)
    second = added(scheduler, 17, max_new_tokens=4)
    step(scheduler)
    assert (second in scheduler.running) == (not missing)
    finish(scheduler)


@pytest.mark.parametrize("missing", [0, 1])
def test_cached_blocks_that_are_free_count_as_taken(missing):
    """3 of the second's 4 blocks are found; they lie on the free list: 4 are needed."""
    scheduler, prompt = make(num_blocks=8, cached=True), list(range(13))
    added(scheduler, prompt, max_new_tokens=1)
    finish(scheduler)
    others_hold(scheduler, 4 + missing)
    found = scheduler.prefix_cache.find(prompt)
    assert len(found) == 3  # plain free blocks went first
    added(scheduler, prompt, max_new_tokens=4)
    if missing:
        with pytest.raises(OutOfBlocks, match="wanted 4 blocks, 3 free"):
            scheduler.schedule()
    else:
        assert spans(scheduler.schedule()) == [(12, 13, 1)]
        assert scheduler.pool.num_free == 0


@pytest.mark.parametrize("missing", [0, 1])
def test_cached_blocks_that_somebody_holds_cost_nothing(missing):
    """3 of its 4 blocks are found and held: 1 is needed, beside 1 promised."""
    scheduler, prompt = make(num_blocks=6, cached=True), list(range(13))
    added(scheduler, prompt, max_new_tokens=5)  # 17 positions: 5 blocks
    step(scheduler)
    table = others_hold(scheduler, missing)
    second = added(scheduler, prompt, max_new_tokens=4)
    step(scheduler)
    assert (second in scheduler.running) == (not missing)
    table.free()
    finish(scheduler)
    assert second.num_cached_tokens == 12


@pytest.mark.parametrize("missing", [0, 1])
def test_the_example_of_admission(missing):
    """What the docstring says; with a block less, the first in line waits, too."""
    scheduler, prompt = make(num_blocks=9, cached=True), list(range(9))
    added(scheduler, prompt, max_new_tokens=1)
    finish(scheduler)  # it leaves 2 blocks in the cache
    runs = added(scheduler, [*prompt[:4], *[9] * 8], max_new_tokens=9)
    step(scheduler)
    assert (scheduler.pool.num_free, runs.blocks_to_come(4)) == (6, 2)
    first = added(scheduler, prompt, max_new_tokens=12)
    following = added(scheduler, 1)
    found = scheduler.prefix_cache.find(prompt)
    assert [scheduler.pool.refcount(block_id) for block_id in found] == [1, 0]
    assert [one.blocks_at_most(4) for one in (first, following)] == [5, 1]
    others_hold(scheduler, missing)
    scheduler.schedule()
    assert (first in scheduler.running) == (not missing)
    assert following in scheduler.waiting


@pytest.mark.parametrize("num_ended", [1, 2])
def test_only_living_samples_count(num_ended):
    """4 samples of a block, and 2 more each: 9 blocks; 2 of them: 5."""
    scheduler = make(num_blocks=9)
    samples = added(scheduler, 4, max_new_tokens=8, num_parallel=4)
    step(scheduler)
    second = added(scheduler, 10, max_new_tokens=6)  # 15 positions: 4 blocks
    step(scheduler)
    assert second not in scheduler.running
    for sequence in samples.live[:num_ended]:
        sequence.end("stop")
    step(scheduler)  # here they are freed
    step(scheduler)
    assert (second in scheduler.running) == (num_ended == 2)
    finish(scheduler)


def test_a_group_that_no_step_can_hold_is_refused():
    scheduler = make(max_tokens=3)
    with pytest.raises(
        ValueError, match="max_tokens must be at least 4, one a sequence"
    ):
        added(scheduler, 4, num_parallel=4)
    assert not scheduler.waiting
    added(scheduler, 1, num_parallel=3)
    finish(scheduler)


# --- who computes what ----------------------------------------------------------------


def test_a_prompt_is_computed_in_parts_and_only_the_last_one_has_logits():
    scheduler = make(max_prompt_tokens=4)
    added(scheduler, 9, max_new_tokens=2)
    plans = finish(scheduler)
    assert [spans(plan) for plan in plans] == [
        [(0, 4, 0)],
        [(4, 8, 0)],
        [(8, 9, 1)],
        [(9, 10, 1)],
    ]


@pytest.mark.parametrize("max_tokens", [3, 4, 7])
@pytest.mark.parametrize("max_prompt_tokens", [1, 2, 5])
def test_no_plan_exceeds_its_budgets(max_tokens, max_prompt_tokens):
    scheduler = make(64, max_tokens=max_tokens, max_prompt_tokens=max_prompt_tokens)
    for length, width in [(9, 3), (1, 1), (6, 2), (14, 1), (3, 3)]:
        added(scheduler, length, num_parallel=width)
    for plan in finish(scheduler):
        prompts = [work.stop <= len(work.request.prompt) for work in plan.works]
        assert prompts == sorted(prompts), "who decodes goes first"
        of_prompts = [w for w, one in zip(plan.works, prompts, strict=True) if one]
        assert plan.num_tokens <= max_tokens
        assert sum(work.num_tokens for work in of_prompts) <= max_prompt_tokens
        for work in plan.works[: prompts.count(False)]:
            own = [one for one in plan.works if one.request is work.request]
            assert len(own) >= len(work.request.live)


def test_a_group_decodes_together_or_not_at_all_and_prompts_get_the_rest():
    scheduler = make(64, max_tokens=4)
    groups = [added(scheduler, 1, num_parallel=3) for _ in range(2)]
    step(scheduler)
    prompt = added(scheduler, 6)
    plan = step(scheduler)
    assert [work.request for work in plan.works] == [groups[0]] * 3 + [prompt]
    assert spans(plan)[-1] == (0, 1, 0)
    assert [len(plan.works) for plan in finish(scheduler)]  # the second has its turn


# --- two plans in flight --------------------------------------------------------------


def test_the_next_plan_is_made_before_the_first_ones_tokens_are_read():
    scheduler = make()
    request = added(scheduler, 5, max_new_tokens=3)
    first = scheduler.schedule()
    assert spans(scheduler.schedule()) == []  # nothing is pending: nothing to compute
    scheduler.in_flight.pop()
    second = ahead(scheduler)
    assert (spans(first), spans(second)) == ([(0, 5, 1)], [(5, 6, 1)])
    choose(first)
    scheduler.commit(first)
    third = ahead(scheduler)
    assert spans(third) == [(6, 7, 1)]
    choose(second)
    scheduler.commit(second)
    # The last token's K and V are not needed: 5 + 3 - 1 = 7 positions.
    fourth = ahead(scheduler)
    assert spans(fourth) == [] and request.max_computed == 7
    choose(third)
    assert request.live == []
    for plan in (third, fourth):
        scheduler.commit(plan)
    assert scheduler.running == [] and scheduler.pool.num_free == 8


def test_the_parts_of_a_prompt_need_not_wait_for_each_other():
    scheduler = make(max_prompt_tokens=4)
    added(scheduler, 9)
    scheduler.schedule()
    assert spans(ahead(scheduler)) == [(4, 8, 0)]


def test_a_group_waits_until_its_tokens_are_read():
    scheduler = make(16)
    added(scheduler, 5, num_parallel=3)
    plan = scheduler.schedule()
    following = scheduler.schedule()
    assert spans(following) == []
    choose(plan)
    scheduler.commit(plan)
    scheduler.commit(following)
    assert len(scheduler.schedule().works) == 3


def test_blocks_stay_until_the_last_plan_that_computes_them_is_committed():
    scheduler = make(num_blocks=2)
    request, waiting = added(scheduler, 4, max_new_tokens=4), added(scheduler, 4)
    first = scheduler.schedule()
    second = ahead(scheduler)
    choose(first)
    request.live[0].end("stop")
    scheduler.commit(first)
    assert scheduler.pool.num_free == 0 and scheduler.running == [request]
    third = scheduler.schedule()
    assert third.works == [] and list(scheduler.waiting) == [waiting]
    scheduler.commit(second)
    assert scheduler.pool.num_free == 2
    scheduler.commit(third)
    finish(scheduler)


def test_plans_are_committed_once_and_in_order():
    scheduler = make()
    added(scheduler, 5)
    first, second = scheduler.schedule(), scheduler.schedule()
    with pytest.raises(ValueError, match="the oldest first"):
        scheduler.commit(second)
    scheduler.commit(first)
    with pytest.raises(ValueError, match="every plan once"):
        scheduler.commit(first)
    scheduler.commit(second)
    with pytest.raises(ValueError, match="every plan once"):
        scheduler.commit(second)


# --- who goes -------------------------------------------------------------------------


def test_who_waits_can_be_aborted():
    scheduler = make(num_blocks=3)
    first, second, third = (added(scheduler, 9) for _ in range(3))
    step(scheduler)
    scheduler.abort(second)
    assert list(scheduler.waiting) == [third]
    assert second.sequences[0].finish_reason == "aborted"
    finish(scheduler)
    assert second.sequences[0].new_tokens == [] and first.live == third.live == []


def test_who_runs_can_be_aborted_and_the_blocks_are_free_at_once():
    scheduler = make(num_blocks=16)
    request = added(scheduler, 9, num_parallel=3)
    step(scheduler)
    step(scheduler)
    scheduler.abort(request)
    assert scheduler.pool.num_free == 16 and not scheduler.running
    assert [len(one.new_tokens) for one in request.sequences] == [2] * 3
    scheduler.abort(request)  # a second time changes nothing
    assert scheduler.pool.num_free == 16


def test_who_is_in_flight_is_aborted_but_keeps_the_blocks_until_then():
    scheduler = make(num_blocks=3)
    request = added(scheduler, 9)
    plan = scheduler.schedule()
    scheduler.abort(request)
    assert scheduler.pool.num_free == 0
    scheduler.commit(plan)
    assert scheduler.pool.num_free == 3 and not scheduler.running


def test_a_block_that_is_copied_in_flight_is_not_free():
    """A restarted group: one copies the shared tail, the other one only holds it."""
    scheduler = make(num_blocks=8, max_prompt_tokens=6)
    request = added(scheduler, 6, num_parallel=2, max_new_tokens=9)
    for _ in range(3):
        step(scheduler)
    interrupt(scheduler)
    step(scheduler)
    scheduler.max_prompt_tokens = 1
    plan = scheduler.schedule()
    ((source, _),) = plan.copies
    assert [work.sequence for work in plan.works] == request.live[:1]
    scheduler.abort(request)
    assert scheduler.pool.refcount(source) == 1
    scheduler.commit(plan)
    assert scheduler.pool.num_free == 8


def test_who_waits_in_vain_is_told():
    scheduler = make(num_blocks=4)
    table = others_hold(scheduler, 2)
    added(scheduler, 9)
    with pytest.raises(OutOfBlocks, match="wanted 3 blocks, 2 free of 4"):
        scheduler.schedule()
    assert not scheduler.in_flight
    table.free()
    finish(scheduler)


def test_who_was_robbed_is_told_and_goes_on_when_the_blocks_are_back():
    scheduler = make(num_blocks=4)
    request = added(scheduler, 4, max_new_tokens=9)
    step(scheduler)
    table = others_hold(scheduler, 3)
    with pytest.raises(OutOfBlocks, match="wanted 1 block, 0 free of 4"):
        scheduler.schedule()
    assert request.sequences[0].num_computed == 4 and not scheduler.in_flight
    table.free()
    finish(scheduler)
    assert len(request.sequences[0].new_tokens) == 9


def test_a_plan_in_flight_goes_on_when_there_are_no_blocks_for_the_next_one():
    scheduler = make(num_blocks=4)
    request = added(scheduler, 4, max_new_tokens=5)
    plan = scheduler.schedule()
    table = others_hold(scheduler, 3)
    with pytest.raises(OutOfBlocks, match="wanted 1 block"):
        ahead(scheduler)
    choose(plan)
    scheduler.commit(plan)
    assert scheduler.running == [request] and not scheduler.in_flight
    table.free()
    finish(scheduler)
    assert request.sequences[0].new_tokens == [5] * 5


# --- what others find -----------------------------------------------------------------


def test_who_needs_the_block_that_is_just_computed_waits_a_step_and_finds_it():
    scheduler, prompt = make(16, cached=True), list(range(6))
    first, second = added(scheduler, prompt), added(scheduler, [*prompt, 9])
    other = added(scheduler, 3)
    plan = step(scheduler)
    assert [work.request for work in plan.works] == [first]
    assert list(scheduler.waiting) == [second, other]  # nobody overtakes
    plan = step(scheduler)
    assert second.num_cached_tokens == 4
    assert spans(plan) == [(6, 7, 1), (4, 7, 1), (0, 3, 1)]


def test_nobody_waits_for_who_was_aborted():
    scheduler, prompt = make(16, cached=True, max_prompt_tokens=2), list(range(6))
    first, second = added(scheduler, prompt), added(scheduler, prompt)
    step(scheduler)
    scheduler.abort(first)
    step(scheduler)
    assert scheduler.running == [second]
    finish(scheduler)


def test_only_what_is_computed_can_be_found():
    scheduler, prompt = make(16, cached=True, max_prompt_tokens=5), list(range(12))
    request = added(scheduler, prompt)
    sizes = []
    for _ in range(5):
        step(scheduler)
        tokens = [*request.sequences[0].tokens, 0]
        sizes.append(len(scheduler.prefix_cache.find(tokens)))
    # 5, 10 and 12 tokens of the prompt, then one each time.
    assert sizes == [1, 2, 3, 3, 3]


def test_what_was_cut_is_not_published():
    scheduler = make(16, cached=True)
    request = added(scheduler, list(range(8)))
    plan = scheduler.schedule()
    request.sequences[0].table.truncate(7)
    scheduler.commit(plan)
    assert len(scheduler.prefix_cache) == 1


def test_a_block_whose_last_token_was_never_read_is_not_published():
    scheduler = make(16, cached=True)
    request = added(scheduler, list(range(7)))
    first = scheduler.schedule()
    second = ahead(scheduler)
    scheduler.abort(request)
    scheduler.commit(first)
    scheduler.commit(second)  # it has computed position 7, and nobody knows what
    assert len(scheduler.prefix_cache) == 1
    assert scheduler.pool.num_free == 16


@pytest.mark.parametrize("drops", [True, False], ids=["beams", "samples"])
def test_of_beams_only_the_prompt_is_published(drops):
    scheduler = make(32, block_size=2, cached=True)
    request = added(scheduler, list(range(5)), 6, num_parallel=2, drops_sequences=drops)
    for token in (10, 11, 12):
        step(scheduler, token)
    # 5 tokens of the prompt, then 10, 11, and 12, which is not computed yet.
    found = scheduler.prefix_cache.find(request.sequences[0].tokens)
    assert len(found) == (2 if drops else 3)


# --- interruptions --------------------------------------------------------------------


def interrupt(scheduler, during=lambda: None):
    with pytest.raises(KeyboardInterrupt), all_or_nothing(scheduler):
        during()
        raise KeyboardInterrupt


def test_who_has_ended_does_not_come_back_with_an_undone_step():
    """It is kept for the plan that still computes it, and that plan is dropped."""
    scheduler = make()
    ended, other = added(scheduler, 3), added(scheduler, 4)
    first = scheduler.schedule()
    ahead(scheduler)
    choose(first)
    ended.live[0].end("stop")
    scheduler.commit(first)
    interrupt(scheduler)
    assert list(scheduler.waiting) == [other] and scheduler.pool.num_free == 8
    finish(scheduler)
    assert len(other.sequences[0].new_tokens) == 4


@pytest.mark.parametrize("limit", [1, 2, 100])
@pytest.mark.parametrize("num_steps", [1, 2, 3])
def test_every_step_of_a_restarted_group_computes_something(num_steps, limit):
    """After one token each, a group has nothing of its own between prompt and token."""
    scheduler = make(16, max_prompt_tokens=limit)
    request = added(scheduler, 6, num_parallel=3)
    while len(request.sequences[0].new_tokens) < num_steps:
        step(scheduler)
    interrupt(scheduler)
    assert scheduler.pool.num_free == 16
    assert all(plan.works for plan in finish(scheduler))
    assert [len(one.new_tokens) for one in request.sequences] == [4] * 3


def test_who_started_and_ended_in_an_undone_step_is_still_the_first():
    scheduler = make(max_prompt_tokens=4)
    requests = [added(scheduler, 4, max_new_tokens=1) for _ in range(3)]
    with pytest.raises(KeyboardInterrupt), all_or_nothing(scheduler) as undo:
        plan = scheduler.schedule()
        undo.save_texts(requests[:1])
        choose(plan)
        scheduler.commit(plan)
        assert not requests[0].live
        raise KeyboardInterrupt
    assert list(scheduler.waiting) == requests
    finish(scheduler)


def test_who_was_just_being_admitted_waits_again_without_blocks():
    """Interrupted between its table and its place among those running."""

    class Interrupts(Request):
        def start(self, table):
            super().start(table)
            raise KeyboardInterrupt

    scheduler, prompt = make(cached=True), list(range(6))
    request = Interrupts(prompt, 4, Strategy())
    scheduler.add(request)
    with pytest.raises(KeyboardInterrupt), all_or_nothing(scheduler):
        scheduler.schedule()
    assert list(scheduler.waiting) == [request] and request.sequences[0].table is None
    request.__class__ = Request
    step(scheduler)  # it does not wait for the block that it was to compute itself
    assert scheduler.running == [request]
    scheduler.abort(request)
    assert scheduler.pool.num_free == 8


# --- surroundings ---------------------------------------------------------------------


def test_observers_are_told_in_order():
    told = []

    class Notes(Observer):
        def admitted(self, request):
            told.append("admitted")

        def planned(self, plan):
            told.append(f"planned {plan.num_tokens}")

        def forked(self, parent, child):
            told.append("forked")

        def published(self, work):
            told.append(f"published to {work.stop}")

        def freed(self, sequence):
            told.append("freed")

        def committed(self, plan):
            told.append("committed")

    scheduler = make(cached=True)
    scheduler.observers.append(Notes())
    added(scheduler, 4, max_new_tokens=1, num_parallel=2)
    finish(scheduler)
    assert told == [
        "admitted",
        "planned 4",
        "forked",
        "published to 4",
        "freed",
        "freed",
        "committed",
    ]


def test_scheduling_needs_no_torch():
    code = (
        "import sys, minipaged.scheduling as package, importlib, pkgutil;"
        "[importlib.import_module(f'{package.__name__}.{one.name}')"
        " for one in pkgutil.iter_modules(package.__path__)];"
        "print(len(list(pkgutil.iter_modules(package.__path__))),"
        " {'torch', 'numpy', 'transformers'} & set(sys.modules))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    number, others = result.stdout.split()
    assert int(number) >= 7 and others == "set()", result.stderr
