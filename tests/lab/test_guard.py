"""A check sees what a kernel touches, and leaves Triton as it found it."""

import pytest
import torch

from minipaged.attention.kernels.setup import INTERPRETED, tl, triton
from minipaged.lab.check.guard import MARGIN, Guard, Room
from minipaged.lab.check.kernel import ask_about, compilers_words, launch
from minipaged.lab.check.verdict import Attempt, Rejected

pytestmark = pytest.mark.skipif(not INTERPRETED, reason="a GPU lets nobody look on")


@triton.jit
def moves(out, x, size, behind, TILE: tl.constexpr):
    """Copies a tile from `behind` numbers on."""
    at = tl.program_id(0) * TILE + tl.arange(0, TILE)
    numbers = tl.load(x + behind + at, mask=at < size, other=0)
    tl.store(out + at, numbers, mask=at < size)


def launched(kernel, *arguments, **options):
    return launch(Attempt(kernel), "a story", (2,), *arguments, **options)


def tensors(size=20):
    return torch.zeros(size), torch.arange(1.0, size + 1)


def test_what_is_right_runs_and_is_counted():
    out, x = tensors()
    found = launched(moves, out, x, 20, 0, 16)
    assert torch.equal(found[0], x)
    assert not out.any()  # it ran over a copy
    assert found.num_loaded(1) == 20 and found.num_loaded(0) == 0


@pytest.mark.parametrize(
    ("behind", "words"),
    [
        (
            1,
            "program 1 loads number 20 of x, which has 20 (0 to 19): mask it,",
        ),
        (
            -1,
            "program 0 loads number -1 of x, which has 20 (0 to 19): mask it,",
        ),
        (-(MARGIN + 1), "program 0 loads at an address far from every tensor"),
        (2**40, "program 0 loads at an address far from every tensor"),
        (-(2**40), "program 0 loads at an address far from every tensor"),
    ],
)
def test_a_load_outside_is_seen_before_it_happens(behind, words):
    with pytest.raises(Rejected) as found:
        launched(moves, *tensors(), 20, behind, 16)
    assert words in str(found.value)
    assert "numbers = tl.load(x + behind + at" in str(found.value)


def test_a_store_outside_is_seen():
    out, x = tensors()
    with pytest.raises(Rejected, match="program 1 stores number 19 of out, which has"):
        launched(moves, out[:19], x, 20, 0, 16)


def test_what_a_mask_hides_may_lie_anywhere():
    found = launched(moves, *tensors(), 0, 2**50, 16)
    assert not found[0].any()


def test_an_input_must_stay_as_it_is():
    out, x = tensors()
    with pytest.raises(Rejected, match="it stored into out, which is an input"):
        launched(moves, out, x, 20, 0, 16, num_outputs=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int32])
def test_a_margin_tells_what_was_written_where_nobody_looks_on(dtype):
    """On a GPU: here by hand."""
    room = Room("x", torch.arange(4).to(dtype), "cpu")
    assert room.margins_are_whole and room.is_as_given
    room.tensor[2] = 9
    assert room.margins_are_whole and not room.is_as_given
    room._all[MARGIN + 4] = 9
    assert not room.margins_are_whole


def test_a_pool_may_have_its_last_blocks_only():
    """The kernel's addresses begin 2**33 numbers before the memory."""
    out, x = tensors()
    first = 2**33
    found = launched(moves, out, x, 20, first, 16, shifts={1: 4 * first})
    assert torch.equal(found[0], x)
    with pytest.raises(Rejected, match="wrap at 32 bits"):
        launched(moves, out, x, 20, 0, 16, shifts={1: 4 * first})
    with pytest.raises(Rejected, match="number 20 of x"):
        launched(moves, out, x, 20, first + 1, 16, shifts={1: 4 * first})


@triton.jit
def adds_up(out, x, size, TILE: tl.constexpr):
    """Nobody but this check minds that the first number is NaN."""
    at = tl.arange(0, TILE)
    numbers = tl.load(x + at, mask=at < size, other=0)
    tl.store(out + tl.program_id(0), tl.sum(tl.where(at > 0, numbers, 0.0), 0))


def test_where_nan_was_loaded_is_remembered():
    out, x = torch.zeros(2), torch.ones(4)
    assert launched(adds_up, out, x, 4, 4).says_nan() == ""
    x[0] = torch.nan
    found = launched(adds_up, out, x, 4, 4)
    assert found[0].tolist() == [3.0, 3.0]
    assert "x, line" in found.says_nan() and "tl.load(x + at" in found.says_nan()


@triton.jit
def writes_the_same(out, TILE: tl.constexpr):
    tl.store(out + tl.arange(0, TILE), 1.0)


def test_two_programs_must_not_store_the_same_number():
    with pytest.raises(Rejected, match="number 0 of out is stored by two programs"):
        launched(writes_the_same, torch.zeros(4), 4)


@triton.jit
def asks(out, flag, HOW: tl.constexpr, TILE: tl.constexpr):
    at = tl.arange(0, TILE)
    small, number = at < 2, tl.load(flag)
    if HOW == "if":
        if small:
            number = 3.0
    elif HOW == "and":
        number = tl.where((at > 0) and small, 1.0, 0.0)
    elif HOW == "not":
        number = tl.where(not small, 1.0, 0.0)
    elif HOW == "min":
        number = min(at, 3)
    elif number > 0.0:  # a single number may be asked
        number = 2.0
    tl.store(out + tl.program_id(0) * TILE + at, number)


