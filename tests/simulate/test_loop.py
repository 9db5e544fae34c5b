"""The simulated server plans what the Engine plans, and its clock can be checked."""

import random
from functools import partial

import pytest
from transformers import GenerationConfig

import minipaged as mp
from helpers.counting import count_calls
from helpers.tiny_models import VOCABULARY, tiny_model
from minipaged.lab import StepClock
from minipaged.memory.contiguous import RequestLengths
from minipaged.memory.paged_waste import simulate_paged
from minipaged.scheduling.observer import Observer
from minipaged.scheduling.preemption import PreemptingScheduler
from minipaged.scheduling.scheduler import Scheduler
from minipaged.simulate.loop import Arrival, Replica, simulate
from minipaged.simulate.script import BeamScript, Script
from minipaged.simulate.without_model import Places

CLOCK = partial(StepClock, per_step=1.0, per_token=0.25)


class Plans(Observer):
    """Notes each plan: whose sequence computes what, into which blocks."""

    def __init__(self):
        self.steps, self.names = [], {}

    def planned(self, plan):
        self.steps.append(
            [
                (
                    self.names.setdefault(work.request, len(self.names)),
                    work.request.answers.index(work.sequence),
                    *work[2:],
                    tuple(work.sequence.table.block_ids),
                )
                for work in plan.works
            ]
            + [plan.copies]
        )


def trace(seed, count=20):
    """Prompts, some with a common beginning; lengths of 1 to 3 samples; arrivals."""
    chance = random.Random(seed)
    moment, common = 0.0, [chance.randrange(3, VOCABULARY) for _ in range(9)]
    for _ in range(count):
        moment += chance.choice([0.0, 0.0, 0.3, 5.0])
        own = [chance.randrange(3, VOCABULARY) for _ in range(chance.randint(1, 14))]
        prompt = common + own if chance.random() < 0.5 else own
        yield moment, prompt, chance.randint(1, 9), chance.choice([1, 1, 1, 2, 3])


OPTIONS = [{"num_blocks": 64}, {}, {"cache": True}, {"swap": True}]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_it_plans_what_the_engine_plans(seed, options):
    """Step by step, block by block, at the same moments."""
    num_blocks = options.get("num_blocks", 14)
    limits = {"max_tokens": 17, "max_sequences": 6}
    clock, ours, theirs = CLOCK(), Plans(), Plans()
    paged = mp.PagedModel(tiny_model("qwen3"), num_blocks, 4)
    engine = mp.Engine(
        paged,
        mp.PrefixCache(paged.pool) if "cache" in options else None,
        preemption="swap" if "swap" in options else "recompute",
        clock=clock,
        observers=[clock, theirs],
        **limits,
    )
    streams = []
    for moment, prompt, length, samples in trace(seed):
        config = GenerationConfig(
            max_new_tokens=length,
            min_new_tokens=length,
            do_sample=samples > 1,
            num_return_sequences=samples,
            eos_token_id=1,
            pad_token_id=0,
        )
        streams.append(engine.add(prompt, config, arrival=moment))
    engine.run()

    pool = mp.BlockPool(num_blocks, 4)
    scheduler = PreemptingScheduler(
        pool,
        mp.PrefixCache(pool) if "cache" in options else None,
        swap_space=Places(num_blocks, 4) if "swap" in options else None,
        **limits,
    )
    scheduler.observers.append(ours)
    report = simulate(
        scheduler,
        [
            Arrival(moment, Script([length] * samples).request(prompt))
            for moment, prompt, length, samples in trace(seed)
        ],
        CLOCK(),
    )
    assert ours.steps == theirs.steps
    assert report.preemptions == engine.stats.num_preemptions
    assert report.recomputed_tokens == engine.stats.recomputed_tokens
    assert sorted((one.arrival, one.first_token, one.end) for one in report.served) == (
        sorted((one.arrival, one.first_token_at, one.finished_at) for one in streams)
    )
    assert pool.num_free == num_blocks
    assert bool(report.preemptions) == ("num_blocks" not in options)
    assert bool(report.moved_blocks) == ("swap" in options)


def test_the_comparison_would_notice_another_budget():
    plans = []
    for budget in (16, 17):
        seen = Plans()
        scheduler = PreemptingScheduler(mp.BlockPool(16, 4), max_tokens=budget)
        scheduler.observers.append(seen)
        for moment, prompt, length, _ in trace(0):
            simulate(
                scheduler, [Arrival(moment, Script([length]).request(prompt))], CLOCK()
            )
        plans.append(seen.steps)
    assert plans[0] != plans[1]


def test_a_request_is_served_by_the_clock():
    """9 tokens of a prompt, then 2 more; another comes in between, and waits."""
    scheduler = Scheduler(mp.BlockPool(16, 4))
    first, second = Script([3]).request([1] * 9), Script([1]).request([2] * 4)
    report = simulate(
        scheduler, [Arrival(5.0, first), Arrival(6.0, second)], StepClock(1.0, 1.0)
    )
    # 5 + 1 + 9 = 15; the next step computes 1 + 4 tokens: 15 + 6 = 21; then 23.
    second, first = report.served
    assert first[:3] == (5.0, 15.0, 23.0) and second[:3] == (6.0, 21.0, 21.0)
    assert first.time_to_first_token == 10 and first.time_per_token == 4
    assert first.normalized_latency == 18 / 3 and second.time_per_token == 0
    assert report.summary("time_to_first_token").mean == 12.5
    assert [moment.running for moment in report.timeline] == [1, 2, 1]
    assert [moment.used_blocks for moment in report.timeline] == [3, 4, 3]
    assert report.mean_running == (10 * 1 + 6 * 2 + 2 * 1) / 18
    assert report.seconds == 23 and report.computed_tokens == 15


