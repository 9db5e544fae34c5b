#!/usr/bin/env bash
# peft 0.21.2, transformers 5.24.0, torch 2.13.0: generate() ties the base to itself.
# Behaviour: after generate() of a model with prompt tuning, the base model keeps its
#   method prepare_inputs_for_generation as an attribute. The model then refers to
#   itself, so it is not freed when the last name for it is deleted.
# One would guess: generate() leaves the base model as it was.
# For users: del model returns the memory only when Python's garbage collector runs.
#   Call gc.collect() before the next large model is loaded.
# Seen on 2026-11-28:
#   peft 0.21.2 transformers 5.24.0
#   without generate(): {'kept': False, 'outlives its names': False}
#   with generate(): {'kept': True, 'outlives its names': True}
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 transformers==5.24.0 peft==0.21.2
"$folder/venv/bin/python" -I - <<'END'
import gc
import warnings
import weakref

import peft
import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

warnings.simplefilter("ignore")
ids = torch.arange(8)[None]
gc.disable()  # so that it runs only where this script says so


def measure(generate):
    """Is the method an attribute of the base, and does the base outlive its names?"""
    config = AutoConfig.for_model(
        "llama", vocab_size=64, hidden_size=32, intermediate_size=64,
        num_hidden_layers=2, num_attention_heads=4,
    )
    base = AutoModelForCausalLM.from_config(config)
    prompt = peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3)
    model = peft.get_peft_model(base, prompt)
    if generate:
        model.generate(input_ids=ids, max_new_tokens=3, do_sample=False)
    kept = "prepare_inputs_for_generation" in vars(base)
    alive = weakref.ref(base)
    del base, model
    outlives = alive() is not None
    gc.collect()
    assert alive() is None
    return {"kept": kept, "outlives its names": outlives}


print("peft", peft.__version__, "transformers", transformers.__version__)
print("without generate():", without := measure(generate=False))
assert without == {"kept": False, "outlives its names": False}
print("with generate():", after := measure(generate=True))
assert after == {"kept": True, "outlives its names": True}
END
