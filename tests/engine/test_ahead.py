"""One step ahead: the same tokens, whatever stops, comes, goes or breaks meanwhile."""

import random
from itertools import product

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import GenerationConfig

import minipaged as mp
from helpers.answers import huggingface_outputs
from helpers.interrupting import Lines, run_interrupted
from helpers.replaying import replayable, replaying, steps_ahead
from helpers.serving import (
    ALWAYS_THE_LIKELIEST,
    CONFIGS,
    KINDS,
    NEVER,
    PROMPTS,
    Simulated,
    add_all,
    check,
    check_idle,
    config,
    expected,
    make,
)
from helpers.thorough import all_or
from helpers.tiny_models import tiny_model
from minipaged.attention.rectangles import gathered_attention
from minipaged.decoding.strategy import output_of
from minipaged.engine import ahead, loop, rehearsal
from minipaged.engine.ahead import PendingChoices, StepsAhead
from minipaged.engine.rehearsal import rehearse
from minipaged.model.persistent_inputs import Pending

pytestmark = pytest.mark.filterwarnings("ignore:thrashing")
MODES = "recompute", "swap"
WAYS = pytest.mark.parametrize("way", [steps_ahead, replaying])
BOTH = pytest.mark.parametrize(
    ("way", "mode"),
    all_or(
        product([steps_ahead, replaying], MODES),
        [(steps_ahead, "recompute"), (replaying, "swap")],
    ),
)
STOPS = GenerationConfig(
    max_new_tokens=40, pad_token_id=0, eos_token_id=[*range(9, 17)]
)
GREEDY = config(14)


def engine_of(way, **options):
    return way(make(attention=replayable, **options))


def answers(generation_config, prompts=PROMPTS):
    return huggingface_outputs(tiny_model("qwen3"), prompts, generation_config)


@WAYS
def test_one_that_nothing_can_be_drawn_for_fails_alone(way):
    """The next step was computed with its token before anybody had read it."""
    engine, bad = engine_of(way), config(9, do_sample=True, temperature=1e-44)
    for number, prompt in enumerate(PROMPTS):
        engine.add(prompt, GREEDY)
        if number % 4 == 0:
            engine.add(prompt, bad)
    outputs = engine.run()
    failed = [out for out in outputs if out.finish_reason == "error"]
    assert len(failed) == 3 and "no token can be drawn" in failed[0].error
    check([out for out in outputs if out not in failed], answers(GREEDY))
    check_idle(engine)


class Log(mp.Observer):
    """What happened to which plan, in order."""

    def __init__(self):
        self.events, self.plans = [], []

    def planned(self, plan):
        if plan.works:  # else all wait for what is in flight
            self.plans.append(plan)
            self.events.append(("planned", len(self.plans) - 1))

    def chosen(self, plan):
        self.events.append(("chosen", self.plans.index(plan)))


# --- the same tokens ------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("cache", [False, True])
@pytest.mark.parametrize(
    "num_blocks, block_size, max_tokens",
    all_or(
        [(200, 4, 2048), (24, 4, 16), (90, 1, 24), (7, 16, 32)],
        [(24, 4, 16), (7, 16, 32)],
    ),
)
def test_all_kinds_in_one_batch(way, num_blocks, block_size, max_tokens, cache, mode):
    options = {"max_tokens": max_tokens, "cache": cache, "preemption": mode}
    engine = engine_of(way, num_blocks=num_blocks, block_size=block_size, **options)
    add_all(engine)
    check(engine.run())
    check_idle(engine)
    assert engine.stats.request_success == {"length": len(PROMPTS)}
    assert engine.stats.num_preemptions or num_blocks == 200


@BOTH
@pytest.mark.parametrize("num_blocks", all_or([400, 40], [40]))
def test_who_stops_is_known_a_step_later(way, mode, num_blocks):
    """The token that was computed meanwhile is nobody's, and is not counted."""
    right = answers(STOPS)
    lengths = [len(out.sequences[0]) for out in right]
    assert min(lengths) < max(lengths) == 40
    engine = engine_of(way, num_blocks=num_blocks, preemption=mode, max_tokens=64)
    for prompt in PROMPTS * 3:
        engine.add(prompt, STOPS)
    check(engine.run(), right * 3)
    check_idle(engine)
    assert engine.stats.generation_tokens == 3 * sum(lengths)
    assert set(engine.stats.request_success) == {"stop", "length"}


def test_stop_strings():
    model, tokenizer = mp.load("pocket")
    own = GenerationConfig(max_new_tokens=30, stop_strings=["the"])
    prompts = tokenizer(["Once upon a time", "One day", "There was"]).input_ids
    paged = mp.PagedModel(model, 128)
    right = mp.generate(paged, prompts, own, tokenizer=tokenizer)
    engine = steps_ahead(mp.Engine(paged, tokenizer=tokenizer))
    streams = [engine.add(prompt, own) for prompt in prompts]
    assert [out.sequences for out in engine.run()] == [out.sequences for out in right]
    assert {stream.output.finish_reason for stream in streams} >= {"stop"}
    check_idle(engine)


