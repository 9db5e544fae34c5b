#!/usr/bin/env bash
# transformers 5.24.0, torch 2.13.0: output_hidden_states=True changes the model.
# Behaviour: model(ids, output_hidden_states=True) leaves forward hooks on the layers
#   for good. The hooks are local functions, so the model cannot be pickled any more.
# One would guess: an argument of one call leaves the model as it was.
# For users: torch.save(model), and a model sent to another process, work before such
#   a call and raise after it. Save the state_dict, or pickle before the first call.
# Seen on 2026-11-28:
#   transformers 5.24.0 torch 2.13.0+cpu
#   hooks after an ordinary call: 0
#   hooks after output_hidden_states=True, then an ordinary call: 4
#   pickle: Can't pickle local object
#     'install_output_capuring_hook.<locals>.output_capturing_hook'
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 transformers==5.24.0
"$folder/venv/bin/python" -I - <<'END'
import pickle

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

config = AutoConfig.for_model(
    "llama", vocab_size=64, hidden_size=32, intermediate_size=64,
    num_hidden_layers=2, num_attention_heads=4,
)
model = AutoModelForCausalLM.from_config(config).eval()
ids = torch.arange(8)[None]


def num_hooks():
    return sum(len(module._forward_hooks) for module in model.modules())


print("transformers", transformers.__version__, "torch", torch.__version__)
model(ids)
print("hooks after an ordinary call:", num_hooks())
assert num_hooks() == 0
pickle.dumps(model)

model(ids, output_hidden_states=True)
model(ids)
print("hooks after output_hidden_states=True, then an ordinary call:", num_hooks())
assert num_hooks() > 0, "the hooks are gone"
try:
    pickle.dumps(model)
except (AttributeError, pickle.PicklingError) as error:
    print("pickle:", error)
else:
    raise AssertionError("the model can be pickled")
END
