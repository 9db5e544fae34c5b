"""Lab: ask Triton's compiler about a kernel, also where there is no GPU.

Where kernels are interpreted, Triton cannot compile in the same process. So a process
of its own compiles, for a GPU of Hopper's generation, and hands back what it made.
"""

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

module, name, given, options = json.loads(sys.stdin.read())
kernel = getattr(importlib.import_module(module), name)
types, sizes, attributes = {}, {}, {}
for at, parameter in enumerate(kernel.params):
    value = given.get(parameter.name, parameter.default)
    if parameter.is_constexpr:
        types[parameter.name] = "constexpr"
        sizes[parameter.name] = value
    else:
        types[parameter.name] = given.get(parameter.name, "*fp32")
        if types[parameter.name][0] == "*":  # tensors begin at a multiple of 16 bytes
            attributes[at,] = [["tt.divisibility", 16]]
source = ASTSource(kernel, types, sizes, attributes)
try:
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
except triton.TritonError as error:
    print(json.dumps({"refused": str(error)}))
else:
    print(json.dumps({"ptx": compiled.asm["ptx"]}))
"""


class Refused(Exception):
    """Triton's compiler does not take this kernel; the message is the compiler's."""


def ask_compiler(
    kernel: Any, *, num_warps: int = 4, num_stages: int = 1, **arguments: Any
) -> str:
    """What the compiler makes of a kernel: PTX, the assembly language of NVIDIA's GPUs.

    arguments: for a tl.constexpr its value, for others their type: "*fp16" is a pointer
    to float16, "i32" an integer. A tensor that is not named holds float32.
    Raises Refused if the kernel does not compile.
    """
    function = kernel.fn
    module = function.__module__
    with tempfile.TemporaryDirectory() as folder:
        if module == "__main__":  # written in a notebook
            module = "kernel_of_a_notebook"
            source = HEAD + inspect.getsource(function)
            Path(folder, f"{module}.py").write_text(source, "utf-8")
        answer = subprocess.run(
            [sys.executable, "-c", COMPILE],
            input=json.dumps(
                [
                    module,
                    function.__name__,
                    arguments,
                    {"num_warps": num_warps, "num_stages": num_stages},
                ]
            ),
            env=os.environ
            | {
                "TRITON_INTERPRET": "0",
                "PYTHONPATH": os.pathsep.join([folder, str(ROOT)]),
            },
            capture_output=True,
            text=True,
            check=False,
        )
    if answer.returncode:
        raise RuntimeError(f"the compiler did not run:\n{answer.stderr[-2000:]}")
    found = json.loads(answer.stdout.splitlines()[-1])
    if "refused" in found:
        raise Refused(found["refused"])
    return found["ptx"]
