"""Lesson 2: generate for many prompts: a loop around the step (paper, section 4.3)."""

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from transformers import GenerationConfig

from minipaged.decoding.options import resolve_options
from minipaged.decoding.request import Output, Request
from minipaged.engine.admission import admit
from minipaged.engine.step import step
from minipaged.errors import PromptTooLong
from minipaged.memory.block_pool import BlockPool
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
    before, also after an exception.

    Args:
        paged: the model over its pool.
        prompts: lists of token ids, of any lengths.
        generation_config: one for all prompts or one for each. Unset fields mean what
            they mean to HuggingFace, with the model's own generation config first.
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
    generation options that are not honoured; nothing has been generated then.
    """
    if not isinstance(paged, PagedModel):
        raise TypeError(
            f"the first argument must be a PagedModel, got {type(paged).__name__}; "
            "wrap the model first: paged = mp.PagedModel(model)"
        )
    if max_prompt_tokens is not None and (
        type(max_prompt_tokens) is not int or max_prompt_tokens < 1
    ):
        raise ValueError(
            f"max_prompt_tokens must be an int of at least 1, got {max_prompt_tokens!r}"
        )
    if prefix_cache is not None and prefix_cache.pool is not paged.pool:
        raise ValueError("prefix_cache must be over this model's pool: paged.pool")
    requests = _make_requests(paged, prompts, generation_config, seed)
    salts = _one_each(cache_salt, bytes, "cache_salt", len(prompts))
    for request, salt in zip(requests, salts, strict=True):
        request.salt = salt
        request.error = request.error or _why_it_never_fits(request, paged.pool)
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
    return [_output(request) for request in requests]


def _make_requests(
    paged: PagedModel,
    prompts: Sequence[list[int]],
    generation_config: GenerationConfig | Sequence[GenerationConfig] | None,
    seed: int | Sequence[int] | None,
) -> list[Request]:
    """Check the arguments and resolve every prompt's options."""
    vocabulary = paged.model.get_input_embeddings().num_embeddings
    if isinstance(prompts, str | torch.Tensor) or not isinstance(prompts, Sequence):
        raise TypeError(
            "prompts must be a list of lists of token ids, got "
            f"{type(prompts).__name__}; pass tokenizer(texts).input_ids, or "
            "tensor.tolist()"
        )
    for index, prompt in enumerate(prompts):
        _check_prompt(index, prompt, vocabulary)
    count = len(prompts)
    configs = _one_each(generation_config, GenerationConfig, "generation_config", count)
    seeds = _one_each(seed, int, "seed", count)
    requests = []
    for prompt, config, own_seed in zip(prompts, configs, seeds, strict=True):
        generator = None
        if own_seed is not None:
            generator = torch.Generator(paged.device).manual_seed(own_seed)
        request = Request(prompt, generator=generator)
        try:
            request.options = resolve_options(paged.model, config, prompt)
            if request.options.num_beams > 1:
                request.strategy = "beam"
        except PromptTooLong as error:
            request.error = str(error)
        requests.append(request)
    return requests


def _check_prompt(index: int, prompt: list[int], vocabulary: int) -> None:
    if not isinstance(prompt, list) or not set(map(type, prompt)) <= {int}:
        raise TypeError(
            f"prompt {index} must be a list of token ids (int), got {prompt!r:.60}; "
            "pass tokenizer(texts).input_ids, a list of lists even for one text"
        )
    if not prompt:
        raise ValueError(f"prompt {index} is empty; give at least one token")
    if min(prompt) < 0 or max(prompt) >= vocabulary:
        raise ValueError(
            f"prompt {index} has token ids outside 0 to {vocabulary - 1}; is the "
            "tokenizer that of this model?"
        )


def _one_each(value: object, kind: type, name: str, count: int) -> list:
    """A value for every prompt, from one for all or from one for each."""

    def fits(one: object) -> bool:  # True is an int to Python, but no seed
        return isinstance(one, kind) and not isinstance(one, bool)

    if value is None or fits(value):
        return [value] * count
    if not isinstance(value, Sequence) or not all(map(fits, value)):
        wanted = {
            GenerationConfig: "GenerationConfig(...)",
            int: "an int",
            bytes: 'bytes, such as b"a user"',
        }
        wanted = wanted.get(kind, f"a {kind.__name__}")
        raise TypeError(
            f"{name} must be {wanted}, or a list with one for each prompt; "
            f"got {value!r:.60}"
        )
    if len(value) != count:
        raise ValueError(f"{count} prompts, but {len(value)} values of {name}")
    return list(value)


def _why_it_never_fits(request: Request, pool: BlockPool) -> str | None:
    """Why the pool can never hold this request at its longest, or None if it can."""
    worst = request.blocks_at_most(pool.block_size)
    if worst <= pool.num_free:
        return None
    options = request.options
    many = options.num_parallel > 1
    who = f"{options.num_parallel} sequences" if many else "a sequence"
    also = " or the number of beams or samples" if many else ""
    return (
        f"{who} of {len(request.prompt)} prompt tokens and {options.max_new_tokens} "
        f"new ones may need {worst} blocks, but {pool.num_free} are free of "
        f"{pool.num_blocks}; raise num_blocks, or lower max_new_tokens{also}"
    )


def _output(request: Request) -> Output:
    if request.error is not None:
        return Output([], "error", error=request.error)
    cached, reason = request.num_cached_tokens, request.finish_reason
    if request.hypotheses is not None:
        tokens, scores = map(list, zip(*request.hypotheses, strict=True))
        return Output(tokens, reason, scores, num_cached_tokens=cached)
    tokens = [sequence.new_tokens for sequence in request.sequences]
    return Output(tokens, reason, num_cached_tokens=cached)
