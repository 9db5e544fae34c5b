"""The capstone's file in parts, and what its checks say."""

from collections.abc import Callable

import pytest

from helpers import capstone_of_a_reader
from helpers.attempts_of_capstone import CHECKS, MISTAKES, functions
from minipaged.lab import check, planted, show_part, solution, tiny_vllm, write_mine
from minipaged.lab.check import capstone, capstone_scenarios
from minipaged.lab.tour.capstone import FILE, STEPS, part, text_of

PARTS = {name: part(name) for names in STEPS.values() for name in names}


def told(name: str, parts: dict[str, str]) -> list:
    return capstone._told(parts, getattr(capstone_scenarios, name))


def alike(one: list, other: list) -> bool:
    if len(one) != len(other):
        return False
    pairs = zip(one, other, strict=True)
    return all(capstone._same(a, b) for (_, a), (_, b) in pairs)


@pytest.mark.parametrize("name", CHECKS)
def test_each_mistake_is_seen_and_told_from_the_others(name):
    seen = [told(name, {})]
    assert not isinstance(seen[0][-1][1], Exception)
    for said, mistake in MISTAKES[name].items():
        found = told(name, planted(*mistake))
        assert not any(alike(found, other) for other in seen), said
        seen.append(found)


def test_a_check_returns_what_is_right():
    attempt = functions("one token")
    assert [*check.one_token(*attempt)] == ["norm", "rotate", "forward"]


@pytest.mark.parametrize("name", CHECKS)
def test_another_solution_is_accepted(name, capsys):
    attempt = getattr(capstone_of_a_reader, name)
    assert getattr(check, name)(*(attempt if isinstance(attempt, tuple) else [attempt]))
    assert "accepted" in capsys.readouterr().out


def my_norm(x, weight, eps):
    raise NotImplementedError


def my_rotate(x, cos, sin):
    return x


def test_one_function_of_a_step_may_be_missing(capsys):
    _, rotate, forward = functions("one token")
    assert [*check.one_token(my_norm, rotate, forward)] == ["rotate", "forward"]
    said = capsys.readouterr().out
    assert "norm: not attempted" in said and "accepted" not in said
    assert check.one_token(my_norm, my_rotate, forward) == {}
    assert "rotate of [3, 2, 8]: got" in capsys.readouterr().out


@pytest.mark.parametrize("attempt", [3, int, lambda self: None])
def test_what_is_no_function_of_the_reader_is_rejected(attempt: Callable, capsys):
    assert check.too_small_a_pool(attempt) == {}
    assert "rejected" in capsys.readouterr().out


def test_an_error_is_told_with_its_line(capsys):
    wrong = planted("take", "last=False", "last=nobody")
    assert check.blocks_and_tables(*functions("blocks", wrong)) == {}
    said = capsys.readouterr().out
    assert "name 'nobody' is not defined (in the line `block, _ =" in said


def test_the_reader_s_file_holds_all_parts_where_they_belong(tmp_path, capsys):
    path = tmp_path / "mine.py"
    write_mine(PARTS, str(path))
    assert path.read_text() == FILE.read_text()
    mine = PARTS | planted("take", "A free block", "Some block")
    write_mine(mine, str(path))
    assert path.read_text() == FILE.read_text().replace("A free block", "Some block")
    assert "is written" in capsys.readouterr().out


def test_missing_parts_are_named(tmp_path, capsys):
    path = tmp_path / "mine.py"
    write_mine({name: PARTS[name] for name in PARTS if name != "rotate"}, str(path))
    assert not path.exists()
    assert "one token: rotate" in capsys.readouterr().out


def test_my_name_is_the_file_s_name():
    name, text = text_of(my_rotate)
    assert name == "rotate" and text.startswith("def rotate(x, cos, sin)")


def test_a_bug_is_planted_once():
    with pytest.raises(ValueError, match="exactly once"):
        planted("take", "block", "slot")


def test_a_module_with_parts_runs_them():
    tiny = tiny_vllm(planted("take", "last=False", "last=True"))
    assert tiny.BlockPool(4, 4).take() == 3
    assert tiny_vllm().BlockPool(4, 4).take() == 0


def shown(monkeypatch, function, *names) -> str:
    texts = []
    module = "minipaged.lab.tour.{}.display"
    for name in "capstone", "show":
        monkeypatch.setattr(module.format(name), lambda it: texts.append(it.data))
    function(*names)
    return "".join(texts)


def test_parts_are_shown(monkeypatch):
    text = shown(monkeypatch, show_part, "Qwen3.norm", "norm")
    assert "def norm(self, x" in text and "def norm(x: Tensor, weight" in text


def test_a_solution_has_the_reader_s_names(monkeypatch):
    text = shown(monkeypatch, solution, "my_step", "my_norm")
    assert "<summary>Solution</summary>" in text
    assert (
        "@torch.inference_mode()\ndef my_step(self)" in text and "def my_norm(" in text
    )
