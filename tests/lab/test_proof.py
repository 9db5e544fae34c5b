"""The proof, the HuggingFace column and show(): what lessons lean on."""

import json
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import torch
from transformers import GenerationConfig

import minipaged as mp
from helpers.thorough import all_or
from helpers.tiny_models import tiny_model
from minipaged import progress
from minipaged.attention.kernels import tile as triton_tile
from minipaged.decoding.strategy import Output
from minipaged.lab.tour.proof import prove, refute
from minipaged.lab.tour.reference import (
    cache_argument,
    huggingface_cache,
    huggingface_generate,
    same_cache,
)
from minipaged.lab.tour.show import show

ROOT = Path(__file__).parents[2]
GREEDY = GenerationConfig(max_new_tokens=5, eos_token_id=127)
PROMPTS = [[5, 6, 7], [8], [9, 10, 11, 12, 13]]


@pytest.fixture
def paged():
    return mp.PagedModel(tiny_model("qwen3"), num_blocks=32, block_size=4)


def test_the_same_cache_in_blocks_and_a_number_that_differs(paged):
    table, tokens = mp.BlockTable(paged.pool), PROMPTS[-1]
    paged.pool.allocate()  # so that block ids are not places in the sequence
    table.append(len(tokens))
    paged.forward(mp.RaggedBatch.build([mp.Chunk(tokens, table)]))
    theirs = huggingface_cache(paged.model, tokens)
    assert same_cache(paged.cache, table, theirs)
    assert not same_cache(paged.cache, table, huggingface_cache(paged.model, [5]))
    last = paged.cache.values[-1].flatten(0, 1)[table.slot(4)]
    for wrong in (last + 1, torch.full_like(last, torch.nan)):
        right = last.clone()
        last.copy_(wrong)
        assert not same_cache(paged.cache, table, theirs)
        last.copy_(right)
    table.append(1)
    assert not same_cache(paged.cache, table, theirs)


@pytest.mark.filterwarnings("error")
def test_the_cache_is_taken_under_the_name_of_this_release():
    """The name of another release is swallowed without a word, or warned of."""
    model, ids = tiny_model("qwen3"), torch.tensor([PROMPTS[-1]])
    mask, cache = torch.ones_like(ids), huggingface_cache(model, PROMPTS[-1][:3])
    assert cache.get_seq_length() == 3
    answer = model.generate(ids, GREEDY, attention_mask=mask, **cache_argument(cache))
    assert answer.tolist() == model.generate(ids, GREEDY, attention_mask=mask).tolist()
    assert cache.get_seq_length() == answer.shape[1] - 1


def broken(paged, prompts, config, seed=None):
    """Wrong in the last token of the last prompt."""
    out = mp.generate(paged, prompts, config, seed=seed)
    wrong = [*out[-1].sequences[0][:-1], 0]
    return [*out[:-1], Output([wrong], "length")]


def by_hand(model, prompts, config):
    """Token by token, each time the whole text: lists of new ids, and no seed."""
    answers = []
    for prompt in prompts:
        text = list(prompt)
        while len(text) < len(prompt) + config.max_new_tokens:
            text.append(model(torch.tensor([text])).logits[0, -1].argmax().item())
            if text[-1] == config.eos_token_id:
                break
        answers.append(text[len(prompt) :])
    return answers


def test_a_loop_by_hand_is_proved_without_a_paged_model(capsys):
    model = tiny_model("qwen3")
    out = prove("By hand", model, PROMPTS, GREEDY, ours=by_hand)
    assert "by hand" in capsys.readouterr().out
    assert [one.sequences for one in out] == [
        [row] for row in by_hand(model, PROMPTS, GREEDY)
    ]


def test_a_wrong_loop_by_hand_is_found(capsys):
    def eager(model, prompts, config):
        return [answer[:-1] for answer in by_hand(model, prompts, config)]

    refute("Too short", tiny_model("qwen3"), PROMPTS, GREEDY, ours=eager)
    assert "0 of 3 prompts equal" in capsys.readouterr().out


def test_another_model_may_stand_in_huggingface_s_column(paged, capsys):
    """As one whose cache rounds; here, one of fewer layers."""
    other = tiny_model("qwen3", num_hidden_layers=1)
    prove("Its own", paged, PROMPTS, GREEDY, theirs=paged.model)
    refute("Another", paged, PROMPTS, GREEDY, theirs=other)
    assert "minipaged" in capsys.readouterr().out


def test_a_proof_prints_both_columns_and_records_itself(
    paged, capsys, monkeypatch, tmp_path
):
    record = tmp_path / "proofs.jsonl"
    monkeypatch.setenv("MINIPAGED_PROOFS", str(record))
    prove("They are equal", paged, PROMPTS, GREEDY)
    printed = capsys.readouterr().out
    assert "They are equal" in printed
    assert "3 of 3 prompts equal, token for token" in printed
    assert "DIFFERENT" not in printed
    line = json.loads(record.read_text())
    assert line == {"claim": "They are equal", "prompts": 3, "equal": 3}


def test_one_wrong_token_fails_the_proof_and_is_recorded(
    paged, capsys, monkeypatch, tmp_path
):
    record = tmp_path / "proofs.jsonl"
    monkeypatch.setenv("MINIPAGED_PROOFS", str(record))
    with pytest.raises(AssertionError, match="1 differ"):
        prove("They are equal", paged, PROMPTS, GREEDY, ours=broken)
    assert capsys.readouterr().out.count("DIFFERENT") == 1
    assert json.loads(record.read_text())["equal"] == 2


