"""The compiler that a lesson asks, and the changes that it shows."""

import inspect

import pytest

triton = pytest.importorskip("triton")

from minipaged.attention.kernels import write  # noqa: E402
from minipaged.attention.kernels.setup import tl  # noqa: E402
from minipaged.attention.kernels.setup import triton as ours  # noqa: E402
from minipaged.lab import (  # noqa: E402
    Refused,
    ask_compiler,
    show_change,
)
from minipaged.lab.tour import compiler, ladder  # noqa: E402
from minipaged.lab.tour.assembly import assembly_of, count_copies  # noqa: E402


@ours.jit
def copies(out, x, TILE: tl.constexpr):
    at = tl.arange(0, TILE)
    tl.store(out + at, tl.load(x + at))


@ours.jit
def asks_a_tile(out, x, TILE: tl.constexpr):
    at = tl.arange(0, TILE)
    if tl.load(x + at) > 0:
        tl.store(out + at, 0.0)


@ours.jit
def up_to(out, x, last, TILE: tl.constexpr):
    at = tl.arange(0, TILE)
    tl.store(out + at, tl.load(x + at, mask=at < last))


def in_a_notebook(kernel, monkeypatch):
    """The same kernel, as if a cell had defined it."""
    monkeypatch.setattr(kernel.fn, "__module__", "__main__")
    source = inspect.getsource(kernel.fn).replace("@ours", "@triton")
    monkeypatch.setattr("inspect.getsource", lambda function: source)
    return kernel


def interrupt():
    raise KeyboardInterrupt


def test_a_kernel_of_a_notebook_is_compiled(monkeypatch):
    text = ask_compiler(in_a_notebook(copies, monkeypatch), TILE=128)
    assert ".entry copies" in text and "ld.global" in text


def test_products_are_summed_in_one_instruction_and_nothing_is_warned_of(monkeypatch):
    monkeypatch.setattr(compiler, "_waiting", [])
    kernel = in_a_notebook(copies, monkeypatch)
    source = inspect.getsource(kernel.fn)
    fused = source.replace("tl.load(x + at)", "tl.load(x + at) * at + 1.5")
    monkeypatch.setattr("inspect.getsource", lambda function: fused)
    assert "fma.rn.f32" in ask_compiler(kernel, TILE=16)
    (process,) = compiler._waiting
    compiler._waiting.clear()
    assert "Warning" not in process.end()


def test_types_are_those_that_are_named(monkeypatch):
    kernel = in_a_notebook(copies, monkeypatch)
    whole = ask_compiler(kernel, TILE=1024, num_warps=1)
    half = ask_compiler(kernel, TILE=1024, num_warps=1, out="*fp16", x="*fp16")
    assert whole.count("ld.global") == 2 * half.count("ld.global")


def test_a_kernel_of_the_package_is_compiled():
    types = dict.fromkeys(["slots"], "*i64")
    types |= {
        f"{name}_stride": "i32"
        for name in ("key_token", "key_head", "value_token", "value_head")
    }
    sizes = {"HEADS": 2, "KEY_DIM": 16, "VALUE_DIM": 16, "COLUMNS": 32}
    assert "st.global" in ask_compiler(write._write_kernel, **types, **sizes)


def test_a_number_without_a_type_is_hinted_at(monkeypatch):
    kernel = in_a_notebook(up_to, monkeypatch)
    with pytest.raises(Refused, match=r"named no type: last; a number .* size=\"i32\""):
        ask_compiler(kernel, TILE=16, out="*fp32", x="*fp32")
    assert "ld.global" in ask_compiler(kernel, TILE=16, last="i32")


def test_a_size_without_a_value_is_hinted_at(monkeypatch):
    kernel = in_a_notebook(copies, monkeypatch)
    with pytest.raises(Refused, match=r"have no value; give one, as in: TILE=32"):
        ask_compiler(kernel)


