r"""Train the pocket model: a small chat model that lets tests and lessons run anywhere.

From nothing but a seed: `grammar.py` writes the corpus, a byte-level BPE is trained
on it, a Qwen3 of under two million parameters is trained on the tokens, and
the result is scored on questions that training never saw. The folder written loads
through plain `AutoModelForCausalLM.from_pretrained(folder)`; its model card and
`scores.json` hold what this run measured.

    python -m tools.pocket.train                  # minutes on one large GPU
    python -m tools.pocket.train --steps 20 --batch-tokens 4096 \
        --corpus-tokens 300000 --questions 10 --out somewhere   # a try on a CPU

It also runs on a CPU, where the full training takes more than a day: use few steps.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from functools import partial
from pathlib import Path
from random import Random

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from tqdm import tqdm
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen3Config
from transformers import Qwen3ForCausalLM as Model

from tools.pocket import grammar
from tools.pocket.scores import describe_model, model_card, score

ROOT = Path(__file__).resolve().parents[2]
VOCABULARY = 1024
POSITIONS = 2048
ROW_LENGTHS = (512, POSITIONS)  # short documents need no long rows
CHUNK_DOCUMENTS = 2000  # documents that one worker writes at a time
KINDS = list(grammar.LOSS_WEIGHTS)
CHAT_TEMPLATE = """\
{%- for message in messages -%}
{{- '<|' + message['role'] + '|>' + message['content'] + '<|end|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|assistant|>' -}}{%- endif -%}
"""


# --- tokenizer and corpus -----------------------------------------------------------


def train_tokenizer(seed: int) -> PreTrainedTokenizerFast:
    """A byte-level BPE of the corpus: lossless, and every digit its own token."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=grammar.SPECIAL_TOKENS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    rng = Random(f"tokenizer {seed}")
    documents = (grammar.training_document(rng) for _ in range(4000))
    texts = (text for document in documents for text, _ in document)
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=grammar.END,
        pad_token=grammar.PAD,
        additional_special_tokens=grammar.SPECIAL_TOKENS[2:],
        model_max_length=POSITIONS,
        clean_up_tokenization_spaces=False,
        chat_template=CHAT_TEMPLATE,
    )


Document = tuple[list[int], list[int]]  # token ids and, for each, the kind
Rows = tuple[np.ndarray, np.ndarray, np.ndarray]  # token ids, kinds, positions: [R, L]


def first_fit(documents: list[Document], length: int) -> list[list[Document]]:
    """Share whole documents out among rows of `length` tokens."""
    rows: list[list[Document]] = []
    open_rows: list[tuple[int, int]] = []  # (room, row)
    for document in documents:
        size = len(document[0])
        for place, (room, row) in enumerate(open_rows):
            if size <= room:
                rows[row].append(document)
                open_rows[place] = (room - size, row)
                break
        else:
            open_rows.append((length - size, len(rows)))
            rows.append([document])
            if len(open_rows) > 32:  # more would fill little better and search longer
                open_rows.remove(min(open_rows))
    return rows


def pack(documents: list[Document], length: int) -> Rows:
    """Pack whole documents into rows of one length, as arrays.

    Positions start again at 0 with every document; the model reads from them where a
    document begins and attends to nothing before it.
    """
    rows = first_fit(documents, length)
    ids = np.zeros((len(rows), length), np.int16)  # 0 is the pad token, and as a
    kinds = np.zeros((len(rows), length), np.uint8)  # kind "silent": no loss
    positions = np.zeros((len(rows), length), np.int16)
    for row, items in enumerate(rows):
        start = 0
        for tokens, marks in items:
            stop = start + len(tokens)
            ids[row, start:stop], kinds[row, start:stop] = tokens, marks
            positions[row, start:stop] = np.arange(stop - start)
            start = stop
        positions[row, start:] = np.arange(length - start)
    return ids, kinds, positions


