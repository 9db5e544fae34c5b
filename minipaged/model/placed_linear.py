"""Appendix D: the last linear layer writes logits to the place that graphs share."""

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from transformers import PreTrainedModel


class PlacedLinear(nn.Module):
    """A linear layer without a bias, which can write its results to a given place.

    Attributes: place, [most rows, out], or None. More rows get a tensor of their own.
    """

    def __init__(self, layer: nn.Linear):
        """The same weight, and no place so far."""
        super().__init__()
        self.weight = layer.weight
        self.place: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        """[..., in] -> [..., out]."""
        rows = x.flatten(0, -2)
        if self.place is None or len(rows) > len(self.place):
            return linear(x, self.weight)
        out = self.place[: len(rows)]
        torch.mm(rows, self.weight.t(), out=out)
        return out.view(*x.shape[:-1], -1)


def place_logits(twin: PreTrainedModel) -> nn.Module | None:
    """Let the twin's last layer take a place; None if it is no plain linear layer.

    A layer that gathers logits from several ranks takes a place already (appendix H).
    """
    layer = twin.get_output_embeddings()
    if hasattr(layer, "place"):
        return layer
    if type(layer) is not nn.Linear or layer.bias is not None:
        return None
    placed = PlacedLinear(layer)
    twin.set_output_embeddings(placed)
    return placed
