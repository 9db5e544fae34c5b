"""Lab: a reader's kernel, launched as a check does it: over guarded tensors."""

import inspect
import re
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np
import torch

from minipaged.lab.check.guard import Guard, Room, line_of
from minipaged.lab.check.verdict import Attempt, Rejected

# What Triton says, and what a reader can do about it.
HINTS = {
    "make_shape_compatible": "two tiles do not fit: look at the axis of each sum and "
    "max, and at [:, None] and [None, :]",
    "cannot broadcast": "two tiles do not fit: look at the axis of each sum and max, "
    "and at [:, None] and [None, :]",
    "same dtype": "tl.dot multiplies two tiles of the same dtype: weights.to(v.dtype)",
    "compatible for matmul": "tl.dot takes [M, K] and [K, N]: is a tl.trans missing?",
    "reduction dimensions": "tl.dot takes [M, K] and [K, N]: is a tl.trans missing?",
    "out of bounds for shape": "the axes of [rows, columns] are 0 and 1",
    "power of 2": "the size of a tile is a power of two",
    "type tl.constexpr": "the size of a tile must be known when the kernel is "
    "compiled: only the parameters in capitals are",
    "loop-carried": (
        "what a loop changes keeps its type and shape: 0 is an integer, 0.0 is not"
    ),
    "object is not iterable": "a pointer is no tensor: tl.load(x + row), not x[row]",
    "no attribute append": "a kernel has no lists; keep numbers and tiles",
    "'append' is not in list": "a kernel has no lists; keep numbers and tiles",
}
TYPES = {
    torch.float16: "*fp16",
    torch.float32: "*fp32",
    torch.int32: "*i32",
    torch.int64: "*i64",
}


class Launched:
    """What a launch left behind: its tensors by the kernel's names, on the CPU."""

    def __init__(self, rooms: list[Room], guard: Guard | None):
        self._rooms = {room.name: room for room in rooms}
        self.guard = guard  # None on a GPU

    def __getitem__(self, index: int) -> torch.Tensor:
        """The tensor that was passed in this place, counting tensors only."""
        return list(self._rooms.values())[index].tensor.cpu()

    def num_loaded(self, index: int) -> int | None:
        """How often a number of this tensor was loaded; None if nobody counted."""
        return list(self._rooms.values())[index].num_loaded if self.guard else None

    @property
    def dots(self) -> dict[str, int] | None:
        """By line, how many products tl.dot made of two numbers; None if not counted.

        Tiles of [M, K] and [K, N] make M * K * N of them.
        """
        return self.guard.dots if self.guard else None

    @property
    def is_unmasked(self) -> bool:
        """True if no load and no store had a mask, and somebody looked on."""
        guard = self.guard
        return guard is not None and guard.num_touched == guard.num_unmasked

    def says_nan(self) -> str:
        """Where NaN was loaded, if it was seen: a line for each tensor."""
        rooms = [room for room in self._rooms.values() if room.nan_line]
        return "".join(f"\n    {room.name}, {room.nan_line}" for room in rooms)


def launch(
    attempt: Attempt,
    story: str,
    grid: tuple[int, ...],
    *arguments: Any,
    num_outputs: int = 1,
    shifts: Mapping[int, int] | None = None,
) -> Launched:
    """Run the kernel where kernels run, over copies of its tensors.

    arguments: as the kernel takes them; each tensor is copied to a place with margins.
    num_outputs: so many tensors, from the first on, may be written.
    shifts: by place among the arguments, the shift of `Room`; in the interpreter only.
    Raises Rejected if the kernel fails, or touches what does not belong to it;
    NotImplementedError for the stub.
    """
    # Only here: lessons 1 to 5 do without Triton, and their checks stand beside these.
    from minipaged.attention.kernels.setup import INTERPRETED

    kernel = attempt.function
    if not hasattr(kernel, "__getitem__"):  # kernel[grid](...)
        with suppress(Rejected):
            attempt.shared(*arguments)  # the stub says that it is one
        raise Rejected(f"{attempt.name} is no kernel; write @triton.jit above it")
    if "raise NotImplementedError" in inspect.getsource(kernel.fn):
        raise NotImplementedError
    attempt.num_cases += 1
    names = [*inspect.signature(kernel.fn).parameters]
    rooms, passed = [], []
    for index, argument in enumerate(arguments):
        if isinstance(argument, torch.Tensor):
            name = names[index] if index < len(names) else f"argument {index}"
            shift = (shifts or {}).get(index, 0)
            room = Room(name, argument, "cpu" if INTERPRETED else "cuda", shift)
            rooms.append(room)
            argument = room.tensor
        passed.append(argument)
    guard = Guard(rooms) if INTERPRETED else None
    try:
        with guard.looking() if guard else nullcontext(), np.errstate(all="ignore"):
            kernel[grid](*passed)
    except Exception as error:
        raise Rejected(f"{story}: {_in_words(error, kernel.fn)}") from error
    for index, room in enumerate(rooms):
        if not room.margins_are_whole:
            raise Rejected(f"{story}: it stored beside {room.name}: mask the store")
        if index >= num_outputs and not room.is_as_given:
            raise Rejected(f"{story}: it stored into {room.name}, which is an input")
    return Launched(rooms, guard)


