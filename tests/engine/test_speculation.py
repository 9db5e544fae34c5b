"""Guesses are checked several in a step, and change no answer."""

import random
import re

import pytest
from transformers import GenerationConfig

import minipaged as mp
from helpers.answers import huggingface_outputs
from helpers.guessing import Knowing
from helpers.interrupting import Lines, run_interrupted
from helpers.replaying import ReplayingRunner, replayable, replaying, steps_ahead
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
from minipaged.decoding import speculative
from minipaged.decoding.speculation import Speculation, Worth
from minipaged.decoding.speculative import Speculating
from minipaged.engine.ahead import may_run_ahead
from minipaged.scheduling.sequence import Sequence
from minipaged.scheduling.sharing import PrefixSharing

pytestmark = pytest.mark.filterwarnings("ignore:thrashing")
GREEDY = config(17)
STOPS = config(30)
STOPS.eos_token_id = [NEVER, *range(9, 17)]
PENALTY = config(17, repetition_penalty=1.3, no_repeat_ngram_size=3)
WARM = config(17, do_sample=True, temperature=0.7, top_k=0)
WARM_PENALTY = config(17, do_sample=True, temperature=0.7, repetition_penalty=1.1)
WAYS = pytest.mark.parametrize("way", [lambda engine: engine, steps_ahead, replaying])
ROOM = {"max_tokens": 192}  # for all guesses of a step
SEEDS = list(range(len(PROMPTS)))


def answers(family="qwen3", own=GREEDY):
    return huggingface_outputs(tiny_model(family), PROMPTS, own, seed=SEEDS)


def knowing(family="qwen3", own=GREEDY, **options):
    """Guesses the right answers, with faults."""
    outs = answers(family, own)
    texts = [p + o.sequences[0] for p, o in zip(PROMPTS, outs, strict=True)]
    return Knowing(texts, **options)


@pytest.fixture(params=[1, 2, 3], ids=lambda tree: f"tree={tree}")
def tree(request):
    """How many branches guess."""
    return request.param


class Watch(mp.Observer):
    """What is planned for sequences that guess, and what comes of it."""

    def __init__(self):
        self.sizes, self.right, self.wrong = [], 0, 0

    def planned(self, plan):
        self.sizes += [
            (work.num_tokens, work.num_logits)
            for work in plan.works
            if work.start >= len(work.request.prompt)
        ]

    def verified(self, sequence, num_guesses, num_accepted):
        self.right += num_accepted
        self.wrong += num_guesses - num_accepted


class Verified(mp.Observer):
    """The most tokens that were guessed at a time, for each sequence."""

    def __init__(self):
        self.most = {}

    def verified(self, sequence, num_guesses, num_accepted):
        self.most[sequence] = max(num_guesses, self.most.get(sequence, 0))


@pytest.mark.parametrize("budget", [{}, {"max_prompt_tokens": 3}])
@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize(
    "own",
    [GREEDY, STOPS, PENALTY, WARM, WARM_PENALTY],
    ids=["greedy", "stops", "penalty", "warm", "warm-penalty"],
)
def test_generate(own, budget, cached, tree):
    """Seeded samples are those of HuggingFace, too, token for token."""
    paged = mp.PagedModel(tiny_model("qwen3"), 128, 4)
    paged.observers.append(watch := Watch())
    prefix = mp.PrefixCache(paged.pool) if cached else None
    guesses = knowing(own=own, tree=tree)
    for _ in range(2):
        outputs = mp.generate(
            paged, PROMPTS, own, seed=SEEDS, prefix_cache=prefix, speculation=guesses,
            **budget,
        )  # fmt: skip
        check(outputs, answers(own=own))
    assert any(output.num_cached_tokens for output in outputs) == cached
    assert watch.right > 9 < watch.wrong
    assert max(watch.sizes) == (4, 4)
    assert paged.pool.num_free == 128


