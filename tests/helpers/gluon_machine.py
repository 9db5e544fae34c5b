"""A machine that runs our Gluon kernel in Python: no interpreter of Triton's does.

Partitions of warps are threads. Copies come in any order: at once, or not before all
threads wait. Whoever has arrived at a barrier waits a little, so that others go first.
So a kernel that reads too early, or gives a place away too early, is found out: what a
product reads must stay as it is until the product is waited for, and a barrier that
never opens is an error. Layouts mean nothing here, and numbers stay in 32 bits.
"""

import random
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch

PATIENCE = 10  # seconds that a barrier may stay shut
PAUSE = 2e-4  # seconds after an arrival


class Tensor(torch.Tensor):
    """With the type that Gluon's tensors have."""

    @property
    def type(self) -> Any:
        return SimpleNamespace(layout=SimpleNamespace(parent=None))


def tensor(value: Any) -> Tensor:
    return torch.as_tensor(value).as_subclass(Tensor)


class Pointer:
    """Into the numbers of a contiguous tensor."""

    def __init__(self, numbers: torch.Tensor, offset: Any = 0):
        self.numbers, self.offset = numbers, offset
        self.dtype = SimpleNamespace(element_ty=numbers.dtype)

    def __add__(self, offset: Any) -> "Pointer":
        return Pointer(self.numbers, self.offset + offset)


class Descriptor:
    """Of a tensor whose boxes are copied; what lies outside of it is zero."""

    def __init__(self, source: torch.Tensor, box: list[int]):
        self.source, self.block_shape = source, list(box)
        self.dtype, self.layout = source.dtype, None
        nbytes = source.element_size() * torch.Size(box).numel()
        self.block_type = SimpleNamespace(nbytes=nbytes)

    def box(self, corner: list[Any]) -> torch.Tensor:
        box = torch.zeros(self.block_shape, dtype=self.dtype)
        inside, outside = [], []
        for at, length, size in zip(
            corner, self.block_shape, self.source.shape, strict=True
        ):
            first, last = max(int(at), 0), min(int(at) + length, size)
            if first >= last:
                return box
            inside.append(slice(first - int(at), last - int(at)))
            outside.append(slice(first, last))
        box[tuple(inside)] = self.source[tuple(outside)]
        return box


class Barrier:
    """An mbarrier: opens when all have arrived, and all announced bytes too."""

    def __init__(self, machine: "Machine"):
        self.machine, self.changed = machine, threading.Condition()

    def init(self, count: int) -> None:
        self.count = self.missing = count
        self.nbytes = self.phase = 0

    def arrive(self, arrivals: int = 1, nbytes: int = 0) -> None:
        with self.changed:
            self.missing -= arrivals
            self.nbytes += nbytes
            assert self.missing >= 0, "more have arrived than the barrier waits for"
            if self.missing == self.nbytes == 0:
                self.missing, self.phase = self.count, self.phase + 1
                self.changed.notify_all()

    def wait(self, parity: Any) -> None:
        with self.changed:
            self.machine.waiting += 1
            opened = self.changed.wait_for(
                lambda: self.phase % 2 != int(parity), PATIENCE
            )
            self.machine.waiting -= 1
        assert opened, "nobody opens a barrier"


class Memory:
    """Shared memory: a view of numbers, or barriers."""

    def __init__(self, content: Any):
        self.content = content
        self.shape = [len(content)] if isinstance(content, list) else content.shape
        self.dtype = getattr(content, "dtype", None)

    def index(self, place: Any) -> Any:
        part = self.content[int(place)]
        return part if isinstance(part, Barrier) else Memory(part)

    def slice(self, start: int, length: int) -> "Memory":
        return Memory(self.content[start : start + length])

    def permute(self, order: tuple[int, ...]) -> "Memory":
        return Memory(self.content.permute(order))

    def reshape(self, shape: list[int]) -> "Memory":
        return Memory(self.content.view(*shape))

    def load(self, layout: Any) -> Tensor:
        return self.content.clone().as_subclass(Tensor)

    def store(self, value: torch.Tensor) -> None:
        self.content.copy_(value)