def test_it_agrees_with_lesson_2_on_one_trace():
    """All are there at once; both preempt the latest, and recompute.

    The toy's first token comes with the prompt, too. It reserves a whole block ahead,
    and the scheduler computes no last token: so counts differ a little.
    """
    chance = random.Random(0)
    chats = [
        RequestLengths(chance.randint(1, 200), chance.randint(2, 300))
        for _ in range(80)
    ]
    toy = simulate_paged(chats, 4096, 16)
    scheduler = PreemptingScheduler(mp.BlockPool(256, 16))
    report = simulate(
        scheduler,
        [
            Arrival(0.0, Script([chat.output]).request([n] * chat.prompt))
            for n, chat in enumerate(chats)
        ],
        StepClock(),
    )
    steps = len(report.timeline)
    assert abs(steps - toy.num_steps) <= 0.02 * toy.num_steps
    under_load = [moment for moment in report.timeline if moment.waiting]
    mean = sum(moment.running for moment in under_load) / len(under_load)
    assert abs(mean - toy.mean_running) <= 0.03 * toy.mean_running
    assert toy.preemptions and report.preemptions


def test_transfers_to_the_swap_space_and_back_take_time():
    """The cost model is told, in the step after, how many blocks were moved."""
    told = []

    class Transfers(StepClock):
        def step_seconds(self, plan, moved_blocks=0):
            told.append(moved_blocks)
            return 1.0 + 10.0 * moved_blocks

    space = Places(8, 4)
    scheduler = PreemptingScheduler(mp.BlockPool(8, 4), swap_space=space)
    coming = [Arrival(0.0, Script([15]).request([n] * 8)) for n in range(2)]
    report = simulate(scheduler, coming, Transfers())
    assert report.preemptions == 1 and not report.recomputed_tokens
    assert {moment.preemptions for moment in report.timeline} == {0, 1}
    out, back = (moved for moved in told if moved)
    assert out == back > 2 and report.moved_blocks == out + back
    assert report.seconds == len(told) + 10 * (out + back)


def test_a_replica_makes_only_the_steps_that_begin_before():
    replica = Replica(Scheduler(mp.BlockPool(16, 4)), StepClock())
    replica.add(Arrival(1.5, Script([5]).request([0] * 3)))
    replica.run_until(3.5)
    assert replica.now == 3.5 and replica.is_busy
    replica.run_until(3.6)
    assert replica.now == 4.5 and len(replica.report.timeline) == 3
    replica.run_until()
    assert replica.now == 6.5 and not replica.is_busy


def test_equal_prompts_are_found_and_samples_differ():
    pool = mp.BlockPool(64, 4)
    scheduler = Scheduler(pool, mp.PrefixCache(pool))
    three, again = Script([6, 6, 2]), Script([2])
    requests = [three.request([7] * 9), again.request([7] * 9 + [-1] * 6)]
    simulate(scheduler, [Arrival(0, requests[0])], StepClock())
    texts = [tuple(answer.new_tokens) for answer in requests[0].answers]
    assert texts == [(-1,) * 6, (-2,) * 6, (-3,) * 2]
    report = simulate(scheduler, [Arrival(0, requests[1])], StepClock())
    # A second turn finds the first one's answer: 12 of 14 positions that were computed.
    assert report.served[0].cached == 12


def test_beams_are_forked_and_dropped_and_hold_what_is_told():
    pool = mp.BlockPool(64, 4)
    scheduler = Scheduler(pool)
    script = BeamScript(4, 30, seed=1)
    request = script.request([3] * 10)
    seen = []

    class Watch(Observer):
        def committed(self, plan):
            living = [one for one in request.answers if one.finish_reason is None]
            seen.append((len(living), {one.num_tokens for one in request.answers}))

    scheduler.observers.append(Watch())
    report = simulate(scheduler, [Arrival(0, request)], StepClock())
    assert seen[:-1] == [(4, {10 + step}) for step in range(1, 30)]
    assert request.answers[0].num_new == 30 and not request.live
    assert pool.num_free == 64 and len(report.timeline) == 30
    # Soon, all have a common ancestor: they share all but the last few blocks.
    assert max(moment.used_blocks for moment in report.timeline) < 4 * 10 / 2


@pytest.mark.parametrize("lengths", [[], [3, 0]])
def test_an_answer_has_a_token_at_least(lengths):
    with pytest.raises(ValueError, match="1 token or more"):
        Script(lengths)


def test_a_simulated_step_costs_few_calls():
    """A hundred sequences, with costs and a prefix cache; so a minute is 60,000 steps.

    Two thirds of these calls are the scheduler's own.
    """
    pool = mp.BlockPool(2000, 16)
    scheduler = PreemptingScheduler(pool, mp.PrefixCache(pool), max_tokens=4096)
    replica = Replica(scheduler, StepClock())
    for number in range(100):
        replica.add(Arrival(0.0, Script([90]).request([number] * 30)))
    replica.run_until(10.0)
    calls = count_calls(lambda: replica.run_until(42.0))  # each fills two blocks
    assert calls / (32 * 100) < 80
