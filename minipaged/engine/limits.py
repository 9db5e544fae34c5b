"""Appendix A: arguments of an Engine that `generate` does not have (the border)."""

from collections.abc import Iterable
from math import inf
from numbers import Real
from typing import TYPE_CHECKING, Any

from transformers import PreTrainedTokenizerBase

from minipaged.errors import require_counts
from minipaged.model.paged_model import PagedModel
from minipaged.scheduling.clock import Clock
from minipaged.scheduling.observer import check_observers
from minipaged.scheduling.request import Request

if TYPE_CHECKING:
    from minipaged.decoding.speculation import Speculation
    from minipaged.memory.prefix_cache import PrefixCache
    from minipaged.scheduling.preemption import PreemptingScheduler


# Requests that an engine starts in a step at most. To start a request takes the CPU
# about as long as to decode for two. If a step computes up to 2,048 tokens, only
# prompts of fewer than 32 tokens meet this limit, or those that are found in a cache.
MAX_STARTS = 64


def tokens_of_sequence(speculation: "Speculation | None") -> int:
    """How many tokens a step computes for a sequence: one, and the guesses after it."""
    return 1 if speculation is None else speculation.tokens_of_sequence


def limits_that_fit(
    max_tokens: int | None, max_sequences: int | None, each: int = 1
) -> tuple[int, int]:
    """Return both limits. A limit that is not given is computed from the other.

    `each`: the tokens that a step computes for a sequence. For example: max_tokens=128
    gives 128 and 128; max_sequences=4096 gives 4096 and 4096; without both, they are
    2048 and 256, and with each=11 they are 2816 and 256.
    """
    limits = {"max_tokens": max_tokens, "max_sequences": max_sequences}
    given = {name: limit for name, limit in limits.items() if limit is not None}
    require_counts(**given)
    if max_tokens is None:
        max_tokens = max(2048, (max_sequences or 256) * each)
    if max_sequences is None:
        max_sequences = min(256, max(1, max_tokens // each))
    if each > 1 and max_sequences * each > max_tokens:
        raise ValueError(
            f"max_sequences is {max_sequences}, each with {each} tokens of a step, its "
            f"guesses included; raise max_tokens to {max_sequences * each}"
        )
    if max_sequences > max_tokens:
        raise ValueError(
            f"max_sequences is {max_sequences}, but a step computes {max_tokens} "
            "tokens at most, one of each sequence; raise max_tokens"
        )
    return max_tokens, max_sequences


def sizes_of_steps(
    max_sequences: int, max_tokens: int, speculation: "Speculation | None"
) -> tuple[int, int, int]:
    """What `make_runner` must know of the steps: sequences, tokens, and guesses.

    Forks that guess are sequences, too.
    """
    if speculation is None:
        return max_sequences, max_tokens, 0
    num_sequences = max_sequences * speculation.num_branches
    return num_sequences, max_tokens, speculation.num_tokens


def check_parts(observers: Iterable[Any], clock: Any, tokenizer: Any) -> None:
    """Raise TypeError for objects that an engine cannot use later."""
    check_observers(observers)
    if clock is not None and not isinstance(clock, Clock):
        raise TypeError(
            f"clock must be a Clock (minipaged.scheduling.clock), got {clock!r:.60}"
        )
    if not isinstance(tokenizer, PreTrainedTokenizerBase | None):
        raise TypeError(
            f"tokenizer must be one of transformers, got {tokenizer!r:.60}; mp.load "
            "returns it beside the model"
        )


def check_arrival(arrival: Any) -> None:
    """Raise TypeError or ValueError if this is no moment in time."""
    if isinstance(arrival, bool) or not isinstance(arrival, Real):
        raise TypeError(
            f"arrival must be in seconds on the engine's clock, got {arrival!r:.60}"
        )
    if not -inf < arrival < 1e300:
        raise ValueError(f"arrival must be finite, got {arrival}: it would never come")


def check_swapping(preemption: str, swap_blocks: int | None) -> None:
    """Raise ValueError for an unknown way to preempt, or a wrong swap space."""
    if preemption not in ("recompute", "swap"):
        raise ValueError(
            f'preemption must be "recompute" or "swap", got {preemption!r}'
        )
    if swap_blocks is not None:
        require_counts(swap_blocks=swap_blocks)
        if preemption != "swap":
            raise ValueError('swap_blocks is for preemption="swap"')


def make_scheduler(
    paged: PagedModel,
    prefix_cache: "PrefixCache | None",
    preemption: str,
    swap_blocks: int | None,
    speculation: "Speculation | None" = None,
    **limits: Any,
) -> "PreemptingScheduler":
    """An engine's scheduler, with a swap space of so many blocks if it swaps."""
    from minipaged.scheduling.preemption import PreemptingScheduler  # appendix B

    swap_space = None
    if preemption == "swap":
        from minipaged.memory.swap_space import SwapSpace

        make = SwapSpace if speculation is None else speculation.swap_space
        swap_space = make(paged.cache, swap_blocks or paged.pool.num_blocks)
    limits = {"max_starts": MAX_STARTS} | limits
    return PreemptingScheduler(
        paged.pool, prefix_cache, swap_space=swap_space, **limits
    )


def check_num_parallel(request: Request, max_tokens: int) -> None:
    """Raise ValueError if a request has more sequences than a step may compute."""
    if request.num_parallel > max_tokens:
        raise ValueError(
            f"{request.num_parallel} samples or beams compute together, but max_tokens "
            f"is {max_tokens}; raise it"
        )
