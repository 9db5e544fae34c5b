"""Appendix D: linear layers that read the same input, computed as a single one."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from transformers import PreTrainedModel

from minipaged.model.bridge import attending


class MergedLinear(nn.Module):
    """Linear layers in one: its weight is [out of the first + of the second + ..., in].

    The weights of the layers become views of it. No number changes: the model of these
    layers computes, moves and is saved as before.
    """

    def __init__(self, layers: list[nn.Linear]):
        """Join them. They take twice the memory until the old weights are freed."""
        super().__init__()
        self.sizes = [layer.out_features for layer in layers]
        self.weight = _joined([layer.weight for layer in layers])
        biases = [layer.bias for layer in layers]
        self.bias = None if biases[0] is None else _joined(biases)
        self.input: Tensor | None = None
        self.outputs: tuple[Tensor, ...] = ()

    def forward(self, x: Tensor) -> Tensor:
        """[..., in] -> [..., out of all layers]."""
        return linear(x, self.weight, self.bias)


class LinearPart(nn.Module):
    """Takes the place of one of the layers: the first that is called computes all."""

    def __init__(self, merged: MergedLinear, index: int):
        """The part of layer number `index`."""
        super().__init__()
        self.merged = merged
        self.index = index

    def forward(self, x: Tensor) -> Tensor:
        """[..., in] -> [..., out of this layer]."""
        merged = self.merged
        if merged.input is not x:
            merged.outputs = merged(x).split(merged.sizes, dim=-1)
            merged.input = x
        out = merged.outputs[self.index]
        if self.index == len(merged.sizes) - 1:
            merged.input = None
            merged.outputs = ()
        return out


def merge_linears(twin: PreTrainedModel) -> int:
    """Let a twin compute linear layers with a common input as one: Q, K and V, say.

    A forward of one token shows which layers these are. A large multiplication is
    quicker than several small ones. Returns how many layers were merged. A second call
    changes nothing. At its peak, the largest set of such layers takes twice the memory.

    The weights move to other addresses, in the user's model too. They stay the same
    parameters, with the same names, numbers, types and shapes. But a CUDA graph of the
    user's, and whatever else holds an old address, must be made anew.
    """
    groups = list(_with_common_inputs(twin))
    for layers in groups:
        merged = MergedLinear([module for _, module in layers])
        for index, (name, _) in enumerate(layers):
            twin.set_submodule(name, LinearPart(merged, index))
    return sum(map(len, groups))


def _with_common_inputs(
    twin: PreTrainedModel,
) -> Iterator[list[tuple[str, nn.Linear]]]:
    """Groups of layers that a token's forward calls once, with the same tensor."""
    layers = {
        name: module
        for name, module in twin.named_modules()
        if type(module) is nn.Linear and type(module.weight.data) is Tensor
    }
    calls: list[tuple[str, Tensor]] = []  # holds the inputs, so that ids stay theirs
    with ExitStack() as stack:
        for name, module in layers.items():

            def note(_module: nn.Module, inputs: tuple, name: str = name) -> None:
                calls.append((name, inputs[0]))

            stack.callback(module.register_forward_pre_hook(note).remove)
        token = torch.zeros(1, 1, dtype=torch.int64, device=twin.device)
        with torch.inference_mode(), attending(attends_to_nothing):
            twin(input_ids=token, position_ids=token, use_cache=False)
    num_calls = Counter(name for name, _ in calls)
    groups: dict[tuple, list[tuple[str, nn.Linear]]] = {}
    for name, tensor in calls:
        layer = layers[name]
        if num_calls[name] == 1:
            key = id(tensor), layer.weight.dtype, layer.bias is None
            groups.setdefault(key, []).append((name, layer))
    yield from (group for group in groups.values() if len(group) > 1)


def attends_to_nothing(
    _number: int, q: Tensor, _k: Tensor, v: Tensor, _masking: object
) -> Tensor:
    """An attention for forwards whose result is not used."""
    return q.new_zeros(*q.shape[:2], v.shape[2])


def _joined(parts: list[nn.Parameter]) -> nn.Parameter:
    """One parameter with the numbers of these parts, which become views of it."""
    with torch.inference_mode(False):  # else the user's model could not be trained
        whole = torch.cat([part.data for part in parts])
        for part, view in zip(parts, whole.split([len(p) for p in parts]), strict=True):
            part.data = view
        return nn.Parameter(whole, requires_grad=False)
