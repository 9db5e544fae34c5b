"""Bad input: a clear error each time, and the pool as it was before."""

import copy
import pickle
import re

import numpy as np
import pytest
import torch
from transformers import BatchEncoding, GenerationConfig

import minipaged as mp
from helpers.answers import huggingface_generate
from helpers.tiny_models import tiny_model
from minipaged.decoding.options import resolve_options
from minipaged.engine.arguments import make_request
from minipaged.engine.generate import generate
from minipaged.engine.loop import step
from minipaged.errors import OutOfBlocks, UnsupportedOption
from minipaged.memory.block_table import BlockTable
from minipaged.model.paged_model import PagedModel
from minipaged.scheduling.scheduler import Scheduler

GREEDY = GenerationConfig(max_new_tokens=8, eos_token_id=127)


@pytest.fixture
def paged():
    model = PagedModel(tiny_model("qwen3"), num_blocks=16, block_size=4)
    yield model
    assert model.pool.num_free == 16
    assert all(model.pool.refcount(block) == 0 for block in range(16))


def config(**options):
    return GenerationConfig(**{"max_new_tokens": 8, "eos_token_id": 127, **options})


BAD_PROMPTS = {
    "a string": ("hello", TypeError, "tokenizer"),
    "a list of strings": (["hello"], TypeError, "prompt 0 must be a list of token ids"),
    "one flat list": ([5, 6, 7], TypeError, "a list of lists even for one text"),
    "a tensor": (torch.tensor([[5, 6]]), TypeError, r"or \.tolist\(\) of"),
    "an array": (
        np.array([[5, 6]]),
        TypeError,
        r"or \.tolist\(\) of numpy's and torch",
    ),
    "numbers of numpy": ([[np.int64(5)]], TypeError, r"or \.tolist\(\) of numpy's and"),
    "a row of numpy": ([np.array([5])], TypeError, r"or \.tolist\(\) of numpy's and"),
    "a tuple": ([(5, 6)], TypeError, r"input_ids, a list of lists .* or \.tolist\(\)"),
    "all that a tokenizer gives": (
        BatchEncoding({"input_ids": [[5]]}),
        TypeError,
        r"got BatchEncoding; pass tokenizer\(texts\)\.input_ids",
    ),
    "a dictionary": ({"input_ids": [[5]]}, TypeError, "got dict"),
    "none": (None, TypeError, "got NoneType"),
    "a float": ([[5, 6.0]], TypeError, "prompt 0 must be a list of token ids"),
    "a bool": ([[5], [True]], TypeError, "prompt 1 must be a list of token ids"),
    "an empty prompt": ([[5], []], ValueError, "prompt 1 is empty"),
    "a negative id": ([[5, -1]], ValueError, "outside 0 to 127"),
    "an id too large": ([[128]], ValueError, "is the tokenizer that of this model"),
}


@pytest.mark.parametrize("name", BAD_PROMPTS)
def test_bad_prompts(paged, name):
    prompts, error, message = BAD_PROMPTS[name]
    with pytest.raises(error, match=message):
        generate(paged, prompts, GREEDY)


