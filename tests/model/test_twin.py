"""The twin: we never touch the user's model, also with threads and interrupts."""

import copy
import sys
from threading import Barrier, Thread

import pytest
import torch
from transformers import GenerationConfig

from helpers.stress import fingerprint, places, signals, three_threads
from helpers.tiny_models import ARCHITECTURES, tiny_model
from minipaged.attention.rectangles import gathered_attention
from minipaged.engine.generate import generate
from minipaged.errors import UnsupportedModel
from minipaged.lab.tour.reference import huggingface_generate
from minipaged.model.paged_model import PagedModel
from minipaged.model.twin import make_twin

GREEDY = GenerationConfig(max_new_tokens=6, pad_token_id=0)
PROMPTS = [[5, 6, 7, 8, 9, 10, 11, 12], [3, 4]]


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_weights_are_shared_and_nothing_else(name):
    model = tiny_model(name)
    twin = make_twin(model)
    theirs, ours = dict(model.named_parameters()), dict(twin.named_parameters())
    assert all(ours[name] is weight for name, weight in theirs.items())
    for module, other in zip(model.modules(), twin.modules(), strict=True):
        assert module is not other
        if hasattr(module, "config"):
            assert module.config is not other.config
    known = {t.data_ptr() for t in (*model.parameters(), *model.buffers())}
    new = sum(
        tensor.nbytes
        for module in twin.modules()
        for tensor in (*vars(module).values(), *module._buffers.values())
        if isinstance(tensor, torch.Tensor) and tensor.data_ptr() not in known
    )
    assert new == 0
    assert twin.config.to_dict() == model.config.to_dict()


@pytest.mark.parametrize("name", ["llama", "gemma2", "gpt2", "mistral", "gpt_oss"])
def test_the_model_stays_as_it_was(name):
    model = copy.deepcopy(tiny_model(name))
    facts, lies = fingerprint(model), places(model)
    before = huggingface_generate(model, PROMPTS, GREEDY)
    paged = PagedModel(model, num_blocks=16, block_size=4)
    assert fingerprint(model) == facts
    assert [out.sequences for out in generate(paged, PROMPTS, GREEDY)] == before
    assert fingerprint(model) == facts and places(model) == lies
    assert huggingface_generate(model, PROMPTS, GREEDY) == before


def test_the_fingerprint_would_notice():
    model = copy.deepcopy(tiny_model("mistral"))
    facts = fingerprint(model)
    model.model.layers[1].self_attn.sliding_window = 3
    assert fingerprint(model) != facts


def test_the_model_stays_as_it_was_after_an_exception():
    model = tiny_model("llama")
    facts = fingerprint(model)
    paged = PagedModel(model, num_blocks=16)

    def breaks(*_arguments):
        raise ArithmeticError("in the middle of a forward")

    paged.attention = breaks
    with pytest.raises(ArithmeticError):
        generate(paged, [[5, 6, 7]], GREEDY)
    assert fingerprint(model) == facts
    assert paged.pool.num_free == 16


def test_huggingface_generates_between_two_of_our_layers():
    model = copy.deepcopy(tiny_model("mistral"))
    expected = huggingface_generate(model, PROMPTS, GREEDY)
    paged, found = PagedModel(model, num_blocks=16), []

    def meanwhile(q, cache, batch, masking):
        found.append(huggingface_generate(model, PROMPTS, GREEDY))
        return gathered_attention(q, cache, batch, masking)

    paged.attention = meanwhile
    ours = generate(paged, PROMPTS, GREEDY)
    assert [out.sequences for out in ours] == expected
    assert len(found) == 3 * 6 and all(each == expected for each in found)