def test_a_control_that_finds_the_flaw_is_recorded_as_such(
    paged, capsys, monkeypatch, tmp_path
):
    record = tmp_path / "proofs.jsonl"
    monkeypatch.setenv("MINIPAGED_PROOFS", str(record))
    refute("The last token is wrong", paged, PROMPTS, GREEDY, ours=broken)
    assert capsys.readouterr().out.count("DIFFERENT") == 1
    line = json.loads(record.read_text())
    assert line == {"control": "The last token is wrong", "prompts": 3, "equal": 2}


def test_a_control_without_a_flaw_fails(paged):
    with pytest.raises(AssertionError, match="does not notice"):
        refute("Nothing is wrong", paged, PROMPTS, GREEDY)


def test_a_difference_far_to_the_right_is_seen(paged, capsys):
    config = GenerationConfig(max_new_tokens=60, eos_token_id=127)
    with pytest.raises(AssertionError):
        prove("They are equal", paged, PROMPTS, config, ours=broken)
    (line,) = [
        line for line in capsys.readouterr().out.splitlines() if "DIFFERENT" in line
    ]
    columns = line.replace("  DIFFERENT", "").split("...")
    assert len(columns) >= 3 and columns[-1].endswith(" 0")


def test_a_quiet_proof_says_one_line(paged, capsys):
    out = prove("They are equal", paged, PROMPTS, GREEDY, quiet=True)
    said = "They are equal: 3 of 3 prompts equal, token for token\n"
    assert capsys.readouterr().out == said
    assert len(out) == 3


def test_a_quiet_proof_that_fails_shows_the_columns(paged, capsys):
    with pytest.raises(AssertionError, match="1 differ"):
        prove("They are equal", paged, PROMPTS, GREEDY, ours=broken, quiet=True)
    assert capsys.readouterr().out.count("DIFFERENT") == 1


def test_a_prompt_that_failed_stands_in_the_table(paged, capsys):
    with pytest.raises(AssertionError, match="1 differ"):
        prove("All fit", paged, [[5] * 200, [6]], GREEDY)
    assert "DIFFERENT" in capsys.readouterr().out


def test_the_reference_cuts_after_eos_and_keeps_it():
    model = tiny_model("qwen3")
    eos = list(range(3, 40))
    config = GenerationConfig(max_new_tokens=30, do_sample=True, eos_token_id=eos)
    config.num_return_sequences = 5
    (rows,) = huggingface_generate(model, [[5, 6]], config, seed=0)
    assert len({len(row) for row in rows}) > 1
    for row in rows:
        assert all(token not in eos for token in row[:-1])
        assert row[-1] in eos or len(row) == 30


def test_the_reference_leaves_the_global_generator_alone():
    model = tiny_model("qwen3")
    config = GenerationConfig(max_new_tokens=3, do_sample=True)
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    huggingface_generate(model, [[5, 6]], config, seed=9)
    assert torch.equal(torch.rand(4), expected)


@pytest.mark.parametrize(("value", "silent"), [("1", True), ("0", False), ("", False)])
def test_progress_bars_can_be_switched_off_in_notebooks_too(monkeypatch, value, silent):
    """tqdm's notebook bar does not look at the variable; ours hands it over."""
    seen = {}
    monkeypatch.setattr(progress, "ProgressBar", lambda *_, **own: seen.update(own))
    monkeypatch.setenv("TQDM_DISABLE", value)
    progress.progress_bar(range(3))
    assert seen == {"delay": 2, "disable": silent}


def test_nothing_to_prove_is_no_proof(paged):
    with pytest.raises(ValueError, match="give at least one prompt"):
        prove("Nothing", paged, [], GREEDY)


def test_show_displays_the_source_that_runs(monkeypatch):
    shown = []
    monkeypatch.setattr(
        "minipaged.lab.tour.show.display", lambda m: shown.append(m.data)
    )
    show(mp.BlockPool.release, mp.BlockTable)
    assert shown[0].startswith("*minipaged/memory/block_pool.py*\n")
    assert "\n```python\ndef release" in shown[0]
    assert "class BlockTable:" in shown[1]


def test_neighbours_share_a_head_and_can_be_folded(monkeypatch):
    shown = []
    monkeypatch.setattr(
        "minipaged.lab.tour.show.display", lambda m: shown.append(m.data)
    )
    show(mp.BlockPool.share, mp.BlockPool.release, mp.BlockTable.fork, fold=True)
    assert len(shown) == 2
    assert "def share" in shown[0] and "def release" in shown[0]
    assert shown[0].startswith("<details><summary><em>minipaged/memory/block_pool.py")
    assert "BlockPool.share, BlockPool.release (click)" in shown[0]
    show(progress, fold=True)
    assert "minipaged.progress (click)" in shown[2]


def run_lessons(path):
    script = str(ROOT / "tools" / "run_lessons.py")
    return subprocess.run(
        [sys.executable, script, str(path)], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("source", "message"),
    all_or(
        [
            ("1 / 0", "FAILED: ZeroDivisionError"),
            ("print('no proof')", "proved nothing"),
        ],
        [("print('no proof')", "proved nothing")],
    ),
)
def test_a_lesson_that_fails_or_proves_nothing_is_reported(tmp_path, source, message):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    nbformat.write(notebook, tmp_path / "lesson.ipynb")
    result = run_lessons(tmp_path / "lesson.ipynb")
    assert result.returncode == 1
    assert message in result.stdout


def test_of_a_kernel_the_function_is_shown(monkeypatch):
    shown = []
    monkeypatch.setattr(
        "minipaged.lab.tour.show.display", lambda m: shown.append(m.data)
    )
    show(triton_tile.divide, triton_tile.slots_of)
    (text,) = shown
    assert text.startswith("*minipaged/attention/kernels/tile.py*")
    assert text.count("@triton.jit") == 2 and "block.to(tl.int64)" in text
