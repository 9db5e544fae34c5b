"""Guesses from the text, and of a draft model, beside plain and HuggingFace's answers.

Forty fixed prompts, greedy, one at a time, because HuggingFace's prompt lookup takes no
more. Half of them are lists, code and sentences that repeat, and so do the texts that
the pocket model makes of them: 96 tokens each, whatever they are. The others are
stories, questions and translations, up to their end token, or 96 tokens. Rounds
alternate between the ways, and each prompt's median counts. The seconds are those of
the CPU, with one thread: another program takes none of them. Run it on an idle machine
all the same, because programs share more than time:

    make bench-one NAME=speculation                       prints
    make bench-one NAME=speculation BENCH_FLAGS=--save    writes it, too
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm
from transformers import GenerationConfig, PreTrainedModel

import minipaged as mp
from minipaged.decoding.speculation import Speculation
from minipaged.lab.measure.machine import describe_machine

OUT = Path(__file__).parents[2] / "figures" / "data" / "cpu-speculation.json"
NEW = 96
REPETITIVE = [
    "1 2 3 4 1 2 3 4 1 2 3 4 1 2",
    "a b c a b c a b c a b",
    "- milk\n- bread\n- eggs\n- milk\n- bread\n- eggs\n- milk\n-",
    "0 0 0 1 0 0 0 1 0 0 0 1 0 0",
    "ja nein ja nein ja nein ja",
    "the red ball => der rote Ball\nthe red ball => der rote Ball\nthe red ball =>",
    "the old car => das alte Auto\nthe old car => das alte Auto\nthe old car =>",
    "2+2=4\n2+2=4\n2+2=4\n2+2=",
    "The capital of France is Paris. The capital of France is Paris. The capital",
    "AB AB AB AB AB AB AB",
    "go go go go go go go go",
    "tick tock tick tock tick tock tick tock",
    "The cat sleeps. The dog sleeps. The cat sleeps. The dog sleeps. The cat",
    "if a: b\nif a: b\nif a: b\nif a:",
    "<li>one</li><li>two</li><li>one</li><li>two</li><li>one",
    "print(1)\nprint(2)\nprint(1)\nprint(2)\nprint(1)",
    "Q: hi A: hi Q: hi A: hi Q: hi A:",
    "def f(x):\n    return x\n\ndef g(x):\n    return x\n\ndef f(x):\n",
    "x = x + 1\ny = y + 1\nx = x + 1\ny = y + 1\nx = x",
    '"I do not know." Say it again: "I do not know." Say it again:',
]
STORIES = ["Once upon a time", "One morning a young cat", "Tell me a story about a dog",
           "In the evening", "A curious lion", "The old penguin", "On the way home",
           "Long ago there was a king"]  # fmt: skip
QUESTIONS = ["What is 17+25?", "What is the capital of Spain?", "What is 2+2?",
             "What is the colour of grass?", "Tell me a story.",
             "Tell me a long story about a cat.", "Tell me a story about a bell.",
             "Translate into German: the small house"]  # fmt: skip
SENTENCES = ["The capital of Italy is", "My name is Anna.", "The train leaves at",
             "the green tree =>"]  # fmt: skip


def prompts(tokenizer: Any) -> dict[str, list[list[int]]]:
    """The prompts of both halves, as tokens."""
    chats = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": question}],
            tokenize=False,
            add_generation_prompt=True,
        )
        for question in QUESTIONS
    ]
    texts = {"repetitive": REPETITIVE, "other": [*STORIES, *SENTENCES, *chats]}
    return {half: tokenizer(own).input_ids for half, own in texts.items()}


class Counts(mp.Observer):
    """How many tokens were guessed, and how many of them accepted."""

    num_drafts = num_draft_tokens = num_accepted_tokens = 0

    def verified(self, sequence: Any, num_guesses: int, num_accepted: int) -> None:
        """Guesses were checked."""
        self.num_drafts += 1
        self.num_draft_tokens += num_guesses
        self.num_accepted_tokens += num_accepted


Way = Callable[[list[int], GenerationConfig], list[int]]


def ours(paged: mp.PagedModel, speculation: Speculation | None = None) -> Way:
    """The new tokens of a prompt, by `mp.generate`."""

    def run(ids: list[int], config: GenerationConfig) -> list[int]:
        (out,) = mp.generate(paged, [ids], config, speculation=speculation)
        return out.sequences[0]

    return run


def theirs(model: PreTrainedModel, **options: Any) -> Way:
    """The new tokens of a prompt, by HuggingFace's `generate`."""

    def run(ids: list[int], config: GenerationConfig) -> list[int]:
        config = GenerationConfig(**config.to_diff_dict() | options)
        out = model.generate(torch.tensor([ids]), generation_config=config)
        return out[0, len(ids) :].tolist()

    return run


def measure(
    ways: dict[str, Way], own: list[list[int]], config: GenerationConfig, rounds: int
) -> dict[str, Any]:
    """Seconds of each way for all prompts, and how many texts are those of `plain`."""
    seconds = dict.fromkeys(ways, 0.0)
    texts: dict[str, list[list[int]]] = {name: [] for name in ways}
    for ids in tqdm(own):
        for name, run in ways.items():
            texts[name].append(run(ids, config))  # to be warm
        took: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(rounds):
            for name, run in ways.items():
                start = time.process_time()
                run(ids, config)
                took[name].append(time.process_time() - start)
        for name in ways:
            seconds[name] += statistics.median(took[name])
    tokens = sum(map(len, texts["plain"]))
    return {
        name: {
            "tokens_per_cpu_second": round(tokens / seconds[name], 1),
            "times_plain": round(seconds["plain"] / seconds[name], 3),
            "texts_equal_to_plain": sum(
                text == right
                for text, right in zip(texts[name], texts["plain"], strict=True)
            ),
        }
        for name in ways
    } | {"prompts": len(own), "tokens": tokens}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--save", action="store_true", help=f"write {OUT.name}")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    model, tokenizer = mp.load("pocket", device="cpu")
    end = model.generation_config.eos_token_id
    model.generation_config.eos_token_id = None  # each half says where it ends
    paged = mp.PagedModel(model, num_blocks=256)
    small, _ = mp.load("pocket-draft", device="cpu")
    draft = mp.DraftModel(mp.PagedModel(small, num_blocks=256))
    ways = {
        "plain": ours(paged),
        "PromptLookup()": ours(paged, mp.PromptLookup()),
        "PromptLookup(10, 2)": ours(paged, mp.PromptLookup(10, 2)),
        "DraftModel": ours(paged, draft),
        "HuggingFace": theirs(model),
        "HuggingFace, prompt_lookup_num_tokens=10": theirs(
            model, prompt_lookup_num_tokens=10
        ),
    }
    results = {}
    for half, own in prompts(tokenizer).items():
        eos = end if half == "other" else None
        config = GenerationConfig(max_new_tokens=NEW, eos_token_id=eos, pad_token_id=0)
        results[half] = measure(ways, own, config, arguments.rounds)
        for name in ("PromptLookup()", "PromptLookup(10, 2)", "DraftModel"):
            paged.observers[:] = [counts := Counts()]
            for ids in own:
                ways[name](ids, config)
            results[half][name] |= vars(counts)
        paged.observers.clear()
    report = {"machine": describe_machine(), "threads": 1}
    report |= {"model": "pocket", "dtype": "float32", "results": results}
    print(json.dumps(report, indent=2))
    if arguments.save:
        OUT.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
