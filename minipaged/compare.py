"""Lab: the ways to serve prompts, side by side in one table.

    python -m minipaged.compare                     the pocket model
    python -m minipaged.compare Qwen/Qwen3-0.6B     an id on the hub, or a folder

Greedy, in float32. Exit status: 0 if every way gives HuggingFace's text, token for
token, 1 if one does not, 2 if nothing could be compared.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from math import inf
from statistics import median
from typing import Any, NamedTuple

import torch
from transformers import DynamicCache, GenerationConfig, PreTrainedModel

from minipaged.attention.backend import Attend, Backend
from minipaged.attention.streamed import online_softmax, safe_softmax
from minipaged.decoding.strategy import Output
from minipaged.engine.engine import Engine
from minipaged.engine.generate import generate
from minipaged.errors import require_counts
from minipaged.memory.block_pool import BlockPool
from minipaged.model.load import load
from minipaged.model.paged_model import PagedModel
from minipaged.model.positions import num_positions
from minipaged.progress import progress_bar
from minipaged.scheduling.observer import Observer
from minipaged.scheduling.plan import Plan
from minipaged.scheduling.request import Request

PROMPTS = [
    "The cat",
    "The capital of France is",
    "Once upon a time",
    "Once upon a time, in a small house near the sea, there lived a penguin",
    "One day, a fox met a penguin who had lost his hat. The fox said",
]
STEPS_BETWEEN = 4  # in continuous batching, from one request to the next

Prompts = Sequence[list[int]]


class Way(NamedTuple):
    """A way to serve prompts through blocks."""

    what: str  # the way in words
    run: Callable[[PagedModel, Prompts, GenerationConfig], list[Output]]
    num_blocks: Callable[[list[int]], int]  # of its pool, from what each may need
    attention: str | Backend | Attend = "gathered"


class Row(NamedTuple):
    """The answers of a way, and what they took."""

    way: str
    what: str
    texts: Sequence[list[int]]  # the new tokens of each prompt
    num_equal: int  # texts that are HuggingFace's, token for token, in every run
    seconds: float
    kv_bytes: int  # of the keys and values held at most
    filled: float = 1.0  # the share of them that tokens filled then
    held_blocks: int | None = None  # at most; HuggingFace has no blocks
    pool_blocks: int | None = None  # reserved

    @property
    def is_equal(self) -> bool:
        """Are all texts HuggingFace's?"""
        return self.num_equal == len(self.texts)

    @property
    def tokens_per_second(self) -> float:
        """New tokens, of all prompts together."""
        return sum(map(len, self.texts)) / self.seconds


def one_at_a_time(
    paged: PagedModel, prompts: Prompts, config: GenerationConfig
) -> list[Output]:
    """A prompt begins when the one before it has ended."""
    with Engine(paged) as engine:
        return [engine.add(prompt, config).result() for prompt in prompts]


def one_after_another(
    paged: PagedModel, prompts: Prompts, config: GenerationConfig
) -> list[Output]:
    """A prompt comes every few steps, while others run."""
    with Engine(paged) as engine:
        streams = []
        for prompt in prompts:
            streams.append(engine.add(prompt, config))
            for _ in range(STEPS_BETWEEN):
                engine.step()
        return [stream.result() for stream in streams]


