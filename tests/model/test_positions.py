"""The number of positions: no text is cut off before it, and none goes on after it."""

import copy

import pytest
import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    GenerationConfig,
    PreTrainedConfig,
)

import minipaged as mp
from minipaged.model.positions import num_positions

YARN = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e4}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "rope_theta": 1e4,
}
PLAIN = {"rope_type": "default", "rope_theta": 1e4}
WINDOWS = {
    "head_dim": 16,
    "sliding_window": 16,
    "layer_types": ["sliding_attention", "full_attention"],
}
# Architecture, rotary scaling, what else the config says, and how many positions.
CASES = {
    "plain": ("llama", PLAIN, {}, 32),
    "YaRN as Qwen2.5's card says": (
        "qwen2",
        YARN | {"original_max_position_embeddings": 32},
        {},
        128,
    ),
    "YaRN whose limit is scaled already": (
        "qwen2",
        YARN | {"original_max_position_embeddings": 8},
        {},
        32,
    ),
    "YaRN, and no more is said": ("qwen2", YARN, {}, 128),
    "YaRN in the old style": (
        "qwen2",
        None,
        {"rope_scaling": {"type": "yarn", "factor": 4.0}},
        128,
    ),
    "linear, as vicuna's": (
        "llama",
        PLAIN | {"rope_type": "linear", "factor": 4},
        {},
        128,
    ),
    "by a fraction": ("llama", PLAIN | {"rope_type": "linear", "factor": 2.55}, {}, 81),
    "Llama 3.1": ("llama", LLAMA3 | {"original_max_position_embeddings": 8}, {}, 32),
    "layers of two kinds": (
        "gemma3_text",
        {
            "full_attention": PLAIN | {"rope_type": "linear", "factor": 4.0},
            "sliding_attention": PLAIN,
        },
        WINDOWS,
        128,
    ),
    # The angles of all sequences would change with the longest one.
    "dynamic": ("llama", PLAIN | {"rope_type": "dynamic", "factor": 4.0}, {}, 32),
    "it does not say": ("llama", PLAIN, {"max_position_embeddings": 0}, None),
}


def model_of(case):
    architecture, scaling, more, _ = CASES[case]
    sizes = {
        "vocab_size": 128,
        "hidden_size": 64,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 32,
        "tie_word_embeddings": False,
    }
    if scaling is not None:
        sizes["rope_parameters"] = {**scaling}
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(
        AutoConfig.for_model(architecture, **sizes | more)
    )
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(std=1.5 / parameter.shape[-1] ** 0.5)
    return model.eval()


@pytest.mark.parametrize("case", CASES)
def test_texts_are_huggingfaces_up_to_the_last_position(case):
    model, limit = model_of(case), CASES[case][-1]
    assert num_positions(model.config) == limit
    config = GenerationConfig(max_new_tokens=40, eos_token_id=127, pad_token_id=0)
    paged = mp.PagedModel(model, num_blocks=48, block_size=8)
    lengths = [28, (limit or 64) - 3, limit or 64, (limit or 64) + 1]
    prompts = [[i % 100 + 3 for i in range(length)] for length in lengths]
    outputs = mp.generate(paged, prompts, config)
    for prompt, out in zip(prompts, outputs, strict=True):
        # Of "dynamic" models, what was generated before may change a text.
        fresh = copy.deepcopy(model)
        theirs = fresh.generate(torch.tensor([prompt]), generation_config=config)
        theirs = theirs[0, len(prompt) :].tolist()
        # The last token of all needs no position.
        room = limit + 1 - len(prompt) if limit else len(theirs)
        if room:
            assert out.sequences == [theirs[:room]]
        else:
            assert f"the model's number of positions is {limit}; shorten" in out.error


def test_a_model_without_the_field_has_no_limit_that_we_know():
    assert num_positions(PreTrainedConfig()) is None


def test_learned_positions_end_where_their_table_ends():
    assert num_positions(AutoConfig.for_model("gpt2", n_positions=77)) == 77
    assert num_positions(AutoConfig.for_model("opt", max_position_embeddings=77)) == 77


@pytest.mark.parametrize("odd", [{"original_max_position_embeddings": None}, {}])
@pytest.mark.parametrize("factor", [4.0, float("inf"), None])
def test_fields_that_say_nothing_are_passed_over(odd, factor):
    rope = {"rope_type": "linear", "rope_theta": 1e4, "factor": factor, **odd}
    config = AutoConfig.for_model("llama", max_position_embeddings=32)
    config.rope_parameters = rope
    assert num_positions(config) == (128 if factor == 4.0 else 32)
