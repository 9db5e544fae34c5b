"""Appendix H: a twin that computes this rank's share by plain layers (section 4.6).

transformers keeps a sharded weight as a DTensor, and puts a function of its own around
each layer that has one. That function works, but it costs time in each layer, a
compiler has to look through it, and the layer cannot be merged with others. So a twin
gets plain layers, whose weights are the parts that lie on this rank. Four kinds are
exchanged, and all other modules stay as transformers has them:

- a linear layer has some of the outputs, such as the queries of this rank's heads:
  nothing has to be sent;
- it has some of the inputs: the ranks sum their results;
- it has some of the logits: each rank gets those of all others;
- an embedding has some of the tokens: the others' are zeros, and the ranks sum.
"""

import re

from torch import Tensor, nn
from torch.nn.functional import embedding
from transformers import PreTrainedModel

from minipaged.model.exchange import gather_from_ranks, sum_over_ranks
from minipaged.model.twin import is_of_huggingface

_LAYER_NUMBER = re.compile(r"\.\d+(?=\.|$)")
_OUTPUTS, _INPUTS = 0, 1  # the dimensions of a linear layer's weight


def compute_on_shares(twin: PreTrainedModel, rank: int, count: int) -> int:
    """Exchange a twin's sharded layers; the weights stay where they are.

    rank: this process's number, of so many. Returns how many layers were exchanged.
    """
    plan = twin.tp_plan or {}
    exchanged = {}
    for name, module in twin.named_modules():
        style = plan.get(_LAYER_NUMBER.sub(".*", name))
        layer = _exchanged(module, style, rank, count)
        if layer is not None:
            exchanged[name] = layer
    for name, layer in exchanged.items():
        twin.set_submodule(name, layer)
    return len(exchanged)


def _exchanged(
    module: nn.Module, style: str | None, rank: int, count: int
) -> nn.Module | None:
    """A module that computes the same; None if we know of none."""
    if not is_of_huggingface(vars(module).get("forward")):
        return None
    if type(module) is nn.Embedding and style == "embedding_rowwise":
        weight = local_part(module.weight)
        if weight is not None and len(weight) * count == module.num_embeddings:
            return SharedEmbedding(weight, rank * len(weight))
    if type(module) is not nn.Linear:
        return None
    if style == "colwise":
        return _share(module, _OUTPUTS, count)
    if style in ("colwise_gather_output", "colwise_rep"):
        share = _share(module, _OUTPUTS, count)
        return share and GatheredLinear(share)
    if style == "rowwise":
        share = _share(module, _INPUTS, count)
        return share and SummedLinear(share)
    return None


def _share(module: nn.Linear, dim: int, count: int) -> nn.Linear | None:
    """A linear layer of this rank's part of the weight, if all parts are alike."""
    weight = local_part(module.weight)
    sizes = [module.out_features, module.in_features]
    if sizes[dim] % count:
        return None
    sizes[dim] //= count
    if weight is None or list(weight.shape) != sizes:
        return None
    has_bias = module.bias is not None
    share = nn.Linear(sizes[1], sizes[0], bias=has_bias, device="meta")
    # The very tensor in the DTensor: if one is moved or written to, so is the other.
    share._parameters["weight"] = weight
    if has_bias:
        share._parameters["bias"] = local_part(module.bias)
    return share.eval()


def local_part(weight: Tensor) -> Tensor | None:
    """The tensor in a DTensor that lies on this rank; None for any other tensor."""
    if not hasattr(weight, "__tensor_flatten__"):
        return None
    names, _ = weight.__tensor_flatten__()
    parts = [getattr(weight, name) for name in names]
    parts = [part for part in parts if type(part) is Tensor]
    return parts[0] if len(parts) == 1 else None


class SummedLinear(nn.Module):
    """A linear layer of which each rank has some of the inputs; the bias is whole."""

    def __init__(self, share: nn.Linear):
        """share: the layer of this rank's inputs."""
        super().__init__()
        self.bias = share._parameters.pop("bias", None)
        share.register_parameter("bias", None)
        self.share = share

    def forward(self, x: Tensor) -> Tensor:
        """[..., in / ranks] -> [..., out], the same on all ranks."""
        out = sum_over_ranks(self.share(x))
        return out if self.bias is None else out + self.bias


class GatheredLinear(nn.Module):
    """A linear layer of which each rank has some of the outputs, and gets all.

    Attributes: place, [most rows, out], or None: where results are written.
    """

    def __init__(self, share: nn.Linear):
        """share: the layer of this rank's outputs."""
        super().__init__()
        self.share = share
        self.place: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        """[..., in] -> [..., out], the same on all ranks."""
        return gather_from_ranks(self.share(x), self.place)


class SharedEmbedding(nn.Module):
    """An embedding of which each rank has the vectors of some tokens."""

    def __init__(self, weight: Tensor, first: int):
        """weight: [tokens of this rank, dim]; first: of these tokens."""
        super().__init__()
        self._parameters["weight"] = weight
        self.first = first

    def forward(self, tokens: Tensor) -> Tensor:
        """[...] -> [..., dim], the same on all ranks."""
        at = tokens - self.first
        is_other = (at < 0) | (at >= len(self.weight))
        vectors = embedding(at.masked_fill(is_other, 0), self.weight)
        return sum_over_ranks(vectors.masked_fill(is_other[..., None], 0.0))
