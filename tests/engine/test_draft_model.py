"""A second model guesses over the same blocks, in a cache of its own."""

import pytest
import torch

import minipaged as mp
from helpers.answers import huggingface_outputs
from helpers.guessing import noisy
from helpers.interrupting import Lines, run_interrupted
from helpers.replaying import ReplayingRunner, replayable, replaying, steps_ahead
from helpers.serving import PROMPTS, check, check_idle, config, make
from helpers.thorough import all_or
from helpers.tiny_models import UNLIKE, tiny_model
from minipaged.decoding.draft_model import _Unread
from minipaged.decoding.speculation import Worth

pytestmark = pytest.mark.filterwarnings("ignore:thrashing")
GREEDY = config(17)
PENALTY = config(17, repetition_penalty=1.3)
WARM = config(17, do_sample=True, temperature=0.7)
WAYS = pytest.mark.parametrize("way", [lambda engine: engine, steps_ahead, replaying])
SEEDS = list(range(len(PROMPTS)))


def answers(own=GREEDY, prompts=PROMPTS):
    return huggingface_outputs(tiny_model("qwen3"), prompts, own, seed=SEEDS)


class Counted(mp.PagedModel):
    """Counts the tokens that it computes; its cache holds NaN until it is written."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.num_tokens = 0
        for tensor in (*self.cache.keys, *self.cache.values):
            tensor.fill_(torch.nan)

    def forward(self, batch):
        self.num_tokens += len(batch.tokens)
        logits = super().forward(batch)
        assert not logits.isnan().any()
        return logits


def draft(num_blocks=128, noise=0.02, num_tokens=3, tree=1):
    return mp.DraftModel(Counted(noisy(noise), num_blocks, 4), num_tokens, tree=tree)


@pytest.fixture(params=[1, 3], ids=lambda tree: f"tree={tree}")
def tree(request):
    """How many branches guess."""
    return request.param


@pytest.mark.parametrize("own", [GREEDY, PENALTY, WARM], ids=["greedy", "pen", "warm"])
@pytest.mark.parametrize("cached", [False, True])
def test_generate(own, cached, tree):
    paged = mp.PagedModel(tiny_model("qwen3"), 128, 4)
    prefix = mp.PrefixCache(paged.pool) if cached else None
    right = []

    class Watch(mp.Observer):
        def verified(self, sequence, num_guesses, num_accepted):
            right.append(num_accepted)

    paged.observers.append(Watch())
    options = {"seed": SEEDS, "prefix_cache": prefix, "max_prompt_tokens": 5}
    guesses = draft(tree=tree)
    for speculation in (None, guesses, guesses):
        outputs = mp.generate(paged, PROMPTS, own, speculation=speculation, **options)
        check(outputs, answers(own))
    assert sum(right) > len(right) / 2 > 40
    assert paged.pool.num_free == 128 == guesses.paged.pool.num_free


def test_a_draft_model_that_says_the_same_is_always_right():
    """The bonus token counts: three guesses, and the token after them."""
    engine = make(speculation=draft(96, noise=0.0), max_tokens=64)
    stream = engine.add(PROMPTS[0], config(13))
    engine.run()
    check([stream.output], answers(config(13))[:1])
    assert engine.stats.mean_acceptance_length == 4
    assert engine.stats.num_accepted_tokens_per_pos == (3, 3, 3)
    assert engine.stats.num_drafts == 3  # 1 + 3 * 4 tokens


@pytest.mark.parametrize("own", [GREEDY, PENALTY, WARM], ids=["greedy", "pen", "warm"])
def test_the_steps_of_both_models_are_replayed(own, monkeypatch):
    monkeypatch.setattr(ReplayingRunner, "_prompt_tokens", (16, 96))
    small = mp.PagedModel(noisy(0.02), 96, 4, replayable)
    guesses = mp.DraftModel(small, 3)
    limits = {"max_sequences": 6, "max_tokens": 96, "speculation": guesses}
    engine = replaying(make(96, attention=replayable, **limits))
    runner = engine._runner
    eager = []
    for one in (runner._runner, runner._own):
        one.forward = eager.append  # never called
    for seed, prompt in enumerate(PROMPTS):
        engine.add(prompt, own, seed=seed)
    check(engine.run(), answers(own))
    assert engine.stats.mean_acceptance_length > 2 and not eager
    assert runner._own.num_replays > 3 * runner._runner.num_replays / 2


def test_guesses_are_read_once_for_all_rounds(monkeypatch):
    """A GPU would have to be waited for, each time."""
    reads = []
    read = _Unread.read

    def noted(unread):
        reads.append(len(unread.rounds))
        read(unread)

    monkeypatch.setattr(_Unread, "read", noted)
    engine = make(speculation=draft(96, noise=0.0), max_tokens=64)
    stream = engine.add(PROMPTS[0], config(13))
    engine.run()
    check([stream.output], answers(config(13))[:1])
    assert [number for number in reads if number] == [3, 3, 3]


def test_drawn_guesses_are_right_where_one_token_is_likely():
    paged = mp.PagedModel(tiny_model("qwen3"), 128, 4)
    likeliest = config(17, do_sample=True, top_k=1)
    check(mp.generate(paged, PROMPTS, likeliest, speculation=draft()), answers())


def test_a_cached_block_is_computed_by_the_draft_only_if_it_is_not_there():
    """Blocks of a run without speculation lack its K and V; later they have them."""
    paged = mp.PagedModel(tiny_model("qwen3"), 128, 4)
    prompt = PROMPTS[7]  # 23 tokens
    prefix = mp.PrefixCache(paged.pool)
    guesses = draft(noise=0.0)
    mp.generate(paged, [prompt], config(5), prefix_cache=prefix)
    computed = []
    for _ in range(2):
        before = guesses.paged.num_tokens
        (out,) = mp.generate(
            paged, [prompt], config(5), prefix_cache=prefix, speculation=guesses
        )
        assert out.num_cached_tokens == 20
        computed.append(guesses.paged.num_tokens - before)
    # The last 3 tokens of the prompt, the first new one, and two guesses.
    assert computed == [20 + 3 + 1 + 2, 3 + 1 + 2]


def test_a_copied_block_is_copied_in_both_caches():
    """With two branches, the fork's block has K and V of the draft at once."""
    tokens = []
    for tree in (1, 2):
        paged = mp.PagedModel(tiny_model("qwen3"), 128, 4)
        guesses = draft(noise=0.0, tree=tree)
        mp.generate(paged, PROMPTS[:1], config(13), speculation=guesses)
        tokens.append(guesses.paged.num_tokens)
    # Of each branch, three guesses at a time; but the prompt of 5 tokens only once.
    assert tokens[1] <= 2 * tokens[0] - 5


