"""The engine: requests that come and go, alone right and together right."""

import asyncio
import itertools
import random
from concurrent.futures import ThreadPoolExecutor
from threading import Thread

import pytest
from transformers import GenerationConfig

import minipaged as mp
from helpers.answers import huggingface_outputs
from helpers.serving import (
    CONFIGS,
    KINDS,
    PROMPTS,
    Simulated,
    add_all,
    check,
    check_idle,
    config,
    expected,
    make,
)
from helpers.thorough import all_or, often
from helpers.tiny_models import tiny_model
from minipaged.engine import stream as streams
from minipaged.engine.limits import MAX_STARTS
from minipaged.memory.swap_space import SwapSpace
from minipaged.scheduling import preemption
from minipaged.scheduling.preemption import PreemptingScheduler


class EachStep(mp.Observer):
    """Calls a function when a step is over."""

    def __init__(self, work):
        self.work, self.active = work, True

    def planned(self, plan):
        if self.active:
            self.work()


@pytest.mark.parametrize("preemption", ["recompute", "swap"])
@pytest.mark.parametrize("cache", [False, True])
@pytest.mark.parametrize(
    "num_blocks, block_size, max_tokens",
    all_or(
        [
            (200, 4, 2048),
            (24, 4, 40),
            (24, 4, 16),
            (90, 1, 24),
            (11, 8, 64),
            (7, 16, 32),
        ],
        [(24, 4, 16), (7, 16, 32)],
    ),
)
def test_all_kinds_of_requests_in_one_batch(
    num_blocks, block_size, max_tokens, cache, preemption
):
    engine = make(
        num_blocks, block_size, cache, max_tokens=max_tokens, preemption=preemption
    )
    add_all(engine)
    check(engine.run())
    check_idle(engine)
    stats = engine.stats
    assert stats.generation_tokens > 0 and stats.prompt_tokens == sum(map(len, PROMPTS))
    assert stats.request_success == {"length": len(PROMPTS)}
    if num_blocks * block_size < 100:
        assert stats.num_preemptions > 0
        assert (stats.num_swapped_out > 0) == (preemption == "swap")


COMBINATIONS = random.Random(18).sample(
    list(
        itertools.product(
            (1, 4, 8, 16),  # tokens in a block
            (16, 24, 40, 2048),  # tokens in a step: prompts come in chunks, or whole
            (0.2, 0.4, 1.0),  # of the blocks that all need together
            (False, True),  # a prefix cache
            ("recompute", "swap"),
        )
    ),
    often(20),
)


@pytest.mark.parametrize("combination", COMBINATIONS, ids=str)
def test_one_trace_gives_the_same_tokens_however_it_is_served(combination):
    """Block size, budget, chunks, pool, prefix cache and preemption change no token."""
    size, max_tokens, share, cache, preemption = combination
    engine = make(1000, size, clock=Simulated())
    needed = [stream.request.blocks_at_most(size) for stream in add_all(engine)]
    num_blocks = max(max(needed), int(share * sum(needed)))
    options = {"max_tokens": max_tokens, "preemption": preemption}
    engine = make(num_blocks, size, cache, clock=Simulated(), **options)
    arrivals = random.Random(0).sample(range(15), len(PROMPTS))
    for seed, arrival in enumerate(arrivals):
        engine.add(PROMPTS[seed], CONFIGS[seed], seed=seed, arrival=float(arrival))
    check(engine.run())
    check_idle(engine)
    assert engine.stats.num_preemptions or share == 1.0


def test_the_long_ones_do_not_starve():
    """Short ones come in every step; whoever came first still ends first."""
    engine = make(24, max_sequences=4)
    long = [engine.add(prompt, KINDS[0]) for prompt in PROMPTS[:3]]
    for number in range(200):
        engine.add([5 + number % 9], config(2))
        engine.step()
        if all(stream.finished for stream in long):
            break
    assert number < 60
    theirs = huggingface_outputs(engine.paged.model, PROMPTS[:3], KINDS[0])
    check([stream.output for stream in long], theirs)


