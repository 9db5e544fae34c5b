#!/usr/bin/env bash
# torch 2.13.0: a dispatch mode is told that .to() made a view when it made a copy.
# Behaviour: within torch.inference_mode(), a TorchDispatchMode sees composite operators
#   such as aten.to and aten.reshape, which it does not see elsewhere. Their is_view is
#   True, whatever they do to this input.
# One would guess: is_view says whether the result shares memory with the input, as it
#   does for all that a mode sees outside of inference mode.
# For users: a recorder, tracer or byte counter that skips views by func.is_view leaves
#   out copies, without an error, as soon as it is used for inference. Compare the
#   storages of input and result.
# Seen on 2026-11-28:
#   torch 2.13.0+cpu
#   outside         to, another type     aten._to_copy  is_view False, copied
#   outside         reshape, transposed  aten.clone     is_view False, copied
#   inference_mode  to, another type     aten.to        is_view True, copied
#   inference_mode  reshape, transposed  aten.reshape   is_view True, copied
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/python" -I - <<'END'
from contextlib import nullcontext

import torch
from torch.utils._python_dispatch import TorchDispatchMode

CASES = {
    "to, another type": lambda x: x.to(torch.float64),
    "reshape, transposed": lambda x: x.t().reshape(6),
}


class Recorder(TorchDispatchMode):
    """Notes each operator, what it says of itself, and whether memory is shared."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **kwargs or {})
        shares = out.untyped_storage().data_ptr() == args[0].untyped_storage().data_ptr()
        name = f"{func.namespace}.{func._schema.name.split('::')[1]}"
        self.seen.append((name, func.is_view, shares))
        return out


print("torch", torch.__version__)
found = {}
for where, context in (("outside", nullcontext), ("inference_mode", torch.inference_mode)):
    for case, compute in CASES.items():
        x = torch.ones(2, 3)
        with context(), Recorder() as recorder:
            recorder.seen = []
            compute(x)
        # The operators that made new memory.
        found[where, case] = copied = [one for one in recorder.seen if not one[2]]
        for name, is_view, _ in copied:
            print(f"{where:15} {case:20} {name:14} is_view {is_view}, copied")
for case in CASES:
    assert [is_view for _, is_view, _ in found["outside", case]] == [False]
    assert [is_view for _, is_view, _ in found["inference_mode", case]] == [True]
END
