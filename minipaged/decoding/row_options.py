"""Appendix A: what a request asks of a draw, as four numbers that a GPU can read.

Rows whose requests ask for different things can then be drawn in the same launches.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from transformers import LogitsProcessorList
from transformers.generation import logits_process as processors

_SHARPEST = 3e38  # about the greatest float32


@dataclass(frozen=True)
class RowOptions:
    """The numbers of a row; those left out are off.

    sharpness: 1 / temperature. Greedy is its limit: infinite. top_k: 0 keeps all.
    """

    sharpness: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0

    @cached_property
    def is_greedy(self) -> bool:
        """Is the likeliest token taken, and no random number needed?"""
        return self.sharpness == float("inf")

    @cached_property
    def has_cutoff(self) -> bool:
        """Are there logits, too low for top-k, top-p or min-p, that are left out?"""
        return self.top_k > 0 or self.top_p < 1 or self.min_p > 0

    @cached_property
    def packed(self) -> bytes:
        """The four as float32, side by side. Beyond 2**24 no k means anything."""
        top_k = min(self.top_k, 2**24)
        numbers = [self.sharpness, top_k, self.top_p, self.min_p]
        return np.array(numbers, dtype=np.float32).tobytes()


GREEDY = RowOptions(sharpness=float("inf"))
# The order in which HuggingFace puts them (`GenerationMixin._get_logits_processor`):
# top-p is of what top-k has left, so another order would mean something else.
_IN_ORDER = [
    (processors.TemperatureLogitsWarper, "temperature"),
    (processors.TopKLogitsWarper, "top_k"),
    (processors.TopPLogitsWarper, "top_p"),
    (processors.MinPLogitsWarper, "min_p"),
]


def row_options(chain: LogitsProcessorList, do_sample: bool) -> RowOptions | None:
    """What these processors ask of a row; None if only they themselves can say it.

    That is so for all others than temperature, top-k, top-p and min-p, and for these in
    another order, or with settings that HuggingFace does not use for one sequence.
    """
    if not do_sample:
        return None if chain else GREEDY
    found, left = {}, iter(_IN_ORDER)
    for each in chain:
        # What was passed over does not come again, so each is there once at most.
        name = next((name for kind, name in left if type(each) is kind), None)
        if name is None or getattr(each, "min_tokens_to_keep", 1) != 1:
            return None
        if getattr(each, "filter_value", -float("inf")) != -float("inf"):
            return None
        found[name] = getattr(each, name)
    temperature = found.pop("temperature", 1.0)
    return RowOptions(min(1 / temperature, _SHARPEST), **found)
