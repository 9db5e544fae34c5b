"""Score the pocket model on questions that training never saw, and write its card.

`tools/pocket/train.py` calls this as its last step. Every figure in the model card
comes out of `scores.json`, and every figure in there was measured by `score`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from statistics import fmean, pstdev

import torch
from tqdm import tqdm
from transformers import PreTrainedTokenizerFast
from transformers import Qwen3ForCausalLM as Model

from tools.pocket import grammar

BARS = {skill: 0.95 for skill in grammar.SKILLS} | {
    skill: 0.90 for skill in ("translate", "few-shot", "few-shot text")
}
BAR_ENDED, BAR_SPREAD = 0.95, 0.4  # stories: share that ends, std over mean of lengths
MAX_STORY_TOKENS = 512
LONG_TOKENS = range(1000, 1901)  # prompt lengths of the skill "long"


# --- scoring ------------------------------------------------------------------------


def prompt_text(tokenizer: PreTrainedTokenizerFast, question: grammar.Question) -> str:
    """The text that asks the question."""
    if isinstance(question.prompt, str):
        return question.prompt
    return tokenizer.apply_chat_template(
        question.prompt, tokenize=False, add_generation_prompt=True
    )


@torch.no_grad()
def complete(
    model: Model,
    tokenizer: PreTrainedTokenizerFast,
    prompts: Sequence[str],
    max_new_tokens: int,
    **sampling: object,
) -> list[list[int]]:
    """New tokens of each prompt, up to and including the end token."""
    batch_size = 256 if model.device.type == "cuda" else 16
    order = sorted(range(len(prompts)), key=lambda place: len(prompts[place]))
    outputs: list[list[int]] = [[] for _ in prompts]
    for start in range(0, len(order), batch_size):
        places = order[start : start + batch_size]
        batch = tokenizer(
            [prompts[place] for place in places],
            padding=True,
            padding_side="left",
            return_tensors="pt",
            return_token_type_ids=False,
        ).to(model.device)
        generated = model.generate(**batch, max_new_tokens=max_new_tokens, **sampling)
        for place, row in zip(places, generated.tolist(), strict=True):
            new = row[batch["input_ids"].shape[1] :]
            if tokenizer.eos_token_id in new:
                new = new[: new.index(tokenizer.eos_token_id) + 1]
            outputs[place] = new
    return outputs


def held_out_questions(
    tokenizer: PreTrainedTokenizerFast, skill: str, count: int, seed: int = 0
) -> list[grammar.Question]:
    """`count` different questions of one skill, the same for the same seed."""
    rng = Random(f"questions {skill} {seed}")
    chosen: dict[str, grammar.Question] = {}
    while len(chosen) < count:
        question = grammar.held_out_question(rng, skill)
        text = prompt_text(tokenizer, question)
        if skill != "long" or len(tokenizer(text)["input_ids"]) in LONG_TOKENS:
            chosen.setdefault(text, question)
    return list(chosen.values())


def score_skill(
    model: Model,
    tokenizer: PreTrainedTokenizerFast,
    questions: Sequence[grammar.Question],
) -> dict[str, object]:
    """Ask greedily; right means the exact answer and then the end token."""
    prompts = [prompt_text(tokenizer, question) for question in questions]
    outputs = complete(model, tokenizer, prompts, max_new_tokens=48, do_sample=False)
    right, mistakes = 0, []
    for question, prompt, output in zip(questions, prompts, outputs, strict=True):
        said = tokenizer.decode(output).strip()
        if said == question.answer + grammar.END:
            right += 1
        else:
            mistakes.append(
                {"asked": prompt[-160:], "said": said, "expected": question.answer}
            )
    share, bar = round(right / len(questions), 4), BARS[questions[0].skill]
    return {
        "asked": len(questions),
        "right": right,
        "exact_match": share,
        "bar": bar,
        "met": share >= bar,
        "some_mistakes": mistakes[:5],
    }


def score_stories(
    model: Model, tokenizer: PreTrainedTokenizerFast, count: int, seed: int = 0
) -> dict[str, object]:
    """Sample stories at temperature 1: do they end, and how long are they?"""
    rng = Random(f"stories {seed}")
    prompts = ["Once upon a time"] * (count // 4)
    while len(prompts) < count:
        user = grammar.message("user", grammar.ask_story(rng)[0])
        question = grammar.Question("story", [user], "")
        prompts.append(prompt_text(tokenizer, question))
    torch.manual_seed(seed)
    outputs = complete(
        model, tokenizer, prompts, MAX_STORY_TOKENS, do_sample=True, top_k=0
    )
    lengths = [len(output) for output in outputs]
    ended = fmean(output[-1] == tokenizer.eos_token_id for output in outputs)
    spread = pstdev(lengths) / fmean(lengths)
    return {
        "sampled": count,
        "ended": round(ended, 4),
        "mean_tokens": round(fmean(lengths), 1),
        "std_tokens": round(pstdev(lengths), 1),
        "std_over_mean": round(spread, 3),
        "shortest": min(lengths),
        "longest": max(lengths),
        "bar_ended": BAR_ENDED,
        "bar_std_over_mean": BAR_SPREAD,
        "met": ended >= BAR_ENDED and spread >= BAR_SPREAD,
    }


EXAMPLES: tuple[str | list[tuple[str, str]], ...] = (
    [("system", "You are a helpful assistant."), ("user", "What is 2+2?")],
    [("system", "You are a helpful assistant."), ("user", "What is the capital of"
      " France?")],
    [("system", "You are a polite guide. The user's name is Anna. The bakery opens at"
      " 8 o'clock. The user lives in Rome."), ("user", "What is my name?")],
    [("user", "Translate to German: the red house")],
    "the old dog => der alte Hund\na small cat => eine kleine Katze\nthe red house =>",
    [("user", "Tell me a story about a fox.")],
    "Once upon a time",
)  # fmt: skip


def show_examples(
    model: Model, tokenizer: PreTrainedTokenizerFast
) -> list[dict[str, str]]:
    """What the model says, greedily, to a prompt of each sort."""
    shown = []
    for example in EXAMPLES:
        if not isinstance(example, str):
            example = [grammar.message(role, content) for role, content in example]
        prompt = prompt_text(tokenizer, grammar.Question("example", example, ""))
        output = complete(model, tokenizer, [prompt], MAX_STORY_TOKENS, do_sample=False)
        shown.append({"prompt": prompt, "output": tokenizer.decode(output[0])})
    return shown


def score(folder: Path, num_questions: int, device: str) -> dict[str, object]:
    """Score the saved folder, as anybody would load it, in float32."""
    model = Model.from_pretrained(folder, dtype=torch.float32).to(device).eval()
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    skills = {}
    for skill in tqdm(grammar.SKILLS, "scoring", unit="skill"):
        questions = held_out_questions(tokenizer, skill, num_questions)
        skills[skill] = score_skill(model, tokenizer, questions)
    stories = score_stories(model, tokenizer, num_questions)
    return {
        "all_bars_met": stories["met"] and all(item["met"] for item in skills.values()),
        "skills": skills,
        "stories": stories,
        "examples": show_examples(model, tokenizer),
    }


# --- model card ---------------------------------------------------------------------

CARD = """\
---
license: apache-2.0
library_name: transformers
pipeline_tag: text-generation
language: [en, de]
---
# The pocket model

