"""`minipaged serve`: its flags, and what it says of wrong ones."""

import json
import tomllib
from pathlib import Path

import pytest

import minipaged as mp
from minipaged.serving import command
from minipaged.serving.command import build, main, make_engine, parser
from minipaged.serving.hosts import EngineInThread

ROOT = Path(__file__).parent.parent.parent


NO_METHOD = '{"num_speculative_tokens": 4}'
UNKNOWN = '{"method": "ngram", "num_speculative_tokens": 4, "num_guesses": 4}'


def build_with(*flags):
    given = parser().parse_args(["serve", "pocket", "--num-blocks", "64", *flags])
    engine = make_engine(given)
    return build(given, EngineInThread(engine)).state.door, engine


def test_the_script_is_the_command():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == {"minipaged": f"{command.__name__}:{main.__name__}"}


def test_it_listens_on_this_machine_only_unless_told():
    given = parser().parse_args(["serve", "pocket"])
    assert given.host == "127.0.0.1" and given.port == 8000
    assert given.api_key is None and given.enable_prefix_caching


def test_guesses_are_asked_for_in_vllm_s_words():
    """They change no answer."""
    prompt = [5, 6, 7, 8] * 6
    _, engine = build_with()
    right = engine.add(prompt).result().sequences
    for asked in [
        {"method": "ngram", "prompt_lookup_max": 3},
        {"method": "suffix"},
        {"model": "pocket"},
    ]:
        text = json.dumps({"num_speculative_tokens": 4, **asked})
        _, engine = build_with("--speculative-config", text)
        assert engine.add(prompt).result().sequences == right
        assert 0 < engine.stats.num_draft_tokens <= 4 * engine.stats.num_drafts


def test_a_share_of_the_gpu_s_memory_is_handed_on(monkeypatch):
    asked = []

    def find_room(_paged, _block_size, share):
        asked.append(share)
        return 64

    monkeypatch.setattr("minipaged.model.room.blocks_with_room", find_room)
    model, _ = mp.load("pocket", device="cpu")
    mp.PagedModel(model, "auto", gpu_memory_utilization=0.3)
    assert asked == [0.3]
    given = parser().parse_args(["serve", "pocket"])
    given = parser().parse_args(["serve", "pocket"])
    assert given.gpu_memory_utilization is None


@pytest.mark.parametrize(("flags", "share"), [([], 0.9), (["0.4"], 0.4)])
def test_the_flag_for_a_gpu_s_memory_reaches_the_model(monkeypatch, flags, share):
    def wrap(_model, num_blocks, *_, gpu_memory_utilization, **__):
        raise RuntimeError(f"{num_blocks} {gpu_memory_utilization}")

    on_cpu = mp.load("pocket", device="cpu")
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("minipaged.model.load.load", lambda *_, **__: on_cpu)
    monkeypatch.setattr("minipaged.model.paged_model.PagedModel", wrap)
    flags = ["--gpu-memory-utilization", *flags] if flags else []
    with pytest.raises(RuntimeError, match=f"^auto {share}$"):
        make_engine(parser().parse_args(["serve", "pocket", *flags]))


def test_a_flag_for_a_gpu_is_refused_where_there_is_none(monkeypatch, capsys):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    flags = ["--gpu-memory-utilization", "0.5", "--no-engine-process"]
    with pytest.raises(SystemExit) as ended:
        main(["serve", "pocket", *flags])
    said = " ".join(capsys.readouterr().err.split())
    assert ended.value.code == 2
    assert "needs a GPU" in said and "--num-blocks" in said


def test_help_begins_with_the_command(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    said = capsys.readouterr().out
    assert "\n`minipaged serve MODEL`: load it" in said and "Lab:" not in said


def test_flags_reach_the_engine():
    door, engine = build_with(
        "--block-size", "8", "--max-num-seqs", "7", "--max-num-batched-tokens", "99",
        "--no-enable-prefix-caching", "--max-queue", "5",
    )  # fmt: skip
    pool, scheduler = engine.paged.pool, engine.scheduler
    assert (pool.num_blocks, pool.block_size) == (64, 8)
    assert (scheduler.max_sequences, scheduler.max_tokens) == (7, 99)
    assert scheduler.prefix_cache is None and door.capacity == 12
    _, engine = build_with()
    assert engine.scheduler.prefix_cache is not None
    assert not engine.paged.deterministic
    _, engine = build_with("--deterministic")
    assert engine.paged.deterministic
    assert engine.paged.kv_scales is None
    for kind in ("fp8", "fp8_v"):
        _, engine = build_with("--kv-cache-dtype", kind)
        assert engine.paged.kv_scales.kind == kind


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["/no/such/model"], "is no folder"),
        (["pocket", "--max-model-len", "3000"], "allow 2048; lower it"),
        (["pocket", "--num-blocks", "0"], "a whole number from 1"),
        (["pocket", "--request-timeout", "nan"], "seconds, more than 0"),
        (["pocket", "--gpu-memory-utilization", "1.1"], "at most 1"),
        (["pocket", "--speculative-config", "4"], "--speculative-config: JSON"),
        (["pocket", "--speculative-config", NO_METHOD], 'give "model", or "method"'),
        (["pocket", "--speculative-config", UNKNOWN], "num_guesses: Extra"),
        (["pocket", "--max-num-seqs", "9", "--max-num-batched-tokens", "8"], "raise"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_served(flags, words, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["serve", *flags])
    assert ended.value.code == 2 and words in capsys.readouterr().err


def test_keys_may_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("MINIPAGED_API_KEY", "one,two")
    given = parser().parse_args(["serve", "pocket", "--num-blocks", "64"])
    app = build(given, EngineInThread(make_engine(given)))
    gates = [one for one in app.user_middleware if "keys" in one.kwargs]
    keys = gates[0].kwargs["keys"]
    assert keys.salt_of("Bearer two") != keys.salt_of("Bearer one")
    with pytest.raises(Exception, match="needs a key"):
        keys.salt_of("Bearer three")