BAD_ARGUMENTS = {
    "a dictionary as config": (
        {"generation_config": {}},
        TypeError,
        "GenerationConfig",
    ),
    "too few configs": (
        {"generation_config": [GREEDY]},
        ValueError,
        "2 prompts, but 1",
    ),
    "too many seeds": (
        {"seed": [1, 2, 3]},
        ValueError,
        "2 prompts, but 3 values of seed",
    ),
    "a string as seed": ({"seed": "7"}, TypeError, "seed must be an int"),
    "a seed too large": (
        {"seed": 2**64},
        ValueError,
        r"-2\*\*63 to 2\*\*64 - 1, got 1",
    ),
    "a seed too small": ({"seed": [1, -(2**63) - 1]}, ValueError, "seed must lie from"),
    "half a chunk": (
        {"max_prompt_tokens": 1.5},
        ValueError,
        "max_prompt_tokens must be a whole number from 1, got 1.5",
    ),
    "a float seed": ({"seed": 0.5}, TypeError, "seed must be an int"),
    "a bool as seed": ({"seed": True}, TypeError, "seed must be an int"),
    "a list with none": ({"seed": [1, None]}, TypeError, "seed must be"),
    "chunks of nothing": ({"max_prompt_tokens": 0}, ValueError, "from 1, got 0"),
    "yes to a prefix cache": (
        {"prefix_cache": True},
        TypeError,
        r"must be a PrefixCache, got True; .* mp.PrefixCache\(paged.pool\)",
    ),
    "a pool as prefix cache": (
        {"prefix_cache": mp.BlockPool(16, 4)},
        TypeError,
        r"must be a PrefixCache, got BlockPool\(",
    ),
    "the class": (
        {"prefix_cache": mp.PrefixCache},
        TypeError,
        "PrefixCache, got <class",
    ),
    "no salt": ({"cache_salt": None}, TypeError, 'bytes, such as b"a user".* got None'),
    "salts with none": ({"cache_salt": [b"a", None]}, TypeError, "cache_salt must be"),
}


@pytest.mark.parametrize("name", BAD_ARGUMENTS)
def test_bad_arguments(paged, name):
    arguments, error, message = BAD_ARGUMENTS[name]
    with pytest.raises(error, match=message):
        generate(paged, [[5], [6, 7]], **{"generation_config": GREEDY, **arguments})


@pytest.mark.parametrize("salt", [None, "me", [b"one", None]])
def test_who_has_no_salt_shares_with_nobody_by_mistake(paged, salt):
    prefix = mp.PrefixCache(paged.pool)
    with pytest.raises(TypeError, match="cache_salt must be bytes"):
        generate(paged, [[5], [6]], GREEDY, prefix_cache=prefix, cache_salt=salt)
    assert (len(prefix), prefix.tokens_asked) == (0, 0)


@pytest.mark.parametrize("seed", [-1, -(2**63), 2**63, 2**64 - 1])
def test_every_seed_that_torch_takes_is_taken(paged, seed):
    sampled = config(do_sample=True, temperature=3.0)
    (theirs,) = huggingface_generate(paged.model, [[5, 6]], sampled, seed=seed)
    assert generate(paged, [[5, 6]], sampled, seed=seed)[0].sequences == theirs


COUNTS = ("max_new_tokens", "max_length", "num_beams", "num_return_sequences")


@pytest.mark.parametrize("value", [-1, 0, 1.5, True])
@pytest.mark.parametrize("name", COUNTS)
def test_counts_must_be_whole_numbers_from_1(paged, name, value):
    """A search with -1 beams went on for ever; half a token ended without blocks."""
    wrong = config(do_sample=name == "num_return_sequences")
    if name == "max_length":
        wrong.max_new_tokens = None
    setattr(wrong, name, value)  # a constructor of HuggingFace refuses some of them
    with pytest.raises(ValueError, match=rf"`?{name}`? must be (a whole|greater than)"):
        generate(paged, [[5, 6]], wrong)


@pytest.mark.parametrize("value", ["</s>", [1, "</s>"]])
def test_the_text_of_a_token_is_no_id(paged, value):
    with pytest.raises(TypeError, match=r"got .*</s>.*; pass tokenizer.eos_token_id"):
        generate(paged, [[5, 6]], config(eos_token_id=value))


REFUSED_OPTIONS = {
    "time": {"max_time": 1.0},
    "guidance": {"guidance_scale": 2.0},
    "contrastive": {"penalty_alpha": 0.6, "top_k": 4},
    "lookup": {"prompt_lookup_num_tokens": 3},
    "dola": {"dola_layers": "low"},
    "healing": {"token_healing": True},
    "constraints": {"force_words_ids": [[5]]},
    "an unknown one": {"no_such_option": 3},
    "a cache of its own": {"cache_implementation": "quantized"},
}


