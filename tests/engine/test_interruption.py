"""Interrupted anywhere: no block is lost, no text is wrong, and one can go on."""

import random
import sys
from threading import Event, Thread

import pytest
from transformers import GenerationConfig

import minipaged as mp
from helpers.answers import huggingface_generate
from helpers.interrupting import (
    CONFIGS,
    PROMPTS,
    Lines,
    World,
    drive,
    expected,
    sequences,
    signals,
)
from helpers.thorough import all_or, often
from minipaged.attention.rectangles import gathered_attention
from minipaged.engine.arguments import make_requests
from minipaged.engine.loop import step
from minipaged.scheduling import interruption
from minipaged.scheduling.interruption import StepUndo

GREEDY = GenerationConfig(max_new_tokens=6, pad_token_id=0)
FIRST, SECOND = list(range(3, 28)), list(range(40, 65))


class InterruptedAt(mp.Observer):
    """Raises KeyboardInterrupt when this is told for the n-th time."""

    def __init__(self, moment, n=1):
        self.left = n

        def told(*_facts):
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt

        setattr(self, moment, told)


# What is gone is not found.


def check_that_nothing_is_found_that_is_gone():
    """A step evicts and overwrites blocks of FIRST, and is interrupted just then."""
    world = World(num_blocks=10)  # eight for prompts: FIRST fills them
    paged, prefix = world.paged, world.prefix

    def generate(prompt):
        (out,) = mp.generate(
            paged, [prompt], GREEDY, prefix_cache=prefix, max_prompt_tokens=12
        )
        return [out.sequences]

    theirs = huggingface_generate(paged.model, [FIRST], GREEDY)
    assert generate(FIRST) == theirs
    paged.observers.append(InterruptedAt("computed", 2))
    with pytest.raises(KeyboardInterrupt):
        generate(SECOND)
    paged.observers.clear()
    assert world.flaws() == []
    assert world.stale() == []
    # Three blocks for each of two steps: one was free, five are FIRST's last.
    assert len(prefix.find(FIRST)) == 2
    assert len(prefix.find(SECOND)) == 3  # published by the first step
    assert generate(FIRST) == theirs


def test_nothing_is_found_that_is_gone():
    check_that_nothing_is_found_that_is_gone()


def index_and_lists_from_before_the_step(patch):
    begin, undo = StepUndo.begin, StepUndo.undo

    def parts(scheduler):
        pool, prefix = scheduler.pool, scheduler.prefix_cache
        free = pool._free
        return free.plain, free.findable, prefix._contents, prefix._by_hash

    def begin_and_copy(self):
        begin(self)
        self.copies = [part.copy() for part in parts(self._scheduler)]

    def undo_and_restore(self):
        undo(self)
        for part, before in zip(parts(self._scheduler), self.copies, strict=True):
            part.clear()
            (part.extend if isinstance(part, list) else part.update)(before)

    patch.setattr(StepUndo, "begin", begin_and_copy)
    patch.setattr(StepUndo, "undo", undo_and_restore)


def no_new_free_list(patch):
    def restore(pool, holders):
        pool._refcounts = list(holders)

    patch.setattr(mp.BlockPool, "restore", restore)


def holds_of_the_run_kept(patch):
    begin = StepUndo.begin

    def begin_and_forget(self):
        begin(self)
        self._held = []

    patch.setattr(StepUndo, "begin", begin_and_forget)


@pytest.mark.parametrize(
    "wrong",
    [index_and_lists_from_before_the_step, no_new_free_list, holds_of_the_run_kept],
)
def test_wrong_ways_to_undo_are_noticed(monkeypatch, wrong):
    wrong(monkeypatch)
    with pytest.raises(AssertionError):
        check_that_nothing_is_found_that_is_gone()


# Anywhere.


def number_of_lines(kind):
    with Lines() as lines:
        World().generate(kind)
    return lines.count


@pytest.mark.parametrize("kind", all_or(CONFIGS, [*CONFIGS][1::2]))
def test_generate_interrupted_at_any_line(kind):
    draw, world, places = random.Random(kind), World(), set()
    total = number_of_lines(kind)
    for count in range(often(15)):
        with Lines([draw.randrange(1, total)]) as lines:
            try:
                world.generate(kind)
            except KeyboardInterrupt:
                places.update(lines.places)
        assert world.flaws() == [], lines.places
        assert world.stale() == [], lines.places
        if count % 3 == 0:
            assert sequences(world, kind) == expected(kind), lines.places
    # Where most is cached, some runs end before their line.
    assert len(places) > count / 2


