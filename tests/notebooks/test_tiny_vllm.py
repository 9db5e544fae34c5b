"""The file of the capstone: as it stands, its answers are HuggingFace's."""

import json
import random
from collections import defaultdict
from inspect import isfunction
from pathlib import Path
from types import ModuleType

import pytest
import torch
from transformers import AutoModelForCausalLM, GenerationConfig, PreTrainedModel

import minipaged.model
from helpers import capstone_of_a_reader
from helpers.answers import huggingface_generate
from helpers.thorough import often
from minipaged.lab.tour.capstone import text_of, write_mine

FILE = Path(__file__).parents[2] / "notebooks" / "tiny_vllm.py"
POCKET = Path(minipaged.model.__file__).parent / "pocket"


def made_of(source: str) -> ModuleType:
    module = ModuleType("tiny_vllm")
    exec(compile(source, str(FILE), "exec"), module.__dict__)
    return module


@pytest.fixture(scope="module")
def model() -> PreTrainedModel:
    model = AutoModelForCausalLM.from_pretrained(POCKET, dtype=torch.float32)
    model.generation_config.eos_token_id = None
    return model


def tokens_of(draw: random.Random, least: int, most: int) -> list[int]:
    return [draw.randrange(2, 1000) for _ in range(draw.randint(least, most))]


def expected(model: PreTrainedModel, prompt: list[int], options, sample: int) -> list:
    sampled = {}
    if options.temperature:
        names = ("temperature", "top_k", "top_p")
        sampled = {name: getattr(options, name) for name in names} | {"do_sample": True}
    config = GenerationConfig(
        max_new_tokens=options.max_new_tokens,
        eos_token_id=list(options.eos) or None,
        pad_token_id=0,
        **sampled,
    )
    seed = options.seed + sample
    return huggingface_generate(model, [prompt], config, seed=seed)[0][0]


def differences(tiny: ModuleType, model: PreTrainedModel, seed: int) -> tuple[int, int]:
    """Of how many answers in a tight pool, how many are not HuggingFace's."""
    draw = random.Random(seed)
    size, num_blocks = draw.choice([(4, 60), (8, 24), (16, 13)])
    most = draw.choice([40, 512])
    engine = tiny.Engine(POCKET, num_blocks, size, max_tokens=most)
    common = tokens_of(draw, 30, 60)
    asked = []
    for _ in range(5):
        own = tokens_of(draw, size, size) if draw.random() < 0.5 else []
        prompt = own + common[: draw.choice([0, 30, 60])] + tokens_of(draw, 1, 60)
        options = tiny.Options(
            max_new_tokens=draw.randint(1, 40),
            temperature=draw.choice([0, 0.7, 1.0]),
            top_k=draw.choice([0, 5, 50]),
            top_p=draw.choice([1.0, 0.9]),
            num_samples=draw.choice([1, 1, 3]),
            seed=draw.randrange(999),
            eos=draw.choice([(), (1,)]),
        )
        asked.append((engine.add(prompt, options), prompt, options))
    answers = defaultdict(list)
    for request, sample, token in engine.stream():
        answers[request, sample].append(token)
    assert len(engine.pool.free) == num_blocks
    compared = [
        answers[number, sample] == expected(model, prompt, options, sample)
        for number, prompt, options in asked
        for sample in range(options.num_samples)
    ]
    return len(compared), compared.count(False)


def test_answers_are_those_of_huggingface(model):
    tiny = made_of(FILE.read_text())
    found = [differences(tiny, model, seed) for seed in range(often(50))]
    assert sum(count for count, _ in found) >= often(300)
    assert sum(wrong for _, wrong in found) == 0


def test_the_file_of_a_reader_passes_the_same_proof(model, tmp_path):
    functions = [it for it in vars(capstone_of_a_reader).values() if isfunction(it)]
    write_mine(dict(map(text_of, functions)), str(tmp_path / "mine.py"))
    mine = made_of((tmp_path / "mine.py").read_text())
    assert [differences(mine, model, seed)[1] for seed in range(3)] == [0, 0, 0]


PLANTED = {
    "a shared block is written": (
        "self.pool.num_holders[seq.table[written]] > 1",
        "self.pool.num_holders[seq.table[written]] > 99",
    ),
    "a hash without the blocks before": (
        "sha256(parent + array",
        "sha256(array",
    ),
    "a part of a prompt begins at position 0": (
        "positions += range(start, stop)",
        "positions += range(stop - start)",
    ),
    "the cells after a shorter context are seen": (
        "<= positions[:, :, None]",
        "<= positions.max(0, keepdim=True).values[:, :, None]",
    ),
    "a block that was found stays among the free ones": (
        "self.free.pop(block, None)",
        "self.free.get(block)",
    ),
    "all samples have one seed": (
        "seq.options.seed + sample",
        "seq.options.seed",
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_seen(name, model):
    right, wrong = PLANTED[name]
    source = FILE.read_text()
    assert source.count(right) == 1
    tiny = made_of(source.replace(right, wrong))

    def is_wrong(seed: int) -> bool:
        try:
            return differences(tiny, model, seed)[1] > 0
        except (AssertionError, IndexError, KeyError, RuntimeError, ValueError):
            return True

    assert any(is_wrong(seed) for seed in range(6))


def test_bad_requests_are_refused():
    engine = made_of(FILE.read_text()).Engine(POCKET, num_blocks=4, block_size=4)
    options = engine.add.__globals__["Options"]
    with pytest.raises(ValueError, match="do not fit"):
        engine.add([5] * 10, options(max_new_tokens=7))
    with pytest.raises(ValueError, match="at least one token"):
        engine.add([], options(max_new_tokens=7))
    with pytest.raises(ValueError, match="at least one token"):
        engine.add([5], options(max_new_tokens=0))


@pytest.mark.parametrize("older", [False, True])
def test_a_folder_as_older_versions_wrote_it(older, model, tmp_path):
    """Qwen's own folders say torch_dtype, and rope_theta without rope_parameters."""
    for path in POCKET.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    config = json.loads((POCKET / "config.json").read_text())
    if older:
        config["torch_dtype"] = config.pop("dtype")
        config["rope_theta"] = config.pop("rope_parameters")["rope_theta"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    tiny = made_of(FILE.read_text())
    options = tiny.Options(max_new_tokens=12)
    prompt = [5, 300, 7, 41]
    answer = tiny.Engine(tmp_path).generate([prompt], options)[0][0]
    assert answer == expected(model, prompt, options, 0)
