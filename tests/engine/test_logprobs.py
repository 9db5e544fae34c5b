"""Logprobs of answers and of prompts: HuggingFace's, however they are computed."""

import copy
import math
import random
import threading
from functools import cache

import pytest
import torch
from transformers import GenerationConfig

import minipaged as mp
from helpers.answers import huggingface_outputs
from helpers.interrupting import Lines, run_interrupted
from helpers.logprobs import (
    check_answers,
    check_entry,
    check_prompt,
    of_answers,
    of_prompt,
)
from helpers.replaying import replayable, replaying, steps_ahead
from helpers.serving import (
    CONFIGS,
    KINDS,
    PROMPTS,
    check,
    check_idle,
    config,
    make,
)
from helpers.thorough import all_or, often
from helpers.tiny_models import ARCHITECTURES, VOCABULARY, tiny_model
from minipaged.decoding import logprobs
from minipaged.scheduling import prompt_logits

pytestmark = pytest.mark.filterwarnings("ignore:thrashing")
COUNTS = [number % 4 for number in range(len(PROMPTS))]  # 0: its own token alone
FAMILIES = all_or(ARCHITECTURES, ["qwen3", "gemma2", "gpt_oss"])


@cache
def right(family="qwen3", kind=None):
    """For each prompt what HuggingFace's logits say."""
    model = tiny_model(family)
    configs = CONFIGS if kind is None else [KINDS[kind]] * len(PROMPTS)
    cases = enumerate(zip(PROMPTS, configs, strict=True))
    return [of_answers(model, prompt, own, seed) for seed, (prompt, own) in cases]


@cache
def right_prompts(family="qwen3"):
    return [of_prompt(tiny_model(family), prompt) for prompt in PROMPTS]


def check_all(outputs, family="qwen3", kind=None, prompts=True, counts=COUNTS):
    rows = zip(outputs, PROMPTS, right(family, kind), counts, strict=True)
    for output, _, theirs, count in rows:
        check_answers(output, theirs, count)
    if prompts:
        rows = zip(outputs, PROMPTS, right_prompts(family), counts, strict=True)
        for output, prompt, theirs, count in rows:
            check_prompt(output, prompt, theirs, count)


@pytest.mark.parametrize("kind", [None, *range(len(KINDS))])
@pytest.mark.parametrize("family", FAMILIES)
def test_generate(family, kind):
    """Greedy, samples, n samples, beams, with penalties, and all of them mixed."""
    paged = mp.PagedModel(tiny_model(family), 256, 4)
    configs = CONFIGS if kind is None else KINDS[kind]
    seeds = list(range(len(PROMPTS)))
    outputs = mp.generate(
        paged, PROMPTS, configs, seed=seeds, logprobs=COUNTS, prompt_logprobs=COUNTS
    )
    check_all(outputs, family, kind)
    assert paged.pool.num_free == 256


def test_a_list_may_ask_for_some_prompts_only():
    paged = mp.PagedModel(tiny_model("qwen3"), 64, 4)
    counts = [None, 2, None]
    outputs = mp.generate(
        paged, PROMPTS[:3], config(4), logprobs=counts, prompt_logprobs=[3, None, None]
    )
    assert [output.logprobs is None for output in outputs] == [True, False, True]
    asked = [output.prompt_logprobs is None for output in outputs]
    assert asked == [False, True, True]
    (tokens,) = outputs[1].logprobs
    assert all(len(entry.top) == 2 for entry in tokens)


@pytest.mark.parametrize("rows", [1, 5, 256])
def test_prompts_come_in_parts(rows, monkeypatch):
    """No step computes more logits of prompts than there is room for."""
    monkeypatch.setattr(prompt_logits, "MOST_ROWS", rows)
    paged, asked = mp.PagedModel(tiny_model("qwen3"), 256, 4), []

    class Watch(mp.Observer):
        def planned(self, plan):
            works = [work for work in plan.works if work.request.wants_prompt_logits]
            asked.append(sum(work.num_logits for work in works))

    paged.observers.append(Watch())
    for max_prompt_tokens in (None, 3):
        outputs = mp.generate(
            paged, PROMPTS, CONFIGS, seed=list(range(len(PROMPTS))),
            logprobs=COUNTS, prompt_logprobs=COUNTS,
            max_prompt_tokens=max_prompt_tokens,
        )  # fmt: skip
        check_all(outputs)
    assert max(asked) <= rows
    assert sum(asked) == 2 * sum(map(len, PROMPTS))


