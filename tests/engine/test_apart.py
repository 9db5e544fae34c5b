"""Engines of others in processes of their own: what becomes of their times."""

import gc
import json
import runpy
import subprocess
import sys
import weakref
from types import SimpleNamespace

import pytest
import torch

from benchmarks.gpu import apart, engine, vllm_engine, workloads
from benchmarks.gpu.workloads import Asked
from helpers import other_engines
from helpers.thorough import thorough_only

TRACE = [Asked([1, 2], 30), Asked([4], 10), Asked([5, 6, 7], 20)]
MODULES = {"vllm": "vllm"}  # of an engine by this name


class Seconds:
    """In place of an engine's `seconds_for`: notes what it is asked."""

    def __init__(self, takes):
        self.takes, self.asked = takes, []

    def __call__(self, trace):
        self.asked.append([(each.prompt, each.num_new) for each in trace])
        return self.takes(len(self.asked) - 1, workloads.num_answered(trace))


# --- rounds, and a user alone ---------------------------------------------------------


def test_a_round_is_the_time_of_all_answers_and_the_median_round_counts():
    seconds_for = Seconds(lambda number, tokens: [9.0, 0.5, 2.0, 1.0][number])
    assert apart.measure(seconds_for, TRACE, rounds=3) == {
        "tokens_per_s": 60,
        "rounds": [
            {"tokens_per_s": 120, "seconds": 0.5},
            {"tokens_per_s": 30, "seconds": 2.0},
            {"tokens_per_s": 60, "seconds": 1.0},
        ],
    }


def test_each_round_asks_for_the_same_with_ids_that_are_one_higher():
    seconds_for = Seconds(lambda number, tokens: 1.0)
    apart.measure(seconds_for, TRACE, rounds=2)
    assert seconds_for.asked == [
        [([1, 2], 4), ([4], 4), ([5, 6, 7], 4)],
        [([2, 3], 30), ([5], 10), ([6, 7, 8], 20)],
        [([3, 4], 30), ([6], 10), ([7, 8, 9], 20)],
    ]


