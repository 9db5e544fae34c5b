"""A strategy that computes several tokens in a step, and takes back the wrong ones."""

import random

import pytest

import minipaged as mp
from helpers.answers import huggingface_outputs
from helpers.guessing import MOST, Drafting, Guessing, guess_instead_of_sampling
from helpers.interrupting import Lines, run_interrupted
from helpers.replaying import replayable, replaying, steps_ahead
from helpers.serving import (
    CONFIGS,
    NEVER,
    PROMPTS,
    check,
    check_idle,
    config,
    make,
)
from helpers.thorough import all_or, often
from helpers.tiny_models import UNLIKE, tiny_model
from minipaged.decoding.sampling import Sampling
from minipaged.engine.ahead import may_run_ahead
from minipaged.scheduling.sequence import Sequence

pytestmark = pytest.mark.filterwarnings("ignore:thrashing")
GREEDY = config(17)
STOPS = config(30)
STOPS.eos_token_id = [NEVER, *range(9, 17)]
WAYS = pytest.mark.parametrize("way", [lambda engine: engine, steps_ahead, replaying])


def answers(family="qwen3", own=GREEDY):
    return huggingface_outputs(tiny_model(family), PROMPTS, own)


@pytest.fixture(params=[Guessing, Drafting])
def made(monkeypatch, request):
    """The strategies that guess, of all greedy requests."""
    texts = {
        tuple(prompt): out.sequences[0]
        for prompt, out in zip(PROMPTS, answers(own=config(30)), strict=True)
    }
    return guess_instead_of_sampling(monkeypatch, texts, request.param)


class Sizes(mp.Observer):
    """How many tokens and logits the works have that do not compute a prompt."""

    def __init__(self):
        self.seen = []

    def planned(self, plan):
        self.seen += [
            (work.num_tokens, work.num_logits)
            for work in plan.works
            if isinstance(work.request.strategy, Guessing)
            and work.start >= len(work.request.prompt)
        ]


@pytest.mark.parametrize("own", [GREEDY, STOPS], ids=["length", "stop"])
@pytest.mark.parametrize("budget", [{}, {"max_prompt_tokens": 3}])
@pytest.mark.parametrize("cached", [False, True])
def test_generate(made, own, budget, cached):
    paged = mp.PagedModel(tiny_model("qwen3"), 96, 4)
    paged.observers.append(sizes := Sizes())
    prefix = mp.PrefixCache(paged.pool) if cached else None
    for _ in range(2):
        outputs = mp.generate(paged, PROMPTS, own, prefix_cache=prefix, **budget)
        check(outputs, answers(own=own))
    assert any(output.num_cached_tokens for output in outputs) == cached
    assert len(made) == 2 * len(PROMPTS)
    assert sum(one.num_right for one in made) > 9 < sum(one.num_wrong for one in made)
    assert max(sizes.seen) == (MOST + 1, MOST + 1)
    assert paged.pool.num_free == 96


@pytest.mark.parametrize("family", all_or(UNLIKE, ["gemma2", "gpt_oss"]))
def test_families(monkeypatch, family):
    right = answers(family)
    texts = zip(PROMPTS, right, strict=True)
    guess_instead_of_sampling(
        monkeypatch, {tuple(prompt): out.sequences[0] for prompt, out in texts}
    )
    paged = mp.PagedModel(tiny_model(family), 96, 4)
    check(mp.generate(paged, PROMPTS, GREEDY), right)