def ask_about(attempt: Attempt, *arguments: Any) -> Callable[[], str] | None:
    """Ask Triton's compiler about a kernel that the interpreter has run.

    arguments: of one launch. The interpreter runs some kernels that do not compile.
    Returns what to say of it, or None where nobody was asked: on a GPU, where it was
    compiled, and where the compiler does not run. Raises Rejected if it refuses.
    """
    from minipaged.attention.kernels.setup import INTERPRETED
    from minipaged.lab.tour.compiler import Refused, ask_compiler

    if not INTERPRETED:
        return None
    function = attempt.function.fn
    code, known = function.__code__, function.__globals__
    alone = FunctionType(code, known, function.__name__, function.__defaults__)
    alone.__module__ = "__main__"  # its text is all that the compiler gets
    given = {}
    names = inspect.signature(function).parameters
    for name, argument in zip(names, arguments, strict=False):
        is_size = "constexpr" in str(function.__annotations__.get(name))
        given[name] = argument if is_size else _type_of(argument)
    try:
        ask_compiler(SimpleNamespace(fn=alone), **given)
    except Refused as error:
        unknown = re.search(r"NameError\('(\w+) is not defined'\)", str(error))
        if unknown and unknown[1] in known:  # it stands in another cell
            return None
        said = compilers_words(str(error), function)
        raise Rejected(
            f"right in the interpreter, but Triton's compiler refuses it: {said}"
        ) from error
    except (RuntimeError, OSError):  # another version of Triton, say
        return None
    return lambda: "Triton's compiler takes it, too"


def _type_of(argument: Any) -> str:
    """The type of what a kernel takes, in Triton's words."""
    if isinstance(argument, torch.Tensor):
        return TYPES[argument.dtype]
    return "fp32" if isinstance(argument, float) else "i32"


def compilers_words(text: str, function: Any) -> str:
    """What Triton's compiler says of a kernel, in short, with the kernel's line."""
    said = re.split(r"(?m)^ *\^$", text)[-1].strip()  # behind the sign below the line
    raised = re.fullmatch(r"""(?s)\w+\((["'])(.*)\1\)""", said)
    said = raised[2] if raised else said
    hints = [hint for words, hint in HINTS.items() if words in said.lower()]
    said = "; ".join([said.rstrip("."), *hints[:1]]) if said else "it does not say why"
    place = re.match(r"at (\d+):", text)
    if not place:
        return said
    lines, first = inspect.getsourcelines(function)  # decorators stand above the def
    first += next(at for at, line in enumerate(lines) if line.lstrip()[:4] == "def ")
    at = first + int(place[1]) - 1
    return f"{said}\n    in {line_of(function.__code__.co_filename, at)}"


def _in_words(error: BaseException, function: Any) -> str:
    """What went wrong, with the kernel's line, and what helps if that is known."""
    file, line = function.__code__.co_filename, ""
    inmost: BaseException | None = error
    while inmost is not None:
        error, trace = inmost, inmost.__traceback__
        while trace:
            if trace.tb_frame.f_code.co_filename == file:
                line = f"\n    in {line_of(file, trace.tb_lineno)}"
            trace = trace.tb_next
        inmost = error.__cause__
    if isinstance(error, Rejected):
        return f"{error}{line}"
    if type(error).__name__ == "CompilationError":
        return f"Triton's compiler refuses it: {compilers_words(str(error), function)}"
    said = f"{type(error).__name__}: {error}"
    hints = [hint for words, hint in HINTS.items() if words in said.lower()]
    return f"{said}{f'; {hints[0]}' if hints else ''}{line}"