@pytest.mark.parametrize("name", REFUSED_OPTIONS)
def test_options_without_effect_here_are_refused(paged, name):
    with pytest.raises(UnsupportedOption):
        generate(paged, [[5, 6]], config(**REFUSED_OPTIONS[name]))


def test_options_that_are_switched_off_are_no_obstacle(paged):
    off = config(
        guidance_scale=1.0, penalty_alpha=0.0, num_beams=1, token_healing=False
    )
    assert generate(paged, [[5]], off)[0].finish_reason == "length"


@pytest.fixture
def own(paged):
    """The model's own generation config, to be set and set back."""
    config = paged.model.generation_config
    before = dict(vars(config))
    yield config
    vars(config).clear()
    vars(config).update(before)


OF_THE_MODEL = {
    "time": {"max_time": 1.0},
    "guidance": {"guidance_scale": 2.0},
    "healing": {"token_healing": True},
    "a cache": {"cache_implementation": "static"},
}


@pytest.mark.parametrize("name", OF_THE_MODEL)
def test_what_the_models_own_config_says_is_not_blamed_on_the_user(paged, own, name):
    ((field, value),) = OF_THE_MODEL[name].items()
    setattr(own, field, value)
    with pytest.raises(UnsupportedOption) as caught:
        generate(paged, [[5, 6]], config())
    said, remedy = str(caught.value).split("; unset it: ")
    assert f"the model's own generation config says {field}=" in said
    assert remedy == f"model.generation_config.{field} = None"
    setattr(own, field, None)  # as advised
    assert generate(paged, [[5, 6]], config())[0].sequences


def test_the_users_fields_and_those_of_the_model_are_told_apart(paged, own):
    own.max_time = 3.0
    with pytest.raises(UnsupportedOption) as caught:
        generate(paged, [[5, 6]], config(dola_layers="low"))
    theirs, yours = str(caught.value).split("None; ")
    assert "max_time" in theirs and "dola_layers" not in theirs
    assert yours.endswith("dola_layers='low'; leave them unset")


@pytest.mark.parametrize(
    ("of_the_model", "of_the_user", "said"),
    [
        ({"do_sample": True}, {"num_beams": 2}, "do_sample=True"),
        ({"num_beams": 2}, {"do_sample": True}, "num_beams=2"),
        ({"num_beams": 2, "do_sample": True}, {}, "num_beams=2 and do_sample=True"),
    ],
    ids=["sampling", "beams", "both"],
)
def test_beams_that_would_sample_name_who_says_what(
    paged, own, of_the_model, of_the_user, said
):
    for field, value in of_the_model.items():
        setattr(own, field, value)
    with pytest.raises(UnsupportedOption) as caught:
        generate(paged, [[5, 6]], config(**of_the_user))
    assert f"the model's own generation config says {said}; say " in str(caught.value)
    assert "GenerationConfig(num_beams=2, do_sample=False)" in str(caught.value)
    for as_advised in (
        {"num_beams": 2, "do_sample": False},
        {"num_beams": 1, "do_sample": True},
    ):
        (out,) = generate(paged, [[5, 6]], config(**as_advised), seed=1)
        assert (out.scores is not None) == (as_advised["num_beams"] == 2)


def test_beams_that_the_user_lets_sample_are_refused(paged):
    with pytest.raises(UnsupportedOption, match="leave one of them unset"):
        generate(paged, [[5, 6]], config(num_beams=2, do_sample=True))


def test_remarks_in_the_models_own_config_are_no_obstacle(paged):
    own = paged.model.generation_config
    try:
        own.chat_format = "chatml"
        assert generate(paged, [[5]], GREEDY)[0].finish_reason == "length"
    finally:
        del own.chat_format