@pytest.mark.parametrize("family", all_or(UNLIKE, ["gemma2", "gpt_oss"]))
@pytest.mark.parametrize("max_ngram", [2, None])
def test_families(family, max_ngram, tree):
    """With the guesses of a prompt lookup, of texts that do repeat themselves."""
    prompts = [[*prompt, *prompt, *prompt[:2]] for prompt in PROMPTS]
    paged = mp.PagedModel(tiny_model(family), 128, 4)
    paged.observers.append(watch := Watch())
    guesses = mp.PromptLookup(4, max_ngram, tree=tree)
    right = huggingface_outputs(tiny_model(family), prompts, GREEDY)
    check(mp.generate(paged, prompts, GREEDY, speculation=guesses), right)
    assert watch.right and watch.wrong


@WAYS
@pytest.mark.parametrize("mode", ["recompute", "swap"])
@pytest.mark.parametrize("num_blocks", [18, 24])
def test_an_engine_that_preempts(way, mode, num_blocks, tree):
    """Beside requests of other kinds, in too few blocks; two plans in flight, too."""
    options = {"preemption": mode, "max_tokens": 96, "max_sequences": 8, "cache": True}
    guesses = knowing(tree=tree)
    engine = way(make(num_blocks, attention=replayable, speculation=guesses, **options))
    others = [own if (own.num_beams or 1) == 1 else WARM for own in CONFIGS]
    theirs = huggingface_outputs(tiny_model("qwen3"), PROMPTS, others, seed=SEEDS)
    for seed, (prompt, own) in enumerate(zip(PROMPTS, others, strict=True)):
        engine.add(prompt, GREEDY)
        engine.add(prompt, own, seed=seed)
        engine.add(prompt, GREEDY, logprobs=2)  # it does not guess, and runs ahead
    outputs = engine.run()
    check(outputs[::3], answers())
    check(outputs[1::3], theirs)
    check(outputs[2::3], answers())
    stats = engine.stats
    assert stats.num_preemptions > 2 and stats.num_accepted_tokens > 20
    generated = sum(len(own) for output in outputs for own in output.sequences)
    assert stats.generation_tokens == generated
    check_idle(engine)


def test_unseeded_samples_and_several_of_a_request(tree):
    """Each sample guesses for itself; where only one token is likely, all are right."""
    paged = mp.PagedModel(tiny_model("qwen3"), 256, 4)
    paged.observers.append(watch := Watch())
    likeliest = config(17, do_sample=True, num_return_sequences=3, top_k=1)
    penalty = config(
        17, do_sample=True, num_return_sequences=3, top_k=1, repetition_penalty=1.3
    )
    for own, alone in (
        (likeliest, GREEDY),
        (penalty, config(17, repetition_penalty=1.3)),
    ):
        guesses = knowing(own=alone, tree=tree)
        outputs = mp.generate(paged, PROMPTS, own, speculation=guesses)
        for output, right in zip(outputs, answers(own=alone), strict=True):
            assert output.sequences == right.sequences * 3
    assert watch.right > 100


def test_a_text_ends_inside_an_accepted_run():
    """At an eos, at a stop string and at max_new_tokens, exactly as HuggingFace."""
    model, tokenizer = mp.load("pocket", device="cpu")
    prompts = tokenizer(["one two three one two three one two", "a a a a a"]).input_ids
    paged = mp.PagedModel(model, 64)
    for stop in (["two th", "e on"], ["ee"], ["a a a a"], None):
        for new in (1, 2, 3, 9, 24):
            own = GenerationConfig(max_new_tokens=new, stop_strings=stop)
            plain = mp.generate(paged, prompts, own, tokenizer=tokenizer)
            texts = [p + o.sequences[0] for p, o in zip(prompts, plain, strict=True)]
            long = GenerationConfig(max_new_tokens=40, eos_token_id=[])
            further = mp.generate(paged, texts, long)
            texts = [t + o.sequences[0] for t, o in zip(texts, further, strict=True)]
            for guesses in (Knowing(texts, 7, forgets=0), mp.PromptLookup(7)):
                told = mp.generate(
                    paged, prompts, own, tokenizer=tokenizer, speculation=guesses
                )
                for one, other in zip(told, plain, strict=True):
                    assert one == other


