"""Lesson 2: generate for many prompts: a loop around the step (paper, section 4.3)."""

from collections.abc import Sequence
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from transformers import GenerationConfig, PreTrainedTokenizerBase

from minipaged.decoding.known_configs import KnownConfigs
from minipaged.decoding.own_processors import Processor
from minipaged.decoding.strategy import Output, output_of
from minipaged.engine.arguments import (
    check_engine,
    make_requests,
    why_it_never_fits,
    with_speculation,
)
from minipaged.engine.loop import StepRunner, run
from minipaged.model.paged_model import PagedModel
from minipaged.progress import progress_bar
from minipaged.scheduling.request import Request
from minipaged.scheduling.scheduler import Scheduler

if TYPE_CHECKING:
    from minipaged.decoding.speculation import Speculation
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
    tokenizer: PreTrainedTokenizerBase | None = None,
    logprobs: int | Sequence[int] | None = None,
    prompt_logprobs: int | Sequence[int] | None = None,
    logits_processor: Sequence[Processor] | Sequence[Sequence[Processor]] | None = None,
    speculation: "Speculation | None" = None,
) -> list[Output]:
    """Continue every prompt as HuggingFace's `generate` would continue it alone.

    That holds in float32. In half precision, the last bits of a logit depend on what
    else is computed, and so may a text. If the model is `deterministic`, a text is the
    same in any company; it is not always HuggingFace's.

    First come first served: a prompt is admitted while the blocks for its worst case,
    prompt and max_new_tokens, are certain; the others wait. Sequences that end leave
    the batch and give their blocks back at once. The pool is afterwards as it was
    before, also after an exception. If several threads call it on one PagedModel, they
    take turns.

    Args:
        paged: the model over its pool.
        prompts: lists of token ids, of any lengths.
        generation_config: one for all prompts, or a list. Unset fields mean what they
            mean to HuggingFace: it looks at the model's generation config first. A text
            ends at the model's last position.
        seed: one for all prompts, or a list. With a seed, a prompt gets exactly the
            tokens that HuggingFace draws for it alone after `torch.manual_seed(seed)`.
            Without, all prompts draw from torch's global generator.
        max_prompt_tokens: compute at most so many prompt tokens in a step.
        prefix_cache: over `paged.pool`. Prompts take the blocks that they find there,
            and leave their full blocks there for others; beams, those of the prompt.
        cache_salt: one for all prompts, or a list. Only prompts of one salt share.
        tokenizer: the model's; needed for stop strings.
        logprobs: a number for all prompts, or a list; None: none are wanted. Each new
            token comes with its logprob, and with so many of the likeliest tokens. See
            `TokenLogprob`.
        prompt_logprobs: the same for the prompt's tokens. Such a prompt is computed as
            a whole, whatever is cached of it.
        logits_processor: HuggingFace's, or yours, as HuggingFace's `generate` takes
            them: a list for all prompts, or a list for each. Each must depend on its
            arguments alone: prompts are computed together, and a step may be repeated.
        speculation: guesses the next tokens, of which a step then checks several: an
            `mp.PromptLookup` or an `mp.DraftModel`. In float32, answers stay the same,
            but where two tokens tie; without a seed, random ones have the same
            probabilities. Requests with logprobs, and several samples with a seed, go
            without guesses.

    Returns one Output per prompt, in order. A prompt that can never fit, in the pool or
    in the model's positions, or for which no token can be chosen, gets an Output
    with finish_reason "error" and the reason in `error`; the others go on.
    Raises ValueError or TypeError for malformed arguments, and UnsupportedOption for
    generation options that are not honoured; nothing has been generated then. Raises
    ValueError if the model has changed since it was wrapped: its weights, adapters,
    hooks or configs. To know that, all weights are read once.
    """
    check_engine(paged, max_prompt_tokens, prefix_cache)
    runner = with_speculation(_runner_of(paged), paged, speculation)
    requests = make_requests(
        paged,
        prompts,
        generation_config,
        seed,
        cache_salt,
        KnownConfigs(paged.model, tokenizer, speculation),
        logprobs=logprobs,
        prompt_logprobs=prompt_logprobs,
        logits_processor=logits_processor,
    )
    answer = partial(_answer, paged, runner, requests, prefix_cache, max_prompt_tokens)
    if paged.ranks is None:
        return answer()
    from minipaged.model.parallel import doing
    from minipaged.model.runner import Runner

    return paged.ranks.together("generate", answer, doing(Runner(paged)))


def _answer(
    paged: PagedModel,
    runner: StepRunner,
    requests: list[Request],
    prefix_cache: "PrefixCache | None",
    max_prompt_tokens: int | None,
) -> list[Output]:
    """Step until all these requests are answered."""
    with paged.alone():
        paged.refuse_changes()
        paged.observers.started(prefix_cache)
        scheduler = Scheduler(
            paged.pool,
            prefix_cache,
            max_prompt_tokens=max_prompt_tokens or inf,
            observers=paged.observers,
        )
        for request in requests:
            request.error = request.error or why_it_never_fits(request, paged.pool)
            if request.error is None:
                scheduler.add(request)
        num_waiting = len(scheduler.waiting)
        with progress_bar(desc="generate", total=num_waiting, unit=" prompts") as bar:
            run(runner, scheduler, tell=bar.update)
    return [output_of(request) for request in requests]


def _runner_of(paged: PagedModel) -> StepRunner:
    """What computes the steps: the model itself, or rank 0's runner."""
    if paged.ranks is None:
        return paged
    from minipaged.model.parallel import LeadingRunner  # appendix H
    from minipaged.model.runner import Runner  # appendix A

    return LeadingRunner(Runner(paged))