def test_a_long_prompt_is_never_computed_at_once():
    prompt = [number % (VOCABULARY - 3) + 2 for number in range(250)]
    model = tiny_model("qwen3", max_position_embeddings=1024)
    paged, sizes = mp.PagedModel(model, 256, 4), []

    class Watch(mp.Observer):
        def computed(self, batch, logits):
            sizes.append(len(logits))

    paged.observers.append(Watch())
    long = [prompt * 3, prompt * 2]
    outputs = mp.generate(paged, long, config(2), logprobs=0, prompt_logprobs=1)
    for output, own in zip(outputs, long, strict=True):
        check_prompt(output, own, of_prompt(model, own), 1)
    assert max(sizes) <= prompt_logits.MOST_ROWS + 1 and len(sizes) >= 5


@pytest.mark.parametrize("way", [lambda engine: engine, steps_ahead, replaying])
@pytest.mark.parametrize("asked", ["answers", "prompts", "both", "some"])
def test_an_engine(way, asked):
    """Also one step ahead, and from graphs, on a pool too small for all."""
    engine = way(make(28, attention=replayable, cache=True))
    streams = []
    for seed, (prompt, own) in enumerate(zip(PROMPTS, CONFIGS, strict=True)):
        options = {}
        if asked in ("answers", "both") or (asked == "some" and seed % 2):
            options["logprobs"] = COUNTS[seed]
        if asked in ("prompts", "both") or (asked == "some" and seed % 3):
            options["prompt_logprobs"] = COUNTS[seed]
        streams.append(engine.add(prompt, own, seed=seed, **options))
    outputs = engine.run()
    check(outputs)
    assert engine.stats.num_preemptions > 0
    for number, output in enumerate(outputs):
        if output.logprobs is not None:
            check_answers(output, right()[number], COUNTS[number])
        if output.prompt_logprobs is not None:
            own = right_prompts()[number]
            check_prompt(output, PROMPTS[number], own, COUNTS[number])
    answered = [output.logprobs is not None for output in outputs]
    assert any(answered) == (asked != "prompts")
    check_idle(engine)


@pytest.mark.parametrize("way", [steps_ahead, replaying])
def test_many_that_run_ahead(way):
    """Greedy and unseeded ones, of which some ask, are computed ahead."""
    engine, greedy = way(make(attention=replayable)), config(12)
    likeliest = config(12, do_sample=True, top_k=1, temperature=2.0)
    counts = [None, 0, 3, None, 2, 5, None, 1, 0, None, 4]
    streams = [
        engine.add(prompt, greedy if number % 2 else likeliest, logprobs=count)
        for number, (prompt, count) in enumerate(zip(PROMPTS, counts, strict=True))
    ]
    engine.step()
    assert len(engine.scheduler.in_flight) == 1  # one is computed, and not read
    outputs = engine.run()
    for prompt, count, output, stream in zip(
        PROMPTS, counts, outputs, streams, strict=True
    ):
        theirs = of_answers(tiny_model("qwen3"), prompt, greedy)
        assert output.sequences[0] == theirs[0][0]
        if count is None:
            assert output.logprobs is stream.logprobs is None
        else:
            check_answers(output, theirs, count)
            assert stream.logprobs == output.logprobs[0]


