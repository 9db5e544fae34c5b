"""Requests, steps, interruptions and others in any order: always the right answers."""

import pytest
from hypothesis import settings

from helpers import scheduling_machine
from helpers.free_blocks import free_blocks, set_free_blocks
from helpers.scheduling_machine import KINDS, run_operations
from helpers.scheduling_rules import Scheduling
from helpers.thorough import often
from minipaged.errors import OutOfBlocks
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable
from minipaged.memory.prefix_cache import PrefixCache
from minipaged.scheduling import guesses, restart
from minipaged.scheduling.guesses import GuessedWorks
from minipaged.scheduling.interruption import StepUndo
from minipaged.scheduling.next_works import NextWorks
from minipaged.scheduling.request import Request
from minipaged.scheduling.scheduler import Scheduler
from minipaged.scheduling.sequence import Sequence
from minipaged.scheduling.sharing import PrefixSharing


class TestScheduling(Scheduling.TestCase):
    settings = settings(max_examples=often(150), stateful_step_count=40, deadline=None)


def test_ten_thousand_operations():
    seen = run_operations(seed=0, count=10_000)
    few = {what: seen[what] for what in seen if seen[what] < 20}
    assert not few, "these are hardly tested"
    assert seen.keys() >= {*KINDS, "Interrupted", "OutOfBlocks", "ahead", "aborts"}
    assert seen["cached"] > 200 and seen["copies"] > 200 and seen["answers"] > 1000


# --- wrong versions, which the driver must reject -------------------------------------

PUBLISH, LET_GO, ADMIT = PrefixSharing._publish, Scheduler._let_go, Scheduler._admit
SETTLE, GUESSED = guesses.settle, GuessedWorks.next_works
FORGET, RESTORE = BlockPool.forget, BlockPool.restore
BEGIN, UNDO = StepUndo.begin, StepUndo.undo
NEXT_TOKENS, NEXT_CHUNKS = NextWorks.next_works, NextWorks.next_prefills


def frees_in_flight(scheduler, sequences):
    """Wrong: does not wait for the plans that still compute a sequence."""
    plans = scheduler.in_flight.copy()
    scheduler.in_flight.clear()
    LET_GO(scheduler, sequences)
    scheduler.in_flight.extend(plans)


def publishes_beams(sharing, work):
    """Wrong: others count on blocks of a beam, which it may drop."""
    request = work.request
    drops, request.drops_sequences = request.drops_sequences, False
    try:
        return PUBLISH(sharing, work)
    finally:
        request.drops_sequences = drops


def publishes_what_is_not_computed(sharing, work):
    """Wrong: the last token is known, but its K and V come with the next step."""
    return PUBLISH(sharing, work._replace(stop=len(work.sequence.tokens)))


def revives_for_nothing(scheduler, request, cached, num_blocks):
    """Wrong: counts cached blocks as there, although they lie on the free list."""
    free = sum(scheduler.pool.refcount(block) == 0 for block in cached)
    return num_blocks - free <= scheduler.pool.num_free


