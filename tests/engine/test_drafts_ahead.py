"""A draft model's steps run ahead: which guesses are right is known a step later."""

import random

import pytest
import torch
from transformers import GenerationConfig

import minipaged as mp
from helpers.answers import huggingface_outputs
from helpers.guessing import noisy, with_noise
from helpers.interrupting import Lines, run_interrupted
from helpers.replaying import ReplayingRunner, replayable, replaying, steps_ahead
from helpers.serving import (
    NEVER,
    PROMPTS,
    Simulated,
    check,
    check_idle,
    config,
    make,
)
from helpers.thorough import all_or, often
from helpers.tiny_models import tiny_model
from minipaged.decoding import draft_model, followed
from minipaged.decoding.pace import Pace
from minipaged.engine import ahead
from minipaged.engine.ahead import may_run_ahead
from minipaged.model import advanced, moved_back
from minipaged.scheduling.sequence import Sequence

pytestmark = pytest.mark.filterwarnings("ignore:thrashing")
WAYS = pytest.mark.parametrize("way", [steps_ahead, replaying])
GREEDY = config(40)
STOPS = GenerationConfig(
    max_new_tokens=40, pad_token_id=0, eos_token_id=[*range(9, 17), NEVER]
)
ROOM = {"max_tokens": 96, "max_sequences": 8, "cache": True}


def answers(own=GREEDY, prompts=PROMPTS):
    return huggingface_outputs(tiny_model("qwen3"), prompts, own)


def drafting(way, num_blocks=96, noise=0.02, num_tokens=3, **options):
    small = mp.PagedModel(noisy(noise), num_blocks, 4, replayable)
    for tensor in (*small.cache.keys, *small.cache.values):
        tensor.fill_(float("nan"))
    guesses = mp.DraftModel(small, num_tokens)
    options = ROOM | options
    return way(make(num_blocks, attention=replayable, speculation=guesses, **options))


class InFlight(mp.Observer):
    """How many steps are in flight when a step with guesses is planned, it included."""

    def __init__(self, scheduler):
        self.scheduler, self.counts = scheduler, []

    def planned(self, plan):
        if any(work.num_logits > 1 for work in plan.works):
            self.counts.append(len(self.scheduler.in_flight))


@WAYS
@pytest.mark.parametrize("own", [GREEDY, STOPS], ids=["greedy", "stops"])
@pytest.mark.parametrize(("num_blocks", "mode"), [(96, "recompute"), (18, "swap")])
@pytest.mark.parametrize("noise", all_or([0.0, 0.02, 0.05, 1.0], [0.02]))
def test_the_same_answers(way, own, num_blocks, mode, noise):
    engine = drafting(way, num_blocks, noise, preemption=mode)
    engine.scheduler.observers.append(seen := InFlight(engine.scheduler))
    for prompt in PROMPTS:
        engine.add(prompt, own)
    outputs = engine.run()
    check(outputs, answers(own))
    check_idle(engine)
    stats = engine.stats
    assert stats.generation_tokens == sum(len(out.sequences[0]) for out in outputs)
    assert (stats.num_preemptions > 2) == (num_blocks == 18)
    if noise < 1:
        assert stats.mean_acceptance_length > 1.8
        assert seen.counts.count(2) > 0.8 * len(seen.counts) > 10


@WAYS
def test_nothing_is_read_before_the_next_step_has_begun(way, monkeypatch):
    engine = drafting(way)

    def never(unread):
        assert not unread.rounds

    monkeypatch.setattr(draft_model._Unread, "read", never)
    monkeypatch.setattr(ahead, "choose", lambda *arguments: never_called)
    for prompt in PROMPTS[:3]:
        engine.add(prompt, GREEDY)
    check(engine.run(), answers()[:3])


never_called = None


@WAYS
def test_a_draft_model_that_says_the_same_is_always_right(way):
    engine = drafting(way, noise=0.0)
    stream = engine.add(PROMPTS[0], config(14))
    engine.run()
    check([stream.output], answers(config(14))[:1])
    assert engine.stats.num_accepted_tokens_per_pos[:3] == (3, 3, 3)


def accepted_of_rounds(from_cpu, monkeypatch):
    """How many guesses of each number were right; rounds on the device, or from here.

    For a text alone, and for several.
    """
    engine = drafting(replaying, noise=0.02)
    rounds = []

    def noted(chosen, next_logits=engine._runner._own.next_logits):
        logits = None if from_cpu else next_logits(chosen)
        rounds.append(logits is not None)
        return logits

    monkeypatch.setattr(engine._runner._own, "next_logits", noted)
    found = []
    for prompts in (PROMPTS[7:], PROMPTS):
        for prompt in prompts:
            engine.add(prompt, GREEDY)
        engine.run()
        found.append(engine.stats.num_accepted_tokens_per_pos)
    # A step without graphs comes from the CPU, and its rounds, too.
    assert from_cpu or sum(rounds) > 0.8 * len(rounds) > 50
    return found