@pytest.mark.parametrize("way", [steps_ahead, replaying])
def test_prompts_among_those_that_run_ahead(way):
    """Their logits are read before anything else is planned."""
    engine, greedy = way(make(attention=replayable)), config(12)
    for prompt in PROMPTS[:4]:
        engine.add(prompt, greedy)
    engine.step()
    streams = [engine.add(prompt, greedy, prompt_logprobs=2) for prompt in PROMPTS]
    engine.run()
    rows = zip(streams, PROMPTS, right_prompts(), strict=True)
    for stream, prompt, theirs in rows:
        check_prompt(stream.output, prompt, theirs, 2)
        alone = of_answers(tiny_model("qwen3"), prompt, greedy)
        assert stream.output.sequences == [alone[0][0]]


def test_a_warm_cache_is_passed_by_and_filled():
    """Whoever wants its prompt's logprobs computes it; others then find it."""
    paged = mp.PagedModel(tiny_model("qwen3"), 256, 4)
    prefix = mp.PrefixCache(paged.pool)
    options = {"seed": list(range(len(PROMPTS))), "prefix_cache": prefix}
    for _ in range(2):  # the second time, all of it is cached
        asked = prefix.tokens_asked
        outputs = mp.generate(
            paged, PROMPTS, CONFIGS, logprobs=COUNTS, prompt_logprobs=COUNTS, **options
        )
        check_all(outputs)
        assert all(output.num_cached_tokens == 0 for output in outputs)
        assert prefix.tokens_asked == asked
    outputs = mp.generate(paged, PROMPTS, CONFIGS, logprobs=COUNTS, **options)
    check_all(outputs, prompts=False)
    assert all(
        output.num_cached_tokens == (len(prompt) - 1) // 4 * 4
        for output, prompt in zip(outputs, PROMPTS, strict=True)
    )
    assert all(output.prompt_logprobs is None for output in outputs)


@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_parts_of_a_prompt_are_not_counted_as_generated(kind, monkeypatch):
    """Nor does such a prompt ask the cache for anything."""
    monkeypatch.setattr(prompt_logits, "MOST_ROWS", 3)
    engine, plain = make(cache=True), make(cache=True)
    for number in (1, 2):
        engine.add(PROMPTS[1], KINDS[kind], seed=number, prompt_logprobs=number)
        plain.add(PROMPTS[1], KINDS[kind], seed=number)
        engine.run(), plain.run()
    assert engine.stats.generation_tokens == plain.stats.generation_tokens
    assert engine.stats.prefix_cache_queries == engine.stats.prefix_cache_hits == 0
    assert plain.stats.prefix_cache_queries == 2 * len(PROMPTS[1])


def test_tokens_that_a_model_reads_but_never_says():
    """Its last embeddings have no row of the head; in a prompt they are as good."""
    model = copy.deepcopy(tiny_model("qwen3"))
    more = torch.nn.Embedding(VOCABULARY + 8, 64)
    torch.nn.init.normal_(more.weight, generator=torch.Generator().manual_seed(0))
    model.set_input_embeddings(more)
    prompt = [5, VOCABULARY, 7, VOCABULARY + 7, 9]
    (output,) = mp.generate(
        mp.PagedModel(model, 64, 4), [prompt], config(4),
        logprobs=VOCABULARY + 8, prompt_logprobs=2,
    )  # fmt: skip
    check_answers(output, of_answers(model, prompt, config(4)), VOCABULARY)
    entries, right = output.prompt_logprobs[1:], of_prompt(model, prompt)
    assert [entry.token for entry in entries] == prompt[1:]
    assert [entries[place].logprob for place in (0, 2)] == [-math.inf] * 2
    for place in (1, 3):
        check_entry(entries[place], prompt[place + 1], right[place], 2)


def test_whoever_looks_into_the_cache_lacks_logprobs(monkeypatch):
    """The wrong variant: logits of what is found there are never computed."""
    monkeypatch.setattr(
        mp.Request, "wants_prompt_logits", property(lambda own: not own.live)
    )
    paged = mp.PagedModel(tiny_model("qwen3"), 256, 4)
    prefix = mp.PrefixCache(paged.pool)
    mp.generate(paged, PROMPTS[:2], config(3), prefix_cache=prefix)
    (output,) = mp.generate(
        paged, PROMPTS[1:2], config(3), prefix_cache=prefix, prompt_logprobs=0
    )
    with pytest.raises(AssertionError):
        check_prompt(output, PROMPTS[1], right_prompts()[1], 0)


