"""On a GPU, in float32: token for token what HuggingFace generates.

Two models: the pocket model, and a folder of random weights of Qwen3-0.6B's shape,
which is made, saved, loaded as any folder is, and removed again. TF32 is off: with it,
neither side is exact. Writes figures/data/gpu-parity.json.

    python -m benchmarks.gpu.parity
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import torch
from tqdm import tqdm
from transformers import AutoTokenizer, GenerationConfig, Qwen3ForCausalLM

import minipaged as mp
from benchmarks.gpu.shapes import qwen3_06b
from benchmarks.random_prompts import random_prompts
from minipaged.lab.measure.machine import describe_machine
from minipaged.lab.tour.reference import huggingface_generate
from minipaged.model.load import POCKET

OUT = Path(__file__).parents[2] / "figures" / "data" / "gpu-parity.json"
GREEDY = {"max_new_tokens": 64}
BEAMS = {"max_new_tokens": 24, "num_beams": 4, "num_return_sequences": 2}
SAMPLES = {"max_new_tokens": 48, "do_sample": True, "num_return_sequences": 3}


def save_random_qwen3(folder: Path) -> None:
    """A model of Qwen3-0.6B's shape, whose text depends on attention; a tokenizer."""
    config = qwen3_06b(
        rope_theta=1_000_000.0,
        eos_token_id=151_645,
        pad_token_id=151_643,
        bos_token_id=None,
    )
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(config).cuda()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim > 1 and "embed" not in name:
                weight.normal_(std=1.5 / weight.shape[-1] ** 0.5)
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(POCKET).save_pretrained(folder)


def compare(model, prompts: list[list[int]], options: dict) -> dict:
    """Both columns for these prompts, ours with each kind of attention."""
    config, seeds = GenerationConfig(**options), list(range(len(prompts)))
    if "num_beams" in options:
        seeds = None  # nothing is drawn
    theirs = huggingface_generate(model, prompts, config, seed=seeds)
    rows = [row for rows in theirs for row in rows]
    report = {
        "options": options,
        "prompts": len(prompts),
        "tokens": sum(map(len, rows)),
        "distinct_tokens": len({token for row in rows for token in row}),
    }
    for attention in ("gathered", "triton"):
        paged = mp.PagedModel(model, num_blocks=2048, attention=attention)
        torch.cuda.synchronize()
        start = time.perf_counter()
        ours = mp.generate(paged, prompts, config, seed=seeds)
        torch.cuda.synchronize()
        equal = [a.sequences == b for a, b in zip(ours, theirs, strict=True)]
        report[attention] = {
            "equal": sum(equal),
            "seconds": round(time.perf_counter() - start, 2),
            "pool_whole_again": paged.pool.num_free == paged.pool.num_blocks,
        }
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prompts", type=int, default=20)
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    assert torch.cuda.is_available(), "this script wants a GPU"
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        save_random_qwen3(Path(folder))
        for name in tqdm(["pocket", folder], desc="models"):
            model, _ = mp.load(name)
            prompts = random_prompts(arguments.prompts, 1, 299, model.config.vocab_size)
            results["pocket" if name == "pocket" else "random weights, Qwen3-0.6B"] = {
                "parameters": model.num_parameters(),
                "cases": [
                    compare(model, prompts, case) for case in (GREEDY, SAMPLES, BEAMS)
                ],
            }
    report = {"machine": describe_machine(), "dtype": "float32, TF32 off"} | results
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(report, indent=2) + "\n")
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