A chat model of {parameters:,} parameters ({weight_bytes:,} bytes of float32
safetensors). It ships with minipaged so that tests and lessons about the KV cache run
without a network, on a CPU, in seconds, on text that means something.
`tools/pocket/train.py` made it from nothing; every number on this page comes from that
run ({date}).

## Architecture

Qwen3 (`Qwen3ForCausalLM`), random start, tied embeddings, no sliding window.

| layers | hidden size | MLP | query heads | key/value heads | head size | positions |
| ---: | ---: | ---: | ---: | ---: | ---: | ---: |
| {num_hidden_layers} | {hidden_size} | {intermediate_size} | {num_attention_heads} | \
{num_key_value_heads} | {head_dim} | {max_position_embeddings} |

    model = AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)

## Tokenizer and chat format

Byte-level BPE of {vocab_size} tokens, trained on the corpus: lossless on any text,
every digit its own token. `<|end|>`, the end token, closes every turn and every text.

    <|system|>Be polite.<|end|><|user|>What is 2+2?<|end|><|assistant|>

A prompt for plain text is the text alone, with no token before it. The special tokens,
these four and `<|pad|>`, are also read as such where a user's text contains them.

## Corpus and training

The tool's own seeded grammar (`tools/pocket/grammar.py`) writes everything: sums,
facts, things told in the chat and asked for later, toy English to German, short
stories; in chats of one to many turns and as plain text. A tenth of all sums, phrasings
of facts, telling sentences and German phrases is held out.

