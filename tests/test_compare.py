"""All ways side by side: as a user runs it, on families, and with a flaw planted."""

import subprocess
import sys
from pathlib import Path

import pytest

import minipaged as mp
from benchmarks.cpu.tiny_families import tiny_family
from helpers.tiny_models import tiny_model
from minipaged import compare as comparing
from minipaged.attention.gathered import attend_gathered
from minipaged.compare import Way, compare, main, one_at_a_time

ROOT = Path(__file__).parent.parent
WAYS = (
    "HuggingFace",
    "gathered",
    "online softmax",
    "safe softmax",
    "continuous batching",
    "ragged batch",
)
PROMPTS = [list(range(3, 3 + n)) for n in (1, 8, 13, 30)]
QUICK = ["--rounds", "1", "--max-new-tokens", "8", "--device", "cpu"]


@pytest.fixture(scope="module")
def pocket():
    return mp.load("pocket", device="cpu")


@pytest.fixture
def saved(tmp_path, pocket):
    """Saves a tiny model of some architecture with a tokenizer; returns its folder."""

    def save(name):
        tiny_model(name, vocab_size=len(pocket[1])).save_pretrained(tmp_path)
        pocket[1].save_pretrained(tmp_path)
        return str(tmp_path)

    return save


def test_the_command_prints_a_table_of_the_pocket_model():
    result = subprocess.run(
        [sys.executable, "-m", "minipaged.compare", "pocket", *QUICK],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 88
    for way in WAYS:
        row, what = (line for line in lines if line.startswith(way))
        assert (" 5 of 5 " in row) == (way != "HuggingFace")
        assert what.removeprefix(way).strip()
    assert lines[-1] == "all texts equal HuggingFace's, token for token"


@pytest.mark.parametrize("name", ["gpt2", "llama", "gemma3_text"])
def test_a_folder_of_each_family_is_equal_in_every_way(name, saved, capsys):
    assert main([saved(name), "--prompt", "Once upon a time", *QUICK]) == 0
    table = capsys.readouterr().out
    assert table.count(" 1 of 1 ") == len(WAYS) - 1  # HuggingFace is the measure


def test_what_each_way_holds_is_what_its_tokens_need():
    """Half the blocks are too few here: in continuous batching, one is preempted."""
    model, new, size = tiny_model("llama"), 24, 4
    bytes_per_token = 2 * 3 * 64 * 4  # K and V, layers, hidden size, float32
    rows = {row.way: row for row in compare(model, PROMPTS, new, size, rounds=1)}
    assert tuple(rows) == WAYS
    texts = rows["HuggingFace"].texts
    assert all(
        text and row.texts[n] == text
        for n, text in enumerate(texts)
        for row in rows.values()
    )
    # Of the last token, nothing is computed.
    cached = [len(p) + len(t) - 1 for p, t in zip(PROMPTS, texts, strict=True)]
    needs = [-(-(len(p) + new - 1) // size) for p in PROMPTS]
    huggingface = rows.pop("HuggingFace")
    assert huggingface.kv_bytes == max(cached) * bytes_per_token
    assert huggingface.held_blocks is huggingface.pool_blocks is None
    for row in rows.values():
        assert row.held_blocks <= row.pool_blocks
        assert row.kv_bytes == row.held_blocks * size * bytes_per_token
        assert 0 < row.filled <= 1 and row.seconds > 0 and row.tokens_per_second > 0
    for way in ("gathered", "online softmax", "safe softmax"):
        assert rows[way].pool_blocks == max(needs)
        assert rows[way].held_blocks == -(-max(cached) // size)
        assert rows[way].filled == max(cached) / (rows[way].held_blocks * size)
    assert rows["continuous batching"].pool_blocks == sum(needs) // 2
    assert rows["ragged batch"].pool_blocks == sum(needs)
    assert rows["ragged batch"].held_blocks > max(needs)  # several at a time


def test_a_model_whose_cache_is_of_its_own_kind():
    model = tiny_family("minimax", layer_types=["full_attention"] * 4)
    assert all(row.is_equal for row in compare(model, PROMPTS[:2], 4, rounds=1))


def near_sighted(q, cache, batch, masking):
    """Right for short texts, such as those that a model is probed with."""
    return attend_gathered(q, cache, batch, masking._replace(sliding_window=12))


def test_a_wrong_attention_is_told_by_its_row_and_by_the_exit_status(
    saved, capsys, monkeypatch
):
    way = Way("sees twelve tokens", one_at_a_time, max, near_sighted)
    monkeypatch.setitem(comparing.WAYS, "near-sighted", way)
    texts = ["The cat", "One day, a fox met a penguin who had lost his hat."]
    prompts = [f"--prompt={text}" for text in texts]
    assert main([saved("llama"), *prompts, *QUICK, "--block-size", "4"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert " 1 of 2 " in next(line for line in lines if line.startswith("near-sighted"))
    assert lines[-1] == "DIFFERENT from HuggingFace: near-sighted"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["no/such/folder/at/all"], "'no/such/folder/at/all' cannot be used"),
        (["pocket", "--prompt", ""], "a prompt has no tokens"),
        (["pocket", "--max-new-tokens", "9999"], "positions; shorten the prompt"),
        (["pocket", "--num-blocks", "1"], "raise num_blocks"),
        (["pocket", "--block-size", "0"], "block_size must be a whole number from 1"),
        (["pocket", "--rounds", "0"], "rounds must be a whole number from 1"),
    ],
    ids=str,
)
def test_what_cannot_be_compared_is_told_in_words(arguments, words, capsys):
    with pytest.raises(SystemExit) as ended:
        main([*QUICK, *arguments])
    out, err = capsys.readouterr()
    assert ended.value.code == 2 and out == ""
    assert words in err and len(err.splitlines()) == 1


def test_a_model_that_is_refused_is_not_run(saved, capsys):
    with pytest.raises(SystemExit) as ended:
        main([saved("bloom"), *QUICK])
    out, err = capsys.readouterr()
    assert ended.value.code == 2 and out == ""
    assert "BloomForCausalLM" in err


def test_without_prompts_there_is_nothing_to_compare():
    with pytest.raises(ValueError, match="give at least one prompt"):
        compare(tiny_model("llama"), [])