class Machine:
    """What the modules of Gluon offer, as far as our kernel asks for it."""

    def __init__(self, late: bool):
        """late: copies come when all wait, not at once."""
        self.late, self.waiting = late, 0
        self.draw, self.mine = random.Random(0), threading.local()
        self.copies: list[Any] = []
        self.lock = threading.Lock()

    def language(self) -> ModuleType:
        """As `triton.experimental.gluon.language`."""
        gl = ModuleType("triton.experimental.gluon.language")
        nothing = lambda *_, **__: SimpleNamespace(parent=None)  # noqa: E731
        for layout in (
            "SliceLayout",
            "BlockedLayout",
            "DotOperandLayout",
            "DistributedLinearLayout",
        ):
            setattr(gl, layout, nothing)
        gl.NVMMADistributedLayout = nothing
        gl.constexpr = lambda value: value
        gl.NVMMASharedLayout = SimpleNamespace(get_default_for=nothing)
        for name in ("float32", "float16", "bfloat16", "int32", "int64"):
            setattr(gl, name, getattr(torch, name))
        gl.static_range = range
        gl.program_id = lambda axis: tensor(self.program)
        gl.num_programs = lambda axis: tensor(self.programs)
        gl.where = lambda which, a, b: torch.where(tensor(which), tensor(a), tensor(b))
        gl.maximum = lambda a, b: torch.maximum(tensor(a), tensor(b))
        gl.minimum = lambda a, b: torch.minimum(tensor(a), tensor(b))
        gl.max, gl.sum, gl.exp2, gl.log2 = torch.amax, torch.sum, torch.exp2, torch.log2
        gl.expand_dims = torch.unsqueeze
        gl.arange = lambda start, stop, layout: tensor(torch.arange(start, stop))
        gl.zeros = lambda shape, kind, layout: tensor(torch.zeros(shape))
        gl.full = lambda shape, x, kind, layout: tensor(torch.full(shape, x))
        gl.convert_layout = lambda x, layout: x
        gl.inline_asm_elementwise = lambda text, kinds, given, **_: given[0]
        gl.load, gl.store = self.load, self.store
        gl.atomic_xchg, gl.atomic_cas = self.exchange, self.compare_and_exchange
        gl.barrier = lambda: None
        gl.allocate_shared_memory = self.allocate
        gl.warp_specialize = self.specialize
        return gl

    def hopper(self) -> ModuleType:
        """As `triton.experimental.gluon.language.nvidia.hopper`."""
        module = ModuleType("triton.experimental.gluon.language.nvidia.hopper")
        module.fence_async_shared = lambda: None
        module.mbarrier = SimpleNamespace(
            MBarrierLayout=lambda: None,
            init=lambda barrier, count: barrier.init(count),
            wait=lambda barrier, phase: barrier.wait(phase),
            expect=lambda barrier, nbytes: barrier.arrive(1, nbytes),
            arrive=self.arrive,
        )
        module.tma = SimpleNamespace(async_copy_global_to_shared=self.copy)
        module.warpgroup_mma, module.warpgroup_mma_wait = self.multiply, self.await_
        return module

    def load(self, pointer: Pointer, mask: Any = True, other: Any = 0) -> Tensor:
        mask, offset = torch.broadcast_tensors(tensor(mask), tensor(pointer.offset))
        numbers = pointer.numbers.flatten()
        found = torch.full(offset.shape, other, dtype=numbers.dtype)
        found[mask] = numbers[offset[mask]]
        return tensor(found)

    def store(self, pointer: Pointer, value: torch.Tensor, mask: Any = True) -> None:
        mask, offset, value = torch.broadcast_tensors(
            tensor(mask), tensor(pointer.offset), tensor(value)
        )
        numbers = pointer.numbers.view(-1)
        numbers[offset[mask].as_subclass(torch.Tensor)] = value[mask].to(numbers.dtype)

    def exchange(self, pointer: Pointer, value: int, sem: str) -> Tensor:
        """Programs run one after another, so no other thread comes in between."""
        old = self.load(pointer)
        self.store(pointer, tensor(value))
        return old

    def compare_and_exchange(
        self, pointer: Pointer, expected: int, value: int, sem: str
    ) -> Tensor:
        """A program that waits for a program after it would wait for ever."""
        old = self.load(pointer)
        assert old == expected, "what another program should have left is not there"
        self.store(pointer, tensor(value))
        return old

    def allocate(self, kind: torch.dtype, shape: list[int], layout: Any) -> Memory:
        if kind == torch.int64:
            return Memory([Barrier(self) for _ in range(shape[0])])
        return Memory(torch.full(tuple(shape), float("nan"), dtype=kind))

    def arrive(self, barrier: Barrier) -> None:
        barrier.arrive()
        time.sleep(PAUSE)

    def copy(self, source, corner, barrier: Barrier, target: Memory) -> None:
        with self.lock:
            self.copies.append((source, corner, barrier, target))

    def _copy_for(self, partitions: list[threading.Thread]) -> None:
        """The copies' engine: takes any of what it has been given."""
        while running := sum(thread.is_alive() for thread in partitions):
            if not self.copies or (self.late and self.waiting < running):
                time.sleep(1e-4)
                continue
            with self.lock:
                task = self.copies.pop(self.draw.randrange(len(self.copies)))
            source, corner, barrier, target = task
            target.store(source.box(corner))
            barrier.arrive(0, -source.block_type.nbytes)
            time.sleep(PAUSE)

    def multiply(self, a, b, added, use_acc: bool = True, is_async: bool = False):
        """Begin a product. What it reads must not change before it is waited for."""
        product = SimpleNamespace(read=(a, b), added=added if use_acc else 0)
        product.found = [self._numbers(x).clone() for x in (a, b)]
        self.mine.__dict__.setdefault("products", []).append(product)
        return product

    def await_(self, outstanding: int, deps: list[Any]) -> Any:
        products = self.mine.products
        while len(products) > outstanding:
            product = products.pop(0)
            for old, new in zip(product.found, product.read, strict=True):
                same = torch.equal(old.nan_to_num(), self._numbers(new).nan_to_num())
                assert same, "a product reads what is being copied"
            a, b = product.found
            product.value = tensor(a @ b) + product.added
        return deps[0].value

    @staticmethod
    def _numbers(x: Any) -> torch.Tensor:
        return (x.content if isinstance(x, Memory) else x).float()

    def specialize(self, partitions, warps: list[int], registers: list[int]) -> None:
        failures = []

        def run(function, given) -> None:
            try:
                function(*given)
            except BaseException as error:
                failures.append(error)

        threads = [
            threading.Thread(target=run, args=each, daemon=True) for each in partitions
        ]
        for thread in threads:
            thread.start()
        self._copy_for(threads)
        assert not self.copies
        if failures:
            raise failures[0]

    def run(self, kernel, programs: int, *given: Any, **constants: Any) -> None:
        """A launch, one program after another."""
        given = [Pointer(x) if isinstance(x, torch.Tensor) else x for x in given]
        self.programs = programs
        for self.program in range(programs):
            kernel(*given, **constants)


def jit(function: Any = None, **_: Any) -> Any:
    return function or (lambda function: function)


@contextmanager
def _exchanged(modules: dict[str, ModuleType]):
    old = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name, module in old.items():
            sys.modules.pop(name)
            if module is not None:
                sys.modules[name] = module


def kernel_of(path: Path, name: str, machine: Machine, change=lambda text: text) -> Any:
    """The kernel of this file, in Python; `change` plants a mistake in its text."""
    gluon = ModuleType("triton.experimental.gluon")
    gluon.jit = gluon.constexpr_function = jit
    gluon.language = machine.language()
    experimental = ModuleType("triton.experimental")
    experimental.gluon = gluon
    module, hopper = "triton.experimental", machine.hopper()
    fakes = {
        module: experimental,
        f"{module}.gluon": gluon,
        f"{module}.gluon.language": gluon.language,
        f"{module}.gluon.language.nvidia.hopper": hopper,
    }
    text = path.read_text()
    changed = change(text)
    scope: dict[str, Any] = {"__name__": "kernel"}
    with _exchanged(fakes):
        exec(compile(changed, str(path), "exec"), scope)
    return scope[name]
