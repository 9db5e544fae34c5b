"""Lab: ask Triton's compiler about a kernel, also where there is no GPU.

Where kernels are interpreted, Triton cannot compile in the same process. So a process
of its own compiles, for a GPU of Hopper's generation, and hands back what it made. It
starts with the first question, and answers all others, too.
"""

import atexit
import inspect
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import minipaged

ROOT = Path(minipaged.__file__).parent.parent
HEAD = "import triton\nimport triton.language as tl\n\n"  # what a cell has imported
COMPILE = """
import importlib, json, sys
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


def compiled(folder, module, name, given, options):
    sys.path.insert(0, folder)
    kernel = getattr(importlib.import_module(module), name)
    sys.path.remove(folder)
    types, sizes, attributes = {}, {}, {}
    for at, parameter in enumerate(kernel.params):
        value = given.get(parameter.name, parameter.default)
        if parameter.is_constexpr:
            if isinstance(value, list):  # another kernel: its module and its name
                value = getattr(importlib.import_module(value[0]), value[1])
            types[parameter.name] = "constexpr"
            sizes[parameter.name] = value
        else:
            types[parameter.name] = given.get(parameter.name, "*fp32")
            if types[parameter.name][0] == "*":  # tensors begin at a multiple of 16
                attributes[at,] = [["tt.divisibility", 16]]
    source, target = ASTSource(kernel, types, sizes, attributes), ("cuda", 90, 32)
    return triton.compile(source, target=GPUTarget(*target), options=options)


answers, sys.stdout = sys.stdout, sys.stderr  # what Triton prints is no answer
for question in sys.stdin:
    sys.modules.pop("kernel_of_a_notebook", None)
    try:
        answer = {"ptx": compiled(*json.loads(question)).asm["ptx"]}
    except triton.TritonError as error:
        answer = {"refused": str(error)}
    print(json.dumps(answer), file=answers, flush=True)
"""


class Assembly(str):
    """What the compiler made of a kernel; as a cell's result, a line says how much."""

    def __repr__(self) -> str:
        return f"taken: {len(self.splitlines())} lines of PTX (print them to read them)"


class Refused(Exception):
    """Triton's compiler does not take this kernel; the message is the compiler's."""


def ask_compiler(
    kernel: Any, *, num_warps: int = 4, num_stages: int = 1, **arguments: Any
) -> Assembly:
    """What the compiler makes of a kernel: PTX, the assembly language of NVIDIA's GPUs.

    arguments: for a tl.constexpr its value (also a kernel of the package, that is to be
    called), for others their type: "*fp16" is a pointer to float16, "i32" an integer. A
    tensor that is not named holds float32.
    Raises Refused if the kernel does not compile.
    """
    function = kernel.fn
    module, options = function.__module__, {"num_warps": num_warps}
    options["num_stages"] = num_stages
    with tempfile.TemporaryDirectory() as folder:
        if module == "__main__":  # written in a notebook
            module = "kernel_of_a_notebook"
            source = HEAD + inspect.getsource(function)
            Path(folder, f"{module}.py").write_text(source, "utf-8")
        arguments = {name: _spelt(given) for name, given in arguments.items()}
        answer = _answer([folder, module, function.__name__, arguments, options])
    if "refused" in answer:
        raise Refused(answer["refused"] + _hint(function, arguments, answer["refused"]))
    return Assembly(answer["ptx"])


def _hint(function: Any, given: dict[str, Any], refusal: str) -> str:
    """Which sizes have no value; what was taken for tensors, if that may be wrong."""
    parameters = inspect.signature(function).parameters.values()
    sizes = [p for p in parameters if "constexpr" in str(p.annotation)]
    without = [p.name for p in sizes if p.default is p.empty and p.name not in given]
    if without:
        values = ", ".join(f"{name}=32" for name in without)
        return f"\nThese sizes have no value; give one, as in: {values}"
    names = given.keys() | {p.name for p in sizes}
    taken = [p.name for p in parameters if p.name not in names]
    if "pointer<" not in refusal or not taken:
        return ""
    return (
        f"\nTaken for tensors, as you named no type: {', '.join(taken)}; a number is "
        'named as in: ask_compiler(kernel, size="i32")'
    )


def _spelt(argument: Any) -> Any:
    """A kernel's module and name; anything else as it is."""
    function = getattr(argument, "fn", None)
    return [function.__module__, function.__name__] if function else argument


class _Compiler:
    """The process that compiles; it ends with this one."""

    def __init__(self) -> None:
        self.said = tempfile.TemporaryFile("w+")  # noqa: SIM115 - a pipe might fill up
        self.process = subprocess.Popen(
            [sys.executable, "-c", COMPILE],
            env=os.environ | {"TRITON_INTERPRET": "0", "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.said,
            text=True,
        )
        atexit.register(self.end)

    def end(self) -> str:
        """Let it end; what it has said of its errors."""
        atexit.unregister(self.end)
        self.process.communicate()  # closes its input
        self.said.seek(0)
        with self.said:
            return self.said.read()


_waiting: list[_Compiler] = []  # for the next question


def _answer(question: list[Any]) -> dict[str, str]:
    """What the compiler's process says; starts it if none waits."""
    compiler = _waiting.pop() if _waiting else _Compiler()
    try:
        compiler.process.stdin.write(json.dumps(question) + "\n")
        compiler.process.stdin.flush()
        line = compiler.process.stdout.readline()
    except BrokenPipeError:  # it ended before it read
        line = ""
    except BaseException:  # such as Ctrl-C: nobody waits for the answer
        compiler.process.kill()
        compiler.end()
        raise
    if not line:
        raise RuntimeError(f"the compiler did not run:\n{compiler.end()[-2000:]}")
    _waiting.append(compiler)
    return json.loads(line)
