#!/usr/bin/env bash
# torch 2.13.0: a DTensor does not notice that its values were written.
# Behaviour: the version of a DTensor stays 0 when its values are written by
#   torch._foreach_add_, as optimizers with foreach=True do, or through to_local().
#   Its data_ptr() is 0. Only x.add_() and its like count, as for a plain tensor.
# One would guess: what counts as a write for a plain tensor counts for a DTensor.
# For users: where backward raises for a plain tensor, it gives wrong gradients for a
#   DTensor. Neither _version nor data_ptr() tells whether a weight has changed.
# Seen on 2026-11-28:
#   torch 2.13.0+cpu
#   plain   add_      version 1, backward raises
#   plain   foreach   version 1, backward raises
#   DTensor add_      version 1, backward raises
#   DTensor foreach   version 0, gradient 12
#   DTensor to_local  version 0, gradient 12
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/python" -I - <<'END'
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

WRITES = {
    "add_": lambda x: x.add_(5),
    "foreach": lambda x: torch._foreach_add_([x], 5.0),
    "to_local": lambda x: x.to_local().add_(5),
}
RAISES = [("plain", "add_"), ("plain", "foreach"), ("DTensor", "add_")]
BLIND = [("DTensor", "foreach"), ("DTensor", "to_local")]


def measure(x, write):
    """The version after a write, and the gradient of x * x, which is 2 at x = 1."""
    loss = (x.requires_grad_() * x).sum()
    with torch.no_grad():
        WRITES[write](x)
    try:
        loss.backward()
    except RuntimeError:
        return f"version {x._version}, backward raises"
    return f"version {x._version}, gradient {x.grad.full_tensor()[0]:g}"


dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
mesh = init_device_mesh("cpu", (1,))
print("torch", torch.__version__)
for kind, write in RAISES + BLIND:
    x = torch.ones(2)
    if kind == "DTensor":
        x = distribute_tensor(x, mesh, [Shard(0)])
    print(f"{kind:8}{write:9}", found := measure(x, write))
    raises = (kind, write) in RAISES
    assert found == f"version {'1, backward raises' if raises else '0, gradient 12'}"
    assert (x.data_ptr() == 0) == (kind == "DTensor")
dist.destroy_process_group()
END
