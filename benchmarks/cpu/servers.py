"""Three ways to serve the same requests: our engine, and what HuggingFace offers.

Each answers requests of agreed lengths, and says when each of them was answered.
"""

import random
import time
from collections.abc import Sequence
from typing import NamedTuple

import torch
from transformers import ContinuousBatchingConfig, GenerationConfig, PreTrainedModel

import minipaged as mp
from minipaged.lab import sharegpt_like

BLOCK_SIZE = 16
NO_EOS = -1  # continuous batching wants an eos: one that never comes


class Asked(NamedTuple):
    """A request: its prompt, how many new tokens it wants, and when it arrives."""

    prompt: list[int]
    num_new: int
    arrival: float = 0.0


class Answered(NamedTuple):
    """How a trace was served: seconds from start to end, and for each request."""

    seconds: float
    normalised_latency: list[float]  # seconds a token, from arrival to end
    tokens: list[list[int]]


def make_trace(count: int, scale: float, vocabulary: int) -> list[Asked]:
    """Lengths like those of ShareGPT's chats, times `scale`; random prompts."""
    draw = random.Random(0)
    return [
        Asked(
            [draw.randrange(vocabulary) for _ in range(max(1, round(prompt * scale)))],
            max(2, round(output * scale)),
        )
        for prompt, output in sharegpt_like(count)
    ]


def poisson(trace: Sequence[Asked], rate: float) -> list[Asked]:
    """The same requests, `rate` of them a second, at random moments."""
    draw, moment, arriving = random.Random(1), 0.0, []
    for asked in trace:
        arriving.append(asked._replace(arrival=moment))
        moment += draw.expovariate(rate)
    return arriving


def blocks_of(trace: Sequence[Asked]) -> list[int]:
    """How many blocks each request fills in the end."""
    return [-(-(len(a.prompt) + a.num_new) // BLOCK_SIZE) for a in trace]


def ours(
    paged: mp.PagedModel, trace: Sequence[Asked], **options
) -> tuple[Answered, mp.Engine]:
    """Our engine."""
    engine = mp.Engine(paged, **options)
    streams = [
        engine.add(a.prompt, GenerationConfig(max_new_tokens=a.num_new), arrival=a[2])
        for a in trace
    ]
    start = time.perf_counter()
    outputs = engine.run()
    seconds = time.perf_counter() - start
    latencies = [stream.normalised_latency for stream in streams]
    tokens = [output.sequences[0] for output in outputs]
    return Answered(seconds, latencies, tokens), engine


def static(model: PreTrainedModel, trace: Sequence[Asked], batch_size: int) -> Answered:
    """`generate` for left-padded batches: whoever waits forms the next one.

    Each batch runs until its longest member is done; all are answered then.
    """
    queue, latencies, start = list(trace), [], time.perf_counter()
    while queue:
        now = time.perf_counter() - start
        batch = [asked for asked in queue[:batch_size] if asked.arrival <= now]
        if not batch:
            time.sleep(queue[0].arrival - now)
            continue
        del queue[: len(batch)]
        _padded(model, batch)
        now = time.perf_counter() - start
        latencies += [(now - asked.arrival) / asked.num_new for asked in batch]
    return Answered(time.perf_counter() - start, latencies, [])


def _padded(model: PreTrainedModel, batch: Sequence[Asked]) -> None:
    longest = max(len(asked.prompt) for asked in batch)
    pads = [longest - len(asked.prompt) for asked in batch]
    pairs = list(zip(pads, batch, strict=True))
    ids = torch.tensor([[0] * pad + asked.prompt for pad, asked in pairs])
    mask = torch.tensor([[0] * pad + [1] * len(asked.prompt) for pad, asked in pairs])
    num_new = max(asked.num_new for asked in batch)
    config = GenerationConfig(max_new_tokens=num_new, pad_token_id=0)
    model.generate(ids, attention_mask=mask, generation_config=config)


def continuous(model: PreTrainedModel, trace: Sequence[Asked]) -> Answered:
    """HuggingFace's continuous batching, as `generate_batch` does it.

    It has as many token slots as our engine, in pages of its usual 256, and the same
    budget a step; its start and its end are not timed. `generate_batch` itself gives
    all requests one length: so they are handed to its manager one by one.
    """
    # transformers 5.17 says block_size
    name = next(
        n for n in ("page_size", "block_size") if hasattr(ContinuousBatchingConfig, n)
    )
    page = getattr(ContinuousBatchingConfig, name)
    num_pages = sum(-(-(len(a.prompt) + a.num_new) // page) for a in trace)
    config = ContinuousBatchingConfig(
        num_blocks=num_pages + 1,
        max_batch_tokens=2048,
        max_requests_per_batch=256,
        use_async_batching=False,
        use_cuda_graph=False,
    )
    greedy = GenerationConfig(do_sample=False, eos_token_id=NO_EOS, pad_token_id=0)
    with model.continuous_batching_context_manager(
        generation_config=greedy,
        continuous_batching_config=config,
        block=True,
        timeout=5,
        warmup=False,
    ) as manager:
        start, found = time.perf_counter(), {}
        ids = [manager.add_request(a.prompt, max_new_tokens=a.num_new) for a in trace]
        while len(found) < len(trace):
            result = manager.get_result(timeout=1)
            if result is not None and result.is_finished():
                now = time.perf_counter() - start
                found[result.request_id] = now, result.generated_tokens
            elif result is None and not manager.is_running():
                raise RuntimeError("HuggingFace's continuous batching has stopped")
        seconds = time.perf_counter() - start
    answers = [found[request_id] for request_id in ids]
    latencies = [at / a.num_new for (at, _), a in zip(answers, trace, strict=True)]
    return Answered(seconds, latencies, [tokens for _, tokens in answers])