def test_text_is_the_same_with_and_without():
    engine = make(40, cache=True)
    for seed, (prompt, own) in enumerate(zip(PROMPTS, CONFIGS, strict=True)):
        engine.add(prompt, own, seed=seed, logprobs=2, prompt_logprobs=0)
        engine.add(prompt, own, seed=seed)
    outputs = engine.run()
    check(outputs[::2])
    check(outputs[1::2])


@pytest.mark.parametrize("way", [lambda engine: engine, steps_ahead])
@pytest.mark.parametrize("number", range(often(15)))
def test_a_step_that_is_undone_says_nothing_twice(way, number):
    """Ctrl-C at 25 lines, anywhere: as if it had not been."""
    draw = random.Random(number)
    engine = way(make(28, attention=replayable, cache=True))
    for seed, (prompt, own) in enumerate(zip(PROMPTS, CONFIGS, strict=True)):
        count = COUNTS[seed]
        engine.add(prompt, own, seed=seed, logprobs=count, prompt_logprobs=count)
    streams = list(engine.streams.values())
    lines = Lines([draw.randrange(1, 60_000) for _ in range(25)])
    assert run_interrupted(engine, lines) > 10
    check_all([stream.output for stream in streams])
    check_idle(engine)


def test_what_is_drawn_anew_after_an_interrupt_has_its_own():
    """Unseeded: a step that is made again draws other tokens."""
    draw = random.Random(0)
    engine = make()
    drawn = config(30, do_sample=True, temperature=3.0, top_k=0)
    streams = [engine.add(prompt, drawn, logprobs=0) for prompt in PROMPTS]
    lines = Lines([draw.randrange(1, 30_000) for _ in range(25)])
    assert run_interrupted(engine, lines) > 10
    for output in [stream.output for stream in streams]:
        assert [one.token for one in output.logprobs[0]] == output.sequences[0]


def test_aborted_ones_keep_what_they_have_said():
    engine = make()
    cases = list(zip(PROMPTS, CONFIGS, COUNTS, strict=True))
    streams = [
        engine.add(prompt, own, seed=seed, logprobs=count, prompt_logprobs=count)
        for seed, (prompt, own, count) in enumerate(cases)
    ]
    for stream in streams[:2]:
        engine.abort(stream)  # before anything
    for _ in range(5):
        engine.step()
    for stream in streams[2:]:
        engine.abort(stream)
    for stream in streams:
        output = stream.output
        assert output.finish_reason == "aborted"
        assert list(map(len, output.logprobs)) == list(map(len, output.sequences))
        for tokens, entries in zip(output.sequences, output.logprobs, strict=True):
            assert [entry.token for entry in entries] == tokens
    assert all(any(stream.output.sequences) for stream in streams[2:6])
    check_idle(engine)


def test_a_stream_has_them_as_it_goes():
    engine = make()
    stream = engine.add(PROMPTS[0], config(8), logprobs=2)
    seen = []
    for token in stream:
        seen.append(stream.logprobs[-1])
        assert seen[-1].token == token and len(stream.logprobs) == len(stream.tokens)
        assert isinstance(seen[-1], mp.TokenLogprob)
    assert stream.output.logprobs == [seen]
    of_many = engine.add(PROMPTS[0], KINDS[2], seed=2, logprobs=2)
    engine.run()
    assert of_many.logprobs == []  # as its tokens: ask for the result
    assert engine.add(PROMPTS[0], config(8)).logprobs is None


def test_a_stream_never_has_more_of_them_than_tokens():
    """In the middle of a step they are noted, and its token is not told yet."""
    seen = []

    class Watch(mp.Observer):
        def chosen(self, plan):
            seen.append((len(stream.tokens), len(stream.logprobs)))

    engine = make(observers=[Watch()])
    stream = engine.add(PROMPTS[0], config(8), logprobs=0)
    engine.run()
    assert seen == [(number, number) for number in range(len(stream.tokens))]