@WAYS
def test_a_step_is_planned_before_the_last_one_is_read(way):
    log = Log()
    engine = engine_of(way, observers=[log])
    for prompt in PROMPTS[:3]:
        engine.add(prompt, GREEDY)
    check(engine.run(), answers(GREEDY)[:3])
    assert log.events[:3] == [("planned", 0), ("planned", 1), ("chosen", 0)]
    order = [number for what, number in log.events if what == "chosen"]
    assert order == sorted(order)
    for number in order[:-2]:
        later = log.events.index(("planned", number + 1))
        assert later < log.events.index(("chosen", number))
    if way is replaying:
        assert engine._runner.num_replays == 14  # all, the prompts' step too


@pytest.mark.parametrize("way", [lambda engine: engine, steps_ahead, replaying])
def test_a_call_plans_and_reads_one_step(way):
    """In whichever way: benchmarks/gpu/engine.py divides by the number of calls."""
    log = Log()
    engine = engine_of(way, observers=[log])
    for prompt in PROMPTS[:3]:
        engine.add(prompt, config(30))
    for _ in range(5):  # until all decode
        engine.step()
    log.events.clear()
    for _ in range(20):
        engine.step()
    assert [what for what, _ in log.events].count("planned") == 20
    assert [what for what, _ in log.events].count("chosen") == 20


@pytest.mark.parametrize("own", [KINDS[2], KINDS[3], KINDS[4]], ids=str)
def test_who_must_be_read_first_is_read_first(own):
    """Samples, beams, and processors that look at earlier tokens."""
    log = Log()
    engine = engine_of(steps_ahead, observers=[log])
    engine.add(PROMPTS[0], GREEDY)
    engine.add(PROMPTS[1], own, seed=1)
    check(engine.run(), [answers(GREEDY)[0], *_alone(own)])
    first = [log.events.index(("chosen", n)) for n in range(5)]
    assert all(log.events.index(("planned", n + 1)) > first[n] for n in range(4))


def _alone(own):
    return huggingface_outputs(tiny_model("qwen3"), [PROMPTS[1]], own, seed=[1])


@WAYS
def test_sampled_without_a_seed_each_token_is_drawn_once(way):
    """What is drawn on the device is what is told, token for token."""
    drawn = []

    class Draws(PendingChoices):
        def read(self, turns):
            drawn.append(self.pending.tokens.tolist())
            return super().read(turns)

    sampled = config(8, do_sample=True, temperature=1.5, top_k=0)
    engine = engine_of(way)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ahead, "PendingChoices", Draws)
        (out,) = [engine.add(PROMPTS[0], sampled).result()]
    (told,), tokens = out.sequences, [token for (token,) in drawn]
    assert told == tokens[: len(told)]
    # An eos is known a step later: then one more is drawn, and dropped.
    assert len(tokens) <= len(told) + (out.finish_reason == "stop")


def drawn_by_kernels(monkeypatch):
    """What a GPU does; the group of each launch is noted, by how many rows it has."""
    from minipaged.decoding import fast_draw

    groups, draw = [], fast_draw.draw_unseeded

    def noting(options, logits):
        groups.append((options[0].of_rows is not None, len(options)))
        return draw(options, logits)

    monkeypatch.setattr(ahead, "draws_by_numbers", lambda logits: True)
    monkeypatch.setattr(fast_draw, "draw_unseeded", noting)
    return groups


@WAYS
def test_kernels_draw_for_all_kinds_at_once(monkeypatch, way):
    """Who may only say the likeliest token says it; a neighbour draws from all."""
    groups = drawn_by_kernels(monkeypatch)
    greedy, likeliest = answers(GREEDY), [{}, *ALWAYS_THE_LIKELIEST]
    engine, right, free = engine_of(way), [], []
    for number, prompt in enumerate(PROMPTS):
        own = likeliest[number % len(likeliest)]
        engine.add(prompt, config(5, do_sample=bool(own), **own))
        right.append(greedy[number].sequences[0][:5])
        if number % 3 == 0:
            hot = config(5, do_sample=True, temperature=50.0, top_k=0)
            free.append(engine.add(prompt, hot))
    outputs = {stream: stream.output for stream in engine.streams.values()}
    engine.run()
    told = [stream.output.sequences[0] for stream in outputs if stream not in free]
    assert told == right
    hot = [stream.output.sequences[0] for stream in free]
    assert all(own not in right for own in hot) and len({*map(tuple, hot)}) == len(hot)
    by_numbers = [count for is_by_numbers, count in groups if is_by_numbers]
    by_processors = [count for is_by_numbers, count in groups if not is_by_numbers]
    # All by numbers are one group in a step; of the others each kind is one.
    assert max(by_numbers) > 6 and len(by_processors) > len(by_numbers) / 2
    assert max(by_processors) <= 2
    check_idle(engine)