def half(needs: list[int]) -> int:
    """Half the blocks that all prompts may need; enough for each of them alone."""
    return max(*needs, sum(needs) // 2)


HUGGINGFACE = "one prompt at a time; K and V in one piece, copied to grow"
WAYS = {
    "gathered": Way(
        "one prompt at a time; blocks are copied into one piece, and read",
        one_at_a_time,
        max,
    ),
    "online softmax": Way(
        "the same, but read block by block, in one pass",
        one_at_a_time,
        max,
        online_softmax,
    ),
    "safe softmax": Way(
        "the same in two passes: the first finds each largest logit",
        one_at_a_time,
        max,
        safe_softmax,
    ),
    "continuous batching": Way(
        f"a prompt comes every {STEPS_BETWEEN} steps, into half the blocks; its wait "
        "counts",
        one_after_another,
        half,
    ),
    "ragged batch": Way(
        "all prompts in one forward, end to end, without padding", generate, sum
    ),
}
TRITON = Way("a ragged batch, read by lesson 6's kernel", generate, sum, "triton")
LEGEND = """\
pool      blocks that are reserved
held      blocks in use at most; KV kB: their keys and values
filled    how much of these belongs to tokens; the rest is room in last blocks
seconds   of all prompts: the median of the runs after a warm-up; for texts as short
          as these it varies a lot, and --rounds makes it steadier"""


class Held(Observer):
    """Remembers when most blocks were in use, and how many tokens they held then."""

    def __init__(self, pool: BlockPool):
        """Nothing is in use yet."""
        self.most = 0, 0  # blocks, tokens
        self._pool = pool
        self._requests: set[Request] = set()

    def admitted(self, request: Request) -> None:
        """Its tables are counted from now on; a preempted request comes again."""
        self._requests.add(request)

    def planned(self, plan: Plan) -> None:
        """Tables have grown."""
        tables = [
            sequence.table
            for request in self._requests
            for sequence in request.sequences
            if sequence.table
        ]
        tokens = sum(table.num_tokens for table in tables)
        blocks = self._pool.num_blocks - self._pool.num_free
        self.most = max(self.most, (blocks, tokens))


def compare(
    model: PreTrainedModel,
    prompts: Prompts,
    max_new_tokens: int = 32,
    block_size: int = 16,
    num_blocks: int | None = None,
    rounds: int = 3,
) -> list[Row]:
    """Serve the prompts in every way; the first row is HuggingFace's `generate`.

    Args:
        model: a causal language model of `transformers`, in eval mode.
        prompts: lists of token ids.
        num_blocks: of every pool; without it, as many as each way needs, and half of
            that for continuous batching.
        rounds: how often a way runs after its warm-up.

    Raises UnsupportedModel if a text would be wrong, and ValueError without prompts, or
    for a prompt that is empty, or too long for the model or a pool.
    """
    require_counts(max_new_tokens=max_new_tokens, block_size=block_size, rounds=rounds)
    _check_lengths(model, prompts, max_new_tokens)
    needs = [-(-(len(p) + max_new_tokens - 1) // block_size) for p in prompts]
    ways = dict(WAYS)
    if model.device.type == "cuda" and find_spec("triton"):
        ways["Triton kernel"] = TRITON
    wrapped = []  # all of them first: a model is refused before anything runs
    for way in ways.values():
        size = way.num_blocks(needs) if num_blocks is None else num_blocks
        wrapped.append(PagedModel(model, size, block_size, way.attention))
    config = GenerationConfig(
        max_new_tokens=max_new_tokens,
        do_sample=False,
        num_beams=1,
        return_dict_in_generate=True,  # to see HuggingFace's cache
    )
    with progress_bar(desc="runs", total=(1 + rounds) * (1 + len(ways))) as bar:
        timed = partial(_timed, rounds, bar.update)
        runs, seconds = timed(_huggingface, model, prompts, config)
        expected, kv_bytes = zip(*runs[0], strict=True)
        rows = [
            Row(
                way="HuggingFace",
                what=HUGGINGFACE,
                texts=expected,
                num_equal=len(prompts),
                seconds=seconds,
                kv_bytes=max(kv_bytes),
            )
        ]
        for (name, way), paged in zip(ways.items(), wrapped, strict=True):
            held = Held(paged.pool)
            paged.observers.append(held)
            runs, seconds = timed(way.run, paged, prompts, config)
            texts = [[_text(output) for output in run] for run in runs]
            pairs = zip(expected, *texts, strict=True)
            blocks, tokens = held.most
            rows.append(
                Row(
                    way=name,
                    what=way.what,
                    texts=texts[0],
                    num_equal=sum(ours.count(hf) == len(ours) for hf, *ours in pairs),
                    seconds=seconds,
                    kv_bytes=blocks * paged.cache.bytes_per_block,
                    filled=tokens / (blocks * block_size),
                    held_blocks=blocks,
                    pool_blocks=paged.pool.num_blocks,
                )
            )
    return rows


def _check_lengths(
    model: PreTrainedModel, prompts: Prompts, max_new_tokens: int
) -> None:
    """Raise ValueError where HuggingFace would fail, or go on beyond what it knows."""
    if not prompts:
        raise ValueError("there is nothing to compare; give at least one prompt")
    positions = num_positions(model.config) or inf
    for prompt in prompts:
        if not prompt:
            raise ValueError("a prompt has no tokens; give at least a word")
        if len(prompt) + max_new_tokens > positions:
            raise ValueError(
                f"a prompt of {len(prompt)} tokens and {max_new_tokens} new ones do "
                f"not fit into the model's {positions} positions; shorten the prompt, "
                "or lower max_new_tokens"
            )


def _timed(
    rounds: int, tell: Callable[[], Any], run: Callable[..., Any], *arguments: Any
) -> tuple[list[Any], float]:
    """All results, the warm-up's first, and the median seconds of the other runs."""
    results = []
    seconds = []
    for _ in range(1 + rounds):
        start = time.perf_counter()
        results.append(run(*arguments))
        seconds.append(time.perf_counter() - start)
        tell()
    return results, median(seconds[1:])


def _huggingface(
    model: PreTrainedModel, prompts: Prompts, config: GenerationConfig
) -> list[tuple[list[int], int]]:
    """Each prompt's new tokens, and the bytes of its cache, which only grows."""
    answers = []
    for prompt in prompts:
        ids = torch.tensor([prompt], device=model.device)
        out = model.generate(
            ids, attention_mask=torch.ones_like(ids), generation_config=config
        )
        # Its name in `out` changes with the version, and some models subclass it.
        cache = next(value for value in out.values() if isinstance(value, DynamicCache))
        kv = [tensor for layer in cache for tensor in layer[:2] if tensor is not None]
        text = out.sequences[0, len(prompt) :].tolist()
        answers.append((text, sum(tensor.nbytes for tensor in kv)))
    return answers


def _text(output: Output) -> list[int]:
    """Its tokens; ValueError with the reason if there are none."""
    if output.error:
        raise ValueError(output.error)
    return output.sequences[0]


def table(rows: Sequence[Row]) -> str:
    """The rows as a table, with an explanation of its ways and columns."""
    lines = [
        f"{'way':21}{'equal':>8}{'pool':>6}{'held':>6}{'KV kB':>11}{'filled':>8}"
        f"{'seconds':>9}{'tokens/s':>10}"
    ]
    for row in rows:
        is_reference = row.pool_blocks is None
        equal = "-" if is_reference else f"{row.num_equal} of {len(row.texts)}"
        pool = row.pool_blocks or "-"
        held = row.held_blocks or "-"
        lines.append(
            f"{row.way:21}{equal:>8}{pool:>6}{held:>6}{row.kv_bytes / 1e3:11,.1f}"
            f"{row.filled:8.0%}{row.seconds:9.3f}{row.tokens_per_second:10.1f}"
        )
    lines += ["", *(f"{row.way:21}{row.what}" for row in rows), "", LEGEND, ""]
    wrong = [row.way for row in rows if not row.is_equal]
    lines.append(
        f"DIFFERENT from HuggingFace: {', '.join(wrong)}"
        if wrong
        else "all texts equal HuggingFace's, token for token"
    )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: print the table, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m minipaged.compare",
        description="Serve the same prompts in every way, and print what each takes. "
        "Exit status: 0 if every way gives HuggingFace's text, token for token, 1 if "
        "one does not, 2 if nothing could be compared.",
    )
    parser.add_argument(
        "model",
        nargs="?",
        help="a folder, or an id on the HuggingFace hub (default: what MINIPAGED_MODEL "
        "names, or else the pocket model)",
    )
    parser.add_argument(
        "--prompt",
        action="append",
        metavar="TEXT",
        help="may be repeated (default: five short texts)",
    )
    add = partial(parser.add_argument, type=int, metavar="N")
    default = " (default: %(default)s)"
    add("--max-new-tokens", default=32, help=f"of each prompt{default}")
    add("--block-size", default=16, help=f"tokens in a block{default}")
    add(
        "--num-blocks",
        help="of every pool (default: as many as each way needs, and half of that for "
        "continuous batching)",
    )
    add("--rounds", default=3, help=f"runs of a way after its warm-up{default}")
    parser.add_argument("--device", help="cpu or cuda (default: cuda if there is one)")
    given = parser.parse_args(arguments)
    try:
        model, tokenizer = load(given.model, device=given.device)
        rows = compare(
            model,
            tokenizer(given.prompt or PROMPTS).input_ids,
            given.max_new_tokens,
            given.block_size,
            given.num_blocks,
            given.rounds,
        )
    except (OSError, ValueError, MemoryError, torch.OutOfMemoryError) as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
    print(
        f"{type(model).__name__} in {str(model.dtype).removeprefix('torch.')} on "
        f"{model.device}; threads: {torch.get_num_threads()}\n{len(rows[0].texts)} "
        f"prompts, up to {given.max_new_tokens} new tokens each; blocks of "
        f"{given.block_size} tokens\n\n{table(rows)}"
    )
    return int(not all(row.is_equal for row in rows))


if __name__ == "__main__":
    sys.exit(main())
