"""vLLM beside the engine: what it is asked, and what becomes of its times."""

import gc
import importlib
import json
import os
import shutil
import subprocess
import sys
import weakref
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from transformers import AutoConfig

from benchmarks.gpu import engine, vllm_engine, workloads
from benchmarks.gpu.shapes import qwen3_06b
from benchmarks.gpu.workloads import Asked
from helpers import fake_vllm

ROOT = Path(__file__).parents[2]
TRACE = [Asked([1, 2], 30), Asked([4], 10), Asked([5, 6, 7], 20)]


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder where packages lie; there vLLM is installed, and nothing else."""
    (tmp_path / "vllm").mkdir()
    shutil.copy(fake_vllm.__file__, tmp_path / "vllm" / "__init__.py")
    facts = tmp_path / "vllm-9.8.7.dist-info" / "METADATA"
    facts.parent.mkdir()
    facts.write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 9.8.7\n")
    monkeypatch.syspath_prepend(tmp_path)
    path = [str(tmp_path), str(ROOT), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, path)))
    for name in (*vllm_engine.ENVIRONMENT, "VLLM_USE_FLASHINFER_SAMPLER"):
        monkeypatch.setenv(name, "")  # so that it is as before after the test
        monkeypatch.delenv(name)
    return tmp_path


@pytest.fixture
def vllm(site, monkeypatch):
    """The fake, imported; its clock is the benchmark's."""
    monkeypatch.delitem(sys.modules, "vllm", raising=False)
    module = importlib.import_module("vllm")
    assert Path(module.__file__).parent.parent == site
    clock = SimpleNamespace(perf_counter=lambda: module.now)
    monkeypatch.setattr(vllm_engine, "time", clock)
    yield module
    del sys.modules["vllm"]


@pytest.fixture
def llm(vllm, tmp_path):
    vllm_engine.write_config(tmp_path)
    return vllm.LLM(str(tmp_path))


def lengths(call):
    return [each.max_tokens for each in call[1]]


def test_a_round_is_the_time_of_all_answers_and_the_median_round_counts(vllm, llm):
    vllm.takes = lambda number, tokens: [9.0, 0.5, 2.0, 1.0][number]
    assert vllm_engine.measure(llm, TRACE, rounds=3) == {
        "tokens_per_s": 60,
        "rounds": [
            {"tokens_per_s": 120, "seconds": 0.5},
            {"tokens_per_s": 30, "seconds": 2.0},
            {"tokens_per_s": 60, "seconds": 1.0},
        ],
    }


def test_each_round_asks_for_the_same_with_ids_that_are_one_higher(vllm, llm):
    vllm_engine.measure(llm, TRACE, rounds=2)
    assert [prompts for prompts, _ in vllm.calls] == [
        [[1, 2], [4], [5, 6, 7]],
        [[2, 3], [5], [6, 7, 8]],
        [[3, 4], [6], [7, 8, 9]],
    ]
    assert [lengths(call) for call in vllm.calls] == [[4] * 3, *[[30, 10, 20]] * 2]
    for each in vllm.calls[1][1]:
        assert (each.temperature, each.ignore_eos, each.detokenize) == (
            0.6,
            True,
            False,
        )
        assert not hasattr(each, "top_k")


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_short_answer_is_no_measurement(vllm, llm, number):
    vllm.too_few[number] = 1
    with pytest.raises(RuntimeError, match=r"3 tokens, not 4|19 tokens, not 20"):
        vllm_engine.measure(llm, TRACE, rounds=2)
    assert len(vllm.calls) == number + 1


def test_a_missing_answer_is_no_measurement(vllm, llm, monkeypatch):
    whole = vllm.LLM.generate
    monkeypatch.setattr(vllm.LLM, "generate", lambda *a, **b: whole(*a, **b)[:-1])
    with pytest.raises(ValueError):
        vllm_engine.measure(llm, TRACE, rounds=2)


