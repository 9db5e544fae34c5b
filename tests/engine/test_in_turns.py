"""Engines in processes of their own, asked in turns: what becomes of their times."""

import os
from functools import partial

import pytest

from benchmarks.gpu import in_turns
from benchmarks.gpu.in_turns import EngineFailed
from benchmarks.gpu.workloads import Asked
from helpers import other_engines

TRACE = [Asked([1, 2], 30), Asked([4], 10), Asked([5, 6, 7], 20)]


class Noting:
    """An engine that takes `seconds`, and notes in a file who was asked for what."""

    def __init__(self, file, name, seconds):
        self.file, self.name, self.seconds = file, name, seconds

    def __call__(self, trace):
        first, asked = trace[0].prompt[0], [each.num_new for each in trace]
        with open(self.file, "a") as file:
            print(self.name, os.getpid(), first, *asked, file=file)
        return self.seconds


def broken():
    raise MemoryError("no room")


def ends():
    os._exit(3)


def test_each_engine_has_a_process_and_is_asked_in_turns(tmp_path):
    file, noted = tmp_path / "asked.txt", []
    engines = {
        name: partial(Noting, file, name, seconds) for name, seconds in MADE.items()
    }
    found = in_turns.measure(of_makers(engines), TRACE, 2, lambda f: noted.append(f))
    lines = [line.split() for line in file.read_text().splitlines()]
    assert len({pid for _, pid, *_ in lines}) == 2
    rows = [(name, int(first), *map(int, asked)) for name, _, first, *asked in lines]
    assert rows[:6] == [
        ("a", 1, 4, 4, 4),
        ("b", 1, 4, 4, 4),
        ("a", 2, 30, 10, 20),
        ("b", 2, 30, 10, 20),
        ("a", 3, 30, 10, 20),
        ("b", 3, 30, 10, 20),
    ]
    assert [name for name, *_ in rows[6:]] == ["a"] * 12 + ["b"] * 12
    assert found["a"]["tokens_per_s"] == 120 and found["b"]["tokens_per_s"] == 30
    assert found["b"]["rounds"] == [{"tokens_per_s": 30, "seconds": 2.0}] * 2
    assert found["a"]["lone_long"]["first_token_ms"] == 500
    assert noted[-1] is found


MADE = {"a": 0.5, "b": 2.0}


class Maker:
    """Makes it in the other process."""

    def __init__(self, make):
        self.make = make

    def __call__(self):
        return self.make()


def of_makers(engines):
    return {name: Maker(make) for name, make in engines.items()}


def test_engines_that_do_not_start_are_named_and_the_others_measured(tmp_path):
    engine = partial(Noting, tmp_path / "asked.txt", "a", 1.0)
    engines = {"broken": broken, "a": Maker(engine), "ends": ends}
    found = in_turns.measure(engines, TRACE, 1, lambda found: None)
    assert found["broken"] == {"error": "MemoryError: no room"}
    assert found["ends"] == {"error": "the process has ended"}
    assert found["a"]["tokens_per_s"] == 60


class TooFew:
    def __call__(self, trace):
        raise RuntimeError("19 tokens, not 20")


def test_an_answer_of_another_length_ends_the_run():
    with pytest.raises(EngineFailed, match="19 tokens, not 20"):
        in_turns.measure({"a": TooFew}, TRACE, 1, lambda found: None)


def test_vllm_is_asked_for_8_bits_and_for_as_much_room(tmp_path, monkeypatch):
    other_engines.make_site(tmp_path, monkeypatch)
    other_engines.install(tmp_path, "vllm")
    both = {name: in_turns.ENGINES[name] for name in ("vllm", "vllm_fp8")}
    found = in_turns.measure(both, TRACE, 1, lambda found: None)
    assert all(found[name]["tokens_per_s"] > 0 for name in both)
    made = []
    with other_engines.imported(tmp_path, "vllm", monkeypatch) as fake:
        monkeypatch.setattr(
            fake.LLM, "__init__", lambda self, **settings: made.append(settings)
        )
        for make in both.values():
            make()
    plain, eight = ({**settings} for settings in made)
    for settings in (plain, eight):
        del settings["model"]
    assert eight.pop("kv_cache_dtype") == "fp8" and "kv_cache_dtype" not in plain
    room = plain.pop("kv_cache_memory_bytes")
    assert room == 2 * eight.pop("kv_cache_memory_bytes")
    tokens = in_turns.NUM_BLOCKS * 16
    assert tokens < room / (28 * 8 * 128 * 2 * 2) < 1.1 * tokens
    assert plain == eight
