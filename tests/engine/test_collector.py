"""Python's garbage collector runs between an engine's steps, and is as it was."""

import gc

import pytest

import minipaged as mp
from helpers.replaying import steps_ahead
from helpers.serving import KINDS, PROMPTS, add_all, check, make
from minipaged.engine.steps import Steps


@pytest.fixture(autouse=True)
def often():
    """The collector looks at new objects very often; afterwards as often as before."""
    before = gc.get_threshold()
    gc.set_threshold(5, 2, 2)
    yield
    gc.enable()
    gc.set_threshold(*before)


def collections(engine):
    """How often the collector ran in steps, and between them, until all is answered."""
    counts = {True: 0, False: 0}

    def note(phase, _info):
        if phase == "start":
            counts[engine.paged.pool.reserved_for is not None] += 1

    gc.callbacks.append(note)
    try:
        while engine.step():
            pass
    finally:
        gc.callbacks.remove(note)
    return counts[True], counts[False]


@pytest.mark.parametrize("ahead", [False, True])
def test_it_runs_between_steps_and_not_in_them(ahead):
    engine = make(400)
    if ahead:
        steps_ahead(engine)
    streams = add_all(engine)
    in_steps, between = collections(engine)
    assert in_steps == 0 < between
    check([stream.output for stream in streams])


def test_an_engine_that_lets_it_run_is_noticed(monkeypatch):
    """Wrong: steps are made as any other code."""
    monkeypatch.setattr(Steps, "step", Steps._make_or_explain)
    engine = make(400)
    add_all(engine)
    in_steps, _ = collections(engine)
    assert in_steps > 100


@pytest.mark.parametrize("is_enabled", [True, False])
def test_afterwards_it_is_as_it_was(is_enabled):
    (gc.enable if is_enabled else gc.disable)()
    engine = make(400)
    engine.add(PROMPTS[0], KINDS[0])
    while engine.step():
        assert gc.isenabled() == is_enabled
    assert gc.isenabled() == is_enabled


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_it_runs_again_after_a_step_that_raises(error):
    class Raises(mp.Observer):
        def computed(self, batch, logits):
            assert not gc.isenabled()
            raise error

    raises = Raises()
    engine = make(400, observers=[raises])
    engine.add(PROMPTS[0], KINDS[0])
    with pytest.raises(error):
        engine.step()
    assert gc.isenabled()


def interrupted_step(engine, monkeypatch):
    """A step in which Ctrl-C comes just before `gc.enable`."""
    enable = gc.enable

    def interrupted():
        monkeypatch.setattr(gc, "enable", enable)
        raise KeyboardInterrupt

    monkeypatch.setattr(gc, "enable", interrupted)
    with pytest.raises(KeyboardInterrupt):
        engine.step()
    assert not gc.isenabled()


def test_the_next_step_enables_it_if_a_signal_came_too_early(monkeypatch):
    engine = make(400)
    stream = engine.add(PROMPTS[0], KINDS[0])
    interrupted_step(engine, monkeypatch)
    engine.step()
    assert gc.isenabled()
    assert stream.result().sequences


def test_closing_enables_it_if_a_signal_came_too_early(monkeypatch):
    engine = make(400)
    engine.add(PROMPTS[0], KINDS[0])
    interrupted_step(engine, monkeypatch)
    engine.close()
    assert gc.isenabled()
