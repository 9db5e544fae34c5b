"""One compilation serves all layers and any number of tokens; nothing breaks it."""

import copy

import pytest
import torch
from torch._dynamo.utils import counters
from transformers import GenerationConfig, GPT2Config, GPT2LMHeadModel

import minipaged as mp
from helpers.replaying import capture_without_a_gpu, replayable, steps_ahead
from helpers.stress import fingerprint, places
from helpers.thorough import all_or, thorough_only
from helpers.tiny_models import tiny_model
from minipaged.lab.tour.reference import huggingface_generate
from minipaged.model import compiled
from minipaged.model.compiled import CompiledRunner, layers_of
from minipaged.model.graphs import GraphRunner

PROMPTS = [list(range(3, 3 + n)) for n in (1, 4, 9, 17, 3, 6, 8, 2, 5, 7)]
CONFIG = GenerationConfig(max_new_tokens=6, min_new_tokens=6, pad_token_id=0)


@pytest.fixture
def traced(monkeypatch):
    """The compiler traces, and what it found is run as it is: no code is made."""
    make = torch.nn.Module.compile
    traces_only = {"backend": "eager", "fullgraph": True}
    monkeypatch.setattr(torch.nn.Module, "compile", lambda m: make(m, **traces_only))
    monkeypatch.setattr(GraphRunner, "_capture_all", capture_without_a_gpu)
    torch.compiler.reset()
    counters.clear()


def engine_of(name, num_sequences=16):
    paged = mp.PagedModel(copy.deepcopy(tiny_model(name)), 96, 4, replayable)
    engine = mp.Engine(paged, max_sequences=num_sequences)
    engine._runner = CompiledRunner(paged, num_sequences)
    return steps_ahead(engine)


def test_a_model_with_few_positions_is_compiled(traced):
    """Fewer than there are tokens in the steps for which it is compiled."""
    sizes = {"vocab_size": 64, "n_embd": 32, "n_layer": 1, "n_head": 2}
    model = GPT2LMHeadModel(GPT2Config(**sizes, n_positions=24)).eval()
    CompiledRunner(mp.PagedModel(model, 32, 8, replayable), 8)


# Traced are: the first layer as it is; a layer of any number; and any number of tokens.
# Layers with and without a window, each by itself; a mixture of experts in one piece.
@pytest.mark.parametrize(
    "name, traces",
    all_or(
        [("qwen3", 3), ("llama", 3), ("gpt2", 3), ("gemma3_text", 5)],
        [("gemma3_text", 5)],
    ),
)
def test_one_compilation_for_all(traced, name, traces):
    theirs = huggingface_generate(tiny_model(name), PROMPTS, CONFIG)
    engine = engine_of(name)
    assert counters["stats"]["unique_graphs"] <= traces
    for count in (1, 3, 10):
        for prompt in PROMPTS[:count]:
            engine.add(prompt, CONFIG)
        assert [out.sequences for out in engine.run()] == theirs[:count]
    assert counters["stats"]["unique_graphs"] <= traces
    assert not counters["graph_break"]
    assert repr(engine).endswith('run="compiled")')


@thorough_only
def test_what_was_compiled_serves_the_next_engines(traced):
    engine_of("qwen3").close()
    seen = counters["stats"]["unique_graphs"]
    engine_of("qwen3").close()
    assert counters["stats"]["unique_graphs"] == seen


@thorough_only
def test_other_models_do_not_use_up_what_torch_allows_a_class_of_layers(traced):
    engine_of("qwen3").close()
    for name in ("gemma3_text", "llama", "gpt2"):
        engine_of(name).close()  # it raises once the limit is hit
    assert counters["stats"]["unique_graphs"] > 8  # that of torch


def test_the_twin_that_is_compiled_is_nobody_elses(traced):
    engine = engine_of("qwen3")
    paged = engine.paged
    assert all(layer._compiled_call_impl is None for layer in layers_of(paged.twin))
    theirs = huggingface_generate(tiny_model("qwen3"), PROMPTS, CONFIG)
    seen = counters["stats"]["unique_graphs"]
    ours = mp.generate(paged, PROMPTS, CONFIG)
    assert [out.sequences for out in ours] == theirs
    assert huggingface_generate(paged.model, PROMPTS, CONFIG) == theirs
    assert counters["stats"]["unique_graphs"] == seen
    engine.close()
    layers = layers_of(engine._runner._twin)
    assert len(layers) == 3 and all(x._compiled_call_impl is None for x in layers)


def test_of_the_users_model_only_places_of_weights_change(traced):
    """Those that are computed as one: they are the same objects, and hold the same."""
    model = copy.deepcopy(tiny_model("qwen3"))
    model.model.layers[0].self_attn.q_proj.weight.requires_grad_(False)
    numbers = {name: weight.clone() for name, weight in model.state_dict().items()}
    facts, lay = fingerprint(model), places(model)
    paged = mp.PagedModel(model, 96, 4, replayable)
    GraphRunner(paged, 8)
    assert places(model) == lay
    runner = CompiledRunner(paged, 8)
    moved = {name for name, place in places(model).items() if place != lay[name]}
    kinds = {name.split(".")[-2] for name in moved}
    assert kinds == {"q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"}
    lay = places(model)
    runner.close()
    assert places(model) == lay and fingerprint(model) == facts
    assert list(model.state_dict()) == list(numbers)
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, numbers[name])


def test_weights_that_were_replaced_before_or_after_are_noticed(traced):
    engine = engine_of("qwen3")
    with torch.no_grad():
        engine.paged.model.lm_head.weight[3, 3] += 1
    engine.add(PROMPTS[2], CONFIG)
    with pytest.raises(ValueError, match="wrap it again"):
        engine.step()
    with pytest.raises(ValueError, match="wrap it again"):
        CompiledRunner(engine.paged, 8)


def test_a_model_without_named_layers_is_compiled_whole():
    plain = torch.nn.Sequential(torch.nn.Linear(2, 2))
    assert compiled.layers_of(plain) == [plain]


@pytest.mark.parametrize("name", ["qwen3", "gemma2"])
def test_logits_are_written_to_their_place(traced, monkeypatch, name):
    """gemma2 changes them once more, so its logits are copied there."""
    copied = []
    copy_to = torch.Tensor.copy_

    def noting(tensor, other, **options):
        copied.append(tensor.shape)
        return copy_to(tensor, other, **options)

    engine = engine_of(name)
    runner = engine._runner
    shape = runner._logits.shape
    assert runner._last_layer.place is runner._logits
    monkeypatch.setattr(torch.Tensor, "copy_", noting)
    for prompt in PROMPTS:
        engine.add(prompt, CONFIG)
    outputs = engine.run()
    monkeypatch.undo()
    of_logits = [own for own in copied if own[1:] == shape[1:]]
    assert bool(of_logits) == (name == "gemma2")
    theirs = huggingface_generate(tiny_model(name), PROMPTS, CONFIG)
    assert [out.sequences for out in outputs] == theirs
    more = torch.ones(shape[0] + 1, runner.paged.model.config.hidden_size)
    assert len(runner._last_layer(more)) == len(more)
