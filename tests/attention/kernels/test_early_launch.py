"""A launch that begins early: what it reads before the kernel before it has ended."""

import json
import os
import re
import subprocess
import sys

COMPILE = """
import json, sys

import triton
from triton.backends.compiler import GPUTarget

from minipaged.attention.kernels import one_launch, pieces

kernel, constants, tensors = json.loads(sys.argv[1])
kernel = getattr({"step_kernel": one_launch, "merge_kernel": pieces}[kernel], kernel)
names = kernel.arg_names
types = {name: "*" + tensors.get(name, "bf16") for name in names}
numbers = [name for name in names if name.endswith("stride") or name == "is_first"]
types |= {name: "i32" for name in numbers} | {"scale": "fp32"}
constants = {name: value for name, value in constants.items() if name in names}
types |= {name: "constexpr" for name in constants}
types = {name: types[name] for name in names}
source = triton.compiler.ASTSource(kernel, types, constants)
compiled = triton.compile(source, GPUTarget("cuda", 90, 32), {"launch_pdl": True})
print(json.dumps(compiled.asm["ptx"]))
"""
CONSTANTS = {
    "key_scale": None, "value_scale": None, "sinks": None, "softcap": None,
    "COLUMNS": 9, "BLOCK_SIZE": 16, "NUM_KV_HEADS": 2, "GROUP": 2, "KEY_DIM": 64,
    "VALUE_DIM": 64, "ROWS": 16, "HEADS": 2, "PADDED_KEY_DIM": 64,
    "PADDED_VALUE_DIM": 64, "TILE": 32, "MERGED_AT_ONCE": 4, "APART": True,
    "WAITS": True, "HANDS_OVER": True, "WORDS": False, "TOGETHER": 1, "NUMBERS": 32,
    "PIECES": 16,
}  # fmt: skip
TENSORS = dict.fromkeys(("means", "logs"), "fp32")
TENSORS |= dict.fromkeys(("tickets", "plan"), "i32")
TENSORS |= dict.fromkeys(("slots", "block_tables"), "i64")
IN_EIGHT_BITS = dict.fromkeys(("keys", "values"), "fp8e4nv")
IN_EIGHT_BITS |= dict.fromkeys(("key_scale", "value_scale"), "fp32")
EVENTS = {
    "wait": r"griddepcontrol\.wait",
    "launch": r"griddepcontrol\.launch_dependents",
    "number": r"ld\.global\.b32",  # one, of 32 bits: of the plan
    "memory": r"(ld|st|atom|red|cp\.async\S*)\.\S*global",
}


def events(kernel, **changed):
    """What it does, in the order of its instructions, each run of a kind once."""
    constants, tensors = CONSTANTS | changed, TENSORS
    if constants["WORDS"]:
        tensors = tensors | IN_EIGHT_BITS
        constants = {k: v for k, v in constants.items() if k not in IN_EIGHT_BITS}
    given = json.dumps([kernel, constants, tensors])
    path = os.pathsep.join(sys.path)
    environment = os.environ | {"TRITON_INTERPRET": "0", "PYTHONPATH": path}
    run = subprocess.run(
        [sys.executable, "-c", COMPILE, given],
        capture_output=True, text=True, env=environment, timeout=300,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-3000:]
    found = []
    for line in json.loads(run.stdout.splitlines()[-1]).splitlines():
        kind = next((name for name, told in EVENTS.items() if re.search(told, line)), 0)
        if kind and found[-1:] != [kind]:
            found.append(kind)
    return found


def test_a_step_waits_before_it_reads_what_the_kernel_before_it_wrote():
    """First it may wait for the plan, and reads its numbers. For an H200, anywhere."""
    order = ["wait", "number", "wait", "launch", "memory"]
    assert events("step_kernel")[:5] == order
    assert events("step_kernel", WAITS=False)[:3] == ["number", "launch", "memory"]
    assert "launch" not in events("step_kernel", HANDS_OVER=False)


def test_what_merges_waits_before_it_reads_pieces():
    assert events("merge_kernel")[:4] == ["number", "wait", "launch", "number"]
    assert "launch" not in events("merge_kernel", HANDS_OVER=False)


def test_a_step_in_8_bits_asks_for_k_and_v_before_it_waits():
    """Unless another kernel may have just written them: then there is no new K."""
    assert events("step_kernel", WORDS=True)[:3] == ["wait", "number", "memory"]
    written = {"new_keys": None, "new_values": None, "slots": None}
    order = ["wait", "number", "wait", "launch"]
    assert events("step_kernel", WORDS=True, **written)[:4] == order