class Operations(TorchDispatchMode):
    """Notes which operations run, on tensors of which types and dimensions."""

    def __init__(self):
        super().__init__()
        self.seen = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kinds = [(x.dtype, x.dim()) for x in args if isinstance(x, torch.Tensor)]
        sorts = "topk" in function.name() and args[1] > 1
        if function is not torch.ops.aten.lift_fresh.default:  # of new tensors
            self.seen.add((function.name(), *kinds, sorts))
        return function(*args, **(kwargs or {}))


def drawn(**options):
    return config(4, do_sample=True, temperature=0.6, **({"top_k": 0} | options))


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (drawn(), {"seed": 1}),
        (drawn(top_k=5, top_p=0.9, min_p=0.1), {"seed": 1}),
        (GREEDY, {"logprobs": 3}),
        (drawn(repetition_penalty=1.2), {}),
        (drawn(num_return_sequences=3), {}),
        (drawn(num_return_sequences=3), {"seed": 1}),
        (drawn(num_return_sequences=3), {"logprobs": 2}),
        (config(4, num_beams=3), {}),
    ],
)
def test_what_a_step_chooses_with_was_used_before(monkeypatch, options, wanted):
    """torch loads a kernel at its first use, and nobody should wait for that."""
    loaded, used = Operations(), Operations()
    with loaded:
        rehearse(50, torch.float32, torch.device("cpu"), most=8)

    def noted(function):
        def noting(*arguments):
            with used:
                return function(*arguments)

        return noting

    monkeypatch.setattr(ahead, "choose", noted(ahead.choose))
    monkeypatch.setattr(loop, "apply_all", noted(loop.apply_all))
    scoring = noted(PendingChoices._compute_logprobs)
    monkeypatch.setattr(PendingChoices, "_compute_logprobs", scoring)
    engine = steps_ahead(make())
    for prompt in PROMPTS:
        engine.add(prompt, options, **wanted)
    engine.run()
    assert used.seen and used.seen <= loaded.seen


def test_a_rehearsal_answers_all_kinds_and_draws_nobodys_numbers(monkeypatch):
    asked = []

    def noting(*arguments, **options):
        asked.append(make_request(*arguments, **options))
        return asked[-1]

    make_request = rehearsal.make_request
    monkeypatch.setattr(rehearsal, "make_request", noting)
    torch.manual_seed(3)
    right = torch.rand(2)
    torch.manual_seed(3)
    rehearse(50, torch.float32, torch.device("cpu"), most=8)
    assert torch.equal(torch.rand(2), right)
    assert len(asked) == 9 * len(rehearsal.kinds())
    for request in asked:
        output = output_of(request)
        assert output.error is None and output.finish_reason in ("length", "stop")
        assert output.sequences and all(output.sequences)


def test_nobody_is_drawn_for_where_only_prompts_are_computed(monkeypatch):
    groups = drawn_by_kernels(monkeypatch)
    engine = engine_of(steps_ahead, max_tokens=4, max_sequences=2)
    sampled = config(2, do_sample=True, top_k=1)
    engine.add(PROMPTS[1], sampled)
    (out,) = engine.run()
    assert out.sequences == [answers(GREEDY)[1].sequences[0][:2]]
    assert groups == [(True, 1)] * 2


# --- who comes and goes ---------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("seed", all_or(range(2), [0]))
def test_arrivals_and_aborts(way, mode, seed):
    draw, right = random.Random(seed), answers(GREEDY)
    engine = engine_of(
        way, num_blocks=30, cache=True, clock=Simulated(), preemption=mode
    )
    streams = []
    for number in range(40):
        own = number % len(PROMPTS)
        arrival = draw.random() * 150
        streams.append((engine.add(PROMPTS[own], GREEDY, arrival=arrival), own))
    while engine.step():
        if draw.random() < 0.15 and engine.streams:
            stream = draw.choice(list(engine.streams.values()))
            engine.abort(stream)
            assert stream.finished and not stream.request.holds_blocks
    reasons = set()
    for stream, own in streams:
        theirs = right[own].sequences[0]
        assert stream.tokens == theirs[: len(stream.tokens)]
        reasons.add(stream.output.finish_reason)
        if stream.output.finish_reason != "aborted":
            assert stream.tokens == theirs
    assert reasons >= {"aborted", "length"}
    check_idle(engine)


