"""Lab: what a reader's kernel touches, seen where Triton's interpreter runs it.

Nobody checks a kernel's addresses: not a GPU, and not the interpreter. So here every
load and store is compared with the tensors that the kernel was given. On a GPU nothing
can look on; there, only the margins around the tensors tell what was written.
"""

import linecache
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from minipaged.lab.check.verdict import Rejected

MARGIN = 4096  # numbers before and behind each tensor
GUARD = -7  # what margins of integers hold; those of floats hold NaN


class Room:
    """A copy of a tensor in the middle of a margin, and what a kernel did with it.

    shift: bytes by which the kernel's addresses must lie further on than the memory: a
    pool of which only the last blocks are there. Only the interpreter can do that.
    """

    def __init__(self, name: str, tensor: torch.Tensor, device: str, shift: int = 0):
        poison = torch.nan if tensor.is_floating_point() else GUARD
        size = tensor.numel()
        self.name, self.shift = name, shift
        self._all = tensor.new_full((size + 2 * MARGIN,), poison, device=device)
        self.tensor = self._all[MARGIN : MARGIN + size].view(tensor.shape)
        self.tensor.copy_(tensor)
        self._before = self._all.clone()
        self.each = tensor.element_size()
        self.start = self.tensor.data_ptr() + shift
        self.stop = self.start + size * self.each
        self.num_loaded = 0
        self.nan_line = ""  # where numbers were loaded that nobody has written
        self._programs = np.full(size, -1)  # which one stored each number

    def holds(self, addresses: np.ndarray, margin: int = 0) -> np.ndarray:
        """Which addresses lie here, or at most `margin` numbers beside."""
        more = margin * self.each
        return (addresses >= self.start - more) & (addresses < self.stop + more)

    def stored(self, places: np.ndarray, program: int) -> int:
        """Note who stores; the first place that another program has written, or -1."""
        others = (self._programs[places] >= 0) & (self._programs[places] != program)
        self._programs[places] = program
        return int(places[others][0]) if others.any() else -1

    @property
    def margins_are_whole(self) -> bool:
        """True unless something was stored beside the tensor."""
        changed = self._changed
        return not (changed[:MARGIN].any() or changed[-MARGIN:].any())

    @property
    def is_as_given(self) -> bool:
        """True unless something was stored, here or beside."""
        return not self._changed.any()

    @property
    def _changed(self) -> torch.Tensor:
        """Of each number, whether one of its bytes is another one; NaN equals NaN."""
        now, before = (
            numbers.view(torch.uint8).view(-1, self.each)
            for numbers in (self._all, self._before)
        )
        return (now != before).any(1)