def proven_drive(kind, world, numbers, undisturbed, **options):
    lines = Lines(numbers)
    outs = drive(world.paged, world.scheduler(kind, **options), lines)
    assert [out.sequences for out in outs] == expected(kind), lines.places
    for out, right, prompt in zip(outs, undisturbed, PROMPTS, strict=True):
        assert out.finish_reason == right.finish_reason
        assert out.num_cached_tokens <= len(prompt)
        # What is computed once more is summed in another order, in float32.
        assert out.scores == pytest.approx(right.scores, abs=1e-4)
    assert world.flaws() == [], lines.places
    assert world.stale() == [], lines.places
    return len(lines.places)


@pytest.mark.parametrize("kind", all_or(CONFIGS, [*CONFIGS][::2]))
def test_who_goes_on_after_interrupts_at_any_line_gets_the_same_text(kind):
    draw, world, interrupts = random.Random(kind), World(), 0
    total, undisturbed = number_of_lines(kind), World().generate(kind)
    rounds = often(6)
    for count in range(rounds):
        numbers = draw.sample(range(1, total), 5)
        limit = {"max_prompt_tokens": 3} if count % 2 else {}
        interrupts += proven_drive(kind, world, numbers, undisturbed, **limit)
    assert interrupts >= 3 * rounds


@pytest.mark.parametrize("limit", all_or([2, 100], [2]))
@pytest.mark.parametrize("kind", ["samples", "beams"])
@pytest.mark.parametrize("num_steps", [1, 2, 3, 4])
def test_sequences_that_start_again_with_few_tokens(kind, limit, num_steps):
    """With a token each, they have nothing to compute between prompt and decoding."""
    world, undisturbed = World(), expected(kind)
    scheduler = world.scheduler(kind, max_prompt_tokens=limit)
    world.paged.observers.append(InterruptedAt("chosen", num_steps * 4))
    outs = drive(world.paged, scheduler, Lines())
    assert [out.sequences for out in outs] == undisturbed
    assert world.paged.observers[0].left < 0


def test_interrupted_between_its_table_and_its_place_among_the_running(monkeypatch):
    """Else it would wait for ever for a block that it was about to compute itself."""
    world, start = World(), mp.Request.start
    scheduler = world.scheduler("greedy")
    requests = list(scheduler.waiting)

    def start_and_stop(self, table):
        start(self, table)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(mp.Request, "start", start_and_stop)
        with pytest.raises(KeyboardInterrupt):
            step(world.paged, scheduler)
    assert list(scheduler.waiting) == requests
    assert not any(request.holds_blocks for request in requests)
    outs = drive(world.paged, scheduler, Lines())
    assert [out.sequences for out in outs] == expected("greedy")


def test_all_wait_in_the_old_order_also_who_had_just_ended():
    world = World()
    scheduler = mp.Scheduler(world.pool)
    scheduler.observers.append(InterruptedAt("committed"))
    one = GenerationConfig(max_new_tokens=1, pad_token_id=0)
    configs = [GREEDY, one, GREEDY]
    requests = make_requests(world.paged, PROMPTS[:3], configs, None, b"")
    for request in requests:
        scheduler.add(request)
    with pytest.raises(KeyboardInterrupt):
        step(world.paged, scheduler)
    assert list(scheduler.waiting) == requests
    assert world.flaws() == []
    theirs = huggingface_generate(world.paged.model, PROMPTS[:3], configs)
    outs = drive(world.paged, scheduler, Lines())
    assert [out.sequences for out in outs] == theirs


def test_interrupted_as_a_with_begins_or_ends():
    """Also while somebody keeps the exception, and with it a generator that waits."""
    world, kept, calls = World(), [], 0
    one = GenerationConfig(max_new_tokens=1, pad_token_id=0)

    def call(frame, _event, _argument):
        nonlocal calls
        if frame.f_code.co_name in ("__enter__", "__exit__"):
            manager = frame.f_locals["self"]
            generator = getattr(manager, "gen", None)
            if generator and "minipaged" in generator.gi_code.co_filename:
                calls += 1
                if calls == stop:
                    raise KeyboardInterrupt

    for stop in range(1, 100):  # noqa: B007, which `call` looks at
        calls = 0
        sys.settrace(call)
        try:
            mp.generate(world.paged, [FIRST], one)
            break
        except KeyboardInterrupt as error:
            kept.append(error)
        finally:
            sys.settrace(None)
    assert 2 <= len(kept) < 50
    assert world.flaws() == []
    assert sequences(world, "greedy") == expected("greedy")