def test_several_logits_of_a_sequence_are_replayed():
    engine = replaying(make(96, attention=replayable, speculation=knowing(), **ROOM))
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


def test_no_step_with_guesses_runs_eagerly(tree, monkeypatch):
    """Beside prompts, too, and with as many sequences as there may be."""
    monkeypatch.setattr(ReplayingRunner, "_prompt_tokens", (16, 96))
    limits = {"max_sequences": 6, "max_tokens": 96, "speculation": knowing(tree=tree)}
    engine = replaying(make(96, attention=replayable, **limits))
    runner = engine._runner
    for prompt in PROMPTS:
        engine.add(prompt, GREEDY)
    check(engine.run(), answers())
    assert runner.num_replays == engine.stats.num_steps
    used = [size for size, own in runner._graphs.items() if own.graph.count]
    assert any(size.rows_share for size in used)
    runner.close()
    engine.add(PROMPTS[0], GREEDY)
    check(engine.run(), answers()[:1])  # eagerly


def test_a_stream_tells_no_guess(tree):
    engine = make(speculation=knowing(tree=tree), **ROOM)
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
@pytest.mark.parametrize("number", range(often(6)))
def test_interrupted_at_any_line(way, number, tree):
    draw = random.Random(number)
    guesses = knowing(own=WARM, tree=tree)
    engine = way(
        make(36, attention=replayable, cache=True, speculation=guesses, **ROOM)
    )
    streams = [engine.add(p, WARM, seed=s) for s, p in enumerate(PROMPTS)]
    lines = Lines([draw.randrange(1, 20_000) for _ in range(25)])
    assert run_interrupted(engine, lines) > 10
    check([stream.output for stream in streams], answers(own=WARM))
    check_idle(engine)


def test_who_guesses_from_a_text_waits_for_it():
    """The device tells which guesses are right; but others are made from the text."""
    engine = make(speculation=knowing(), **ROOM)
    warm = config(9, do_sample=True, top_k=1)
    guessing = engine.add(PROMPTS[0], warm).request
    assert isinstance(guessing.strategy, Speculating)
    assert may_run_ahead(guessing)
    assert guessing.strategy.tokens_ahead(guessing) is None
    beside = engine.add(PROMPTS[0], warm, logprobs=1).request
    assert may_run_ahead(beside) and beside.strategy.tokens_ahead(beside) == 1
    assert not may_run_ahead(engine.add(PROMPTS[0], warm, seed=1).request)


@pytest.mark.parametrize("way", [steps_ahead, replaying])
def test_while_guessing_pauses_steps_run_ahead(way):
    """Then an engine is as fast as without speculation."""
    guesses = knowing(own=config(60), forgets=1.0)
    guesses.least_right = 0.5
    engine = way(make(attention=replayable, speculation=guesses, **ROOM))
    started = []
    engine.scheduler.observers.append(Started(engine.scheduler, started))
    engine.add(PROMPTS[0], config(60))
    (out,) = engine.run()
    check([out], answers(own=config(60))[:1])
    assert started.count(2) > 40 and engine.stats.num_drafts > 3


class Started(mp.Observer):
    """How many steps are in flight when one is planned, it included."""

    def __init__(self, scheduler, counts):
        self.scheduler, self.counts = scheduler, counts

    def planned(self, plan):
        self.counts.append(len(self.scheduler.in_flight))


def test_the_next_step_is_under_way_while_the_engine_tells_what_is_new():
    """Guesses must be read first; then the device computes again at once."""
    engine = steps_ahead(make(speculation=knowing(), **ROOM))
    streams = [engine.add(prompt, GREEDY) for prompt in PROMPTS[:3]]
    while any(stream.request.is_prefilling for stream in streams):
        engine.step()
    for _ in range(2):
        told = [len(stream.tokens) for stream in streams]
        engine.step()
        assert [len(stream.tokens) for stream in streams] > told
        (plan,) = engine.scheduler.in_flight
        assert {work.request for work in plan.works} == {s.request for s in streams}
    engine.abort(streams[0])
    engine.run()
    check([stream.output for stream in streams[1:]], answers()[1:3])
    check_idle(engine)