class Guard:
    """Looks on while the interpreter runs a kernel over these rooms."""

    def __init__(self, rooms: list[Room]):
        from triton.runtime import interpreter

        self.rooms = rooms
        self.num_touched = self.num_unmasked = 0  # loads and stores
        self.dots: dict[str, int] = {}  # by line of the kernel, products of two numbers
        self._interpreter, self._builder = interpreter, interpreter.interpreter_builder
        self._triton = str(Path(interpreter.__file__).parents[1])

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Compare what is loaded and stored inside the `with` block.

        Triton's interpreter has no place for such a look. So some of its functions are
        exchanged, each for one that looks and then calls it, and put back at the end.
        """
        builder, module = self._builder, self._interpreter
        watching = {
            "create_masked_load": partial(self._load, builder.create_masked_load),
            "create_masked_store": partial(self._store, builder.create_masked_store),
            "create_load": partial(self._unmasked, builder.create_load),
            "create_store": partial(self._unmasked, builder.create_store),
            "create_dot": partial(self._dot, builder.create_dot),
        }
        change = module._patch_lang_tensor
        truth = {"__bool__": None}  # each launch sets it; here it is only put back
        strictly = {"_patch_lang_tensor": partial(self._strictly, change)}
        with (
            _exchanged(module.tl.core.tensor, truth),
            _exchanged(builder, watching),
            _exchanged(module, strictly),
        ):
            yield

    def line(self) -> str:
        """The line of the kernel that runs now, as text."""
        frame = sys._getframe(1)
        while frame and self._is_machinery(frame.f_code.co_filename):
            frame = frame.f_back
        return line_of(frame.f_code.co_filename, frame.f_lineno) if frame else ""

    def _is_machinery(self, file: str) -> bool:
        return file == __file__ or file.startswith((self._triton, "<frozen"))

    def _load(
        self, load: Callable[..., Any], pointers: Any, mask: Any, *rest: Any
    ) -> Any:
        self.num_touched += 1
        wanted = np.broadcast_to(mask.data, pointers.data.shape).astype(bool)
        found = self._found("loads", pointers, wanted)
        loaded = load(self._moved(pointers), mask, *rest)
        for room, at, places in found:
            room.num_loaded += len(places)
            if not room.nan_line and room.tensor.is_floating_point():
                values = loaded.data[wanted][at]
                room.nan_line = self.line() if np.isnan(values).any() else ""
        return loaded

    def _store(
        self,
        store: Callable[..., Any],
        pointers: Any,
        value: Any,
        mask: Any,
        *rest: Any,
    ) -> Any:
        self.num_touched += 1
        wanted = np.broadcast_to(mask.data, pointers.data.shape).astype(bool)
        for room, _, places in self._found("stores", pointers, wanted):
            twice = room.stored(places, self._program())
            if twice >= 0:
                raise Rejected(
                    f"number {twice} of {room.name} is stored by two programs, and "
                    f"they run in any order; the second one is {self._name()}"
                )
        return store(self._moved(pointers), value, mask, *rest)

    def _unmasked(self, touch: Callable[..., Any], *arguments: Any) -> Any:
        self.num_unmasked += 1
        return touch(*arguments)  # with a mask that hides nothing

    def _dot(self, dot: Callable[..., Any], a: Any, b: Any, *rest: Any) -> Any:
        line = self.line()
        size = a.data.size * b.data.shape[-1]
        self.dots[line] = self.dots.get(line, 0) + size
        return dot(a, b, *rest)

    def _found(
        self, verb: str, pointers: Any, wanted: np.ndarray
    ) -> list[tuple[Room, np.ndarray, np.ndarray]]:
        """The rooms that are meant; which pointers mean them, and which numbers."""
        addresses = pointers.data[wanted].astype(np.int64)
        outside, found = np.ones(len(addresses), bool), []
        for room in self.rooms:
            here = room.holds(addresses)
            if here.any():
                places = (addresses[here] - room.start) // room.each
                found.append((room, here, places))
                outside &= ~here
        if outside.any():
            raise Rejected(self._where(verb, addresses[outside][:1]))
        return found

    def _where(self, verb: str, address: np.ndarray) -> str:
        """What to say of an address that is in no tensor."""
        who = f"{self._name()} {verb}"
        for room in self.rooms:
            if room.holds(address, MARGIN).all():
                at = int(address[0] - room.start) // room.each
                size = room.tensor.numel()
                return (
                    f"{who} number {at} of {room.name}, which has {size} "
                    f"(0 to {size - 1}): mask it, or is the place wrong?"
                )
        wrapped = any(room.shift for room in self.rooms)
        said = "; did an offset wrap at 32 bits? Widen the block id to 64 first"
        said += " (or is block 0 read, where a mask is missing?)"
        return f"{who} at an address far from every tensor{said * wrapped}"

    def _moved(self, pointers: Any) -> Any:
        """The pointers, where the memory really is."""
        if not any(room.shift for room in self.rooms):
            return pointers
        addresses = pointers.data.copy()
        for room in self.rooms:
            here = room.holds(pointers.data.astype(np.int64))
            addresses[here] -= np.uint64(room.shift)
        return type(pointers)(addresses, pointers.dtype)

    def _program(self) -> int:
        x, y, z = self._builder.grid_idx
        _, ny, nz = self._builder.grid_dim
        return (x * ny + y) * nz + z

    def _name(self) -> str:
        """The running program, as text: with as many numbers as the grid has."""
        grid = self._builder.grid_dim
        last = max((axis for axis in range(3) if grid[axis] > 1), default=0)
        numbers = ", ".join(map(str, self._builder.grid_idx[: last + 1]))
        return f"program ({numbers})" if last else f"program {numbers}"

    def _strictly(self, change: Callable[..., None], tensor: type, *rest: Any) -> None:
        """As the interpreter changes tensors, but a tile is neither true nor false."""
        change(tensor, *rest)
        lax = tensor.__bool__

        def truth(tile: Any) -> bool:
            file = sys._getframe(1).f_code.co_filename
            if tile.handle.data.size > 1 and not self._is_machinery(file):
                raise Rejected(
                    "`if`, `and`, `or`, `not`, `min` and `max` take one truth, and a "
                    f"tile of {list(tile.handle.data.shape)} has many: use tl.where, "
                    "&, |, ~, tl.minimum, tl.maximum"
                )
            return lax(tile)

        tensor.__bool__ = truth


@contextmanager
def _exchanged(owner: Any, by: Mapping[str, Any]) -> Iterator[None]:
    """Inside the `with` block, `owner` has these attributes; then, its own again."""
    own = {name: vars(owner)[name] for name in by if name in vars(owner)}
    try:
        for name, value in by.items():
            setattr(owner, name, value)
        yield
    finally:
        for name in by:
            delattr(owner, name)
            if name in own:
                setattr(owner, name, own[name])


def line_of(file: str, number: int) -> str:
    """A line of the reader's code, with its number."""
    text = linecache.getline(file, number).strip()
    return f"line {number}: {text}" if text else f"line {number}"