@pytest.mark.parametrize("how", ["if", "and", "not", "min"])
def test_a_tile_is_neither_true_nor_false(how):
    with pytest.raises(Rejected, match=r"a tile of \[4\] has many: use tl.where"):
        launched(asks, torch.zeros(8), torch.ones(1), how, 4)


def test_a_number_is_true_or_false():
    found = launched(asks, torch.zeros(8), torch.ones(1), "number", 4)
    assert found[0].tolist() == 8 * [2.0]


@pytest.mark.parametrize("behind", [0, 1])
def test_triton_is_left_as_it_was(behind):
    """Also after a failure: an address outside is nobody's business then."""
    builder = Guard([])._builder
    module = Guard([])._interpreter
    before = dict(vars(builder)), module._patch_lang_tensor
    truth = tl.tensor.__dict__.get("__bool__")
    try:
        launched(moves, *tensors(), 20, behind, 16)
    except Rejected:
        assert behind
    for name in ("grid_idx", "grid_dim"):  # Triton's, of every launch
        before[0][name] = vars(builder)[name]
    assert (dict(vars(builder)), module._patch_lang_tensor) == before
    assert tl.tensor.__dict__.get("__bool__") is truth
    out, x = torch.zeros(20), torch.arange(21.0)
    moves[(2,)](out, x[:20], 20, 1, 16)
    assert out[-1] == 20


@triton.jit
def helper(x, at):
    return tl.load(x + at)


@triton.jit
def asks_a_helper(out, x, TILE: tl.constexpr):
    at = tl.arange(0, TILE)
    tl.store(out + tl.program_id(0), tl.sum(helper(x, at), 0))


def test_the_line_is_the_readers_also_from_within_a_helper():
    with pytest.raises(Rejected) as found:
        launched(asks_a_helper, torch.zeros(2), torch.zeros(3), 4)
    assert "number 3 of x" in str(found.value)
    assert "return tl.load(x + at)" in str(found.value)


@triton.jit
def multiplies(out, x, TILE: tl.constexpr):
    at = tl.arange(0, TILE)
    places = at[:, None] * TILE + at[None, :]
    tile = tl.load(x + places)
    tile = tl.dot(tile, tile)
    tl.store(out + tl.program_id(0) * TILE * TILE + places, tl.dot(tile, tile))


def test_products_of_tiles_are_counted_line_by_line():
    found = launched(multiplies, torch.zeros(2, 256), torch.ones(16, 16), 16)
    first, second = found.dots
    assert first.endswith(": tile = tl.dot(tile, tile)") and "tl.store" in second
    assert [*found.dots.values()] == 2 * [2 * 16**3]
    assert found.is_unmasked


def test_a_mask_is_seen_also_where_it_hides_nothing():
    assert not launched(moves, *tensors(32), 32, 0, 16).is_unmasked


@triton.jit
def grows(out, x, size, TILE: tl.constexpr):
    """The interpreter runs it, and the compiler refuses it."""
    total = 0
    for at in range(size):
        total += tl.load(x + at)
    tl.store(out + tl.program_id(0), total)


def test_the_compiler_is_asked_and_its_answer_has_the_line():
    out, x = tensors(2)
    launched(grows, out, x, 2, 4)
    with pytest.raises(Rejected) as found:
        ask_about(Attempt(grows), out, x, 2, 4)
    said, line = str(found.value).splitlines()
    assert said.startswith("right in the interpreter, but Triton's compiler refuses it")
    assert "Loop-carried variable total" in said and "AssertionError" not in said
    number = grows.fn.__code__.co_firstlineno + 4
    assert line == f"    in line {number}: for at in range(size):"


def test_what_compiles_is_praised():
    reward = ask_about(Attempt(moves), *tensors(), 20, 0, 16)
    assert reward() == "Triton's compiler takes it, too"


def test_no_compiler_and_no_answer(monkeypatch):
    """Another version of Triton may have moved its parts."""
    monkeypatch.setattr("minipaged.lab.tour.compiler._waiting", [])  # none has started
    monkeypatch.setattr("minipaged.lab.tour.compiler.COMPILE", "import nothing_at_all")
    assert ask_about(Attempt(grows), *tensors(), 20, 4) is None


def test_of_a_function_in_another_cell_the_compiler_cannot_know():
    assert ask_about(Attempt(asks_a_helper), *tensors(), 4) is None


def test_an_answer_of_the_compiler_may_be_without_words():
    text = "at 3:8:\ndef grows(out, x, size, TILE: tl.constexpr):\n    total = 0\n    ^"
    said = compilers_words(text, grows.fn)
    assert said.splitlines()[0] == "it does not say why"
    assert said.endswith(": total = 0")


def test_an_error_of_triton_comes_with_a_hint_and_a_line():
    out, x = tensors()
    with pytest.raises(Rejected) as found:
        launched(moves, out, x, 20, 0, 12)
    assert "the size of a tile is a power of two" in str(found.value)
    assert "tl.arange(0, TILE)" in str(found.value)