@pytest.mark.parametrize("n", range(1, 8))
def test_an_undo_that_is_interrupted_is_done_once_more(monkeypatch, n):
    """A second Ctrl-C, as the undo begins or in the calls that it makes."""
    world, calls = World(), []
    for owner, name in [
        (StepUndo, "undo"),
        (mp.PrefixCache, "repair"),
        (mp.BlockPool, "restore"),
        (interruption, "lose_blocks"),
    ]:
        work = getattr(owner, name)

        def interrupted(*arguments, work=work):
            calls.append(work)
            if len(calls) == n:
                raise KeyboardInterrupt
            work(*arguments)

        monkeypatch.setattr(owner, name, interrupted)
    world.paged.observers.append(InterruptedAt("committed", 3))
    with pytest.raises(KeyboardInterrupt):
        world.generate("beams")
    assert len(calls) == n + 7  # a part of them, then all
    assert world.flaws() == []
    assert sequences(world, "beams") == expected("beams")


# A signal that lands in a callback of the garbage collector is told of, and lost.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_real_signals():
    count = often(40)
    report = signals(count)
    assert report.pop("signals") == count
    assert report.pop("interrupted") >= 0.8 * count
    for harmless in ("swallowed", "next_calls"):
        report.pop(harmless)
    assert not any(report.values()), report


# Threads.


@pytest.fixture
def stopped_step():
    """A world in which another thread is in the middle of a step."""
    inside, go_on = Event(), Event()
    go_on.set()

    def attention(q, cache, batch, masking):
        inside.set()
        assert go_on.wait(20)
        return gathered_attention(q, cache, batch, masking)

    world = World(attention=attention)
    # Something that was cached, so that it may be revived.
    mp.generate(world.paged, [FIRST], GREEDY, prefix_cache=world.prefix)
    inside.clear(), go_on.clear()
    scheduler = world.scheduler("greedy")
    thread = Thread(target=step, args=(world.paged, scheduler))
    thread.start()
    assert inside.wait(20)

    def finish():
        go_on.set()
        thread.join()

    yield world, finish
    finish()
    while scheduler.waiting or scheduler.running:
        step(world.paged, scheduler)


def a_second_step(world):
    scheduler = world.scheduler("greedy")
    try:
        step(world.paged, scheduler)
    finally:
        for request in [*scheduler.waiting, *scheduler.running]:
            scheduler.abort(request)


REFUSED = {
    "append": lambda world: world.table.append(4),
    "truncate": lambda world: world.table.truncate(1),
    "free": lambda world: world.table.free(),
    "fork": lambda world: world.table.fork(),
    "allocate": lambda world: world.pool.allocate(),
    "share": lambda world: world.pool.share(world.table.block_ids[0]),
    "release": lambda world: world.pool.release(world.table.block_ids[0]),
    "match": lambda world: world.prefix.match(FIRST),
    "clear": lambda world: world.prefix.clear(),
    "a second step": a_second_step,
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_threads_are_refused_while_a_step_runs(stopped_step, name):
    world, finish = stopped_step
    table, pool = world.table, world.pool

    def state():
        cached = [world.prefix.content(block) for block in range(pool.num_blocks)]
        return (
            pool.holders(),
            pool.num_free,
            [*table.block_ids],
            table.num_tokens,
            cached,
        )

    before = state()
    with pytest.raises(mp.PoolBusy, match="a step is running on this pool in another"):
        REFUSED[name](world)
    assert state() == before
    finish()
    if name != "clear":  # what the step has cached is still held
        REFUSED[name](world)


def test_the_pool_is_reserved_before_it_is_looked_at(monkeypatch):
    """Else what another thread takes in between would be taken from it by an undo."""
    world, refused = World(), []
    holders = mp.BlockPool.holders

    def look(pool):
        def take():
            with pytest.raises(mp.PoolBusy):
                world.pool.allocate()
            refused.append(True)

        thread = Thread(target=take)
        thread.start()
        thread.join()
        return holders(pool)

    monkeypatch.setattr(mp.BlockPool, "holders", look)
    step(world.paged, world.scheduler("greedy"))
    assert refused == [True]