def test_closed():
    engine = engine_of(replaying)
    stream = engine.add(PROMPTS[0], GREEDY)
    engine.step()
    engine.close()
    assert stream.output.finish_reason == "aborted"
    check_idle(engine)
    assert not engine._runner._graphs
    with pytest.raises(ValueError, match="closed"):
        engine.add(PROMPTS[0], GREEDY)
    engine.close()
    check([mp.generate(engine.paged, [PROMPTS[0]], GREEDY)[0]], answers(GREEDY)[:1])


# --- interrupted ----------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("seed", all_or(range(2), [0]))
def test_interrupted_at_any_line(way, mode, seed):
    draw, right = random.Random(seed), answers(STOPS)
    engine = engine_of(way, num_blocks=30, cache=seed == 0, preemption=mode)
    streams = add_all(engine)
    late = [engine.add(prompt, STOPS) for prompt in PROMPTS]
    lines = Lines([draw.randrange(1, 60_000) for _ in range(25)])
    assert run_interrupted(engine, lines) > 10
    check([stream.output for stream in streams])
    check([stream.output for stream in late], right)
    check_idle(engine)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_failing_forwards(mode, error):
    draw, failed, is_fragile = random.Random(f"{mode}{error}"), 0, [False]

    def attend(*arguments):
        if is_fragile[0] and draw.random() < 0.06:
            raise error
        return gathered_attention(*arguments)

    engine = steps_ahead(make(24, cache=True, attention=attend, preemption=mode))
    streams, is_fragile[0] = add_all(engine), True
    while engine.streams:
        try:
            engine.step()
        except error:
            failed += 1
            assert engine.paged.pool.num_free == 24
    assert failed > 3
    check([stream.output for stream in streams])
    check_idle(engine)


@pytest.mark.parametrize("wrap", [steps_ahead, lambda engine: engine])
def test_no_room_for_a_step_is_said_with_what_to_lower(wrap):
    is_full = [False]

    def attend(*arguments):
        if is_full[0]:
            raise torch.OutOfMemoryError("tried to allocate 2 GiB")
        return gathered_attention(*arguments)

    engine = wrap(make(24, attention=attend))
    streams, is_full[0] = add_all(engine), True
    with pytest.raises(MemoryError, match=r"up to 32 tokens .* lower max_tokens"):
        engine.run()
    is_full[0] = False
    engine.run()
    check([stream.output for stream in streams])
    check_idle(engine)


# --- wrong versions, which these tests must reject ------------------------------------


class NotPending(StepsAhead):
    """Wrong: does not count what is chosen and not read yet."""

    def _may_start_ahead(self):
        may = super()._may_start_ahead()
        for work in self._flights[-1].plan.works:
            work.sequence.num_pending = 0
        return may


class OfRows(PendingChoices):
    """Wrong: the next step takes the tokens by its own rows, not by whose they are."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        first = [self.pending.tokens[0]] * len(self.pending.tokens)
        if first:
            self.pending = Pending((torch.stack(first),), self.pending.places)


class OfTheDead(StepsAhead):
    """Wrong: whoever has ended gets the token, too, that was computed meanwhile."""

    def _land(self, undo):
        for work in self._flights[0].plan.works:
            for sequence in work.request.sequences:
                if sequence.finish_reason == "stop":
                    sequence.tokens.append(sequence.tokens[-1])
        super()._land(undo)


WRONG = {
    "not pending": ("StepsAhead", NotPending),
    "of rows": ("PendingChoices", OfRows),
    "of the dead": ("StepsAhead", OfTheDead),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_steps_are_noticed(monkeypatch, name):
    where, wrong = WRONG[name]
    monkeypatch.setattr(ahead, where, wrong)
    monkeypatch.setattr("helpers.replaying.StepsAhead", ahead.StepsAhead)
    with pytest.raises((AssertionError, KeyError, LookupError)):
        test_who_stops_is_known_a_step_later(steps_ahead, "recompute", 400)
        test_a_step_is_planned_before_the_last_one_is_read(steps_ahead)


def test_the_eos_of_these_tests_is_hardly_ever_drawn():
    assert all(own.eos_token_id == NEVER for own in CONFIGS) and expected()


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_who_has_ended_is_told_though_the_next_step_is_undone(monkeypatch, error):
    """Its blocks are in the plan in flight, and that plan is never committed."""
    (text,) = answers(GREEDY, PROMPTS[:1])
    own = config(17)
    own.eos_token_id = text.sequences[0][6]
    engine = engine_of(steps_ahead, num_blocks=400)
    stream = engine.add(PROMPTS[0], own)
    while stream.request.is_live:
        engine.step()
    assert not stream.finished  # the test sees something

    def fails(*_):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(engine._steps, "_land", fails)
        with pytest.raises(error):
            engine.step()
    assert not engine.step()
    assert stream.output.finish_reason == "stop"
    assert stream.output.sequences == answers(own, PROMPTS[:1])[0].sequences
    check_idle(engine)