| | |
| --- | --- |
| tokens written | {corpus_tokens:,} |
| tokens trained on | {trained_tokens:,}: {steps:,} steps of {batch_tokens:,} |
| optimizer | AdamW, peak learning rate {learning_rate}, cosine, {precision} |
| loss | answers count {answer_weight}, stories {story_weight}, prompts \
{context_weight} |
| seed | {seed} |
| last loss | {final_loss} |
| time | {seconds:.0f} seconds on {machine} |
| software | PyTorch {torch}, Transformers {transformers} |

## Scores

Greedy, float32, held-out questions. Right means the exact answer, then the end token.

| skill | what is asked | right | of | exact match | bar | met |
| --- | --- | ---: | ---: | ---: | ---: | --- |
{table}

Stories: {sampled} sampled at temperature 1. {ended:.1%} end by themselves within
{max_story_tokens} tokens (bar: {bar_ended:.0%}). Their length is {mean_tokens} tokens
in the mean with a standard deviation of {std_tokens}, which is {std_over_mean} of the
mean (bar: {bar_std_over_mean}); the shortest has {shortest}, the longest {longest}.

{verdict}

## What it says

Greedy, after `->`.

{examples}

## Limits

It knows its grammar and nothing else: a few hundred words, the facts of
`tools/pocket/grammar.py`, sums up to 99 + 99, noun phrases and short sentences in
German. To any other question it says "I do not know." or something that means
nothing; other wordings of a known question may or may not be understood. It is a
teaching aid, not a source of facts. It knows this one chat format, with at most one
system message, at the beginning, and no more than {max_position_embeddings}
tokens. In text sampled at temperature 1 a word goes wrong now and then.

Licence: Apache-2.0.
"""


def model_card(scores: dict[str, dict]) -> str:
    """The README of the model folder, every figure of it from `scores`."""
    table = "\n".join(
        f"| {skill} | {grammar.SKILLS[skill]} | {item['right']} | {item['asked']} |"
        f" {item['exact_match']:.1%} | {item['bar']:.0%} |"
        f" {'yes' if item['met'] else '**NO**'} |"
        for skill, item in scores["skills"].items()
    )
    missed = [skill for skill, item in scores["skills"].items() if not item["met"]]
    if not scores["stories"]["met"]:
        missed.append("stories")
    verdict = "Every bar is met."
    if missed:
        verdict = f"**Bars missed: {', '.join(missed)}.**"
    examples = "\n\n".join(
        f"```text\n{item['prompt']}\n-> {item['output'].strip()}\n```"
        for item in scores["examples"]
    )
    return CARD.format(
        table=table,
        verdict=verdict,
        examples=examples,
        answer_weight=grammar.LOSS_WEIGHTS["answer"],
        story_weight=grammar.LOSS_WEIGHTS["story"],
        context_weight=grammar.LOSS_WEIGHTS["context"],
        max_story_tokens=MAX_STORY_TOKENS,
        **scores["model"],
        **scores["training"],
        **scores["stories"],
    )


def describe_model(folder: Path, model: Model) -> dict[str, int]:
    """Sizes for the model card."""
    fields = (
        "num_hidden_layers hidden_size intermediate_size num_attention_heads"
        " num_key_value_heads head_dim max_position_embeddings vocab_size"
    ).split()
    return {
        "parameters": model.num_parameters(),
        "weight_bytes": (folder / "model.safetensors").stat().st_size,
        **{name: getattr(model.config, name) for name in fields},
    }
