"""load(): the pocket model, folders, names, and what is said when there is nothing."""

import pytest
import torch
from transformers import GenerationConfig, PreTrainedModel

import minipaged as mp
from helpers.tiny_models import tiny_model
from minipaged.lab.tour.reference import huggingface_generate
from minipaged.model.load import POCKET


@pytest.fixture(scope="module")
def pocket():
    return mp.load("pocket", device="cpu")


def test_the_pocket_model_is_a_plain_transformers_model(pocket):
    model, tokenizer = pocket
    assert isinstance(model, PreTrainedModel)
    assert type(model).__module__.startswith("transformers.")
    assert model.dtype == torch.float32 and not model.training
    assert tokenizer.decode(tokenizer("Hallo Welt").input_ids) == "Hallo Welt"


def test_other_dtypes():
    model, _ = mp.load("pocket", dtype=torch.bfloat16, device="cpu")
    assert model.dtype == torch.bfloat16


def test_a_folder_is_loaded_and_generates(tmp_path, pocket):
    tiny_model("llama").save_pretrained(tmp_path)
    pocket[1].save_pretrained(tmp_path)
    model, _ = mp.load(tmp_path, device="cpu")
    paged = mp.PagedModel(model, num_blocks=16, block_size=4)
    config = GenerationConfig(max_new_tokens=8)
    ours = mp.generate(paged, [[5, 6, 7]], config)[0].sequences
    assert ours == huggingface_generate(model, [[5, 6, 7]], config)[0]


def test_the_environment_chooses_the_model_of_the_notebooks(monkeypatch, tmp_path):
    monkeypatch.delenv("MINIPAGED_MODEL", raising=False)
    assert mp.load(device="cpu")[0].config.name_or_path == str(POCKET)
    monkeypatch.setenv("MINIPAGED_MODEL", str(tmp_path / "nothing"))
    with pytest.raises(FileNotFoundError, match="nothing"):
        mp.load()
    assert mp.load("pocket", device="cpu")[0].config.name_or_path == str(POCKET)


def test_a_folder_without_a_model_says_so(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"has no config.json"):
        mp.load(tmp_path)


@pytest.mark.parametrize("name", ["./no/such/folder", "nobody/no-such-model"])
def test_an_unknown_name_says_what_would_work(name, monkeypatch):
    # The environment variable would come too late: it is read at import.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(FileNotFoundError, match='"pocket" always works'):
        mp.load(name)


QUESTIONS = [
    "What is 23+45?",
    "What is the capital of France?",
    "Translate to German: the red house",
    "Tell me a long story about a fox.",
    "Tell me a short story about a bear.",
]


def chat(tokenizer, question):
    messages = [
        {"role": "system", "content": "You are a helpful assistant."},
        {"role": "user", "content": question},
    ]
    text = tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, tokenize=False
    )
    return tokenizer(text, add_special_tokens=False).input_ids


@pytest.mark.parametrize("block_size", [1, 16])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"do_sample": True, "temperature": 1.2},
        {"do_sample": True, "num_return_sequences": 4},
        {"repetition_penalty": 1.2},
    ],
    ids=["greedy", "sampling", "four samples", "penalty"],
)
def test_the_pocket_model_writes_what_it_writes_through_huggingface(
    pocket, block_size, options
):
    model, tokenizer = pocket
    paged = mp.PagedModel(model, num_blocks=4096 // block_size, block_size=block_size)
    for tensor in (*paged.cache.keys, *paged.cache.values):
        tensor.fill_(float("nan"))
    prompts = [chat(tokenizer, question) for question in QUESTIONS]
    config = GenerationConfig(max_new_tokens=48, **options)
    theirs = huggingface_generate(model, prompts, config, seed=7)
    for chunk in (None, 9):
        ours = mp.generate(paged, prompts, config, seed=7, max_prompt_tokens=chunk)
        assert [out.sequences for out in ours] == theirs
        assert paged.pool.num_free == paged.pool.num_blocks
    if not options:
        assert tokenizer.decode(theirs[0][0]).startswith("68")
        assert ours[0].finish_reason == "stop"
