r"""Train the pocket model's draft: a smaller model, which guesses what pocket will say.

It has pocket's tokenizer, and begins with pocket's embeddings. The corpus is written
anew, from another seed. The draft does not learn the next token of the corpus, but
what pocket finds likely there: that is what `mp.DraftModel` needs. Its weights are
stored in bfloat16, so that they take less than a megabyte.

    python -m tools.pocket.draft                  # minutes on one large GPU
    python -m tools.pocket.draft --steps 4 --batch-tokens 4096 \
        --corpus-tokens 300000 --questions 2 --out somewhere   # a try on a CPU
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from datetime import date
from functools import partial
from pathlib import Path
from random import Random

import torch
import transformers
from torch.nn.functional import kl_div, log_softmax, nll_loss
from tqdm import tqdm
from transformers import PreTrainedTokenizerFast, Qwen3Config
from transformers import Qwen3ForCausalLM as Model

import minipaged as mp
from tools.pocket import grammar
from tools.pocket.scores import held_out_questions, prompt_text
from tools.pocket.train import ROOT, Rows, batches, build_corpus, learning_rate

OUT = ROOT / "minipaged" / "model" / "pocket_draft"
# Of stories, too, every token has to be guessed.
LOSS_WEIGHTS = grammar.LOSS_WEIGHTS | {"story": 1.0}
NUM_TOKENS = 4  # guesses at a time, when it is scored
MOST_NEW = 96


def new_draft(pocket: Model, layers: int, heads: int, mlp: int) -> Model:
    """A Qwen3 with pocket's embeddings, and a KV head for every three query heads."""
    fields = pocket.config.to_dict() | {
        "num_hidden_layers": layers,
        "layer_types": None,  # all attend to everything
        "num_attention_heads": heads,
        "num_key_value_heads": heads // 3,
        "intermediate_size": mlp,
    }
    draft = Model(Qwen3Config(**fields))
    draft.model.embed_tokens.load_state_dict(pocket.model.embed_tokens.state_dict())
    draft.model.norm.load_state_dict(pocket.model.norm.state_dict())
    return draft