def test_rounds_on_the_device_guess_what_others_guess(monkeypatch):
    found = accepted_of_rounds(False, monkeypatch)
    assert found == accepted_of_rounds(True, monkeypatch)


@WAYS
def test_beside_requests_that_must_be_read_first(way):
    """A step with any of these is read before the next is planned."""
    engine = drafting(way, max_sequences=16, max_tokens=192)
    others = [
        {"repetition_penalty": 1.3},
        {"do_sample": True, "top_k": 1},
        {"do_sample": True, "top_k": 1, "num_return_sequences": 3},
        {},
    ]
    rights = []
    for number, prompt in enumerate(PROMPTS):
        engine.add(prompt, GREEDY)
        rights.append(answers()[number].sequences)
        own = others[number % len(others)]
        engine.add(prompt, config(12 + number, **own))
        likeliest = config(
            12 + number, repetition_penalty=own.get("repetition_penalty")
        )
        (right,) = huggingface_outputs(tiny_model("qwen3"), [prompt], likeliest)
        rights.append(right.sequences * own.get("num_return_sequences", 1))
    assert [output.sequences for output in engine.run()] == rights
    check_idle(engine)


@WAYS
@pytest.mark.parametrize("seed", all_or(range(3), [0]))
def test_arrivals_and_aborts(way, seed):
    draw, right = random.Random(seed), answers(STOPS)
    engine = drafting(way, 40, clock=Simulated())
    streams = []
    for number in range(40):
        own = number % len(PROMPTS)
        arrival = draw.random() * 150
        streams.append((engine.add(PROMPTS[own], STOPS, arrival=arrival), own))
    while engine.step():
        if draw.random() < 0.1 and engine.streams:
            stream = draw.choice(list(engine.streams.values()))
            engine.abort(stream)
            assert stream.finished and not stream.request.holds_blocks
    reasons = {stream.output.finish_reason for stream, _ in streams}
    assert reasons >= {"aborted", "length"}
    for stream, own in streams:
        theirs = right[own].sequences[0]
        assert stream.tokens == theirs[: len(stream.tokens)]
        if stream.output.finish_reason != "aborted":
            assert stream.tokens == theirs
    check_idle(engine)


@WAYS
@pytest.mark.parametrize("number", range(often(4)))
def test_interrupted_at_any_line(way, number):
    draw = random.Random(number)
    engine = drafting(way, 40)
    streams = [engine.add(prompt, GREEDY) for prompt in PROMPTS]
    lines = Lines([draw.randrange(1, 40_000) for _ in range(25)])
    assert run_interrupted(engine, lines) > 10
    check([stream.output for stream in streams], answers())
    check_idle(engine)


def test_blocks_of_accepted_tokens_are_published():
    """Also where a step was planned further behind than its tokens came to stand."""
    engine = drafting(steps_ahead, 200, 0.05)
    for prompt in PROMPTS:
        engine.add(prompt, GREEDY)
    engine.run()
    prefix = engine.scheduler.prefix_cache
    for prompt, right in zip(PROMPTS, answers(), strict=True):
        text = prompt + right.sequences[0]
        computed = len(text) - 1
        assert len(prefix.find(text, b"")) == computed // 4


def test_no_more_than_the_longest_text_is_reserved():
    """A step that is planned as if all guesses were right stays within the text."""
    prompt = PROMPTS[0]
    (right,) = answers(config(12), [prompt])
    for num_tokens in (1, 2, 3, 5):
        engine = drafting(steps_ahead, 4, 0.05, num_tokens, cache=False)
        assert engine.add(prompt, config(12)).result().sequences == right.sequences
        check_idle(engine)


def test_the_draft_model_computes_no_token_twice():
    """But the token before the newest, which it may not have computed as a guess."""
    engine = drafting(steps_ahead, noise=0.0)
    computed = []
    own = engine._runner._own

    def noted(plan, pending=None, compute=own.compute):
        computed.append(plan.num_tokens)
        return compute(plan, pending)

    own.compute = noted
    engine.add(PROMPTS[7], GREEDY)
    engine.run()
    assert computed[:4] == [23, 2, 1, 1] and max(computed[1:]) <= 4


def test_who_may_run_ahead():
    engine = drafting(steps_ahead)
    wanted = {
        True: [GREEDY],
        False: [
            config(9, repetition_penalty=1.3),
            config(9, do_sample=True),  # its guesses are drawn, by another rule
            config(9, suppress_tokens=[5]),  # its guesses are processed, too
        ],
    }
    for is_ahead, configs in wanted.items():
        for own in configs:
            assert may_run_ahead(engine.add(PROMPTS[0], own).request) == is_ahead


