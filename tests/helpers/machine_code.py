"""What the assembler made of a kernel, read from nvdisasm's text."""

import inspect
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

_LINE = re.compile(r"\*/\s+(?:@!?U?P\d+ )?([A-Z][A-Za-z0-9_.]*)\s+(.*?)\s*;")
_PRODUCT = re.compile(r"HGMMA\.\S+\s+R\d+, R(\d+),")
_WRITES_NONE = ("ST", "BAR", "SYNCS", "WARP", "BRA", "HGMMA", "UTMA", "R2UR", "RED")


def products_from_registers(text: str) -> int:
    """How many products take their first factor from registers."""
    return len(_PRODUCT.findall(text))


def overwritten(text: str) -> list[str]:
    """Instructions that write a register while a product may still read it.

    A product reads its first factor from four registers, at any time until a wait for
    all products. NVIDIA's assembler 12.8 has been seen to give them away before.
    """
    found: list[str] = []
    read: set[int] = set()
    for line in text.splitlines():
        instruction = _LINE.search(line)
        if not instruction:
            continue
        name, operands = instruction.groups()
        if product := _PRODUCT.search(line):
            read |= {int(product[1]) + at for at in range(4)}
        elif name.startswith("WARPGROUP.DEPBAR") and operands.endswith(" 0x0"):
            read.clear()
        elif not name.startswith(_WRITES_NONE):
            target = re.match(r"R(\d+)", operands)
            width = (
                4 if ".128" in name or ".M88.4" in name else 2 if ".64" in name else 1
            )
            if target and read & {int(target[1]) + at for at in range(width)}:
                found.append(line.strip())
    return found


def assembled(compiled: Any) -> dict[str, Any]:
    """What NVIDIA's tools say of a kernel that Triton has compiled, without a GPU.

    registers and bytes spilled of a thread, bytes of shared memory, whether there were
    warnings, `products` from registers, and instructions that overwrite their factors.
    Triton must not be interpreting.
    """
    from triton import knobs
    from triton.backends.nvidia.compiler import get_ptxas

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.ptx")
        path.write_text(compiled.asm["ptx"])
        by_gpu = inspect.signature(get_ptxas).parameters  # not yet in Triton 3.5
        ptxas = get_ptxas(90) if by_gpu else get_ptxas()
        command = [ptxas.path, "-v", "--gpu-name=sm_90a", path]
        command += ["-o", path.with_suffix(".bin")]
        said = subprocess.run(
            command, capture_output=True, text=True, check=True
        ).stderr
        path.with_suffix(".cubin").write_bytes(compiled.asm["cubin"])
        command = [knobs.nvidia.nvdisasm.path, "-c", path.with_suffix(".cubin")]
        code = subprocess.run(
            command, capture_output=True, text=True, check=True
        ).stdout
    numbers = {
        "registers": r"Used (\d+) registers",
        "spilled": r"(\d+) bytes spill stores",
    }
    found = {name: int(re.search(text, said)[1]) for name, text in numbers.items()}
    return found | {
        "warnings": "warning" in said.lower(),
        "shared": compiled.metadata.shared,
        "products": products_from_registers(code),
        "overwritten": overwritten(code),
    }
