"""How long a step's draw takes on this GPU, by what its rows ask for: microseconds.

    python -m benchmarks.gpu.drawing
    python -m benchmarks.gpu.drawing --out drawing.json

1, 64 and 256 rows of 151,936 bfloat16 logits: random ones, and peaked ones, where few
tokens have nearly all of the probability. First, what may be drawn is compared with
what HuggingFace's processors leave; if it is not the same, this ends with an error.
Then ours is timed beside HuggingFace's processors, softmax and `torch.multinomial`,
and, where it is installed, beside FlashInfer's sampling (compiled when first called).

All are launched call by call, and L2 is emptied between two calls. HuggingFace's draw
waits for the GPU, so no CUDA graph can hold it; ours is also replayed as one, which
leaves out what the CPU does. Our rows' numbers are on the device before.
"""

import argparse
import json
import sys
from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import LogitsProcessorList
from transformers.generation import logits_process as processors

from minipaged.attention.kernels.setup import INTERPRETED, triton
from minipaged.decoding.cutoff import find_cutoffs
from minipaged.decoding.fast_draw import launch_draw, to_numbers
from minipaged.decoding.row_options import GREEDY, RowOptions
from minipaged.lab.measure.gpu_timing import microseconds
from minipaged.lab.measure.machine import describe_machine

VOCABULARY = 151_936
ROWS = (1, 64, 256)
WARM = 1 / 0.6
KINDS = {
    "greedy": GREEDY,
    "temperature": RowOptions(WARM),
    "top-k 20": RowOptions(WARM, top_k=20),
    "top-p 0.95": RowOptions(WARM, top_p=0.95),
    "top-k 20, top-p 0.95": RowOptions(WARM, top_k=20, top_p=0.95),
    "min-p 0.05": RowOptions(WARM, min_p=0.05),
}
MIXTURE = "a mixture of these"
NEAR = 1e-4  # a share that is nearer to its bound may be rounded to either side


def random_logits(rows: int, vocabulary: int = VOCABULARY) -> Tensor:
    """As a normal distribution three times as wide has them."""
    generator = torch.Generator().manual_seed(rows)
    logits = 3 * torch.randn(rows, vocabulary, generator=generator)
    return logits.to(*where_and_what())


def peaked_logits(rows: int, vocabulary: int = VOCABULARY) -> Tensor:
    """The same, but twelve tokens of each row are higher, each by another number."""
    logits, generator = random_logits(rows, vocabulary), torch.Generator()
    at = torch.randint(vocabulary, (rows, 12), generator=generator.manual_seed(rows))
    extra = torch.linspace(20, 5, 12).expand(rows, 12).to(logits)
    return logits.scatter_add(1, at.to(logits.device), extra)


def where_and_what() -> tuple[str, torch.dtype]:
    """Device and type of the logits; the interpreter, for tests, knows no bfloat16."""
    return ("cpu", torch.float16) if INTERPRETED else ("cuda", torch.bfloat16)


def options_of(kind: str, rows: int) -> list[RowOptions]:
    """What each row asks for."""
    each = list(KINDS.values()) if kind == MIXTURE else [KINDS[kind]]
    return [each[row % len(each)] for row in range(rows)]


def huggingface_scores(logits: Tensor, options: RowOptions) -> Tensor:
    """What `generate` draws from: float32, with -inf for what may not be drawn."""
    chain = [processors.TemperatureLogitsWarper(1 / options.sharpness)]
    if options.top_k:
        chain.append(processors.TopKLogitsWarper(options.top_k))
    if options.top_p < 1:
        chain.append(processors.TopPLogitsWarper(options.top_p))
    if options.min_p:
        chain.append(processors.MinPLogitsWarper(options.min_p))
    return LogitsProcessorList(chain)(None, logits.float())


def num_unlike(logits: Tensor, options: list[RowOptions]) -> int:
    """In how many rows something else may be drawn than with HuggingFace.

    Set aside are logits equal to the lowest that HuggingFace keeps, and those whose
    share of the probability is so near to the bound that it may be rounded either way.
    """
    cutoffs = find_cutoffs(logits, to_numbers(options, logits.device))
    count = 0
    for row, cutoff, own in zip(logits.float(), cutoffs, options, strict=True):
        if own.is_greedy:
            continue
        theirs = huggingface_scores(row[None], own)[0] > -torch.inf
        unlike = (row >= cutoff) ^ theirs
        unlike &= row != row[theirs].min()
        count += any(not is_near(row, each, own) for each in row[unlike].unique())
    return count


def is_near(row: Tensor, logit: Tensor, own: RowOptions) -> bool:
    """Is this logit's share of the probability at a bound, in float64?"""
    x = row.double()
    if own.top_k:
        x = x.masked_fill(x < x.topk(own.top_k).values[-1], -torch.inf)
    share = torch.softmax(x * own.sharpness, 0)
    above = share[x > logit.double()].sum() - own.top_p
    here = ((logit - row.max()).double() * own.sharpness).exp()
    at_min_p = own.min_p > 0 and abs(here / own.min_p - 1) < NEAR
    return bool(abs(above) < NEAR or at_min_p)


