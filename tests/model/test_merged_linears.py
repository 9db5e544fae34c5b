"""Linear layers computed as one: the same numbers, and a model that nobody harmed."""

import copy

import pytest
import torch
from torch._dynamo.utils import counters
from transformers import AutoModelForCausalLM, GenerationConfig

import minipaged as mp
from helpers.thorough import all_or
from helpers.tiny_models import ARCHITECTURES, UNLIKE, tiny_model
from minipaged.engine.generate import generate
from minipaged.lab.tour.reference import huggingface_generate
from minipaged.model.bridge import connect
from minipaged.model.merged_linears import LinearPart, MergedLinear, merge_linears
from minipaged.model.twin import make_twin

PROMPTS = [list(range(3, 3 + n)) for n in (1, 4, 9, 17)]
CONFIG = GenerationConfig(max_new_tokens=6, min_new_tokens=6, pad_token_id=0)
COUNTS = {"qwen3": 15, "gpt2": 0, "phi3": 0, "opt": 9, "qwen2": 15}


def wrapped(name, **options):
    return mp.PagedModel(copy.deepcopy(tiny_model(name)), 96, 4, **options)


def merge(paged):
    # A new twin, as a GPU's runner makes it: on a CPU, `paged.twin` is called directly.
    paged.twin = make_twin(paged.model)
    connect(paged.twin)
    count = merge_linears(paged.twin)
    paged.note_weights()
    return count


MERGED = [one for one in ARCHITECTURES if one != "gpt_oss"]


@pytest.mark.parametrize("name", all_or(MERGED, [n for n in UNLIKE if n in MERGED]))
def test_the_same_text(name):
    paged = wrapped(name)
    before = {key: value.clone() for key, value in paged.model.state_dict().items()}
    merged = merge(paged)
    assert merged == COUNTS.get(name, merged)
    parts = [one for one in paged.twin.modules() if isinstance(one, LinearPart)]
    assert len(parts) == merged and merge_linears(paged.twin) == 0
    theirs = huggingface_generate(tiny_model(name), PROMPTS, CONFIG)
    ours = generate(paged, PROMPTS, CONFIG)
    assert [out.sequences for out in ours] == theirs
    assert huggingface_generate(paged.model, PROMPTS, CONFIG) == theirs
    after = paged.model.state_dict()
    assert list(after) == list(before)
    assert all(torch.equal(after[key], before[key]) for key in before)


def test_merged_in_inference_mode_the_model_can_still_be_trained():
    paged = wrapped("qwen2")
    with torch.inference_mode():
        merge(paged)
    ids = torch.tensor(PROMPTS[2:3])
    paged.model(ids, labels=ids).loss.backward()
    assert paged.model.model.layers[0].self_attn.q_proj.weight.grad.any()


def test_the_weights_lie_in_one_piece_and_only_once():
    paged = wrapped("qwen2")  # with biases
    merge(paged)
    layer, own = paged.model.model.layers[0].self_attn, paged.twin.model.layers[0]
    for kind in ("weight", "bias"):
        parts = [getattr(getattr(layer, f"{x}_proj"), kind) for x in "qkv"]
        whole = getattr(own.self_attn.q_proj.merged, kind)
        assert torch.equal(torch.cat(parts), whole)
        pointers = {part.untyped_storage().data_ptr() for part in parts}
        assert pointers == {whole.untyped_storage().data_ptr()}
    assert type(layer.q_proj) is torch.nn.Linear  # the user's modules stay


def test_the_model_is_saved_and_loaded_as_before(tmp_path):
    paged = wrapped("qwen3")
    merge(paged)
    paged.model.save_pretrained(tmp_path)
    again = AutoModelForCausalLM.from_pretrained(tmp_path)
    ours, theirs = again.state_dict(), tiny_model("qwen3").state_dict()
    assert all(torch.equal(ours[key], theirs[key]) for key in theirs)
    files = sum(file.stat().st_size for file in tmp_path.glob("*.safetensors"))
    numbers = sum(weight.nbytes for weight in theirs.values())
    assert files < 1.1 * numbers


def test_the_model_can_be_moved_and_trained_afterwards():
    paged = wrapped("qwen3")
    merge(paged)
    model = paged.model.to(torch.float64)
    with pytest.raises(ValueError, match="wrap it again"):
        generate(paged, PROMPTS, CONFIG)
    assert all(weight.dtype == torch.float64 for weight in model.parameters())
    loss = model(torch.tensor([PROMPTS[3]]), labels=torch.tensor([PROMPTS[3]])).loss
    loss.backward()
    assert all(weight.grad is not None for weight in model.parameters())


def test_changed_weights_are_noticed_as_before():
    paged = wrapped("qwen3")
    merge(paged)
    with torch.no_grad():
        paged.model.model.layers[1].mlp.up_proj.weight[3, 3] += 1
    with pytest.raises(ValueError, match="wrap it again"):
        generate(paged, PROMPTS, CONFIG)


def test_another_wrapper_of_the_model_is_told_to_be_made_anew():
    first = wrapped("qwen3")
    second = mp.PagedModel(first.model, 96, 4)
    assert merge(second)
    with pytest.raises(ValueError, match="wrap it again"):
        generate(first, PROMPTS, CONFIG)


def test_a_compiler_takes_it_whole():
    torch.compiler.reset()
    counters.clear()
    paged = wrapped("qwen3")
    before = generate(paged, PROMPTS, CONFIG)
    merge(paged)
    paged.twin.compile(backend="eager", fullgraph=True, dynamic=True)
    assert generate(paged, PROMPTS, CONFIG) == before
    assert not counters["graph_break"]
    assert 1 <= counters["stats"]["unique_graphs"] <= 3


def test_nothing_is_kept_of_a_forward():
    """Else the next one could take what this one has computed."""
    paged = wrapped("qwen3")
    merge(paged)
    generate(paged, PROMPTS, CONFIG)
    wholes = [one for one in paged.twin.modules() if isinstance(one, MergedLinear)]
    assert wholes and all(w.input is None and not w.outputs for w in wholes)