# --- the fork: whose blocks are whose -------------------------------------------------


class Branches(Speculation):
    """Two branches: the first is wrong, the second right, or wrong, too."""

    least_right = 0.0

    def __init__(self, text, is_right):
        super().__init__(3, 2)
        self.text, self.is_right = text, is_right

    def guess(self, tokens, count):
        right = self.text[len(tokens) : len(tokens) + count]
        return [[3] * count, right if self.is_right else [4] * count]


@pytest.mark.parametrize("is_right", [True, False])
def test_a_draft_is_a_fork(is_right):
    """The four steps, by reference counts, beside a user of the same prefix."""
    paged = mp.PagedModel(tiny_model("qwen3"), 64, 4)
    pool, prompt = paged.pool, list(range(20, 30))
    (out,) = huggingface_outputs(tiny_model("qwen3"), [prompt], GREEDY)
    (right,) = out.sequences
    prefix = mp.PrefixCache(pool)
    mp.generate(paged, [prompt], config(1), prefix_cache=prefix)
    user = mp.BlockTable(pool, prefix.match(prompt), 8)
    engine = mp.Engine(paged, prefix, speculation=Branches(prompt + right, is_right))
    request = engine.add(prompt, GREEDY).request
    (answer,) = request.answers
    planned = []

    class Look(mp.Observer):
        def planned(self, plan):
            tables = [work.sequence.table.block_ids.copy() for work in plan.works]
            planned.append((tables, plan.copies, pool.holders()))

    engine.step()  # the prompt, from its third block on; then the first guesses
    (draft,) = request.drafts
    # 1. The draft forks the table.
    assert draft.table.block_ids == answer.table.block_ids
    assert [*map(pool.refcount, answer.table.block_ids)] == [3, 3, 2]
    paged.observers.append(Look())
    engine.step()
    # 2. Blocks of the prefix are shared; what is written is copied before.
    ((of_answer, of_draft), ((shared, copy),), holders) = planned[0]
    assert of_answer[:2] == of_draft[:2] == user.block_ids
    assert {of_answer[2], of_draft[2]} == {shared, copy} and shared != copy
    assert len(of_answer) == len(of_draft) == 4  # 10 tokens, and 1 + 3 new ones
    assert not {*of_answer[2:]} & {*of_draft[2:]}
    assert {holders[block] for block in (*of_answer[2:], *of_draft[2:])} == {1}
    # 3. and 4. What is right is the answer's, and what is wrong is free.
    assert draft.finish_reason == "dropped" and draft.table is None
    kept, dropped = (of_draft, of_answer) if is_right else (of_answer, of_draft)
    num_computed = 14 if is_right else 11
    assert answer.num_computed == num_computed
    assert answer.table.block_ids == kept[: -(-num_computed // 4)]
    free = {*dropped[2:], *kept[-(-num_computed // 4) :]}
    assert not any(map(pool.refcount, free))
    assert [*map(pool.refcount, user.block_ids)] == [3, 3]
    assert engine.run()[0].sequences == [right]
    assert [*map(pool.refcount, user.block_ids)] == [1, 1]
    user.free()
    assert pool.num_free == 64


def test_guesses_are_published_only_once_accepted():
    """Whatever is found in the cache was said: by a prompt, or by an answer."""
    paged = mp.PagedModel(tiny_model("qwen3"), 128, 2)
    prefix = mp.PrefixCache(paged.pool)
    found = []

    class Look(mp.Observer):
        def committed(self, plan):
            found.extend(c for b in range(128) if (c := prefix.content(b)))

    paged.observers.append(Look())
    guesses = knowing(forgets=0.6, tree=2)
    mp.generate(paged, PROMPTS, GREEDY, prefix_cache=prefix, speculation=guesses)
    said = set()
    for prompt, out in zip(PROMPTS, answers(), strict=True):
        text = prompt + out.sequences[0]
        said |= {tuple(text[at : at + 2]) for at in range(0, len(text), 2)}
    assert {content.tokens for content in found} <= said and len(found) > 99


# --- whether it pays ------------------------------------------------------------------


def test_guessing_pauses_where_it_does_not_pay_and_comes_back():
    worth = Worth(0.2)
    steps = []
    for step in range(300):
        if worth.allows():
            steps.append(step)
            worth.note(5, 0 if step < 200 else 5)
    early = [step for step in steps if step < 200]
    assert len(early) < 12 and max(steps) == 299
    late = [step for step in steps if step > 264]
    assert late == [*range(265, 300)]


def test_the_average_decides_and_not_the_latest_step():
    worth = Worth(0.2)
    for step in range(100):
        assert worth.allows(), step
        worth.note(4, 2 if step % 2 else 0)  # a quarter is right


def test_a_text_that_never_repeats_has_few_guesses():
    engine = make(speculation=knowing(own=config(60), forgets=1.0), **ROOM)
    engine._configs._speculation.least_right = 0.1
    engine.add(PROMPTS[0], config(60))
    engine.run()
    assert 0 < engine.stats.num_drafts < 12 and not engine.stats.num_accepted_tokens
    assert engine.stats.mean_acceptance_length == 1


def test_statistics_have_the_names_of_the_field(tree):
    engine = make(speculation=knowing(tree=tree), cache=True, **ROOM)
    for prompt in PROMPTS:
        engine.add(prompt, GREEDY)
    outputs = engine.run()
    stats = engine.stats
    accepted = stats.num_accepted_tokens_per_pos
    assert sum(accepted) == stats.num_accepted_tokens > 20
    assert list(accepted) == sorted(accepted, reverse=True) and len(accepted) == 3
    assert accepted[0] <= stats.num_drafts < stats.num_draft_tokens
    new = sum(len(output.sequences[0]) for output in outputs)
    assert stats.generation_tokens == new
    assert 1 < stats.mean_acceptance_length < 4


# --- what a request decides for itself ------------------------------------------------


def test_a_request_may_ask_for_fewer_guesses_or_none():
    """Beside others that guess; beams, too, if they go without."""
    engine = make(speculation=knowing(forgets=0), max_tokens=192)
    engine.paged.observers.append(watch := Verified())
    wanted = [None, 0, 1, 2, 9]
    streams = [
        engine.add(prompt, GREEDY, num_guesses=number)
        for prompt, number in zip(PROMPTS, wanted, strict=False)
    ]
    beams = config(7, num_beams=3)
    streams.append(engine.add(PROMPTS[5], beams, num_guesses=0))
    engine.run()
    right = [
        *answers()[:5],
        *huggingface_outputs(tiny_model("qwen3"), [PROMPTS[5]], beams),
    ]
    check([stream.output for stream in streams], right)
    most = [watch.most.get(stream.request.answers[0], 0) for stream in streams]
    assert most == [3, 0, 1, 2, 3, 0]
    check_idle(engine)


def test_without_speculation_an_engine_guesses_nothing_for_anybody():
    engine = make()
    stream = engine.add(PROMPTS[0], GREEDY, num_guesses=3)
    engine.run()
    check([stream.output], answers()[:1])
    assert not engine.stats.num_drafts


def test_a_wrong_number_of_guesses_is_refused():
    engine = make(speculation=knowing(), **ROOM)
    for wrong in (-1, 1.5, "3"):
        with pytest.raises(ValueError, match="num_guesses must be a whole number"):
            engine.add(PROMPTS[0], GREEDY, num_guesses=wrong)
    check_idle(engine)


# --- what is refused, in words --------------------------------------------------------


def test_beams_are_refused():
    paged = mp.PagedModel(tiny_model("qwen3"), 64, 4)
    with pytest.raises(mp.UnsupportedOption, match="num_beams=3 with speculation"):
        mp.generate(
            paged, PROMPTS, config(4, num_beams=3), speculation=mp.PromptLookup()
        )
    engine = mp.Engine(paged, speculation=mp.PromptLookup())
    with pytest.raises(mp.UnsupportedOption, match="leave speculation unset"):
        engine.add(PROMPTS[0], config(4, num_beams=3))


def test_a_step_must_hold_all_guesses():
    message = "max_sequences is 16, each with 17 tokens .* raise max_tokens to 272"
    with pytest.raises(ValueError, match=message):
        make(speculation=mp.PromptLookup(), max_tokens=32)
    paged = mp.PagedModel(tiny_model("qwen3"), 64, 4)
    scheduler = mp.Engine(paged, speculation=mp.PromptLookup(tree=2)).scheduler
    assert (scheduler.max_tokens, scheduler.max_sequences) == (8704, 256)


def test_a_request_whose_forks_can_never_fit_is_told():
    """Alone it would need 4 blocks; each fork may take 2 more."""
    engine = make(7, speculation=knowing(tree=3), **ROOM)
    one = engine.add(PROMPTS[0], config(12))
    assert one.result().finish_reason == "error"
    assert "may need 8 blocks, but 7 are free of 7" in one.output.error
    engine = make(8, speculation=knowing(tree=3), **ROOM)
    check([engine.add(PROMPTS[0], config(12)).result()], answers(own=config(12))[:1])
    check_idle(engine)


def test_what_is_no_speculation_is_refused():
    paged = mp.PagedModel(tiny_model("qwen3"), 64, 4)
    for wrong in (10, "lookup", mp.PromptLookup):
        said = re.escape("mp.PromptLookup or an mp.Dr")
        with pytest.raises(TypeError, match=said):
            mp.generate(paged, PROMPTS, speculation=wrong)
        with pytest.raises(TypeError, match=said):
            mp.Engine(paged, speculation=wrong)
    for name in ("num_tokens", "max_ngram", "tree"):
        with pytest.raises(ValueError, match=name):
            mp.PromptLookup(**{name: 0})


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


def publishes_guesses(sharing, work):
    """Wrong: others find blocks of guesses that are dropped."""
    sequence = work.sequence
    noted, sequence.guesses_from = sequence.guesses_from, None
    try:
        return PUBLISH(sharing, work)
    finally:
        sequence.guesses_from = noted


def trusts_the_first_guess(branches, token_at):
    """Wrong: the first guess is not checked."""
    (first, *_), known = branches, branches[0].num_known

    def trusting(branch, place):
        guessed = first.tokens[known : known + 1]
        return guessed[0] if not place and guessed else token_at(branch, place)

    return FOLLOW(branches, trusting)


ACCEPT, PUBLISH = Sequence.accept, PrefixSharing._publish
FOLLOW = speculative.follow
WRONG = {
    "keeps the room": (Sequence, "accept", keeps_the_room),
    "tells guesses": (Sequence, "num_known", property(tells_guesses)),
    "keeps a wrong one": (Sequence, "accept", keeps_a_wrong_one),
    "trusts the first": (speculative, "follow", trusts_the_first_guess),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_versions_are_noticed(monkeypatch, name):
    monkeypatch.setattr(*WRONG[name])
    with pytest.raises((AssertionError, IndexError, ValueError)):
        test_generate(GREEDY, {}, True, 1)


def test_published_guesses_are_noticed(monkeypatch):
    monkeypatch.setattr(PrefixSharing, "_publish", publishes_guesses)
    with pytest.raises(AssertionError):
        test_guesses_are_published_only_once_accepted()


def test_guesses_beyond_the_end_are_noticed(monkeypatch):
    """Wrong: drafts are not clipped to what is left of max_new_tokens."""

    def unclipped(strategy, request, answer):
        branches = strategy.speculation.guess(answer.tokens, strategy.num_guesses)
        if branches:
            speculative.let_guess(request, answer, branches)

    monkeypatch.setattr(Speculating, "_guess", unclipped)
    model = tiny_model("qwen3")
    paged = mp.PagedModel(model, 5, 4)  # exactly what the longest text needs
    (out,) = huggingface_outputs(model, [PROMPTS[0]], config(40))
    guesses = Knowing([PROMPTS[0] + out.sequences[0]], 7, forgets=0)
    with pytest.raises((AssertionError, mp.OutOfBlocks)):
        told = mp.generate(paged, [PROMPTS[0]], config(16), speculation=guesses)
        assert told[0].sequences == [out.sequences[0][:16]]
