"""Appendix D: what a request asks of a draw, as four numbers that a GPU can read.

Rows whose requests ask for different things can then be drawn in the same launches.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from transformers import LogitsProcessorList
from transformers.generation import logits_process as processors

_SHARPEST = 3e38  # about the greatest float32


@dataclass(frozen=True)
class RowOptions:
    """The numbers of a row; by default, all logits stay as they are.

    sharpness: 1 / temperature; greedy is the limit, infinity. top_k: 0 keeps all. For
    example: temperature 0.5 and top_k 40 are RowOptions(sharpness=2.0, top_k=40).
    """

    sharpness: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0

    @cached_property
    def is_greedy(self) -> bool:
        """Is the likeliest token taken, without a random number?"""
        return self.sharpness == float("inf")

    @cached_property
    def has_cutoff(self) -> bool:
        """Does top-k, top-p or min-p leave out low logits?"""
        return self.top_k > 0 or self.top_p < 1 or self.min_p > 0

    @cached_property
    def packed(self) -> bytes:
        """The four as float32, side by side. A k beyond 2**24 keeps all anyway."""
        top_k = min(self.top_k, 2**24)
        numbers = [self.sharpness, top_k, self.top_p, self.min_p]
        return np.array(numbers, dtype=np.float32).tobytes()


GREEDY = RowOptions(sharpness=float("inf"))
# HuggingFace's order (`GenerationMixin._get_logits_processor`). Top-p looks at the
# logits that top-k has kept, so another order would mean something else.
_IN_ORDER = [
    (processors.TemperatureLogitsWarper, "temperature"),
    (processors.TopKLogitsWarper, "top_k"),
    (processors.TopPLogitsWarper, "top_p"),
    (processors.MinPLogitsWarper, "min_p"),
]


def row_options(chain: LogitsProcessorList, do_sample: bool) -> RowOptions | None:
    """The numbers that do what these processors do; None if there are no such numbers.

    There are none for processors other than temperature, top-k, top-p and min-p, for
    another order, and for settings that HuggingFace does not use for one sequence.
    """
    if not do_sample:
        return None if chain else GREEDY
    found = {}
    kinds = iter(_IN_ORDER)
    for processor in chain:
        # The iterator never goes back, so each kind is found once at most.
        name = next((name for kind, name in kinds if type(processor) is kind), None)
        if name is None or getattr(processor, "min_tokens_to_keep", 1) != 1:
            return None
        if getattr(processor, "filter_value", -float("inf")) != -float("inf"):
            return None
        found[name] = getattr(processor, name)
    temperature = found.pop("temperature", 1.0)
    return _known(min(1 / temperature, _SHARPEST), **found)


@lru_cache(maxsize=256)
def _known(*numbers: float, **others: float) -> RowOptions:
    """One object for equal numbers: a step looks at it once for all of its rows."""
    return RowOptions(*numbers, **others)
