"""Appendix D: made-up requests of every kind, answered before a user waits for one.

torch loads a kernel when it is used for the first time, and asks the driver for memory
when it has none of that size left. For another number of rows, another kernel may be
the best. So the first batch of beams, say, would take longer than later ones. Here a
few requests of each kind choose some tokens, as in steps, from logits that are all
alike. No model computes, no block of the pool is taken, and users draw the random
numbers that they would have drawn.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from transformers import LogitsProcessorList
from transformers.generation import logits_process as processors

from minipaged.decoding.options import Options
from minipaged.decoding.strategy import Turn
from minipaged.engine.ahead import PendingChoices, may_run_ahead
from minipaged.engine.arguments import make_request
from minipaged.engine.loop import apply_all, choose
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable
from minipaged.scheduling.request import Request

_NUM_NEW = 3  # tokens of each answer: the first, one after it, and the last
_NUM_REQUESTS = 1, 8, 32  # together, of a kind


class Kind(NamedTuple):
    """Options of requests, and whether each has a seed."""

    options: Options
    is_seeded: bool = False


def kinds() -> dict[str, Kind]:
    """What requests may ask for that is computed by torch, by name."""
    temperature = processors.TemperatureLogitsWarper(0.6)
    cutoffs = [
        processors.TopKLogitsWarper(20),
        processors.TopPLogitsWarper(0.95),
        processors.MinPLogitsWarper(0.1),
    ]
    penalty = processors.RepetitionPenaltyLogitsProcessor(1.2)
    samples = {"num_sequences": 2}
    return {
        "penalties": Kind(_options(penalty, key=None, do_sample=False)),
        "penalties, drawn": Kind(_options(penalty, temperature, key=None)),
        "seeds": Kind(_options(temperature), is_seeded=True),
        "seeds and cutoffs": Kind(_options(temperature, *cutoffs), is_seeded=True),
        "samples": Kind(_options(temperature, **samples)),
        "samples with a seed": Kind(_options(temperature, **samples), is_seeded=True),
        "logprobs": Kind(_options(temperature, logprobs=3)),
        "samples with logprobs": Kind(_options(temperature, logprobs=3, **samples)),
        "beams": Kind(_options(do_sample=False, num_beams=2)),
        "beams that may end": Kind(_options(num_beams=2, eos_ids=frozenset([1]))),
    }


def _options(
    *own: processors.LogitsProcessor, key: str | None = "rehearsed", **changed
) -> Options:
    """Options of a request whose processors are these; `key`: its `batch_key`."""
    usual = {
        "max_new_tokens": _NUM_NEW,
        "eos_ids": frozenset(),
        "do_sample": True,
        "num_sequences": 1,
        "num_beams": 1,
        "length_penalty": 1.0,
        "early_stopping": False,
    }
    own = LogitsProcessorList(own)
    return Options(**(usual | changed), processors=own, batch_key=key)


def rehearse(
    vocabulary: int, dtype: torch.dtype, device: torch.device, most: int
) -> None:
    """Answer requests of every kind, at most `most` at a time, from logits like these.

    vocabulary, dtype, device: of the logits that the model computes.
    """
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        for count in _NUM_REQUESTS:
            for kind in kinds().values():
                if count <= most:
                    _answer(kind, count, vocabulary, dtype, device)


def _answer(
    kind: Kind, count: int, vocabulary: int, dtype: torch.dtype, device: torch.device
) -> None:
    """So many requests of a kind, from the first token to the last."""
    pool = BlockPool(num_blocks=4 * count, block_size=_NUM_NEW)
    seeds = [torch.Generator(device) if kind.is_seeded else None for _ in range(count)]
    requests = [
        make_request([0], kind.options, seed, device=device, pool=pool)
        for seed in seeds
    ]
    for request in requests:
        request.start(BlockTable(pool))
    while turns := list(_turns(requests)):
        for turn in turns:
            for sequence in turn.request.live:
                sequence.table.append()  # as if this token were computed
        with torch.inference_mode():  # as a model's logits
            shape = turns[-1].rows.stop, vocabulary
            logits = torch.zeros(shape, dtype=dtype, device=device)
        if all(map(may_run_ahead, requests)):
            # Some steps' choices are on their way to the CPU together.
            choices = [PendingChoices(turns, logits) for _ in range(4)][-1].read(turns)
        else:
            choices = choose(turns, logits.float())
        apply_all(turns, choices)


def _turns(requests: list[Request]) -> Iterator[Turn]:
    """A turn of each request that has not ended: a row for each living sequence."""
    stop = 0
    for request in requests:
        start, stop = stop, stop + len(request.live)
        if stop > start:
            yield Turn(request, range(start, stop))
