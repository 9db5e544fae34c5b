"""HuggingFace's own model, but that its cache rounds K and V to 8 bits."""

from copy import deepcopy
from types import MethodType

from transformers import DynamicCache

from minipaged.memory.eight_bits import from_eight_bits, to_eight_bits
from minipaged.model.keywords import cache_argument


class RoundedCache(DynamicCache):
    """K and V [1, heads, T, dim] are rounded as they come; `scales`: of each layer."""

    def __init__(self, scales):
        super().__init__()
        self.scales = scales

    def update(self, keys, values, layer, *more, **options):
        rounded = [
            new if scale is None else _rounded(new, scale)
            for new, scale in zip((keys, values), self.scales[layer], strict=True)
        ]
        return super().update(*rounded, layer, *more, **options)


def _rounded(new, scale):
    stored = to_eight_bits(new.transpose(1, 2), scale).transpose(1, 2)
    return from_eight_bits(stored, scale, new.dtype)


def with_rounded_cache(model, scales):
    """A copy whose `generate` uses such a cache."""
    model = deepcopy(model)

    def generate(self, *arguments, **options):
        cache = cache_argument(RoundedCache(scales))
        return type(self).generate(self, *arguments, **options, **cache)

    model.generate = MethodType(generate, model)
    return model