def test_a_lone_prompts_next_token_is_what_127_more_take():
    """The first of six tries is slow and left out; the median of the others counts."""
    late = [5.0, 0.05, 0.03, 0.01, 0.04, 0.02]
    seconds_for = Seconds(
        lambda number, tokens: 0.002 * (tokens - 1) + late[number // 2]
    )
    assert apart.lone(seconds_for) == {
        "prompt": 1000,
        "first_token_ms": 30.0,
        "next_token_ms": 2.0,
    }
    prompt = workloads.lone_prompt()
    assert seconds_for.asked == [[(prompt, 1)], [(prompt, 128)]] * 6


def test_where_prefixes_are_cached_no_lone_prompt_comes_twice():
    seconds_for = Seconds(lambda number, tokens: 1.0)
    apart.lone(seconds_for, num_prompt=5, step=100)
    first = workloads.lone_prompt(5)
    found = [prompt for ((prompt, _),) in seconds_for.asked]
    assert found == [[id + 100 * n for id in first] for n in range(1, 13)]


def test_a_lone_prompt_repeats_the_first_one():
    first = workloads.uniform(1)[0].prompt
    prompt = workloads.lone_prompt()
    assert len(prompt) == 1000 > len(first)
    assert all(prompt[n] == first[n % len(first)] for n in range(1000))


def test_an_answer_that_is_short_long_or_missing_is_no_measurement():
    right = [[0] * asked.num_new for asked in TRACE]
    apart.check_lengths(TRACE, right)
    for wrong in ([0] * 19, [0] * 21, []):
        with pytest.raises(RuntimeError, match=f"{len(wrong)} tokens, not 20"):
            apart.check_lengths(TRACE, [*right[:-1], wrong])
    for wrong in (right[:-1], [*right, []]):
        with pytest.raises(ValueError):
            apart.check_lengths(TRACE, wrong)


# --- a process that fails -------------------------------------------------------------


def failing(monkeypatch, *lines):
    """A process that writes these lines and ends; what becomes of them."""

    def run(command, stderr):
        stderr.writelines(line + "\n" for line in lines)
        return SimpleNamespace(returncode=-9)

    monkeypatch.setattr(subprocess, "run", run)
    return apart.run_apart("vllm", 3, 2)


def test_a_silent_failure_names_its_exit_status(monkeypatch):
    assert failing(monkeypatch) == {"error": "exit status -9"}


def test_of_a_failure_the_last_line_is_told_and_all_are_printed(monkeypatch, capsys):
    lines = ["Traceback", "ValueError: no room", " ", ""]
    assert failing(monkeypatch, *lines) == {"error": "ValueError: no room"}
    assert "Traceback\nValueError: no room\n" in capsys.readouterr().err


def test_what_torch_says_when_it_goes_is_not_why(monkeypatch, capsys):
    """After any failure of an engine that has a process group."""
    farewell = "Warning: destroy_process_group() was not called before program exit"
    lines = ["[rank0]: ValueError: no room", f"[rank0]:[W ProcessGroup] {farewell}"]
    assert failing(monkeypatch, *lines) == {"error": lines[0]}
    assert farewell in capsys.readouterr().err


# --- rows of engine.py ----------------------------------------------------------------


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder where packages lie: none of them."""
    folder = tmp_path / "site"
    folder.mkdir()
    other_engines.make_site(folder, monkeypatch)
    for name in (*vllm_engine.ENVIRONMENT, "VLLM_USE_FLASHINFER_SAMPLER"):
        monkeypatch.setenv(name, "")  # so that it is as before after the test
        monkeypatch.delenv(name)
    return folder


class Paged:
    """In place of a PagedModel: somebody may look whether it is still there."""


@pytest.fixture
def rows(monkeypatch, tmp_path):
    """Runs engine.py without a GPU; gives the rows that it stores."""
    paged = []

    def make(*arguments, **options):
        paged.append(weakref.ref(new := Paged()))
        return new

    def peer(*arguments):
        return {"tokens_per_s": 1}

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
    monkeypatch.setattr(engine.huggingface_engine, "static", peer)
    monkeypatch.setattr(engine.huggingface_engine, "continuous", peer)
    run_apart = apart.run_apart

    def watched(*arguments):
        assert paged[0]() is None, "our memory is not free yet"
        return run_apart(*arguments)

    monkeypatch.setattr(apart, "run_apart", watched)

    def run(*flags):
        out = tmp_path / "engine.json"
        line = ["engine", "--runs", "eager", "--requests", "3", "--rounds", "2"]
        monkeypatch.setattr(sys, "argv", [*line, "--out", str(out), *flags])
        engine.main()
        return json.loads(out.read_text())

    return run


OURS = ["machine", "eager"]
ALWAYS = ["generate", "generate_batch"]


def test_what_is_installed_has_a_row_before_the_others(site, rows):
    other_engines.install(site, "vllm")
    found = rows("--peers")
    assert [*found] == [*OURS, "vllm", *ALWAYS]
    row = found["vllm"]
    assert row["version"] == "9.8.7" and len(row["rounds"]) == 2
    assert row["lone"]["prompt"] == 1000 and "with_options" in row


def test_what_is_not_installed_has_none(rows, monkeypatch):
    monkeypatch.setattr(engine, "installed", lambda module: None)
    monkeypatch.setattr(subprocess, "run", None)  # a call would raise
    assert [*rows("--peers")] == [*OURS, *ALWAYS]


def test_without_peers_nothing_else_runs(site, rows, monkeypatch):
    for module in MODULES.values():
        other_engines.install(site, module)
    monkeypatch.setattr(subprocess, "run", None)
    assert [*rows()] == OURS


@thorough_only
@pytest.mark.parametrize("name", MODULES)
def test_if_one_fails_its_row_says_so_and_the_others_stay(
    site, rows, monkeypatch, capfd, name
):
    other_engines.install(site, MODULES[name])
    said = "no room for 256 sequences"
    monkeypatch.setenv(f"FAKE_{MODULES[name].upper()}_FAILS", said)
    found = rows("--peers")
    assert found.pop(name)["error"].endswith(f"Error: {said}")
    assert [*found] == [*OURS, *ALWAYS]
    assert "Traceback" in capfd.readouterr().err  # the cause can be read


@pytest.mark.parametrize(
    ("name", "said"), [("vllm", "vLLM is not"), ("nano_vllm", "nano-vllm is not")]
)
def test_a_script_without_its_engine_says_so(monkeypatch, capsys, name, said):
    script = f"benchmarks.gpu.{name}_engine"
    monkeypatch.setattr(apart, "installed", lambda module: None)
    monkeypatch.setattr(sys, "argv", [script])
    monkeypatch.delitem(sys.modules, script, raising=False)
    with pytest.raises(SystemExit):
        runpy.run_module(script, run_name="__main__")
    assert f"{said} installed here" in capsys.readouterr().err