def num_not_allowed(logits: Tensor, options: list[RowOptions]) -> int:
    """How many drawn tokens are below their row's cutoff, or not the likeliest."""
    numbers = to_numbers(options, logits.device)
    tokens = ours(logits, options)()
    cutoffs = find_cutoffs(logits, numbers)
    is_greedy = torch.tensor([own.is_greedy for own in options], device=logits.device)
    lowest = torch.where(is_greedy, logits.float().amax(1), cutoffs)
    drawn = logits.float().gather(1, tokens[:, None])[:, 0]
    return int((drawn < lowest).sum())


def ours(logits: Tensor, options: list[RowOptions]) -> Callable[[], Tensor]:
    """A draw by this package's kernels."""
    numbers = to_numbers(options, logits.device)
    has_cutoffs = any(own.has_cutoff for own in options)
    is_random = any(not own.is_greedy for own in options)

    def draw() -> Tensor:
        uniform = torch.rand(len(logits), 2, device=logits.device)
        return launch_draw(logits, numbers, has_cutoffs, uniform if is_random else None)

    return draw


def huggingface(logits: Tensor, options: list[RowOptions]) -> Callable[[], Tensor]:
    """The same by HuggingFace's processors, once for all rows that are equal."""
    groups = {own: [] for own in options}
    for row, own in enumerate(options):
        groups[own].append(row)
    rows = {own: torch.tensor(at, device=logits.device) for own, at in groups.items()}

    def draw() -> Tensor:
        tokens = []
        for own, at in rows.items():
            group = logits if len(rows) == 1 else logits[at]
            if own.is_greedy:
                tokens.append(group.argmax(1))
                continue
            share = torch.softmax(huggingface_scores(group, own), 1)
            tokens.append(torch.multinomial(share, 1)[:, 0])
        return torch.cat(tokens)

    return draw


def flashinfer(
    logits: Tensor, options: list[RowOptions]
) -> Callable[[], Tensor] | None:
    """The same by FlashInfer; None where it has no kernel for all rows at once."""
    from flashinfer import sampling

    own = options[0]
    if own.is_greedy or len({*options}) > 1:
        return None

    def draw() -> Tensor:
        scaled = logits.float() * own.sharpness
        if own.top_k and own.top_p < 1:
            return sampling.top_k_top_p_sampling_from_logits(
                scaled, own.top_k, own.top_p, filter_apply_order="top_k_first"
            )
        share = torch.softmax(scaled, 1)
        if own.top_k:
            return sampling.top_k_sampling_from_probs(share, own.top_k)
        if own.top_p < 1:
            return sampling.top_p_sampling_from_probs(share, own.top_p)
        if own.min_p:
            return sampling.min_p_sampling_from_probs(share, own.min_p)
        return sampling.sampling_from_probs(share)

    return draw


def launched(call: Callable[[], Tensor] | None) -> float | None:
    """Microseconds of a draw, launched by the CPU; None if there is none."""
    if call is None:
        return None
    ms = triton.testing.do_bench(call, warmup=10, rep=50, return_mode="median")
    return round(1e3 * ms, 1)


def check(make: Callable[[int], Tensor], rows: int = 64) -> dict[str, int]:
    """Rows of each kind in which something is wrong; all 0 if nothing is."""
    logits, wrong = make(rows), {}
    for kind in (*KINDS, MIXTURE):
        options = options_of(kind, rows)
        wrong[kind] = num_unlike(logits, options) + num_not_allowed(logits, options)
    return wrong


def main() -> None:
    """Check, measure, and print or store it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--no-flashinfer", action="store_true")
    arguments = parser.parse_args()
    assert torch.cuda.is_available(), "this script wants a GPU"
    makers = {"random": random_logits, "peaked": peaked_logits}
    found: dict[str, Any] = {"machine": describe_machine(), "vocabulary": VOCABULARY}
    found["rows_unlike_huggingface"] = {n: check(make) for n, make in makers.items()}
    if any(any(wrong.values()) for wrong in found["rows_unlike_huggingface"].values()):
        sys.exit(f"not what HuggingFace keeps: {found['rows_unlike_huggingface']}")
    ways = {"ours": ours, "huggingface": huggingface}
    if find_spec("flashinfer") and not arguments.no_flashinfer:
        ways["flashinfer"] = flashinfer
        found["machine"]["flashinfer"] = version("flashinfer-python")
    columns = ("ours_replayed", *ways)
    print(f"{'logits':8}{'rows':>5}  {'asked for':22}", *(f"{c:>14}" for c in columns))
    found["microseconds"] = []
    for name, make in makers.items():
        for rows in ROWS:
            logits = make(rows)
            for kind in (*KINDS, MIXTURE):
                options = options_of(kind, rows)
                us = {"ours_replayed": round(microseconds([ours(logits, options)]), 1)}
                us |= {way: launched(of(logits, options)) for way, of in ways.items()}
                cells = (f"{'-' if x is None else x:>14}" for x in us.values())
                print(f"{name:8}{rows:5}  {kind:22}", *cells, flush=True)
                row = {"logits": name, "rows": rows, "asked_for": kind}
                found["microseconds"].append(row | us)
    if arguments.out:
        arguments.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