def test_a_quarter_of_what_all_need():
    prompts = PROMPTS * 3
    worst = sum(-(-(len(p) + 14) // 4) for p in prompts)
    engine = make(worst // 4, preemption="swap", max_sequences=32)
    for prompt in prompts:
        engine.add(prompt, KINDS[0])
    theirs = huggingface_outputs(engine.paged.model, PROMPTS, KINDS[0])
    check(engine.run(), theirs * 3)
    assert engine.stats.num_preemptions
    check_idle(engine)


class Harsh(PreemptingScheduler):
    """Preempts the latest, or several, whenever it likes to."""

    def _admit(self):
        for _ in range(2):
            if len(self.running) > 1 and self.draw.random() < 0.4:
                self.preempt(self.running[-1])
        if not self.running or self.draw.random() < 0.7:
            super()._admit()


@pytest.mark.parametrize("mode", ["recompute", "swap"])
@pytest.mark.parametrize("seed", range(often(6)))
def test_preempted_at_random_in_every_step(mode, seed):
    """Scenario 36 of the field: nobody's tokens change, whoever starts again when."""
    engine = make(96, cache=seed % 2 == 0, preemption=mode)
    engine.scheduler.__class__ = Harsh
    engine.scheduler.draw = random.Random(seed)
    streams = add_all(engine)
    check(engine.run())
    check_idle(engine)
    told = sum(stream.num_preemptions for stream in streams)
    assert engine.stats.num_preemptions == told > 5


def test_streams_give_tokens_as_they_come():
    engine = make()
    stream, other = engine.add(PROMPTS[0], KINDS[0]), engine.add(PROMPTS[1], KINDS[0])
    seen = []
    for token in stream:
        seen.append(token)
        assert len(seen) >= engine.stats.num_steps - 1, "told late"
    assert [seen] == expected()[0].sequences
    assert stream.finished and stream.output.finish_reason == "length"
    assert other.tokens  # it was served meanwhile
    assert (
        other.result().sequences
        == mp.generate(engine.paged, [PROMPTS[1]], KINDS[0])[0].sequences
    )
    check_idle(engine)


def test_a_stream_of_several_sequences_is_refused_in_words():
    engine = make()
    stream = engine.add(PROMPTS[3], KINDS[3])
    with pytest.raises(ValueError, match="result"):
        next(iter(stream))
    check(
        [stream.result()],
        [huggingface_outputs(engine.paged.model, [PROMPTS[3]], KINDS[3])[0]],
    )


def test_a_prompt_that_goes_on_growing_is_what_it_was_when_it_was_added():
    """A chat's history, for instance: one list for all, while the requests wait."""
    histories = [PROMPTS[1][:length] for length in range(3, 13)]
    own = config(9, do_sample=True, num_return_sequences=2)
    seeds = list(range(len(histories)))
    engine, history = make(num_blocks=24), PROMPTS[1][:2]
    for length, seed in zip(range(3, 13), seeds, strict=True):
        history.append(PROMPTS[1][length - 1])
        engine.add(history, own, seed=seed)
    for _ in range(3):
        engine.step()
    engine.scheduler.preempt(engine.scheduler.running[0])  # it is prefilled once more
    history.clear()
    check(
        engine.run(),
        huggingface_outputs(engine.paged.model, histories, [own] * 10, seed=seeds),
    )
    check_idle(engine)


def test_a_config_that_is_changed_later_changes_no_request():
    bias = [[[PROMPTS[0][0]], 9.0], [[5], 4.0]]
    own = config(9, sequence_bias=bias, bad_words_ids=[[6]], suppress_tokens=[7])
    right = huggingface_outputs(tiny_model("qwen3"), PROMPTS[:4], own)
    engine = make()
    for prompt in PROMPTS[:4]:
        engine.add(prompt, own)
    for each in (own.sequence_bias, own.bad_words_ids):
        each.append(each[0])
        each[0][0] = [9] if each is own.sequence_bias else 9
    own.suppress_tokens.extend(range(3, 100))
    own.eos_token_id, own.max_new_tokens = 5, 2
    check(engine.run(), right)


def test_text_in_whole_letters():
    model, tokenizer = mp.load("pocket")
    engine = mp.Engine(mp.PagedModel(model, 64))
    prompt = tokenizer("Once upon a time").input_ids
    pieces = list(
        engine.add(prompt, GenerationConfig(max_new_tokens=30)).texts(tokenizer)
    )
    (right,) = mp.generate(engine.paged, [prompt], GenerationConfig(max_new_tokens=30))
    text = tokenizer.decode(right.sequences[0], skip_special_tokens=True)
    assert "".join(pieces) == text and len(pieces) > 5


def test_text_of_what_is_no_text_is_refused_at_the_call():
    _, tokenizer = mp.load("pocket")
    engine = make()
    with pytest.raises(TypeError, match="tokenizer must be one of transformers"):
        engine.add(PROMPTS[0], KINDS[0]).texts("pocket")
    samples = engine.add(PROMPTS[3], KINDS[3])
    with pytest.raises(ValueError, match="result"):
        samples.texts(tokenizer)


def run_in_a_thread(coroutine):
    """As asyncio.run, also where this thread has a loop, as beside an open browser."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()


def test_asynchronous_streams():
    engine = make()

    async def read(prompt):
        return [token async for token in engine.add(prompt, KINDS[0])]

    async def read_all():
        return await asyncio.gather(*map(read, PROMPTS[:4]))

    theirs = huggingface_outputs(engine.paged.model, PROMPTS[:4], KINDS[0])
    assert [[own] for own in run_in_a_thread(read_all())] == [
        one.sequences for one in theirs
    ]
    check_idle(engine)


def test_more_asynchronous_streams_than_threads():
    engine = make(24)

    async def read(number):
        prompt = PROMPTS[number % len(PROMPTS)]
        return [token async for token in engine.add(prompt, config(3))]

    async def read_all():
        return await asyncio.gather(*map(read, range(60)))

    answers = run_in_a_thread(read_all())
    theirs = huggingface_outputs(engine.paged.model, PROMPTS, config(3))
    right = [theirs[number % len(PROMPTS)].sequences[0] for number in range(60)]
    assert answers == right
    check_idle(engine)


@pytest.mark.parametrize("somebody_runs", [False, True])
def test_readers_in_threads(somebody_runs):
    engine = make(24)
    opened = add_all(engine)
    single = [one for one in opened if one.request.num_parallel == 1]
    answers = {}

    def read(stream):
        answers[stream] = list(stream)

    threads = [Thread(target=read, args=[stream]) for stream in single]
    if somebody_runs:
        threads.append(Thread(target=engine.run))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    check([one.result() for one in opened])
    for stream in single:
        assert [answers[stream]] == stream.output.sequences
    check_idle(engine)


def test_arrivals():
    engine = make(clock=Simulated())
    late = engine.add(PROMPTS[0], KINDS[0], arrival=500.0)
    early = engine.add(PROMPTS[1], KINDS[0], arrival=100.0)
    now = engine.add(PROMPTS[2], KINDS[0])
    outputs = engine.run()
    assert [one.output for one in (late, early, now)] == outputs
    assert now.finished_at < 100 < early.first_token_at < early.finished_at < 500
    assert late.arrival == 500.0 and late.time_to_first_token < 50
    tokens = len(late.tokens)
    assert late.normalised_latency == (late.finished_at - 500) / tokens
    between = late.finished_at - late.first_token_at
    assert late.time_per_token == between / (tokens - 1)


def test_first_come_first_served():
    """Scenario 29: a shorter one does not overtake the head of the line."""
    order = []
    engine = make(12, observers=[o := mp.Observer()])
    o.admitted = lambda request: order.append(request.prompt)
    for prompt in ([3] * 30, [4] * 40, [5] * 3):
        engine.add(prompt, config(5))
    engine.run()
    assert order[0] == [3] * 30 and order[1] == [4] * 40
    check_idle(engine)


class Starts(mp.Observer):
    """How many requests start in each step that starts any."""

    def __init__(self):
        self.counts = []

    def planned(self, plan):
        if started := [work for work in plan.works if work.start == 0]:
            self.counts.append(len(started))


def test_many_arrivals_start_in_several_steps():
    """Those that decode already get a token in each of these steps."""
    starts = Starts()
    engine = make(400, max_tokens=2048, max_sequences=256, observers=[starts])
    first = engine.add(PROMPTS[0], KINDS[0])
    engine.step()
    streams = [engine.add(PROMPTS[0], KINDS[0]) for _ in range(MAX_STARTS + 10)]
    for num_tokens in (2, 3):
        engine.step()
        assert len(first.tokens) == num_tokens
    assert starts.counts == [1, MAX_STARTS, 10]
    engine.run()
    assert {tuple(stream.tokens) for stream in streams} == {tuple(first.tokens)}


def test_aborted_waiting_running_and_preempted():
    """Scenario 34: nothing is left of it, and the others do not notice."""
    for moment in range(0, 24, 3):
        engine = make(24, preemption="swap" if moment % 2 else "recompute")
        opened = add_all(engine)
        for _ in range(moment):
            engine.step()
        victims = opened[1::3]
        for stream in victims:
            engine.abort(stream)
        engine.run()
        for stream, right in zip(opened, expected(), strict=True):
            if stream.output.finish_reason == "aborted":
                assert stream in victims
                assert stream.tokens == right.sequences[0][: len(stream.tokens)] or (
                    stream.request.num_parallel > 1
                )
            else:
                check([stream.output], [right])
        check_idle(engine)


def test_aborted_too_late():
    """It has its answer, which counts once."""
    engine = make()
    stream = engine.add(PROMPTS[0], KINDS[0])
    right = stream.result()
    engine.abort(stream)
    assert stream.output is right
    assert engine.stats.request_success == {"length": 1}
    check_idle(engine)


def test_aborted_by_an_observer_in_the_middle_of_a_step():
    engine = make()
    opened = add_all(engine)
    watcher = EachStep(lambda: engine.abort(opened[0]))
    engine.paged.observers.append(watcher)
    engine.step()
    watcher.active = False
    outputs = engine.run()
    assert opened[0].output.finish_reason == "aborted"
    check(outputs[-len(PROMPTS) + 1 :], expected()[1:])
    check_idle(engine)


def test_observers_may_be_set_and_appended_to():
    class Counts(mp.Observer):
        num_steps = 0

        def committed(self, plan):
            self.num_steps += 1

    engine = make()  # before they are set
    paged = engine.paged
    one, other = Counts(), Counts()
    paged.observers = [one]
    paged.observers += [other]
    engine.add(PROMPTS[0], config(4))
    engine.run()
    assert one.num_steps == other.num_steps == engine.stats.num_steps > 0
    before = one.num_steps
    mp.generate(paged, PROMPTS[:1], config(4))
    assert one.num_steps == other.num_steps > before
    with pytest.raises(TypeError, match=r"of mp\.Observer or its subclasses"):
        paged.observers = [one, print]
    with pytest.raises(TypeError, match="a list of them"):
        paged.observers = one
    assert paged.observers == [one, other]
    paged.observers = []
    before = one.num_steps
    mp.generate(paged, PROMPTS[:1], config(4))
    assert one.num_steps == before


def test_what_can_never_fit_has_an_error_of_its_own():
    """Scenario 35: it never waits for ever, and the others go on."""
    engine = make(8)
    too_long = engine.add([3] * 30, config(8))
    fits = engine.add(PROMPTS[0], KINDS[0])
    beyond = engine.add([3] * 100000, config(8))
    outputs = engine.run()
    assert [out.finish_reason for out in outputs] == ["error", "length", "error"]
    assert "raise num_blocks" in too_long.output.error
    assert "position" in beyond.output.error
    assert list(too_long) == []
    check([fits.output], expected()[:1])
    check_idle(engine)


def test_blocks_that_others_hold():
    """Nobody can go on: it says so, loses nothing, and goes on when they are back."""
    engine = make(10)
    table = mp.BlockTable(engine.paged.pool)
    table.append(4 * 8)
    stream = engine.add(PROMPTS[0], KINDS[0])
    with pytest.raises(mp.OutOfBlocks):
        engine.run()
    table.free()
    check(engine.run(), expected()[:1])
    assert stream.finished
    check_idle(engine)


def test_two_engines_on_one_model():
    model = tiny_model("qwen3")
    first, second = (mp.Engine(mp.PagedModel(model, 40, 4)) for _ in range(2))
    one, other = add_all(first), add_all(second)
    while first.step() | second.step():
        pass
    check([stream.output for stream in one])
    check([stream.output for stream in other])


def test_two_engines_on_one_pool():
    first = make(60)
    second = mp.Engine(first.paged, max_tokens=32, max_sequences=16)
    one, other = add_all(first), add_all(second)
    while first.streams or second.streams:
        for engine in (first, second):
            try:
                engine.step()
            except mp.OutOfBlocks:
                assert first.streams and second.streams, "it has the pool to itself"
    check([stream.output for stream in one])
    check([stream.output for stream in other])
    check_idle(first)


@pytest.mark.parametrize("mode", ["recompute", "swap"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_exceptions_at_random(mode, error):
    """Survivors start again with the same text; blocks always come back."""
    draw = random.Random(0)
    engine = make(24, cache=True, preemption=mode)
    moments = ["admitted", "planned", "computed", "chosen", "forked", "committed"]

    class Fragile(mp.Observer):
        pass

    def raise_at_times(*_facts):
        if draw.random() < 0.03:
            raise error

    for moment in moments:
        setattr(Fragile, moment, lambda self, *facts: raise_at_times())
    engine.paged.observers.append(Fragile())
    add_all(engine)
    streams_of = list(engine.streams.values())
    interrupted = 0
    while engine.streams:
        try:
            engine.run()
        except error:
            interrupted += 1
            assert engine.paged.pool.num_free == 24
    assert interrupted > 5
    engine.paged.observers.clear()
    check([stream.output for stream in streams_of])
    check_idle(engine)


def test_thrashing_is_named():
    """Eight long requests in a pool for two: the others start over and over."""
    engine = make(60, 1, max_sequences=8)
    engine.stats._thrash = type(engine.stats._thrash)(num_steps=20)
    for number in range(8):
        engine.add([3 + number] * 8, config(40))
    scheduler = engine.scheduler
    scheduler.__class__ = type(
        "Rash", (PreemptingScheduler,), {"_is_room": lambda self, *arguments: True}
    )
    with pytest.warns(RuntimeWarning, match="thrashing.*raise num_blocks"):
        while engine.streams:
            try:
                engine.step()
            except mp.OutOfBlocks:
                scheduler.__class__ = PreemptingScheduler


def test_malformed_is_refused_and_nothing_is_added():
    engine = make()
    for bad in ([], "text", [0.5], [10**9], [[1, 2]]):
        with pytest.raises((TypeError, ValueError)):
            engine.add(bad)
    with pytest.raises(TypeError, match=r"pass tokenizer\(text\)\.input_ids, or"):
        engine.add("text")
    with pytest.raises(ValueError, match="max_tokens"):
        engine.add([3], config(3, num_beams=33))
    for options in (
        {"max_tokens": 0},
        {"max_sequences": 33},
        {"preemption": "hope"},
        {"swap_blocks": 3},
    ):
        with pytest.raises(ValueError):
            make(**options)
    assert not engine.streams and engine.run() == []


def loads_nothing(space, rows, block_ids):
    """Wrong: whoever comes back finds what others have left in its blocks."""


def forgets_samples(request):
    """Wrong: of several sequences, the first one's blocks are taken only."""
    request.sequences[0].table = None


def stores_in_any_order(space, block_ids, store=SwapSpace.store):
    """Wrong: says in another order where the blocks are."""
    return store(space, block_ids)[::-1]


WRONG = {
    "loads nothing": (SwapSpace, "load", loads_nothing),
    "stores in any order": (SwapSpace, "store", stores_in_any_order),
    "forgets samples": (preemption, "lose_blocks", forgets_samples),
    "tells nobody": (streams.Stream, "catch_up", lambda stream, now: None),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_engines_are_noticed(monkeypatch, wrong):
    engine = make(24, preemption="recompute" if "samples" in wrong else "swap")
    opened = add_all(engine)
    monkeypatch.setattr(*WRONG[wrong])
    with pytest.raises((AssertionError, AttributeError, mp.TableFreed)):
        for _ in range(200):
            engine.step()
        check([stream.output for stream in opened])