def test_a_lone_prompts_next_token_is_what_127_more_take(vllm, llm):
    """The first of six tries is slow and left out; the median of the others counts."""
    late = [5.0, 0.05, 0.03, 0.01, 0.04, 0.02]
    vllm.takes = lambda number, tokens: 0.002 * (tokens - 1) + late[number // 2]
    assert vllm_engine.lone(llm) == {
        "prompt": 1000,
        "first_token_ms": 30.0,
        "next_token_ms": 2.0,
    }
    assert [lengths(call) for call in vllm.calls] == [[1], [128]] * 6
    prompts = [prompt for prompts, _ in vllm.calls for prompt in prompts]
    assert prompts == [workloads.lone_prompt()] * 12


def test_a_lone_prompt_repeats_the_first_one():
    first = workloads.uniform(1)[0].prompt
    prompt = workloads.lone_prompt()
    assert len(prompt) == 1000 > len(first)
    assert all(prompt[n] == first[n % len(first)] for n in range(1000))


def test_vllm_gets_the_engines_model_and_requests(vllm, monkeypatch, tmp_path):
    made, whole = [], vllm.LLM.__init__

    def watched(self, *arguments, **settings):
        made.append(self)
        whole(self, *arguments, **settings)

    monkeypatch.setattr(vllm.LLM, "__init__", watched)
    found = vllm_engine.run(requests=3, rounds=1)
    assert found["version"] == "9.8.7" and found["start_s"] == 50.0
    assert found["machine"]["torch"] == torch.__version__
    (llm,) = made
    assert llm.settings == {
        "dtype": "bfloat16",
        "load_format": "dummy",
        "skip_tokenizer_init": True,
        "enable_prefix_caching": False,
        "max_num_seqs": 256,
        "max_model_len": 4096,
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
    warm, plain, *_, with_options = vllm.calls
    trace = workloads.uniform(3)
    assert warm[0] == [asked.prompt for asked in trace]
    assert lengths(plain) == lengths(with_options) == [a.num_new for a in trace]
    assert found["with_options"]["asked_for"] == engine.OPTIONS
    for each in with_options[1]:
        assert (each.top_k, each.top_p, each.temperature) == (20, 0.95, 0.6)
    fields = {"tokens_per_s", "rounds"}
    assert {*found["with_options"]} == {"asked_for", *fields}
    assert {*found} >= {*fields, "lone", "flashinfer"}


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


def test_without_vllm_the_script_says_so(monkeypatch, capsys):
    monkeypatch.setattr(vllm_engine, "installed", lambda module: None)
    monkeypatch.setattr(sys, "argv", ["vllm_engine"])
    with pytest.raises(SystemExit):
        vllm_engine.main()
    assert "vLLM is not installed" in capsys.readouterr().err


class Paged:
    """In place of a PagedModel: somebody may look whether it is still there."""


@pytest.fixture
def rows(monkeypatch, tmp_path):
    """Runs engine.py without a GPU; gives the rows that it stores."""
    paged, order = [], []

    def make(*arguments, **options):
        paged.append(weakref.ref(new := Paged()))
        return new

    def peer(name):
        def measured(*arguments):
            order.append(name)
            return {"tokens_per_s": 1}

        return measured

    monkeypatch.setattr(engine, "random_model", torch.nn.Module)
    monkeypatch.setattr(engine.mp, "PagedModel", make)
    monkeypatch.setattr(
        engine.mp,
        "Engine",
        lambda paged, **_: SimpleNamespace(close=gc.collect, of=paged),
    )
    for name in ("reset_peak_memory_stats", "synchronize", "empty_cache"):
        monkeypatch.setattr(torch.cuda, name, lambda: None)
    for name in ("memory_allocated", "max_memory_allocated"):
        monkeypatch.setattr(torch.cuda, name, lambda: 0)
    for name in ("measure", "time_line", "lone"):
        monkeypatch.setattr(engine, name, lambda *arguments: {})
    monkeypatch.setattr(engine.huggingface_engine, "static", peer("generate"))
    monkeypatch.setattr(engine.huggingface_engine, "continuous", peer("generate_batch"))
    run_apart = vllm_engine.run_apart

    def watched(*arguments):
        assert paged[0]() is None, "our memory is not free yet"
        return run_apart(*arguments)

    monkeypatch.setattr(vllm_engine, "run_apart", watched)

    def run(*flags):
        out = tmp_path / "engine.json"
        line = ["engine", "--runs", "eager", "--requests", "3", "--rounds", "2"]
        monkeypatch.setattr(sys, "argv", [*line, "--out", str(out), *flags])
        engine.main()
        return json.loads(out.read_text())

    return run


OTHERS = ["machine", "eager", "generate", "generate_batch"]


def test_where_vllm_is_installed_its_row_stands_beside_the_others(site, rows):
    found = rows("--peers")
    assert {*found} == {*OTHERS, "vllm"}
    row = found["vllm"]
    assert row["version"] == "9.8.7" and len(row["rounds"]) == 2
    assert row["lone"]["prompt"] == 1000 and row["with_options"]["rounds"]


def test_where_vllm_is_not_installed_nothing_happens(rows, monkeypatch):
    monkeypatch.setattr(vllm_engine, "installed", lambda module: None)
    monkeypatch.setattr(subprocess, "run", None)  # a call would raise
    assert [*rows("--peers")] == OTHERS


def test_without_peers_vllm_does_not_run(site, rows, monkeypatch):
    monkeypatch.setattr(subprocess, "run", None)
    assert [*rows()] == OTHERS[:2]


def test_if_vllm_fails_its_row_says_so_and_the_others_stay(
    site, rows, monkeypatch, capfd
):
    monkeypatch.setenv("FAKE_VLLM_FAILS", "no room for 256 sequences")
    found = rows("--peers")
    assert found.pop("vllm") == {"error": "RuntimeError: no room for 256 sequences"}
    assert [*found] == OTHERS
    assert "Traceback" in capfd.readouterr().err  # the cause can be read


def test_a_silent_failure_names_its_exit_status(monkeypatch):
    killed = SimpleNamespace(returncode=-9)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: killed)
    assert vllm_engine.run_apart(3, 2) == {"error": "exit status -9"}