@WAYS
@pytest.mark.parametrize("mode", ["recompute", "swap"])
def test_an_engine_that_preempts(way, mode, tree):
    options = {"preemption": mode, "max_tokens": 96, "max_sequences": 8, "cache": True}
    guesses = draft(18, tree=tree)
    engine = way(make(18, attention=replayable, speculation=guesses, **options))
    for seed, prompt in enumerate(PROMPTS):
        engine.add(prompt, GREEDY)
        engine.add(prompt, WARM, seed=seed)
        engine.add(prompt, GREEDY, logprobs=1)  # it does not guess
    outputs = engine.run()
    check(outputs[::3], answers())
    check(outputs[1::3], answers(WARM))
    check(outputs[2::3], answers())
    assert engine.stats.num_preemptions > 2
    assert engine.stats.mean_acceptance_length > 2
    check_idle(engine)


@WAYS
@pytest.mark.parametrize("number", range(3))
def test_interrupted_at_any_line(way, number, tree):
    engine = way(
        make(36, attention=replayable, cache=True, speculation=draft(36, tree=tree),
             max_tokens=192)
    )  # fmt: skip
    streams = [engine.add(p, WARM, seed=s) for s, p in enumerate(PROMPTS)]
    numbers = torch.randint(1, 40_000, (25,), generator=torch.manual_seed(number))
    assert run_interrupted(engine, Lines(numbers.tolist())) > 10
    check([stream.output for stream in streams], answers(WARM))
    check_idle(engine)


