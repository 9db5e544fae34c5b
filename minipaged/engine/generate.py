"""Lesson 2: generate for many prompts: a loop around the step (paper, section 4.3)."""

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from transformers import GenerationConfig

from minipaged.decoding.request import Output, Request
from minipaged.engine.admission import admit
from minipaged.engine.arguments import check_engine, make_requests, why_it_never_fits
from minipaged.engine.step import step
from minipaged.model.paged_model import PagedModel
from minipaged.progress import progress_bar

if TYPE_CHECKING:
    from minipaged.memory.prefix_cache import PrefixCache


def generate(
    paged: PagedModel,
    prompts: Sequence[list[int]],
    generation_config: GenerationConfig | Sequence[GenerationConfig] | None = None,
    *,
    seed: int | Sequence[int] | None = None,
    max_prompt_tokens: int | None = None,
    prefix_cache: "PrefixCache | None" = None,
    cache_salt: bytes | Sequence[bytes] = b"",
) -> list[Output]:
    """Continue every prompt as HuggingFace's `generate` would continue it alone.

    First come first served: a prompt is admitted while the blocks for its worst case,
    prompt and max_new_tokens, are certain; the others wait. Sequences that end leave
    the batch and give their blocks back at once. The pool is afterwards as it was
    before, also after an exception. Called from several threads on one PagedModel, one
    run waits for the other.

    Args:
        paged: the model over its pool.
        prompts: lists of token ids, of any lengths.
        generation_config: one for all prompts or one for each. Unset fields mean what
            they mean to HuggingFace, with the model's own generation config first. A
            text ends at the model's last position.
        seed: without one, all prompts draw from torch's global generator. With one (for
            all, or one for each), a prompt gets exactly the tokens that HuggingFace
            draws for it alone after `torch.manual_seed(seed)`.
        max_prompt_tokens: compute at most so many prompt tokens in a step.
        prefix_cache: over `paged.pool`. Prompts take the blocks that they find there,
            and all blocks are left there for others.
        cache_salt: one for all, or one for each. Only prompts with the same salt share.

    Returns one Output per prompt, in order. A prompt that can never fit, in the pool or
    in the model's positions, gets an Output with finish_reason "error" and the reason
    in `error`; the others go on.
    Raises ValueError or TypeError for malformed arguments, and UnsupportedOption for
    generation options that are not honoured; nothing has been generated then. Raises
    ValueError if the model's weights have changed since it was wrapped.
    """
    check_engine(paged, max_prompt_tokens, prefix_cache)
    requests = make_requests(paged, prompts, generation_config, seed, cache_salt)
    with paged.alone():
        for observer in paged.observers:
            observer.started(prefix_cache)
        for request in requests:
            request.observers = paged.observers
            request.error = request.error or why_it_never_fits(request, paged.pool)
        _run(paged, requests, max_prompt_tokens, prefix_cache)
    return [_output(request) for request in requests]


def _run(
    paged: PagedModel,
    requests: list[Request],
    max_prompt_tokens: int | None,
    prefix_cache: "PrefixCache | None",
) -> None:
    """The loop: admit, step, and let go of what has ended, until nobody is left."""
    waiting = deque(request for request in requests if request.error is None)
    running: list[Request] = []
    bar = progress_bar(desc="generate", total=len(waiting), unit=" prompts")
    try:
        while waiting or running:
            admit(waiting, running, paged.pool, prefix_cache)
            step(paged, running, max_prompt_tokens, prefix_cache)
            still_live = [request for request in running if request.live]
            bar.update(len(running) - len(still_live))
            running = still_live
    finally:
        bar.close()
        for request in running:
            request.free()


def _output(request: Request) -> Output:
    if request.error is not None:
        return Output([], "error", error=request.error)
    cached, reason = request.num_cached_tokens, request.finish_reason
    if request.hypotheses is not None:
        tokens, scores = map(list, zip(*request.hypotheses, strict=True))
        return Output(tokens, reason, scores, num_cached_tokens=cached)
    tokens = [sequence.new_tokens for sequence in request.sequences]
    return Output(tokens, reason, num_cached_tokens=cached)
