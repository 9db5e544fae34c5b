#!/usr/bin/env bash
# peft 0.21.2, transformers 5.24.0, torch 2.13.0: a forward writes the base weight.
# Behaviour: with LoraConfig(target_parameters=[...]) each forward counts as an
#   in-place write to the base weight: its version goes up, its values stay.
# One would guess: a forward only reads the weights, as with target_modules.
# For users: a loss between the base model (adapter disabled) and the adapted model
#   raises in backward. A new version of a weight does not mean new values.
# Seen on 2026-11-28:
#   peft 0.21.2 transformers 5.24.0
#   target_modules: (0, 'no error')
#   target_parameters: (1, 'one of the variables needed for gradient computation has
#     been modified by an inplace operation: ')
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 transformers==5.24.0 peft==0.21.2
"$folder/venv/bin/python" -I - <<'END'
import warnings

import peft
import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

warnings.simplefilter("ignore")
ids = torch.arange(8)[None]


def measure(**targets):
    """How far one forward moves the version, and what backward says."""
    config = AutoConfig.for_model(
        "qwen3_moe", vocab_size=64, hidden_size=32, moe_intermediate_size=16,
        num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
    )
    base = AutoModelForCausalLM.from_config(config)
    weight = base.model.layers[0].mlp.experts.gate_up_proj
    model = peft.get_peft_model(base, peft.LoraConfig(r=2, **targets))
    model.enable_input_require_grads()  # as for gradient checkpointing
    version, values = weight._version, weight.detach().clone()
    with torch.no_grad():
        model(ids)
    moved = weight._version - version
    assert torch.equal(weight, values)
    with model.disable_adapter():
        reference = model(ids).logits
    try:
        (model(ids).logits - reference).square().sum().backward()
    except RuntimeError as error:
        return moved, str(error)[:96]
    return moved, "no error"


print("peft", peft.__version__, "transformers", transformers.__version__)
print("target_modules:", modules := measure(target_modules=["q_proj"]))
assert modules == (0, "no error")
experts = measure(target_modules=[], target_parameters=["mlp.experts.gate_up_proj"])
print("target_parameters:", experts)
assert experts[0] == 1 and "modified by an inplace operation" in experts[1]
END
