"""Lesson 6: Triton itself, for a GPU, or interpreted where there is none.

Triton's interpreter runs a kernel as ordinary Python, one program after another: slow,
but right, and open to a debugger. Triton decides between the two while it is imported,
so this is the only module of the package that imports it.
"""

import os
import sys
import warnings
from collections.abc import Callable
from functools import cache, partial
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import torch

if find_spec("triton") is None:
    raise ImportError(
        "attention='triton' needs the package triton, which exists for Linux only: "
        "pip install triton, or use attention='gathered', which needs torch alone"
    )
if not torch.cuda.is_available() and "TRITON_INTERPRET" not in os.environ:
    os.environ["TRITON_INTERPRET"] = "1"
    # Somebody (transformers does) may have imported Triton already, to be compiled.
    # That copy is of no use without a GPU: forget it, and the import below starts anew.
    for name in [name for name in sys.modules if name.partition(".")[0] == "triton"]:
        if not name.startswith("triton._C"):  # the compiled part must stay
            del sys.modules[name]
# The kernels are written and measured with a * b + c in one instruction. Triton 3.9
# warns if this is unset; Triton 3.10 will use two instructions.
os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")

import triton
import triton.language as tl

# Triton's own answer: it knows more words for yes and no than "1" and "0".
INTERPRETED = not isinstance(tl.max, triton.JITFunction)
if INTERPRETED:
    from triton.runtime import interpreter

    # It also computes with elements that a mask hides, and numpy warns of the numbers
    # that happen to be in them. The tests check the elements that are not hidden.
    warnings.filterwarnings(
        "ignore", category=RuntimeWarning, module="triton.runtime.interpreter"
    )
    warnings.filterwarnings(  # of its sums, in numpy's own name
        "ignore", message=".* encountered in reduce", category=RuntimeWarning
    )

    def _exchange_once(
        function: Callable[..., Any], exchange: Callable[..., Any]
    ) -> Any:
        """Put the interpreter's functions into triton.language, unless they are there.

        They go back when a kernel has ended. Triton exchanges them again whenever a
        kernel calls another function. That changes nothing, and takes a third of the
        time.
        """
        known = function.__globals__.values()
        languages = [value for value in known if value is tl or value is tl.core]
        if languages and not any(tl.core.is_builtin(each.load) for each in languages):
            return SimpleNamespace(restore=lambda: None)
        return exchange(function)

    _type_of_numbers = cache(interpreter._get_np_dtype)

    def _numpy_type(kind: Any) -> Any:
        """The interpreter's answer, but without making its table at every call."""
        numbers = kind.scalar
        return _type_of_numbers(tl.uint64 if numbers.is_ptr() else numbers)

    def _patch_tensor(tensor: type, *scope: Any, patch: Callable[..., None]) -> None:
        """Patch as the interpreter does, but read its numbers as numpy 2.4 wants it.

        From 3.7 on, Triton does so itself.
        """
        patch(tensor, *scope)
        tensor.__index__ = lambda self: int(self.handle.data.item())

    _cast = interpreter._convert_float
    _torchs = {
        tl.float8e4nv: torch.float8_e4m3fn,
        tl.bfloat16: torch.bfloat16,
        tl.float16: torch.float16,
        tl.float32: torch.float32,
    }

    def _cast_as_torch_does(numbers: Any, own: Any, wanted: Any, rounding: Any) -> Any:
        """To 8 bits and back, as a GPU does it.

        The interpreter rounds 1.99 to 1, wraps 500 to 256, and takes NaN for 480.
        """
        if tl.float8e4nv not in (own, wanted):
            return _cast(numbers, own, wanted, rounding)
        bits = torch.from_numpy(numbers.copy()).view(_torchs[own]).to(_torchs[wanted])
        return bits.view(getattr(torch, f"uint{8 * bits.itemsize}")).numpy()

    interpreter._convert_float = _cast_as_torch_does
    _spread = interpreter.InterpreterBuilder.create_splat

    def _spread_as_told(builder: Any, tile: Any, one: Any) -> Any:
        """One value at every place of a tile, of the type that Triton gives the tile.

        The interpreter keeps the value's type, and gives a comparison the type of the
        compared numbers. Triton 3.9 refuses that as a mask; no version takes floats.
        """
        return _spread(builder, tile, interpreter.TensorHandle(one.data, tile.scalar))

    interpreter.InterpreterBuilder.create_splat = _spread_as_told
    interpreter._patch_lang_tensor = partial(
        _patch_tensor, patch=interpreter._patch_lang_tensor
    )
    if hasattr(interpreter, "_LangPatchScope"):  # before Triton 3.6, nothing goes back
        exchange = interpreter._patch_lang
        interpreter._patch_lang = partial(_exchange_once, exchange=exchange)
    interpreter._get_np_dtype = _numpy_type

__all__ = ["INTERPRETED", "tl", "triton"]
