"""A script as torchrun runs it: all ranks run the same lines; then rank 1 fails."""

import os
import sys

from transformers import GenerationConfig

import minipaged as mp

model, tokenizer = mp.load("pocket", tp="auto")
paged = mp.PagedModel(model, 64)
config = GenerationConfig(max_new_tokens=9, do_sample=False)
prompts = tokenizer(["The capital of France is", "Once upon a time"]).input_ids
with mp.Engine(paged, max_tokens=64) as engine:
    streams = [engine.add(prompt, config) for prompt in prompts]
    tokens = [list(stream) for stream in streams]
with open(f"{sys.argv[1]}/{os.environ['RANK']}", "w") as file:
    print(tokens, file=file)
if os.environ["RANK"] == "1":
    raise SystemExit("this script has a fault on rank 1")
while True:
    mp.generate(paged, prompts, config)
