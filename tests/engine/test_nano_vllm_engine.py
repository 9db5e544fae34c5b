"""nano-vllm beside the engine: what it is given and asked; what no measurement is."""

import shutil

import pytest
import torch

from benchmarks.gpu import nano_vllm_engine, peers, shapes, workloads
from benchmarks.gpu.workloads import Asked
from helpers import other_engines
from helpers.other_engines import lengths

TRACE = [Asked([1, 2], 30), Asked([4], 10), Asked([5, 6, 7], 20)]


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder where packages lie; there nano-vllm is installed, and nothing else."""
    other_engines.make_site(tmp_path, monkeypatch)
    other_engines.install(tmp_path, "nanovllm")
    other_engines.make_models_small(monkeypatch)
    return tmp_path


@pytest.fixture
def nanovllm(site, monkeypatch):
    with other_engines.imported(site, "nanovllm", monkeypatch) as module:
        yield module


@pytest.fixture
def llm(nanovllm, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    nano_vllm_engine.write_model(folder)
    return nanovllm.LLM(str(folder))


def test_it_is_asked_for_ids_of_a_length_at_the_engines_temperature(nanovllm, llm):
    nanovllm.takes = lambda number, tokens: 0.25
    assert nano_vllm_engine.seconds_for(llm, TRACE) == 0.25
    (call,) = nanovllm.calls
    assert call[0] == [[1, 2], [4], [5, 6, 7]] and lengths(call) == [30, 10, 20]
    assert {(each.temperature, each.ignore_eos) for each in call[1]} == {(0.6, True)}


@pytest.mark.parametrize("lacking", [1, -1])
def test_an_answer_of_another_length_is_no_measurement(nanovllm, llm, lacking):
    nanovllm.too_few[0] = lacking
    with pytest.raises(RuntimeError, match=f"{20 - lacking} tokens, not 20"):
        nano_vllm_engine.seconds_for(llm, TRACE)


def test_a_missing_answer_is_no_measurement(nanovllm, llm, monkeypatch):
    whole = nanovllm.LLM.generate
    monkeypatch.setattr(nanovllm.LLM, "generate", lambda *a, **b: whole(*a, **b)[:-1])
    with pytest.raises(ValueError):
        nano_vllm_engine.seconds_for(llm, TRACE)


@pytest.mark.parametrize("number", [0, 11, 12, 13, 14])
def test_a_short_answer_anywhere_ends_the_run(nanovllm, number):
    nanovllm.too_few[number] = 1
    with pytest.raises(RuntimeError, match="tokens, not"):
        nano_vllm_engine.run(requests=3, rounds=2)
    assert len(nanovllm.calls) == number + 1


def test_it_gets_the_engines_model_and_a_tokenizer(nanovllm):
    nano_vllm_engine.run(requests=3, rounds=1)
    (llm,) = nanovllm.made
    assert llm.settings == {
        "max_num_seqs": 256,
        "max_model_len": 4096,
        "gpu_memory_utilization": 0.5,
    }
    ours = shapes.random_model("cpu")
    assert llm.config.architectures == ["Qwen3ForCausalLM"]
    assert llm.config.dtype == torch.bfloat16 and llm.config.tie_word_embeddings
    named = {"_name_or_path", "architectures", "transformers_version"}
    same = set(ours.config.to_dict()) - named
    assert "num_key_value_heads" in same
    for name in same:
        assert getattr(llm.config, name) == getattr(ours.config, name), name
    assert llm.weights.keys() == dict(ours.named_parameters()).keys()
    for name, weights in ours.named_parameters():
        assert llm.weights[name].dtype == torch.bfloat16
        assert llm.weights[name].equal(weights), name
    told = llm.tokenizer.encode("Paris")
    assert told and llm.tokenizer.decode([*told, 151_935]) == "Paris"  # the last: none
    assert not llm.folder.exists()


@pytest.mark.parametrize("there", [False, True])
def test_weights_are_made_on_the_gpu_if_there_is_one(monkeypatch, tmp_path, there):
    devices = []

    def made(device):
        devices.append(device)
        return torch.nn.Module()

    monkeypatch.setattr(nano_vllm_engine, "random_model", made)
    monkeypatch.setattr(torch.nn.Module, "save_pretrained", print, raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    nano_vllm_engine.write_model(tmp_path)
    assert devices == ["cuda" if there else "cpu"]


def test_it_is_asked_for_what_the_engine_is_and_the_lone_user_comes_first(nanovllm):
    found = nano_vllm_engine.run(requests=3, rounds=2)
    names = "machine version start_s lone tokens_per_s rounds"
    assert [*found] == names.split()
    assert found["version"] == "9.8.7" and found["start_s"] == 50.0
    assert torch.__version__.startswith(found["machine"]["torch"])  # and its build
    trace = workloads.uniform(3)
    num_tokens = sum(asked.num_new for asked in trace)
    row = {"tokens_per_s": 1000, "seconds": num_tokens / 1000}
    assert found["tokens_per_s"] == 1000 and found["rounds"] == [row] * 2
    assert found["lone"] == {
        "prompt": 1000,
        "first_token_ms": 1.0,
        "next_token_ms": 1.0,
    }
    *alone, warm, first, second = nanovllm.calls
    assert [lengths(call) for call in alone] == [[1], [128]] * 6
    assert lengths(warm) == [4] * 3
    assert lengths(first) == lengths(second) == [asked.num_new for asked in trace]
    for shift, (prompts, _) in enumerate((warm, first, second)):
        assert prompts == [[id + shift for id in asked.prompt] for asked in trace]


def test_no_prompt_begins_as_an_earlier_one(nanovllm):
    """Else it would be taken from the cache of prefixes, and would cost nothing."""
    nano_vllm_engine.run(requests=12, rounds=3)
    prompts = [prompt for call in nanovllm.calls for prompt in call[0]]
    assert len(prompts) == 12 + 12 + 3 * 12
    assert sum(len(prompt) > nanovllm.BLOCK for prompt in prompts) > 40
    assert nanovllm.hits == []
    assert max(map(max, prompts)) < 151_936  # all are ids of the model


def test_a_prompt_that_comes_again_is_noticed(nanovllm, llm):
    trace = [Asked(workloads.lone_prompt(257), 1)]
    for _ in range(2):
        nano_vllm_engine.seconds_for(llm, trace)
    assert nanovllm.hits == [1]


def test_it_is_an_engine_and_no_kernel_to_compare_with(site, monkeypatch):
    assert peers.installed("nanovllm") == "9.8.7"
    monkeypatch.setattr(peers, "find_spec", lambda module: module == "nanovllm")
    assert peers.versions() == {}


def test_a_folder_of_the_name_alone_is_not_installed(site):
    (facts,) = site.glob("nano_vllm-*")
    shutil.rmtree(facts)
    assert peers.installed("nanovllm") is None