def test_what_huggingface_rejects_is_rejected(paged):
    same_text_twice = config()
    same_text_twice.num_return_sequences = 2  # its constructor would refuse it already
    with pytest.raises(ValueError, match="do not support `num_return_sequences`"):
        generate(paged, [[5]], same_text_twice)


def test_a_prompt_without_room_below_max_length_gets_an_error_of_its_own(paged):
    limited = config(max_new_tokens=None, max_length=9)
    out = generate(paged, [[5] * 9, [5] * 8, [5] * 20], limited)
    assert [o.finish_reason for o in out] == ["error", "length", "error"]
    assert "max_length is 9; set max_new_tokens instead" in out[0].error
    assert len(out[1].sequences[0]) == 1


@pytest.mark.parametrize("options", [{"max_new_tokens": 100}, {"max_new_tokens": None}])
def test_generation_ends_at_the_models_last_position(options):
    paged = PagedModel(tiny_model("gpt2"), num_blocks=80, block_size=4)
    prompts = [[5] * 250, [5] * 257, [5] * 300]
    out = generate(paged, prompts, config(**options))
    assert [o.finish_reason for o in out] == ["length", "error", "error"]
    assert "the model's number of positions is 256; shorten the prompt" in out[1].error
    # Unset, HuggingFace stops a token earlier than it could.
    room = 6 if options["max_new_tokens"] is None else 7
    assert len(out[0].sequences[0]) == room
    theirs = huggingface_generate(paged.model, prompts[:1], config(max_new_tokens=room))
    assert out[0].sequences == theirs[0]


def test_a_prompt_that_fills_every_position_yields_one_token():
    paged = PagedModel(tiny_model("gpt2"), num_blocks=64, block_size=4)
    (out,) = generate(paged, [[5] * 256], config(max_new_tokens=3))
    one = config(max_new_tokens=1)
    assert [out.sequences] == huggingface_generate(paged.model, [[5] * 256], one)
    (out,) = generate(paged, [[5] * 256], config(max_new_tokens=None))
    assert out.finish_reason == "error"


def test_a_model_instead_of_a_paged_model():
    with pytest.raises(TypeError, match=r"wrap the model first: paged = mp.PagedModel"):
        generate(tiny_model("llama"), [[5]], GREEDY)


@pytest.mark.parametrize("value", [0, -3, 2.5, "8", None, True])
@pytest.mark.parametrize("name", ["num_blocks", "block_size"])
def test_the_size_of_a_pool_is_named_as_the_user_gave_it(name, value):
    with pytest.raises(ValueError) as caught:
        PagedModel(tiny_model("llama"), **{name: value})
    expected = f"{name} must be a whole number from 1, got {value!r}"
    assert str(caught.value) == expected


def test_a_pool_without_room_says_what_it_would_take():
    with pytest.raises(MemoryError, match=r"take 6,144,000.0 GB, .* lower num_blocks"):
        PagedModel(tiny_model("qwen3"), num_blocks=10**12, block_size=4)


def test_a_wrong_attention_is_named_as_the_cause_and_a_soft_cap_is_not():
    """The hint at a soft cap is for models that have it."""

    def one_half(q, cache, batch, masking):
        return 0.5 * mp.gathered_attention(q, cache, batch, masking)

    with pytest.raises(mp.UnsupportedModel) as caught:
        PagedModel(tiny_model("llama"), attention=one_half)
    assert "Either the attention that you gave is wrong, or the" in str(caught.value)
    assert "soft cap" not in str(caught.value)