def distil(
    draft: Model,
    pocket: Model,
    corpus: dict[int, Rows],
    args: argparse.Namespace,
    device: str,
) -> dict[str, float]:
    """Train `draft` in place to say what `pocket` says; returns what its card needs."""
    pocket.to(device).eval()
    draft.to(device).train()
    optimizer = torch.optim.AdamW(
        draft.parameters(), lr=args.learning_rate, betas=(0.9, 0.98), weight_decay=0.1
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, partial(learning_rate, steps=args.steps)
    )
    weight_of_kind = torch.tensor(list(LOSS_WEIGHTS.values()), device=device)
    source = batches(corpus, args.batch_tokens, args.seed, device)
    started = time.perf_counter()
    for _ in tqdm(range(args.steps), "training", unit="step", mininterval=5):
        ids, kinds, positions = next(source)
        inputs = {"input_ids": ids, "position_ids": positions, "use_cache": False}
        weights = weight_of_kind[kinds[:, 1:]].flatten()
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            with torch.no_grad():
                wanted = pocket(**inputs).logits[:, :-1].flatten(0, 1)
            found = draft(**inputs).logits[:, :-1].flatten(0, 1)
        wanted, found = (log_softmax(one.float(), -1) for one in (wanted, found))
        likeliest = wanted.argmax(-1)
        # Sampled guesses need the probabilities, greedy ones the likeliest token.
        losses = kl_div(found, wanted, log_target=True, reduction="none").sum(-1)
        losses = losses + nll_loss(found, likeliest, reduction="none")
        loss = (losses * weights).sum() / weights.sum()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(draft.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
    is_same = (found.argmax(-1) == likeliest).float()
    return {
        "seconds": round(time.perf_counter() - started, 1),
        "final_loss": round(loss.item(), 4),
        "final_agreement": round(((is_same * weights).sum() / weights.sum()).item(), 4),
    }


class Counts(mp.Observer):
    """How many guesses were checked, how many were right, and in how many steps."""

    num_steps = num_guesses = num_accepted = 0

    def verified(self, sequence, num_guesses: int, num_accepted: int) -> None:
        """Guesses were checked."""
        self.num_steps += 1
        self.num_guesses += num_guesses
        self.num_accepted += num_accepted


class Steadily(mp.DraftModel):
    """It never pauses, so that all texts are guessed."""

    least_right = 0.0


def prompts_by_skill(
    tokenizer: PreTrainedTokenizerFast, count: int, seed: int | str = 0
) -> dict[str, list[list[int]]]:
    """So many held-out questions of each skill, and questions for stories."""
    asked = {
        skill: held_out_questions(tokenizer, skill, count, seed)
        for skill in grammar.SKILLS
    }
    rng = Random(f"stories for the draft {seed}")
    users = (grammar.message("user", grammar.ask_story(rng)[0]) for _ in range(count))
    asked["stories"] = [grammar.Question("story", [user], "") for user in users]
    return {
        skill: tokenizer([prompt_text(tokenizer, own) for own in questions]).input_ids
        for skill, questions in asked.items()
    }


def acceptance(
    draft: Model, pocket: Model, prompts: dict[str, Sequence[list[int]]]
) -> dict[str, dict[str, dict[str, float]]]:
    """How many of its guesses are right, greedy and sampled, by skill, and in all."""
    paged = mp.PagedModel(pocket, num_blocks=4096)
    speculation = Steadily(mp.PagedModel(draft, num_blocks=4096), NUM_TOKENS)
    found = {}
    for name, do_sample in (("greedy", False), ("sampled", True)):
        config = config_of(do_sample)
        rows = {}
        total = Counts()
        for skill, own in prompts.items():
            counts = Counts()
            paged.observers[:] = [counts, total]
            mp.generate(paged, own, config, speculation=speculation)
            rows[skill] = _row(counts)
        found[name] = rows | {"all": _row(total)}
    paged.observers.clear()
    return found


def config_of(do_sample: bool) -> transformers.GenerationConfig:
    """Up to the end token, or so many tokens; sampled at temperature 1."""
    sampled = {"do_sample": True, "top_k": 0} if do_sample else {}
    return transformers.GenerationConfig(max_new_tokens=MOST_NEW, **sampled)


def _row(counts: Counts) -> dict[str, float]:
    return {
        "guesses": counts.num_guesses,
        "accepted": round(counts.num_accepted / counts.num_guesses, 3),
        "tokens_of_a_step": round(1 + counts.num_accepted / counts.num_steps, 2),
    }


def save(draft: Model, folder: Path) -> None:
    """Write the weights in bfloat16, and configs that name no path."""
    draft.bfloat16().generation_config = transformers.GenerationConfig(
        eos_token_id=draft.config.eos_token_id, pad_token_id=draft.config.pad_token_id
    )
    draft.config._name_or_path = ""
    draft.save_pretrained(folder)


CARD = """\
---
license: apache-2.0
library_name: transformers
pipeline_tag: text-generation
language: [en, de]
---
# The pocket model's draft

A small model that guesses what the [pocket model](../pocket/README.md) will say:

    small, _ = mp.load("pocket-draft")
    guesses = mp.DraftModel(mp.PagedModel(small))
    mp.generate(paged, prompts, speculation=guesses)

`tools/pocket/draft.py` made it; every number on this page comes from that run
({training[date]}), and is in `scores.json`.

| | |
| --- | --- |
| architecture | Qwen3, as pocket |
| layers | {model[layers]}; pocket has {model[layers_of_pocket]} |
| parameters | {model[parameters]:,}, in {model[bytes]:,} bytes of bfloat16 |
| tokenizer | pocket's |
| embeddings | began as pocket's |
| it learned | what pocket finds likely, from {training[trained_tokens]:,} tokens of \
the grammar that also wrote pocket's corpus |
| time | {training[seconds]:.0f} seconds on {training[machine]} |
| software | PyTorch {training[torch]}, Transformers {training[transformers]} |

## How many guesses are right

Asked are {questions} questions of each skill, which neither model was trained on, and
for as many stories. There are {num_tokens} guesses at a time, and up to {most_new} new
tokens. Accepted: the share of all guesses. A guess after a wrong one is never accepted.
Tokens of a step: how many new tokens a step of pocket brings in the mean, with the
token after the guesses.

| | greedy: accepted | tokens of a step | sampled: accepted | tokens of a step |
| --- | ---: | ---: | ---: | ---: |
{rows}

Alone it is a poor model: ask pocket.

Licence: Apache-2.0.
"""


def card(scores: dict) -> str:
    """The model's page."""
    greedy, sampled = scores["acceptance"].values()
    rows = [
        f"| {skill} | {one['accepted']:.1%} | {one['tokens_of_a_step']} | "
        f"{other['accepted']:.1%} | {other['tokens_of_a_step']} |"
        for (skill, one), other in zip(greedy.items(), sampled.values(), strict=True)
    ]
    return CARD.format(**scores, rows="\n".join(rows))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Train and measure the pocket model's draft.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--out", type=Path, default=OUT)
    add("--layers", type=int, default=1)
    add("--heads", type=int, default=6, help="query heads, a multiple of 3")
    add("--mlp", type=int, default=320, help="its size")
    add("--steps", type=int, default=1100, help="optimizer steps")
    add("--batch-tokens", type=int, default=32768, help="tokens of one step")
    add("--corpus-tokens", type=int, default=20_000_000, help="tokens to write")
    add("--learning-rate", type=float, default=3e-3, help="its peak")
    add("--questions", type=int, default=40, help="held-out questions per skill")
    add("--seed", type=int, default=1, help="not 0: that is pocket's")
    add("--device", default="auto", help="auto, cuda or cpu (slow: for trying it out)")
    add("--workers", type=int, default=os.cpu_count(), help="processes that write")
    return parser.parse_args()


def main() -> None:
    args = parse_arguments()
    device = args.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    transformers.logging.set_verbosity_error()
    torch.manual_seed(args.seed)
    pocket, tokenizer = mp.load("pocket", device="cpu")
    corpus = build_corpus(tokenizer, args.seed, args.corpus_tokens, args.workers)
    draft = new_draft(pocket, args.layers, args.heads, args.mlp)
    training = distil(draft, pocket, corpus, args, device)
    save(draft, args.out)
    describe(args, training, device)


def describe(args: argparse.Namespace, training: dict, device: str) -> None:
    """Measure the draft in `args.out`, and write its scores and its card."""
    pocket, tokenizer = mp.load("pocket", device="cpu")
    draft = Model.from_pretrained(args.out, dtype=torch.float32).eval()
    on_gpu = device == "cuda"
    scores = {
        "model": {
            "layers": args.layers,
            "layers_of_pocket": pocket.config.num_hidden_layers,
            "parameters": draft.num_parameters(),
            "bytes": (args.out / "model.safetensors").stat().st_size,
        },
        "training": {
            "date": date.today().isoformat(),
            "machine": f"one {torch.cuda.get_device_name()}" if on_gpu else "a CPU",
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "trained_tokens": args.steps * args.batch_tokens,
            "steps": args.steps,
            "batch_tokens": args.batch_tokens,
            "learning_rate": args.learning_rate,
            "seed": args.seed,
            **training,
        },
        "questions": args.questions,
        "num_tokens": NUM_TOKENS,
        "most_new": MOST_NEW,
        "acceptance": acceptance(
            draft, pocket, prompts_by_skill(tokenizer, args.questions)
        ),
    }
    (args.out / "scores.json").write_text(json.dumps(scores, indent=2) + "\n")
    (args.out / "README.md").write_text(card(scores), encoding="utf-8")
    print(json.dumps(scores["acceptance"], indent=1))


if __name__ == "__main__":
    main()