def test_a_text_longer_than_the_draft_model_takes_goes_on_without():
    small = tiny_model("qwen3", max_position_embeddings=24)
    paged = mp.PagedModel(tiny_model("qwen3"), 128, 4)
    guesses = mp.DraftModel(Counted(small, 128, 4), 3)
    check(
        mp.generate(paged, PROMPTS, config(30), speculation=guesses),
        answers(config(30)),
    )


@pytest.mark.parametrize("family", all_or(UNLIKE, ["gemma2", "gpt_oss"]))
def test_a_draft_model_of_another_family(family):
    """Its K and V have other shapes; block ids are all that the caches share."""
    paged = mp.PagedModel(tiny_model(family), 128, 4)
    guesses = mp.DraftModel(Counted(tiny_model("llama"), 128, 4), 3, tree=2)
    right = huggingface_outputs(tiny_model(family), PROMPTS, GREEDY)
    check(mp.generate(paged, PROMPTS, GREEDY, speculation=guesses), right)


def test_what_does_not_go_together_is_refused():
    paged = mp.PagedModel(tiny_model("qwen3"), 64, 4)
    with pytest.raises(ValueError, match="the draft model is the large model itself"):
        mp.generate(paged, PROMPTS, speculation=mp.DraftModel(paged))
    for blocks in [(32, 4), (64, 8)]:
        other = mp.DraftModel(mp.PagedModel(tiny_model("qwen3"), *blocks))
        with pytest.raises(ValueError, match="must have 64 blocks of 4 tokens"):
            mp.generate(paged, PROMPTS, speculation=other)
    more = mp.PagedModel(tiny_model("qwen3", vocab_size=200), 64, 4)
    with pytest.raises(ValueError, match="knows 200 tokens, and the large model 128"):
        mp.Engine(paged, speculation=mp.DraftModel(more))
    with pytest.raises(TypeError, match=r"wrap the model: mp\.PagedModel"):
        mp.DraftModel(tiny_model("qwen3"))


def test_swapped_blocks_bring_what_the_draft_has_written():
    """So the draft computes no token twice, though blocks come and go."""
    tokens = {}
    for num_blocks, preemptions in ((18, True), (96, False)):
        guesses = draft(num_blocks, noise=0.0)
        engine = make(num_blocks, speculation=guesses, preemption="swap", max_tokens=64)
        for prompt in PROMPTS[:4]:
            engine.add(prompt, GREEDY)
        engine.run()
        assert (engine.stats.num_swapped_out > 0) == preemptions
        assert engine.stats.num_preemptions == engine.stats.num_swapped_out
        tokens[num_blocks] = guesses.paged.num_tokens
    assert tokens[18] == tokens[96]


def test_after_a_pause_the_draft_model_catches_up(monkeypatch):
    """It computes nothing while nobody guesses; what it lacks, it computes then."""
    steps = iter(range(1000))
    monkeypatch.setattr(Worth, "allows", lambda worth: next(steps) % 4 == 0)
    guesses = draft(96, noise=0.0)
    engine = make(speculation=guesses, max_tokens=64)
    stream = engine.add(PROMPTS[0], config(40))
    engine.run()
    check([stream.output], answers(config(40))[:1])
    assert engine.stats.mean_acceptance_length == 4
    assert engine.stats.num_drafts < 8
    # All tokens once, but not the last, and those that it guessed last.
    assert guesses.paged.num_tokens <= len(PROMPTS[0]) + 40