def test_prompts_that_can_never_fit_get_an_error_and_the_others_go_on(paged):
    prompts = [[5, 6, 7], [5] * 60, [8, 9], [5] * 257, [10]]
    out = generate(paged, prompts, GREEDY)
    assert [o.finish_reason for o in out] == [
        "length", "error", "length", "error", "length",
    ]  # fmt: skip
    assert "60 prompt tokens and 8 new ones" in out[1].error
    assert "need 17 blocks, but 16 are free of 16; raise num_blocks" in out[1].error
    assert "the model's number of positions is 256" in out[3].error
    assert out[1].sequences == out[3].sequences == []
    fitting = [prompts[i] for i in (0, 2, 4)]
    theirs = huggingface_generate(paged.model, fitting, GREEDY)
    assert [out[i].sequences for i in (0, 2, 4)] == theirs


LESS = "lower the number of beams or samples"
# Tokens of the prompt, new ones, samples; and what is advised for 16 blocks of 4.
TOO_LARGE = {
    "too many new tokens": (20, 60, 1, "lower max_new_tokens"),
    "too long a prompt": (70, 1, 1, "shorten the prompt"),
    "too long a prompt, and many": (70, 8, 4, "shorten the prompt"),
    "too many samples": (9, 1, 20, LESS),
    "samples or new tokens": (9, 30, 3, "lower max_new_tokens or the number of beams"),
    "samples and new tokens": (9, 80, 20, "lower max_new_tokens and the number of be"),
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_what_is_said_of_too_large_a_request_helps(paged, name):
    length, num_new, count, advice = TOO_LARGE[name]

    def answer(length=length, num_new=num_new, count=count, paged=paged):
        own = config(max_new_tokens=num_new, do_sample=True, num_return_sequences=count)
        (out,) = generate(paged, [[5] * length], own)
        return out

    error = answer().error
    assert re.search(rf"16 are free of 16; raise num_blocks, or {advice}", error)
    worst = int(re.search(r"may need (\d+) blocks", error)[1])
    for enough, error in ((worst, None), (worst - 1, str)):
        larger = PagedModel(tiny_model("llama"), num_blocks=enough, block_size=4)
        assert isinstance(answer(paged=larger).error, error or type(None))
    if "shorten" in advice:
        assert answer(length=20, num_new=1, count=1).error is None
        assert answer(num_new=1, count=1).error
    elif " or the number" in advice:
        assert answer(num_new=1).error is answer(count=1).error is None
    elif " and the number" in advice:
        assert answer(num_new=1, count=1).error is None
        assert answer(num_new=1).error and answer(count=1).error
    elif advice == LESS:
        assert answer(count=1).error is None
    else:
        assert answer(num_new=1).error is None


@pytest.mark.parametrize("kind", [{"num_beams": 10**12}, {"do_sample": True}])
def test_a_group_beyond_all_measure_takes_nothing(paged, kind):
    """A billion beams are gigabytes of scores, before anybody asks for blocks."""
    many = kind if "num_beams" in kind else kind | {"num_return_sequences": 10**12}
    out, other = generate(paged, [[5], [6]], [config(**many), GREEDY])
    assert f"{10**12} sequences of 1 prompt tokens" in out.error
    assert other.finish_reason == "length"
    engine = mp.Engine(paged)
    with pytest.raises(ValueError, match="compute together, but max_tokens is 2048"):
        engine.add([5], config(**many))


def test_blocks_that_others_hold_are_named(paged):
    table = mp.BlockTable(paged.pool)
    table.append(40)
    (out,) = generate(paged, [[5] * 30], config())
    assert "6 are free of 16; free the blocks of others, raise num_blocks" in out.error
    table.free()
    (out,) = generate(paged, [[5] * 30], config())
    assert out.error is None


@pytest.mark.parametrize("part", ["paged", "engine", "stream"])
def test_what_cannot_be_pickled_says_so(paged, part):
    engine = mp.Engine(paged)
    parts = {"paged": paged, "engine": engine, "stream": engine.add([5, 6], GREEDY)}
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(
            TypeError, match="cannot be pickled or copied: it holds a p"
        ):
            attempt(parts[part])
    engine.close()


def test_weights_that_are_no_numbers_are_named_and_not_attention():
    model = copy.deepcopy(tiny_model("llama"))
    with torch.no_grad():
        model.model.layers[1].mlp.up_proj.weight[3, 5] = torch.nan
    with pytest.raises(
        mp.UnsupportedModel,
        match=r"hold NaN or infinity: model\.layers\.1\.mlp",
    ) as e:
        PagedModel(model)
    assert "attention" not in str(e.value)


def test_exactly_fitting_is_not_refused(paged):
    # 57 + 8 tokens, of which the last is never stored: 64 slots in 16 blocks of 4.
    (out,) = generate(paged, [[5] * 57], GREEDY)
    assert out.finish_reason == "length"


def test_an_exception_in_the_middle_of_generation_returns_every_block(paged):
    forward, calls = paged.forward, []

    def fails_late(batch):
        calls.append(batch)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return forward(batch)

    paged.forward = fails_late
    samples = config(do_sample=True, num_return_sequences=3)
    with pytest.raises(KeyboardInterrupt):
        generate(paged, [[5] * 6, [7] * 9], samples)
    assert paged.pool.num_free == 16
    paged.forward = forward
    assert generate(paged, [[5] * 6], GREEDY)[0].finish_reason == "length"


def test_a_step_without_room_changes_nothing(paged):
    prompt = [5] * 57
    options = resolve_options(paged.model, GREEDY, prompt)
    request, scheduler = make_request(prompt, options), Scheduler(paged.pool)
    scheduler.add(request)
    other = BlockTable(paged.pool)
    other.append(1)
    for _ in range(2):
        with pytest.raises(OutOfBlocks, match="wanted 16 blocks, 15 free of 16"):
            step(paged, scheduler)
        assert paged.pool.num_free == 15
        assert list(scheduler.waiting) == [request] and not scheduler.running
    other.free()
    step(paged, scheduler)
    assert len(request.sequences[0].new_tokens) == 1
    scheduler.abort(request)
    assert paged.pool.num_free == 16 and not scheduler.running


def test_blocks_held_by_others_are_respected(paged):
    held = BlockTable(paged.pool)
    held.append(40)
    out = generate(paged, [[5] * 20, [6, 7]], GREEDY)
    assert [o.finish_reason for o in out] == ["error", "length"]
    assert held.num_tokens == 40
    held.free()


@pytest.mark.parametrize("padded", [[0, 0, 5, 6], [5, 6, 0, 0]])
def test_a_padded_prompt_is_refused(padded):
    """Without a mask HuggingFace hides the pads of a prompt, and we would read them."""
    model, own = tiny_model("qwen3"), GenerationConfig(max_new_tokens=4, pad_token_id=0)
    paged = mp.PagedModel(model, 32, 4)
    with pytest.raises(ValueError, match="need no padding here"):
        mp.generate(paged, [[7, 8], padded], own)
    bare = [token for token in padded if token]
    theirs = model.generate(torch.tensor([padded]), generation_config=own)[0]
    (out,) = mp.generate(paged, [bare], own)
    if padded[-1]:  # at the end, even HuggingFace's text is another one
        assert theirs[len(padded) :].tolist() == out.sequences[0]


@pytest.mark.parametrize("options", [{"eos_token_id": [0, 1]}, {"bos_token_id": 0}, {}])
def test_a_pad_that_may_mean_something_is_text(options):
    """It is the end or the start of a text, too; or it lies inside of one."""
    model = tiny_model("qwen3")
    prompt = [0, 5, 6] if options else [5, 0, 6]
    own = GenerationConfig(max_new_tokens=4, pad_token_id=0, **options)
    (out,) = mp.generate(mp.PagedModel(model, 32, 4), [prompt], own)
    ids = torch.tensor([prompt])
    right = model.generate(ids, attention_mask=ids * 0 + 1, generation_config=own)
    assert out.sequences[0] == right[0, len(prompt) :].tolist()
