"""Engines that nobody has any more give their blocks back."""

import gc

import pytest

import minipaged as mp
from helpers.serving import CONFIGS, KINDS, PROMPTS, check, config, expected
from helpers.tiny_models import tiny_model

OPTIONS = {"max_tokens": 32, "max_sequences": 16}


def lose_an_engine(paged, prefix=None, num_steps=3, **options):
    engine = mp.Engine(paged, prefix, **OPTIONS, **options)
    for number in range(3):
        engine.add(PROMPTS[number], CONFIGS[number], seed=number)
    for _ in range(num_steps):
        engine.step()
    assert paged.pool.num_free < paged.pool.num_blocks


@pytest.mark.parametrize("preemption", ["recompute", "swap"])
def test_its_blocks_come_back(preemption):
    paged = mp.PagedModel(tiny_model("qwen3"), 24, 4)
    prefix = mp.PrefixCache(paged.pool)
    for _ in range(3):
        lose_an_engine(paged, prefix, preemption=preemption)
        gc.collect()
        assert paged.pool.num_free == 24
    engine = mp.Engine(paged, prefix, **OPTIONS)
    engine.add(PROMPTS[0], CONFIGS[0], seed=0)
    check(engine.run(), expected()[:1])


def test_a_cell_that_makes_it_is_run_again_and_again():
    """No collection is asked for: the pool would be used up after a few times."""
    paged = mp.PagedModel(tiny_model("qwen3"), 24, 4)
    engine = stream = None
    for _ in range(12):
        engine = mp.Engine(paged, **OPTIONS)
        stream = engine.add(PROMPTS[1], config(30))
        next(iter(stream))
    del engine, stream
    (out,) = mp.generate(paged, [[5] * 60], config(30))
    assert out.finish_reason == "length"


def test_it_is_found_when_there_is_no_room():
    paged = mp.PagedModel(tiny_model("qwen3"), 24, 4)
    gc.collect()
    gc.disable()
    try:
        living = mp.Engine(paged, **OPTIONS)
        lose_an_engine(paged)
        living.add([7] * 60, config(30))
        (out,) = living.run()
        lose_an_engine(paged)
        (other,) = mp.generate(paged, [[7] * 60], config(30))
    finally:
        gc.enable()
    assert out.sequences == other.sequences and len(out.sequences[0]) == 30


def test_closed_while_another_run_has_the_model():
    """As by a signal handler in generate; then nobody steps it any more."""
    paged = mp.PagedModel(tiny_model("qwen3"), 40, 4)
    engines = [mp.Engine(paged, **OPTIONS)]
    engines[0].add(PROMPTS[0], KINDS[0])
    engines[0].step()
    assert paged.pool.num_free < 40
    observer = mp.Observer()
    observer.planned = lambda plan: engines[0].close()
    paged.observers.append(observer)
    mp.generate(paged, PROMPTS[:1], KINDS[0])
    paged.observers.clear()
    engines.clear()
    gc.collect()
    assert paged.pool.num_free == 40


def test_who_has_a_stream_has_the_engine():
    paged = mp.PagedModel(tiny_model("qwen3"), 24, 4)
    stream = mp.Engine(paged, **OPTIONS).add(PROMPTS[0], CONFIGS[0], seed=0)
    gc.collect()
    check([stream.result()], expected()[:1])


def test_lost_in_the_middle_of_another_engines_step():
    """The collector comes when it likes: blocks come back with the next step."""
    paged = mp.PagedModel(tiny_model("qwen3"), 40, 4)
    free = []

    class Collects(mp.Observer):
        def planned(self, plan):
            if len(free) == 2:
                gc.collect()
            free.append(paged.pool.num_free)

    living = mp.Engine(paged, observers=[Collects()], **OPTIONS)
    stream = living.add(PROMPTS[0], KINDS[0])
    gc.disable()
    try:
        lose_an_engine(paged)
        living.run()
    finally:
        gc.enable()
    assert free[2] == free[1] < free[3]
    assert paged.pool.num_free == 40
    check([stream.output], expected()[:1])


def test_lost_in_a_step_that_is_undone():
    """The undo does not give the lost engine's blocks back to nobody."""
    paged = mp.PagedModel(tiny_model("qwen3"), 40, 4)

    class CollectsAndStops(mp.Observer):
        def chosen(self, plan):
            gc.collect()
            raise KeyboardInterrupt

    observer = CollectsAndStops()
    living = mp.Engine(paged, observers=[observer], **OPTIONS)
    living.add(PROMPTS[0], KINDS[0])
    gc.disable()
    try:
        lose_an_engine(paged)
        with pytest.raises(KeyboardInterrupt):
            living.run()
    finally:
        gc.enable()
    CollectsAndStops.chosen = mp.Observer.chosen
    check(living.run(), expected()[:1])
    assert paged.pool.num_free == 40


def frees_at_once(scheduler):
    """Wrong: also while a step has the pool to itself."""
    for request in scheduler.running:
        for sequence in request.sequences:
            sequence.free()


def test_to_free_at_once_is_noticed(monkeypatch):
    monkeypatch.setattr("minipaged.engine.engine.give_back", frees_at_once)
    with pytest.raises((AssertionError, mp.OutOfBlocks)):
        test_lost_in_a_step_that_is_undone()
    gc.collect()


def test_no_lost_request_is_kept():
    paged = mp.PagedModel(tiny_model("qwen3"), 24, 4)
    lose_an_engine(paged)
    gc.collect()
    assert paged.pool.lost == []