def test_threads_read_what_belongs_together():
    engine = make()
    streams = [engine.add(prompt, config(14), logprobs=1) for prompt in PROMPTS]
    wrong = []

    def read(stream):
        for number, token in enumerate(stream):
            if stream.logprobs[number].token != token:
                wrong.append(number)

    threads = [threading.Thread(target=read, args=[stream]) for stream in streams]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong and all(stream.finished for stream in streams)


def test_errors_have_none():
    engine = make()
    bad = config(4, do_sample=True, temperature=1e-44)
    failed = engine.add(PROMPTS[0], bad, logprobs=2, prompt_logprobs=2).result()
    assert failed.finish_reason == "error" and failed.logprobs is None
    never = engine.add([3] * 500, config(4), logprobs=2, prompt_logprobs=2)
    engine.run()
    assert never.output.finish_reason == "error" and never.logprobs is None


@pytest.mark.parametrize("name", ["logprobs", "prompt_logprobs"])
@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        (-1, ValueError, "must be 0 or more"),
        (VOCABULARY + 1, ValueError, "must be at most 128"),
        (True, TypeError, "must be an int"),
        ("5", TypeError, "must be an int"),
        (1.5, TypeError, "must be an int"),
        ([1, 2, 3], ValueError, "2 prompts, but 3 values"),
    ],
)
def test_what_is_wrong_is_said_at_the_call(name, value, error, words):
    paged = mp.PagedModel(tiny_model("qwen3"), 64, 4)
    with pytest.raises(error, match=words):
        mp.generate(paged, PROMPTS[:2], config(3), **{name: value})
    with pytest.raises((TypeError, ValueError), match=name):
        mp.Engine(paged).add(PROMPTS[0], config(3), **{name: value})


def test_all_of_the_vocabulary():
    paged = mp.PagedModel(tiny_model("qwen3"), 64, 4)
    (output,) = mp.generate(paged, PROMPTS[:1], config(3), logprobs=VOCABULARY)
    for entry in output.logprobs[0]:
        assert sum(2.718281828459045**p for _, p in entry.top) == pytest.approx(1)


@pytest.mark.parametrize(
    "field", ["output_scores", "output_logits", "output_attentions"]
)
def test_what_huggingface_returns_and_we_do_not_is_refused(field):
    paged = mp.PagedModel(tiny_model("qwen3"), 64, 4)
    asked = GenerationConfig(
        max_new_tokens=3, return_dict_in_generate=True, **{field: True}
    )
    with pytest.raises(mp.UnsupportedOption, match=f"{field}=True") as caught:
        mp.generate(paged, PROMPTS[:1], asked)
    assert ("logprobs=5" in str(caught.value)) == (field != "output_attentions")
    form = GenerationConfig(max_new_tokens=3, return_dict_in_generate=True)
    (output,) = mp.generate(paged, PROMPTS[:1], form)
    check([output], huggingface_outputs(paged.model, PROMPTS[:1], form))


def test_raw_logits_not_those_that_processors_have_changed():
    """Scores of 1e4 leave nothing of a logprob that is a difference of float32."""
    greedy = config(4, suppress_tokens=list(range(3, VOCABULARY - 1)))
    model = tiny_model("qwen3")
    (output,) = mp.generate(
        mp.PagedModel(model, 64, 4), PROMPTS[:1], greedy, logprobs=3
    )
    check_answers(output, of_answers(model, PROMPTS[0], greedy), 3)
    rows = torch.randn(2, 50) * 3 + 1e4
    tokens = torch.tensor([3, 4])
    own = logprobs.Logprobs(rows, torch.arange(2), tokens, 1)
    exact = torch.log_softmax(rows.double(), -1)
    for place, token in enumerate([3, 4]):
        assert abs(own.at(place, 1).logprob - exact[place, token].item()) < 1e-5