def test_as_a_cell_s_result_the_code_is_a_line(monkeypatch):
    code = ask_compiler(in_a_notebook(copies, monkeypatch), TILE=16)
    assert repr(code).startswith(f"taken: {code.count(chr(10))} lines")
    assert str(code).startswith("//")


def test_what_the_compiler_refuses_is_said(monkeypatch):
    with pytest.raises(Refused, match="more than one value is ambiguous"):
        ask_compiler(in_a_notebook(asks_a_tile, monkeypatch), TILE=16)


def test_a_compiler_that_cannot_run_is_no_refusal(monkeypatch):
    monkeypatch.setattr(compiler, "_waiting", [])
    with monkeypatch.context() as patched:
        patched.setattr(compiler, "COMPILE", "import nothing_at_all")
        with pytest.raises(RuntimeError, match="nothing_at_all"):
            ask_compiler(copies, TILE=16)
    assert "ld.global" in ask_compiler(copies, TILE=16)


def test_one_process_answers_all_questions(monkeypatch):
    """A kernel that was written anew is compiled anew; a mistake ends the process."""
    kernel = in_a_notebook(copies, monkeypatch)
    first = ask_compiler(kernel, TILE=16)
    (process,) = compiler._waiting
    source = inspect.getsource(kernel.fn)
    doubled = source.replace("tl.load(x + at)", "2 * tl.load(x + at)")
    monkeypatch.setattr("inspect.getsource", lambda function: doubled)
    second = ask_compiler(kernel, TILE=16)
    assert compiler._waiting == [process]
    assert "mul.f32" in second or "add.f32" in second
    assert "mul.f32" not in first and "add.f32" not in first
    with pytest.raises(RuntimeError, match="no_such_type"):
        ask_compiler(kernel, TILE=16, x="no_such_type")
    assert not compiler._waiting
    assert ask_compiler(kernel, TILE=16) == second


def test_an_answer_that_nobody_waited_for_is_not_given_to_the_next(monkeypatch):
    kernel = in_a_notebook(copies, monkeypatch)
    ask_compiler(kernel, TILE=16)
    process = compiler._waiting[0].process
    with monkeypatch.context() as patched:
        patched.setattr(process.stdout, "readline", interrupt)
        with pytest.raises(KeyboardInterrupt):
            ask_compiler(kernel, TILE=32)
    assert not compiler._waiting
    assert process.poll() is not None, "it still works in a folder that is removed"


def test_only_what_changed_is_shown(capsys, monkeypatch):
    shown = []
    monkeypatch.setattr("minipaged.lab.tour.show.display", shown.append)
    show_change(copies, asks_a_tile)
    (markdown,) = shown
    assert "-    tl.store(out + at, tl.load(x + at))" in markdown.data
    assert "+    if tl.load(x + at) > 0:" in markdown.data
    assert "@@" not in markdown.data and "---" not in markdown.data
    assert markdown.data.startswith("*copies → asks_a_tile*")


def test_a_change_can_be_folded(monkeypatch):
    shown = []
    monkeypatch.setattr("minipaged.lab.tour.show.display", shown.append)
    show_change(copies, asks_a_tile, fold=True)
    assert shown[0].data.startswith("<details>")


@pytest.mark.parametrize("stages", [1, 2, 3, 4, 5])
def test_the_stages_of_a_rung_say_how_many_tiles_are_ahead(stages):
    sizes = {
        "ROWS": 16,
        "TILE": 64,
        "UPDATE": ladder.update_by_units,
        "num_stages": stages,
    }
    found = count_copies(assembly_of(ladder._kv_head_kernel, **sizes))
    ahead = max(1, (stages - 1) // 2) if stages > 1 else 0
    assert found.before == 16 * ahead  # 32 KiB, of 2 KiB each
    assert found.all == found.before + 16 * (stages > 1)
    each = found.all_ids - found.ids_before  # of a tile; Triton 3.5 takes eight copies
    assert found.ids_before == (2 * ahead * each if stages > 2 else 0)
