#!/usr/bin/env bash
# transformers 5.24.0, torch 2.13.0: "dynamic" RoPE remembers the longest input.
# Behaviour: after an input longer than max_position_embeddings, an input of exactly
#   max_position_embeddings tokens still gets the angles of the longer input.
#   An input with one token less resets them.
# One would guess: an input that fits gives the same logits every time.
# For users: the same prompt can give other logits in a process that has served a
#   longer prompt. Compare models of this kind in a fresh process.
# Seen on 2026-11-28:
#   transformers 5.24.0 torch 2.13.0+cpu
#   32 tokens after 80: 3.1762685775756836
#   31 tokens after 80: 0.0
#   32 tokens after 31: 0.0
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 transformers==5.24.0
"$folder/venv/bin/python" -I - <<'END'
import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

config = AutoConfig.for_model(
    "llama", vocab_size=64, hidden_size=32, intermediate_size=64,
    num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=32,
    rope_parameters={"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0},
    initializer_range=0.2,
)
torch.manual_seed(0)
model = AutoModelForCausalLM.from_config(config).eval()
ids = torch.randint(64, (1, 80))


@torch.no_grad()
def logits(length):
    return model(ids[:, :length], use_cache=False).logits


def change(first, second):
    return (first - second).abs().max().item()


print("transformers", transformers.__version__, "torch", torch.__version__)
fresh_32, fresh_31 = logits(32), logits(31)
assert change(fresh_32, logits(32)) == 0, "control: nothing longer came between"
logits(80)
print("32 tokens after 80:", change(fresh_32, logits(32)))
assert change(fresh_32, logits(32)) > 1e-3, "the angles are reset at 32 tokens, too"
print("31 tokens after 80:", change(fresh_31, logits(31)))
assert change(fresh_31, logits(31)) == 0, "the angles are not reset at 31 tokens"
print("32 tokens after 31:", change(fresh_32, logits(32)))
assert change(fresh_32, logits(32)) == 0, "31 tokens did not reset the angles"
END
