"""Lesson 2: arguments of `generate`, checked and made into requests (the border)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from transformers import GenerationConfig, LogitsProcessorList

from minipaged.decoding.known_configs import KnownConfigs
from minipaged.decoding.options import Options
from minipaged.decoding.own_processors import Processor, check_processors
from minipaged.decoding.sampling import Sampling
from minipaged.errors import PromptTooLong, require_counts
from minipaged.memory.block_pool import BlockPool
from minipaged.model.paged_model import PagedModel
from minipaged.scheduling.interruption import collect_lost
from minipaged.scheduling.request import Request

if TYPE_CHECKING:
    from minipaged.memory.prefix_cache import PrefixCache

_MOST_SEQUENCES = 1_000_000  # each is an object of Python, even without blocks
_WANTED = {
    GenerationConfig: "GenerationConfig(...)",
    int: "an int",
    bytes: 'bytes, such as b"a user"',
}


def make_requests(
    paged: PagedModel,
    prompts: Sequence[list[int]],
    generation_config: GenerationConfig | Sequence[GenerationConfig] | None,
    seed: int | Sequence[int] | None,
    cache_salt: bytes | Sequence[bytes],
    known_configs: KnownConfigs | None = None,
    remedy: str = "tokenizer(texts).input_ids, a list of lists even for one text",
    *,
    logprobs: int | Sequence[int] | None = None,
    prompt_logprobs: int | Sequence[int] | None = None,
    logits_processor: Sequence[Processor] | Sequence[Sequence[Processor]] | None = None,
    num_guesses: int | None = None,
    stops_in_prompt: bool = True,
) -> list[Request]:
    """A request for each prompt, with all of its options decided.

    A prompt that is too long for the model gets a request with an `error`. Raises
    ValueError, TypeError or UnsupportedOption for anything malformed. `remedy`: what
    a user should pass if a prompt is no list of token ids. `stops_in_prompt`: may a
    stop string begin there?
    """
    if isinstance(prompts, str | torch.Tensor) or not isinstance(prompts, Sequence):
        raise TypeError(
            "prompts must be a list of lists of token ids, got "
            f"{type(prompts).__name__}; pass tokenizer(texts).input_ids, or .tolist() "
            "of numpy's and torch's numbers"
        )
    # Copies, because the caller may change the lists while we work.
    prompts = [p.copy() if isinstance(p, list) else p for p in prompts]
    for index, prompt in enumerate(prompts):
        _check_prompt(index, prompt, paged.num_embeddings, remedy)
    known_configs = known_configs or KnownConfigs(paged.model)
    count = len(prompts)
    vocabulary = paged.num_embeddings
    configs = _values(generation_config, GenerationConfig, "generation_config", count)
    seeds = _values(seed, int, "seed", count)
    salts = _values(cache_salt, bytes, "cache_salt", count)
    processors = _processors(logits_processor, count)
    of_answer = _counts(logprobs, "logprobs", count, vocabulary)
    of_prompt = _counts(prompt_logprobs, "prompt_logprobs", count, vocabulary)
    requests = []
    for prompt, config, own_seed, salt, own_processors, num_top, num_prompt_top in zip(
        prompts, configs, seeds, salts, processors, of_answer, of_prompt, strict=True
    ):
        generator = _generator(own_seed, paged)
        try:
            options = known_configs.resolve(config, prompt, own_processors, num_guesses)
            options = replace(
                options,
                stop_start=0 if stops_in_prompt else len(prompt),
                logprobs=num_top,
                prompt_logprobs=num_prompt_top,
            )
            requests.append(
                make_request(prompt, options, generator, salt, paged.device, paged.pool)
            )
        except PromptTooLong as error:
            requests.append(Request(prompt, max_new_tokens=0, error=str(error)))
    return requests


def make_request(
    prompt: list[int],
    options: Options,
    generator: torch.Generator | None = None,
    salt: bytes = b"",
    device: torch.device | str = "cpu",
    pool: BlockPool | None = None,
) -> Request:
    """A request with the strategy that its options ask for; logits are on `device`.

    It has an `error` and no strategy if `pool` can never hold it: the strategy of a
    billion beams would take gigabytes before any block is taken.
    """
    request = Request(
        prompt,
        options.max_new_tokens,
        num_parallel=options.num_parallel,
        drops_sequences=options.num_beams > 1,
        salt=salt,
    )
    if pool is not None:
        request.error = why_it_never_fits(request, pool, pool.num_blocks)
    if request.error is not None:
        return request
    if options.logprobs is not None or options.prompt_logprobs is not None:
        from minipaged.decoding.logprobs import make_strategy  # appendix A

        request.strategy = make_strategy(options, generator, device)
        request.prompt_logits = options.prompt_logprobs is not None
    elif options.num_beams == 1:
        request.strategy = _sampling(options, generator)
    else:
        from minipaged.decoding.beam import Beams  # lesson 4

        request.strategy = Beams(options, device)
    if pool is not None and options.speculation is not None:  # forks take blocks, too
        request.error = why_it_never_fits(request, pool, pool.num_blocks)
    return request


def _sampling(options: Options, generator: torch.Generator | None) -> Sampling:
    """Sampling, with guesses if they are wanted and change no token.

    The samples of a seeded request draw together from one generator, so all of them
    take their tokens in the same steps.
    """
    has_one_draw = generator is not None and options.num_sequences > 1
    if options.speculation is None or has_one_draw:
        return Sampling(options, generator)
    from minipaged.decoding.speculative import Speculating  # appendix E

    return Speculating(options, generator)


def check_engine(
    paged: PagedModel,
    max_prompt_tokens: int | None,
    prefix_cache: "PrefixCache | None",
) -> None:
    """Raise TypeError or ValueError for arguments that concern all prompts."""
    from minipaged.memory.prefix_cache import PrefixCache  # lesson 3

    if not isinstance(paged, PagedModel):
        raise TypeError(
            f"the first argument must be a PagedModel, got {type(paged).__name__}; "
            "wrap the model first: paged = mp.PagedModel(model)"
        )
    if max_prompt_tokens is not None:
        require_counts(max_prompt_tokens=max_prompt_tokens)
    if not isinstance(prefix_cache, PrefixCache | None):
        raise TypeError(
            f"prefix_cache must be a PrefixCache, got {prefix_cache!r:.60}; make one "
            "and keep it for later calls: prefix = mp.PrefixCache(paged.pool)"
        )
    if prefix_cache is not None and prefix_cache.pool is not paged.pool:
        raise ValueError("prefix_cache must be over this model's pool: paged.pool")
    if prefix_cache is not None:
        prefix_cache.check_attached()


def check_speculation(speculation: Any) -> None:
    """Raise TypeError for what does not guess; None guesses nothing."""
    if speculation is None:
        return
    from minipaged.decoding.speculation import Speculation  # appendix E

    if not isinstance(speculation, Speculation):
        raise TypeError(
            "speculation must be an mp.PromptLookup or an mp.DraftModel, got "
            f"{speculation!r:.60}"
        )


def with_speculation(runner: Any, paged: PagedModel, speculation: Any) -> Any:
    """What computes the steps if this speculation guesses; None guesses nothing.

    Raises as `check_speculation`, and ValueError for a draft model that does not go
    with `paged`.
    """
    check_speculation(speculation)
    if speculation is None:
        return runner
    speculation.pace = None  # an earlier engine's
    return speculation.runner(runner, paged)


def why_it_never_fits(
    request: Request, pool: BlockPool, num_free: int | None = None
) -> str | None:
    """Why the pool can never hold this request at its longest, or None if it can.

    `num_free`: the number of blocks that it can get; by default, of free blocks.
    """
    worst = request.blocks_at_most(pool.block_size)
    if num_free is None and worst > pool.num_free:
        collect_lost(pool)
    num_free = pool.num_free if num_free is None else num_free
    if worst <= num_free and request.num_parallel <= _MOST_SEQUENCES:
        return None
    if worst <= num_free:
        return (
            f"{request.num_parallel:,} samples or beams are more than a request may "
            f"have: {_MOST_SEQUENCES:,}"
        )
    count = request.num_parallel
    others = "free the blocks of others, " * (worst <= pool.num_blocks)
    who = f"{count} sequences" if count > 1 else "a sequence"
    return (
        f"{who} of {len(request.prompt)} prompt tokens and {request.max_new_tokens} "
        f"new ones may need {worst} blocks, but {num_free} are free of "
        f"{pool.num_blocks}; {others}raise num_blocks, or "
        f"{_what_fits(request, num_free, pool.block_size)}"
    )


def _what_fits(request: Request, num_free: int, block_size: int) -> str:
    """What to ask for instead, so that it fits into the free blocks."""

    def fits(new_tokens: int, count: int) -> bool:
        less = Request(request.prompt, new_tokens, num_parallel=count)
        return less.blocks_at_most(block_size) <= num_free

    new_tokens = request.max_new_tokens
    count = request.num_parallel
    fewer = "the number of beams or samples" * (count > 1)
    if fits(1, count) and fewer and fits(new_tokens, 1):
        return f"lower max_new_tokens or {fewer}"
    if fits(1, count):
        return "lower max_new_tokens"
    if fewer and fits(new_tokens, 1):
        return f"lower {fewer}"
    if fewer and fits(1, 1):
        return f"lower max_new_tokens and {fewer}"
    return "shorten the prompt"


def _check_prompt(index: int, prompt: list[int], vocabulary: int, remedy: str) -> None:
    if not isinstance(prompt, list) or not set(map(type, prompt)) <= {int}:
        raise TypeError(
            f"prompt {index} must be a list of token ids (int), got {prompt!r:.60}; "
            f"pass {remedy}, or .tolist() of numpy's and torch's numbers"
        )
    if not prompt:
        raise ValueError(f"prompt {index} is empty; give at least one token")
    if min(prompt) < 0 or max(prompt) >= vocabulary:
        raise ValueError(
            f"prompt {index} has token ids outside 0 to {vocabulary - 1}; is the "
            "tokenizer that of this model?"
        )


def _values(
    value: object, kind: type, name: str, count: int, optional: bool = False
) -> list:
    """A value for each prompt, from a value for all or from a list of values.

    None means "not given", except for a salt: with None by mistake, a prompt must not
    share blocks with all others. In a list None may stand only if it is `optional`.
    """

    def fits(item: object) -> bool:  # True is an int to Python, but no seed
        if item is None:
            return optional
        return isinstance(item, kind) and not isinstance(item, bool)

    if fits(value) or (value is None and kind is not bytes):
        return [value] * count
    if not isinstance(value, Sequence) or not all(map(fits, value)):
        raise TypeError(
            f"{name} must be {_WANTED[kind]}, or a list with one for each prompt; "
            f"got {value!r:.60}"
        )
    if len(value) != count:
        raise ValueError(
            f"{count} prompt{'s' * (count != 1)}, but {len(value)} values of {name}"
        )
    return list(value)


def _counts(value: Any, name: str, count: int, vocabulary: int) -> list[int | None]:
    """How many of the likeliest tokens each prompt asks for; 0: the token alone."""
    counts = _values(value, int, name, count, optional=True)
    if wrong := [number for number in counts if number is not None and number < 0]:
        raise ValueError(f"{name} must be 0 or more, got {wrong[0]}")
    if wrong := [number for number in counts if number and number > vocabulary]:
        raise ValueError(
            f"{name} must be at most {vocabulary}, the number of tokens; got {wrong[0]}"
        )
    return counts


def _processors(value: Any, count: int) -> list[LogitsProcessorList]:
    """The processors of each prompt, from a list for all or from a list of lists."""
    is_list = isinstance(value, list | tuple) and value
    if not is_list or not all(isinstance(item, list | tuple | None) for item in value):
        return [check_processors(value)] * count
    if len(value) != count:
        raise ValueError(
            f"{count} prompt{'s' * (count != 1)}, but {len(value)} lists in "
            "logits_processor"
        )
    return [check_processors(processors) for processors in value]


def _generator(seed: int | None, paged: PagedModel) -> torch.Generator | None:
    """A generator for one request; None without a seed."""
    if seed is None:
        return None
    if not -(2**63) <= seed < 2**64:  # what torch takes
        raise ValueError(f"seed must lie from -2**63 to 2**64 - 1, got {seed}")
    return torch.Generator(paged.device).manual_seed(seed)