def test_a_context_longer_than_the_draft_model_takes_goes_on_without():
    small = tiny_model("qwen3", max_position_embeddings=24)
    guesses = mp.DraftModel(mp.PagedModel(small, 128, 4), 3)
    engine = steps_ahead(make(128, speculation=guesses, **ROOM))
    for prompt in PROMPTS:
        engine.add(prompt, GREEDY)
    check(engine.run(), answers())
    assert engine.stats.num_drafts > 9


class Machine(mp.Observer):
    """A step takes 9 ms with guesses, and 2 ms without."""

    def __init__(self):
        self.moment, self.ways = 0.0, []

    def committed(self, plan):
        guesses = any(work.num_logits > 1 for work in plan.works)
        self.ways.append(guesses)
        self.moment += 9e-3 if guesses else 2e-3


@WAYS
def test_a_clock_lets_all_pause(way):
    """Two guesses at a time bring three tokens at most, in more than 6 ms."""
    own = config(110)
    engine = drafting(way, 220, 0.0, 2)
    speculation = engine._configs._speculation
    machine = Machine()
    speculation.pace = Pace(lambda: machine.moment)
    engine.scheduler.observers += [machine, speculation.pace]
    for prompt in PROMPTS[:6]:
        engine.add(prompt, own)
    check(engine.run(), answers(own)[:6])
    assert 0 < sum(machine.ways) < 0.5 * len(machine.ways)
    assert not any(machine.ways[30:60])


def test_another_engine_has_another_pace():
    engine = drafting(steps_ahead)
    speculation = engine._configs._speculation
    speculation.new_pace()
    mp.generate(engine.paged, PROMPTS[:1], GREEDY, speculation=speculation)
    assert speculation.pace is None


# --- wrong versions, which these tests must reject ------------------------------------


def stays(*arguments):
    """Wrong: tokens are computed where they were planned."""


def all_are_right(computed, chosen, rows, places):
    """Wrong: whatever was guessed counts."""
    found = FOLLOW_ALL(computed, chosen, rows, places)
    return found._replace(num_wrong=found.num_wrong * 0)


def forgets_the_next(sequence, count=0):
    """Wrong: takes the room of the next step, too."""
    del sequence.tokens[sequence.num_known + count :]
    sequence.guesses_from = None
    if sequence.num_computed > len(sequence.tokens):
        sequence.table.truncate(len(sequence.tokens))


def next_to_next(batch, *others):
    """Wrong: a guess is computed at the place of the guess after it."""
    batch.positions.add_(1)
    ADVANCE(batch, *others)


def others_go_on(batch, pending_from, chosen, length, block_size):
    """Wrong: sequences that have no more guesses go on, too."""
    rest = chosen.new_zeros(len(batch.positions) // length - len(chosen))
    ADVANCE(batch, pending_from, torch.cat([chosen, rest]), length, block_size)


ADVANCE = advanced.advance
FOLLOW_ALL = followed.follow_all
WRONG = {
    "stays": (moved_back, "move_back", stays),
    "all are right": (followed, "follow_all", all_are_right),
    "forgets the next": (Sequence, "accept", forgets_the_next),
    "plans stay": (ahead, "_move_back", stays),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_versions_are_noticed(monkeypatch, name):
    monkeypatch.setattr(*WRONG[name])
    with pytest.raises((AssertionError, IndexError, ValueError, KeyError)):
        test_the_same_answers(steps_ahead, GREEDY, 96, "recompute", 0.05)
        test_blocks_of_accepted_tokens_are_published()


@pytest.mark.parametrize("wrong", [next_to_next, others_go_on])
def test_wrong_rounds_on_the_device_are_noticed(monkeypatch, wrong):
    right = accepted_of_rounds(True, monkeypatch)
    monkeypatch.setattr(advanced, "advance", wrong)
    assert accepted_of_rounds(False, monkeypatch) != right


@pytest.mark.parametrize("is_prompt", [False, True])
def test_rounds_of_guesses_beside_the_last_position(monkeypatch, is_prompt):
    """The tables that are sent are no wider than the model has positions."""
    monkeypatch.setattr(ReplayingRunner, "_prompt_tokens", (16, 96))
    model = tiny_model("qwen3", max_position_embeddings=32)
    small = mp.PagedModel(with_noise(model, 0.02), 96, 4, replayable)
    engine = replaying(
        mp.Engine(
            mp.PagedModel(model, 96, 4, replayable),
            max_tokens=96,
            max_sequences=6,
            speculation=mp.DraftModel(small, 4),
        )
    )
    prompts = [[5, 6, 7], [*range(3, 34 if is_prompt else 20)]]
    configs = [config(29), config(1 if is_prompt else 15)]
    streams = [engine.add(prompts[0], configs[0])]
    for _ in range(3 * is_prompt):
        engine.step()
    streams.append(engine.add(prompts[1], configs[1]))
    engine.run()
    for prompt, own, stream in zip(prompts, configs, streams, strict=True):
        (expected,) = huggingface_outputs(model, [prompt], own)
        assert stream.output.sequences == expected.sequences
