"""vLLM beside the engine: what it is asked, and what becomes of its times."""

import importlib
import json
import os
import shutil

import pytest
import torch
from transformers import AutoConfig

from benchmarks.gpu import vllm_engine, workloads
from benchmarks.gpu.shapes import qwen3_06b
from benchmarks.gpu.workloads import OPTIONS, Asked
from helpers import other_engines
from helpers.other_engines import lengths

TRACE = [Asked([1, 2], 30), Asked([4], 10), Asked([5, 6, 7], 20)]


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder where packages lie; there vLLM is installed, and nothing else."""
    other_engines.make_site(tmp_path, monkeypatch)
    other_engines.install(tmp_path, "vllm")
    for name in (*vllm_engine.ENVIRONMENT, "VLLM_USE_FLASHINFER_SAMPLER"):
        monkeypatch.setenv(name, "")  # so that it is as before after the test
        monkeypatch.delenv(name)
    return tmp_path


@pytest.fixture
def vllm(site, monkeypatch):
    with other_engines.imported(site, "vllm", monkeypatch) as module:
        yield module


@pytest.fixture
def llm(vllm, tmp_path):
    vllm_engine.write_config(tmp_path)
    return vllm.LLM(str(tmp_path))


def test_it_is_asked_for_ids_of_a_length_at_the_engines_temperature(vllm, llm):
    vllm.takes = lambda number, tokens: 0.25
    assert vllm_engine.seconds_for(llm, TRACE) == 0.25
    (call,) = vllm.calls
    assert call[0] == [[1, 2], [4], [5, 6, 7]] and lengths(call) == [30, 10, 20]
    for each in call[1]:
        asked = each.temperature, each.ignore_eos, each.detokenize
        assert asked == (0.6, True, False) and not hasattr(each, "top_k")


@pytest.mark.parametrize("number", [0, 1, 2, 13, 14, 15])
def test_a_short_answer_anywhere_ends_the_run(vllm, number):
    vllm.too_few[number] = 1
    with pytest.raises(RuntimeError, match="tokens, not"):
        vllm_engine.run(requests=3, rounds=1)
    assert len(vllm.calls) == number + 1


@pytest.mark.parametrize("lacking", [1, -1])
def test_an_answer_of_another_length_is_no_measurement(vllm, llm, lacking):
    vllm.too_few[0] = lacking
    with pytest.raises(RuntimeError, match=f"{20 - lacking} tokens, not 20"):
        vllm_engine.seconds_for(llm, TRACE)


def test_a_missing_answer_is_no_measurement(vllm, llm, monkeypatch):
    whole = vllm.LLM.generate
    monkeypatch.setattr(vllm.LLM, "generate", lambda *a, **b: whole(*a, **b)[:-1])
    with pytest.raises(ValueError):
        vllm_engine.seconds_for(llm, TRACE)


def test_vllm_gets_the_engines_model_and_requests(vllm, monkeypatch, tmp_path):
    made, whole = [], vllm.LLM.__init__

    def watched(self, *arguments, **settings):
        made.append(self)
        whole(self, *arguments, **settings)

    monkeypatch.setattr(vllm.LLM, "__init__", watched)
    found = vllm_engine.run(requests=3, rounds=1)
    assert found["version"] == "9.8.7" and found["start_s"] == 50.0
    assert torch.__version__.startswith(found["machine"]["torch"])  # and its build
    (llm,) = made
    assert llm.settings == {
        "dtype": "bfloat16",
        "load_format": "dummy",
        "skip_tokenizer_init": True,
        "enable_prefix_caching": False,
        "max_num_seqs": 256,
        "max_model_len": 8192,
        "gpu_memory_utilization": 0.5,
    }
    (tmp_path / "config.json").write_text(json.dumps(llm.config))
    config, ours = AutoConfig.from_pretrained(tmp_path), qwen3_06b(eos_token_id=None)
    assert config.architectures == ["Qwen3ForCausalLM"]
    assert config.dtype == torch.bfloat16
    named = {"_name_or_path", "architectures", "dtype", "transformers_version"}
    same = set(ours.to_dict()) - named
    assert "num_key_value_heads" in same
    for name in same:
        assert getattr(config, name) == getattr(ours, name), name
    warm, plain, *alone, _, with_options = vllm.calls
    trace = workloads.uniform(3)
    assert warm[0] == [asked.prompt for asked in trace]
    assert lengths(plain) == lengths(with_options) == [a.num_new for a in trace]
    assert [lengths(call) for call in alone] == [[1], [128]] * 12
    short, long = workloads.lone_prompt(), workloads.lone_prompt(6000)
    assert len(long) == 6000
    assert [prompts for prompts, _ in alone] == [[short]] * 12 + [[long]] * 12
    assert found["with_options"]["asked_for"] == OPTIONS
    for each in with_options[1]:
        assert (each.top_k, each.top_p, each.temperature) == (20, 0.95, 0.6)
    fields = {"tokens_per_s", "rounds"}
    assert {*found["with_options"]} == {"asked_for", *fields}
    assert {*found} >= {*fields, "lone", "lone_long", "flashinfer"}


@pytest.mark.parametrize("present", [False, True])
def test_flashinfer_is_forbidden_only_where_it_is_missing(site, monkeypatch, present):
    if present:
        (site / "flashinfer").mkdir()
        facts = site / "flashinfer_python-0.6.14.dist-info" / "METADATA"
        facts.parent.mkdir()
        facts.write_text("Metadata-Version: 2.1\nName: flashinfer-python\nVersion: 1\n")
    elif vllm_engine.installed("flashinfer"):
        pytest.skip("FlashInfer is installed here")
    monkeypatch.setenv("VLLM_HOST_IP", "10.0.0.7")
    vllm_engine.set_environment()
    assert os.environ.get("VLLM_USE_FLASHINFER_SAMPLER") == (None if present else "0")
    assert os.environ["HF_HUB_OFFLINE"] == "1"
    assert os.environ["VLLM_HOST_IP"] == "10.0.0.7"  # what the caller has set stays


def test_a_folder_of_the_name_alone_is_not_installed(site):
    assert vllm_engine.installed("vllm") == "9.8.7"
    shutil.rmtree(site / "vllm-9.8.7.dist-info")
    importlib.invalidate_caches()
    assert importlib.util.find_spec("vllm") and vllm_engine.installed("vllm") is None