def test_two_threads_attend_at_the_same_time_each_by_its_own():
    """Each waits for the other in every layer, so they are between layers together."""
    model, barrier, found = (
        copy.deepcopy(tiny_model("llama")),
        Barrier(2, timeout=20),
        {},
    )
    (expected,) = huggingface_generate(model, [[5, 6, 7]], GREEDY)

    def of(name):
        def attention(q, cache, batch, masking):
            barrier.wait()
            calls[name] += 1
            return gathered_attention(q, cache, batch, masking)

        return attention

    models = {name: PagedModel(model, num_blocks=8) for name in "AB"}
    calls = dict.fromkeys(models, 0)

    def work(name):
        found[name] = generate(models[name], [[5, 6, 7]], GREEDY)[0].sequences

    for name, paged in models.items():
        paged.attention = of(name)
    threads = [Thread(target=work, args=(name,)) for name in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {"A": expected, "B": expected}
    assert calls == {"A": 18, "B": 18}


def test_threads_with_one_paged_model_wait_for_each_other():
    """The pool has room for one run at a time."""
    model = copy.deepcopy(tiny_model("llama"))
    paged = PagedModel(model, num_blocks=4, block_size=4)
    prompts = [[start, 6, 7, 8, 9] for start in range(10, 16)]
    expected, found = huggingface_generate(model, prompts, GREEDY), {}

    def work(index):
        (found[index],) = generate(paged, [prompts[index]], GREEDY)

    threads = [Thread(target=work, args=(index,)) for index in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[index].sequences for index in range(6)] == expected
    assert paged.pool.num_free == 4


def test_generate_within_generate_on_one_paged_model_is_refused():
    paged = PagedModel(tiny_model("llama"), num_blocks=8)

    def nested(q, cache, batch, masking):
        generate(paged, [[5, 6]], GREEDY)

    paged.attention = nested
    with pytest.raises(RuntimeError, match="from within generate on the same Paged"):
        generate(paged, [[5, 6]], GREEDY)
    paged.attention = "gathered"
    assert generate(paged, [[5, 6]], GREEDY)[0].error is None


def moved(model):
    model.to(torch.bfloat16)


def loaded_anew(model):
    state = {name: 1.01 * weight for name, weight in model.state_dict().items()}
    model.load_state_dict(state)


def trained(model):
    with torch.no_grad():
        model.model.layers[1].mlp.up_proj.weight.mul_(1.01)


def replaced_weight(model):
    projection = model.model.layers[2].self_attn.q_proj
    projection.weight = torch.nn.Parameter(projection.weight.detach().clone())


def replaced_module(model):
    """As adapters do: a module of their own around the model's."""
    attention = model.model.layers[0].self_attn
    attention.v_proj = torch.nn.Sequential(attention.v_proj)


def merged_adapter(model):
    """As adapters do it in the end: no module, no address, no counter tells of it."""
    weight = model.model.layers[1].self_attn.q_proj.weight
    weight.data += 0.01 * torch.randn(len(weight), 1) @ torch.randn(1, weight.shape[1])


def resized(model):
    model.resize_token_embeddings(200)


def written_here_and_there(model):
    """Where the weight lies in memory otherwise than its rows do."""
    model.model.layers[0].mlp.down_proj.weight.data.mul_(1.01)


def other_module_at_the_same_address(model):
    """Freed, its address may be given to the next one."""
    mlp = model.model.layers[0].mlp
    mlp.act_fn = torch.nn.ReLU()
    mlp.act_fn = torch.nn.Tanh()


CHANGES = [
    moved,
    written_here_and_there,
    other_module_at_the_same_address,
    loaded_anew,
    trained,
    replaced_weight,
    replaced_module,
    merged_adapter,
    resized,
]


@pytest.mark.parametrize("change", CHANGES)
def test_other_weights_must_be_wrapped_again(change):
    model = copy.deepcopy(tiny_model("llama"))
    paged = PagedModel(model, num_blocks=8)
    generate(paged, [[5, 6]], GREEDY)
    change(model)
    with pytest.raises(ValueError, match=r"wrap it again: mp.PagedModel\(model\)"):
        generate(paged, [[5, 6]], GREEDY)
    assert paged.pool.num_free == 8
    if change is not moved:  # half precision is not token-exact
        again = generate(PagedModel(model, num_blocks=8), [[5, 6]], GREEDY)
        assert [again[0].sequences] == huggingface_generate(model, [[5, 6]], GREEDY)


def test_a_buffer_that_holds_weights_is_one_of_them():
    model = copy.deepcopy(tiny_model("deepseek_v3"))
    paged = PagedModel(model, num_blocks=8)
    gate = model.model.layers[1].mlp.gate
    gate.e_score_correction_bias = torch.full_like(gate.e_score_correction_bias, 5.0)
    with pytest.raises(ValueError, match="wrap it again"):
        generate(paged, [[5, 6]], GREEDY)


def test_a_weight_whose_numbers_lie_apart_is_sampled_too():
    model = copy.deepcopy(tiny_model("llama"))
    projection = model.model.layers[0].mlp.down_proj
    weight = projection.weight.detach().T.contiguous().T
    projection.weight = torch.nn.Parameter(weight)
    paged = PagedModel(model, num_blocks=8)
    projection.weight.data.mul_(-2)
    with pytest.raises(ValueError, match="wrap it again"):
        generate(paged, [[5, 6]], GREEDY)


def test_what_leaves_the_weights_alone_needs_no_new_wrap():
    model = copy.deepcopy(tiny_model("llama"))
    paged = PagedModel(model, num_blocks=8)
    expected = huggingface_generate(model, PROMPTS, GREEDY)
    model.set_attn_implementation("eager")
    model.requires_grad_(False)
    model.generation_config.pad_token_id = 3
    model.to("cpu", torch.float32)
    assert [out.sequences for out in generate(paged, PROMPTS, GREEDY)] == expected


def test_generation_options_are_those_that_the_users_model_has_now():
    model = copy.deepcopy(tiny_model("llama"))
    paged = PagedModel(model, num_blocks=8)
    model.generation_config.max_new_tokens = 3
    assert len(generate(paged, [[5, 6]])[0].sequences[0]) == 3


def test_a_model_on_no_device_or_on_two_is_refused():
    model = copy.deepcopy(tiny_model("llama"))
    model.model.layers[0].to("meta")
    with pytest.raises(UnsupportedModel, match="lies on cpu, meta; only a model that"):
        PagedModel(model)
    with pytest.raises(UnsupportedModel, match="lies on meta"):
        PagedModel(model.to("meta"))


def test_a_model_that_cannot_be_copied_is_refused_in_words():
    model = copy.deepcopy(tiny_model("llama"))
    model.held = (one for one in range(3))  # a generator
    with pytest.raises(UnsupportedModel, match="cannot be copied without its weights"):
        PagedModel(model)


def test_interrupted_at_any_line_while_wrapping():
    """Every 40th line of ours that wrapping runs, one after the other, interrupted."""
    model = copy.deepcopy(tiny_model("gemma2"))
    facts, lines = fingerprint(model), 0
    expected = huggingface_generate(model, PROMPTS, GREEDY)

    def count(frame, event, argument):
        nonlocal lines
        if "minipaged/model" not in frame.f_code.co_filename.replace("\\", "/"):
            return None
        if event == "line":
            lines += 1
            if lines == stop:
                raise KeyboardInterrupt
        return count

    def wrap():
        nonlocal lines
        lines = 0
        sys.settrace(count)
        try:
            PagedModel(model, num_blocks=8)
        finally:
            sys.settrace(None)

    stop = None
    wrap()
    total = lines
    assert total > 300
    for stop in range(1, total, 40):  # noqa: B007, which `count` looks at
        with pytest.raises(KeyboardInterrupt):
            wrap()
        assert fingerprint(model) == facts
    assert huggingface_generate(model, PROMPTS, GREEDY) == expected


# A signal that lands in a callback of the garbage collector is told of, and lost.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_real_signals_while_wrapping_and_generating():
    report = signals(count=20)
    assert report == {"signals": 20, "changed": 0}


def test_three_threads():
    """HuggingFace's generate, ours, and wrapping, at the same time on one model."""
    report = three_threads(seconds=3)
    assert report["wrong"] == report["foreign"] == report["refused"] == 0
    assert min(report["calls"].values()) >= 1


AROUND = """
def around(layer, method):
    def doubled(x):
        return 2 * method(x) + layer.weight.sum()
    return doubled
"""


def test_what_transformers_puts_around_a_module_is_put_around_its_copy():
    """As the ranks of a tensor-parallel model have it: an all-reduce, say."""
    model = copy.deepcopy(tiny_model("llama"))
    layer = model.model.layers[0].mlp.up_proj
    method = layer.forward

    scope = {"__name__": "transformers.distributed.tensor_parallel"}
    exec(AROUND, scope)
    layer.forward = scope["around"](layer, method)
    copied = make_twin(model).model.layers[0].mlp.up_proj
    copied.weight = torch.nn.Parameter(torch.zeros_like(layer.weight))
    x = torch.ones(1, layer.in_features)
    assert not copied(x).any()
    assert torch.equal(layer(x), 2 * (x @ layer.weight.T) + layer.weight.sum())