def write_chunk(tokenizer_json: str, seed: int, chunk: int) -> dict[int, Rows]:
    """Write, tokenise and pack one chunk of the corpus; runs in a worker process."""
    tokenizer = Tokenizer.from_str(tokenizer_json)
    rng = Random(f"corpus {seed} {chunk}")
    documents = [grammar.training_document(rng) for _ in range(CHUNK_DOCUMENTS)]
    # Pieces are cut where the tokenizer cuts too, so piecewise is as good as whole.
    encoded = iter(
        tokenizer.encode_batch([text for doc in documents for text, _ in doc])
    )
    short, long = ROW_LENGTHS
    by_length: dict[int, list[Document]] = {short: [], long: []}
    for number, document in enumerate(documents):
        tokens: list[int] = []
        marks: list[int] = []
        for (_, kind), piece in zip(document, encoded, strict=False):
            tokens += piece.ids
            marks += [KINDS.index(kind)] * len(piece.ids)
        if len(tokens) <= long:
            # Every fourth short document fills the ends of the long rows.
            fits = len(tokens) <= short and number % 4
            by_length[short if fits else long].append((tokens, marks))
    return {length: pack(items, length) for length, items in by_length.items()}


def build_corpus(
    tokenizer: PreTrainedTokenizerFast, seed: int, num_tokens: int, workers: int
) -> dict[int, Rows]:
    """About `num_tokens` tokens of packed rows; the same for any number of workers."""
    tokenizer_json = tokenizer.backend_tokenizer.to_str()
    first = write_chunk(tokenizer_json, seed, 0)
    chunk_tokens = sum(ids.size for ids, _, _ in first.values())
    num_chunks = max(1, round(num_tokens / chunk_tokens))
    write = partial(write_chunk, tokenizer_json, seed)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        numbers = range(1, num_chunks)
        later = tqdm(pool.map(write, numbers), "corpus", num_chunks - 1, unit="chunk")
        chunks = [first, *later]
    return {
        length: tuple(
            np.concatenate([chunk[length][part] for chunk in chunks])
            for part in range(3)
        )
        for length in ROW_LENGTHS
    }


# --- training -----------------------------------------------------------------------


def new_model(tokenizer: PreTrainedTokenizerFast) -> Model:
    """A Qwen3 with random weights: GQA (three query heads to a KV head), tied."""
    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=192,
        intermediate_size=576,
        num_hidden_layers=4,
        num_attention_heads=6,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=POSITIONS,
        tie_word_embeddings=True,
        use_sliding_window=False,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return Model(config)


