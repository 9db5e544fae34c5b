"""The shipped draft model: small, loaded by name, and mostly right."""

import argparse
import json
from random import Random

import numpy as np
import pytest
import torch

import minipaged as mp
from minipaged.model.load import SHIPPED
from tools.pocket import draft as training
from tools.pocket import grammar

FOLDER = SHIPPED["pocket-draft"]


@pytest.fixture(scope="module")
def pocket():
    return mp.load("pocket", device="cpu")


@pytest.fixture(scope="module")
def draft():
    return mp.load("pocket-draft", device="cpu")


def test_is_small_and_shallower(pocket, draft):
    assert (FOLDER / "model.safetensors").stat().st_size <= 1_000_000
    config, large = draft[0].config, pocket[0].config
    assert config.num_hidden_layers < large.num_hidden_layers
    assert draft[0].dtype == torch.float32  # as mp.load gives all models by default


def test_it_reads_and_writes_the_tokens_of_pocket(pocket, draft):
    (large, tokenizer), (small, its_tokenizer) = pocket, draft
    assert its_tokenizer.get_vocab() == tokenizer.get_vocab()
    for name in ("eos_token_id", "pad_token_id"):
        mine, its = (model.generation_config for model in (large, small))
        assert getattr(mine, name) == getattr(its, name)
    assert not (FOLDER / "tokenizer.json").exists()  # one copy is enough


def test_most_guesses_are_right_where_no_model_was_trained(pocket, draft):
    """Other questions than the card's: those of another seed, from a story to a sum."""
    prompts = training.prompts_by_skill(pocket[1], 3, seed="a test")
    found = training.acceptance(draft[0], pocket[0], prompts)
    for rows in found.values():
        assert rows["all"]["accepted"] > 0.6
        assert rows["all"]["tokens_of_a_step"] > 3


def test_its_page_says_what_was_measured():
    scores = json.loads((FOLDER / "scores.json").read_text(encoding="utf-8"))
    assert (FOLDER / "README.md").read_text(encoding="utf-8") == training.card(scores)
    assert scores["acceptance"]["greedy"]["all"]["accepted"] > 0.7


def test_training_brings_the_draft_nearer_to_pocket(pocket):
    rng = Random(0)
    lines = [f"{rng.randrange(9)} plus {rng.randrange(9)} is what?" for _ in range(64)]
    ids = np.array([tokens[:8] for tokens in pocket[1](lines).input_ids], np.int16)
    kinds = np.full(ids.shape, list(grammar.LOSS_WEIGHTS).index("answer"), np.uint8)
    corpus = {8: (ids, kinds, np.tile(np.arange(8, dtype=np.int16), (64, 1)))}
    agreements = []
    for steps in (1, 40):
        torch.manual_seed(0)
        args = argparse.Namespace(
            steps=steps, batch_tokens=256, seed=0, learning_rate=3e-3
        )
        draft = training.new_draft(pocket[0], layers=1, heads=3, mlp=32)
        training_of = training.distil(draft, pocket[0], corpus, args, "cpu")
        agreements.append(training_of["final_agreement"])
    assert agreements[1] > agreements[0] + 0.3