@WAYS
@pytest.mark.parametrize("mode", ["recompute", "swap"])
@pytest.mark.parametrize("max_tokens", [32, 16])
def test_an_engine_that_preempts(made, way, mode, max_tokens):
    """Beside requests of all kinds, in too few blocks; two plans in flight, too."""
    options = {"preemption": mode, "max_tokens": max_tokens, "cache": True}
    engine = way(make(24, attention=replayable, **options))
    ahead = config(17, do_sample=True, top_k=1)
    for seed, (prompt, own) in enumerate(zip(PROMPTS, CONFIGS, strict=True)):
        engine.add(prompt, GREEDY)
        engine.add(prompt, own, seed=seed)
        engine.add(prompt, ahead)
    outputs = engine.run()
    check(outputs[::3], answers())
    check(outputs[1::3])
    check(outputs[2::3], answers())
    assert engine.stats.num_preemptions > 3 and len(made) >= len(PROMPTS)
    assert sum(one.num_right for one in made) > 20 < sum(o.num_wrong for o in made) * 5
    generated = sum(len(own) for output in outputs for own in output.sequences)
    dropped = engine.stats.generation_tokens - generated
    assert dropped >= 0  # of beams that fell behind
    check_idle(engine)


def test_several_logits_of_a_sequence_are_replayed(made):
    engine = replaying(make(96, attention=replayable))
    for prompt in PROMPTS[:4]:
        engine.add(prompt, GREEDY)
    while any(stream.request.is_prefilling for stream in engine.streams.values()):
        engine.step()
    engine.step()
    before, steps = engine._runner.num_replays, engine.stats.num_steps
    engine.step(), engine.step()
    assert engine._runner.num_replays - before == engine.stats.num_steps - steps == 2
    streams = list(engine.streams.values())
    engine.run()
    check([stream.output for stream in streams], answers()[:4])


def test_a_stream_tells_no_guess(made):
    engine = make()
    stream = engine.add(PROMPTS[0], GREEDY)
    (right,) = answers()[0].sequences
    told = []
    for token in stream:
        told.append(token)
        assert stream.tokens == right[: len(stream.tokens)]
    assert told == right
    aborted = engine.add(PROMPTS[1], GREEDY)
    for _ in range(3):
        engine.step()
    engine.abort(aborted)
    (said,) = aborted.output.sequences
    assert said and said == answers()[1].sequences[0][: len(said)]
    assert engine.stats.generation_tokens == len(right) + len(said)
    check_idle(engine)


@WAYS
@pytest.mark.parametrize("number", range(often(10)))
def test_interrupted_at_any_line(made, way, number):
    draw = random.Random(number)
    engine = way(make(28, attention=replayable, cache=True))
    streams = [engine.add(prompt, GREEDY) for prompt in PROMPTS]
    lines = Lines([draw.randrange(1, 20_000) for _ in range(25)])
    assert run_interrupted(engine, lines) > 10
    check([stream.output for stream in streams], answers())
    check_idle(engine)


def test_who_computes_several_tokens_does_not_run_ahead():
    """Be it a kind of sampling: a plan ahead counts on one row for each request."""

    class Several(Sampling):
        def next_works(self, request, limit):
            return super().next_works(request, limit)

    engine = make()
    request = engine.add(PROMPTS[0], GREEDY).request
    assert may_run_ahead(request)
    request.strategy = Several(request.strategy.options)
    assert not may_run_ahead(request)


# --- wrong versions, which these tests must reject ------------------------------------


def keeps_the_room(sequence, count=0):
    """Wrong: K and V of guesses that were wrong stay in the table."""
    del sequence.tokens[sequence.num_known + count :]
    sequence.guesses_from = None


def tells_guesses(sequence):
    """Wrong: what is guessed counts as said."""
    return len(sequence.tokens)


def keeps_a_wrong_one(sequence, count=0):
    """Wrong: accepts a guess more than was right."""
    ACCEPT(sequence, count + 1)


ACCEPT = Sequence.accept
WRONG = {
    "keeps the room": ("accept", keeps_the_room),
    "tells guesses": ("num_known", property(tells_guesses)),
    "keeps a wrong one": ("accept", keeps_a_wrong_one),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_versions_are_noticed(made, monkeypatch, name):
    monkeypatch.setattr(Sequence, *WRONG[name])
    with pytest.raises((AssertionError, IndexError, ValueError)):
        test_generate(made, GREEDY, {}, True)