def counts_the_living_only_before_the_fork(strategy, request, block_size):
    """Wrong: a group that has not been forked yet counts as one sequence."""
    shared = len(request.prompt) // block_size
    own = -(-request.max_computed // block_size) - shared
    return shared + len(request.live) * own


def remembers_lists(undo):
    """Wrong: notes the free lists and the index, to bring them back as they were."""
    BEGIN(undo)
    pool, prefix = undo._scheduler.pool, undo._scheduler.prefix_cache
    undo.old = [each.copy() for each in free_blocks(pool)]
    undo.old_contents = None if prefix is None else prefix._contents.copy()


def restores_the_index(undo):
    """Wrong: finds again what was handed out meanwhile, and perhaps overwritten."""
    if undo.old_contents:
        prefix = undo._scheduler.prefix_cache
        prefix._contents.clear()
        prefix._contents.update(undo.old_contents)
    UNDO(undo)


def restores_the_free_lists(undo):
    """Wrong: the running requests' blocks are on neither list."""
    UNDO(undo)
    set_free_blocks(undo._scheduler.pool, *undo.old)


def takes_from_all(pool, holders):
    """Wrong: what others hold is free after an interruption as well."""
    RESTORE(pool, [0] * pool.num_blocks)


def lets_who_has_ended_wait(undo):
    """Wrong: a request that was only kept for a plan in flight starts again."""
    UNDO(undo)
    scheduler = undo._scheduler
    ended = [one for one in undo._running if not one.live]
    scheduler.waiting.extendleft(ended)


def forgets_only_when_handed_out(pool, block_id):
    """Wrong: a block that is cut and written again is still found by its old text."""
    if pool.refcount(block_id) == 0:
        FORGET(pool, block_id)


def everybody_computes_the_prompt(request):
    """Wrong: after a restart each sequence fills blocks of its own with the prompt."""
    pool = request.live[0].table.pool
    for sequence in request.live:
        sequence.table = sequence.table or BlockTable(pool)


def forks_too_early(request):
    """Wrong: the others go on from a part of the prompt, and each computes the rest."""
    leader, *others = request.live
    for sequence in others:
        sequence.table = sequence.table or leader.table.fork()


def publishes_what_nobody_has_read(sharing, work):
    """Wrong: takes a token for 0 that was computed, but never read."""
    tokens = work.sequence.tokens
    num_unread = max(0, work.stop - len(tokens))
    tokens += [0] * num_unread
    result = PUBLISH(sharing, work)
    del tokens[len(tokens) - num_unread :]
    return result


def goes_on_behind_the_end(strategy, request, limit):
    """Wrong: computes the token after the last one that is wanted."""
    request.max_new_tokens += 1
    works = NEXT_TOKENS(strategy, request, limit)
    request.max_new_tokens -= 1
    return works


def decodes_some_of_a_group(strategy, request, limit):
    """Wrong: as many sequences of a group as the budget allows, not all or none."""
    works = NEXT_TOKENS(strategy, request, float("inf"))
    return works[: int(limit)] if len(works) > limit else works


def computes_prompts_whole(strategy, request, limit):
    """Wrong: a prompt in one piece, whatever is allowed."""
    return NEXT_CHUNKS(strategy, request, max(limit, 100))


def lets_a_small_one_pass(scheduler):
    """Wrong: whoever waits behind, and fits, starts first."""
    scheduler.waiting.rotate(-1)
    ADMIT(scheduler)
    scheduler.waiting.rotate(1)


def forks_a_copy_of_the_ids(sequence):
    """Wrong: two tables over the same blocks, counted once."""
    table = BlockTable(sequence.table.pool)
    table.block_ids = sequence.table.block_ids.copy()
    table.num_tokens = sequence.table.num_tokens
    child = Sequence(sequence.tokens, table)
    child.num_prompt_tokens = sequence.num_prompt_tokens
    return child


def trusts_the_hash(prefix, chain_hash, parent, content):
    """Wrong: believes the hash, of which one bit may be all there is."""
    return next(iter(prefix._by_hash.get(chain_hash, ())), None)


def leaves_the_strategy(undo):
    """Wrong: draws other random numbers the second time."""
    texts, *rest = undo._texts
    now = [(*before, before[0].strategy.save()) for *before, _ in texts]
    undo._texts = now, *rest
    UNDO(undo)


def keeps_its_own_blocks(request, answer, branch, num_right):
    """Wrong: the tokens of the best branch, with K and V of another one."""
    if branch is not answer:
        guesses = branch.tokens[branch.num_known :]
        answer.accept()
        answer.guess(guesses)
        size = answer.num_tokens - answer.num_computed
        answer.table.append(max(0, size))
    SETTLE(request, answer, answer, num_right)


def forgets_forks_without_room(request, answer, branch, num_right):
    """Wrong: nobody gives back the blocks of a fork that was left out of a plan."""
    drafts, request.drafts = request.drafts, []
    SETTLE(request, answer, branch, num_right)
    for draft in drafts:
        draft.end("dropped")


def lets_guesses_grow(strategy, request, limit):
    """Wrong: guesses take more of a step than there is room for."""
    return GUESSED(strategy, request, max(limit, 100))


def publishes_the_newest(sharing, work):
    """Wrong: in the newest token's slot, a wrong guess may lie until the next step."""
    sequence = work.sequence
    shorter, sequence.num_prefill_tokens = sequence.num_prefill_tokens, 10**9
    try:
        return PUBLISH(sharing, work)
    finally:
        sequence.num_prefill_tokens = shorter


def takes_the_next_step_back(sequence, count=0):
    """Wrong: wrong guesses are dropped, and the room of the next step with them."""
    del sequence.tokens[sequence.num_known + count :]
    sequence.guesses_from = None
    if sequence.num_computed > len(sequence.tokens):
        sequence.table.truncate(len(sequence.tokens))


WRONG = {
    "publishes the newest": [(PrefixSharing, "_publish", publishes_the_newest)],
    "takes the next back": [(Sequence, "accept", takes_the_next_step_back)],
    "keeps its own": [(scheduling_machine, "settle", keeps_its_own_blocks)],
    "forgets forks": [(scheduling_machine, "settle", forgets_forks_without_room)],
    "counts no forks": [(GuessedWorks, "blocks_at_most", NextWorks.blocks_at_most)],
    "guesses on": [(GuessedWorks, "next_works", lets_guesses_grow)],
    "never copies": [(BlockTable, "must_copy", lambda table, n: False)],
    "frees in flight": [(Scheduler, "_let_go", frees_in_flight)],
    "publishes beams": [(PrefixSharing, "_publish", publishes_beams)],
    "publishes unread": [(PrefixSharing, "_publish", publishes_what_nobody_has_read)],
    "publishes early": [(PrefixSharing, "_publish", publishes_what_is_not_computed)],
    "promises nothing": [(Request, "blocks_to_come", lambda request, size: 0)],
    "forgets to revive": [(Scheduler, "_may_start", revives_for_nothing)],
    "admits all": [(Scheduler, "_may_start", lambda *_: True)],
    "counts one": [
        (NextWorks, "blocks_at_most", counts_the_living_only_before_the_fork)
    ],
    "restores the index": [
        (StepUndo, "begin", remembers_lists),
        (StepUndo, "undo", restores_the_index),
    ],
    "restores the lists": [
        (StepUndo, "begin", remembers_lists),
        (StepUndo, "undo", restores_the_free_lists),
    ],
    "does not repair": [(PrefixCache, "repair", lambda prefix: None)],
    "takes from all": [(BlockPool, "restore", takes_from_all)],
    "revives the dead": [(StepUndo, "undo", lets_who_has_ended_wait)],
    "cuts in silence": [(BlockPool, "forget", forgets_only_when_handed_out)],
    "never forgets": [(PrefixCache, "forget", lambda prefix, block: None)],
    "restarts apart": [(restart, "share_prompt", everybody_computes_the_prompt)],
    "forks early": [(restart, "share_prompt", forks_too_early)],
    "goes on": [(NextWorks, "next_works", goes_on_behind_the_end)],
    "splits groups": [(NextWorks, "next_works", decodes_some_of_a_group)],
    "ignores budgets": [(NextWorks, "next_prefills", computes_prompts_whole)],
    "overtakes": [(Scheduler, "_admit", lets_a_small_one_pass)],
    "forks ids": [(Sequence, "fork", forks_a_copy_of_the_ids)],
    "trusts hashes": [(PrefixCache, "_lookup", trusts_the_hash)],
    "redraws": [(StepUndo, "undo", leaves_the_strategy)],
}


@pytest.mark.parametrize("name", WRONG)
def test_the_driver_rejects(monkeypatch, name):
    for where, method, wrong in WRONG[name]:
        monkeypatch.setattr(where, method, wrong)
    with pytest.raises((AssertionError, IndexError, OutOfBlocks, ValueError)):
        run_operations(seed=1, count=40_000)