def batches(
    corpus: dict[int, Rows], batch_tokens: int, seed: int, device: str
) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Batches of `batch_tokens` tokens for ever, each of rows of one length."""
    rows = {
        length: [torch.from_numpy(array).to(device) for array in parts]
        for length, parts in corpus.items()
    }
    generator = torch.Generator().manual_seed(seed)
    while True:
        plan: list[tuple[int, torch.Tensor]] = []
        for length, (ids, _, _) in rows.items():
            order = torch.randperm(len(ids), generator=generator)
            size = max(1, batch_tokens // length)
            plan += [(length, part) for part in order.split(size) if len(part) == size]
        for place in torch.randperm(len(plan), generator=generator).tolist():
            length, chosen = plan[place]
            ids, kinds, positions = (part[chosen.to(device)] for part in rows[length])
            yield ids.long(), kinds.long(), positions.long()


def learning_rate(step: int, steps: int) -> float:
    """Share of the peak rate: a short linear rise, then a cosine down to nothing."""
    warmup = min(300, steps // 10 + 1)
    if step < warmup:
        return (step + 1) / warmup
    return 0.5 * (1 + float(np.cos(np.pi * (step - warmup) / max(1, steps - warmup))))


def train(
    model: Model, corpus: dict[int, Rows], args: argparse.Namespace, device: str
) -> dict[str, float]:
    """Train in place; returns what the model card says about it."""
    model.to(device).train()
    optimizer = torch.optim.AdamW(
        model.parameters(),
        lr=args.learning_rate,
        betas=(0.9, 0.98),
        weight_decay=0.1,
        fused=device == "cuda",
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, partial(learning_rate, steps=args.steps)
    )
    weight_of_kind = torch.tensor(list(grammar.LOSS_WEIGHTS.values()), device=device)
    source = batches(corpus, args.batch_tokens, args.seed, device)
    started, loss_sum = time.perf_counter(), torch.zeros((), device=device)
    progress = tqdm(range(args.steps), "training", unit="step", mininterval=5)
    for step in progress:
        ids, kinds, positions = next(source)
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            logits = model(ids, position_ids=positions, use_cache=False).logits
        weights = weight_of_kind[kinds[:, 1:]]
        losses = torch.nn.functional.cross_entropy(
            logits[:, :-1].float().flatten(0, 1), ids[:, 1:].flatten(), reduction="none"
        )
        loss = (losses * weights.flatten()).sum() / weights.sum()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        loss_sum += loss.detach()
        if (step + 1) % 100 == 0 or step + 1 == args.steps:
            final_loss = loss_sum.item() / (step % 100 + 1)
            progress.set_postfix(loss=f"{final_loss:.4f}")
            loss_sum.zero_()
    return {
        "seconds": round(time.perf_counter() - started, 1),
        "final_loss": round(final_loss, 4),
    }


def save(model: Model, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write weights in float32, tokenizer and configs that name no path of ours."""
    model.float().generation_config = GenerationConfig(
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id
    )
    model.config._name_or_path = ""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Train, score and describe the pocket model.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--out", type=Path, default=ROOT / "minipaged" / "model" / "pocket")
    add("--steps", type=int, default=6000, help="optimizer steps")
    add("--batch-tokens", type=int, default=65536, help="tokens of one step")
    add("--corpus-tokens", type=int, default=120_000_000, help="tokens to write")
    add("--learning-rate", type=float, default=3e-3, help="its peak")
    add("--questions", type=int, default=500, help="held-out questions per skill")
    add("--seed", type=int, default=0)
    add("--device", default="auto", help="auto, cuda or cpu (slow: for trying it out)")
    add("--workers", type=int, default=os.cpu_count(), help="processes that write")
    return parser.parse_args()


def main() -> None:
    args = parse_arguments()
    device = args.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu":
        print("On a CPU the full training takes more than a day; use a small --steps.")
    transformers.logging.set_verbosity_error()
    torch.manual_seed(args.seed)
    tokenizer = train_tokenizer(args.seed)
    corpus = build_corpus(tokenizer, args.seed, args.corpus_tokens, args.workers)
    corpus_tokens = sum(int((ids != 0).sum()) for ids, _, _ in corpus.values())
    model = new_model(tokenizer)
    training = train(model, corpus, args, device)
    save(model, tokenizer, args.out)
    on_gpu = device == "cuda"
    scores = {
        "model": describe_model(args.out, model),
        "training": {
            "date": date.today().isoformat(),
            "machine": f"one {torch.cuda.get_device_name()}" if on_gpu else "a CPU",
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "precision": "bfloat16 autocast" if on_gpu else "float32",
            "corpus_tokens": corpus_tokens,
            "trained_tokens": args.steps * args.batch_tokens,
            "steps": args.steps,
            "batch_tokens": args.batch_tokens,
            "learning_rate": args.learning_rate,
            "seed": args.seed,
            **training,
        },
        **score(args.out, args.questions, device),
    }
    (args.out / "scores.json").write_text(
        json.dumps(scores, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    (args.out / "README.md").write_text(model_card(scores), encoding="utf-8")
    print(f"training: {training}")
    for skill, item in scores["skills"].items():
        print(f"{skill:14} {item['right']}/{item['asked']}  met: {item['met']}")
    print(f"stories: {scores['stories']}")


if __name__ == "__main__":
    main()
