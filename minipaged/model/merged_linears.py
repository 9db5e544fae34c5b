"""Appendix A: linear layers that read the same input, computed as a single one."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from transformers import PreTrainedModel

from minipaged.model.bridge import attending


class Together(nn.Module):
    """Linear layers as one: [out of the first + out of the second + ..., in].

    Their own weights become views of its weight. No number changes: the model that they
    belong to computes, moves and is saved as before.
    """

    def __init__(self, layers: list[nn.Linear]):
        """Takes memory for these layers once more, until their old weights are gone."""
        super().__init__()
        self.sizes = [layer.out_features for layer in layers]
        self.weight = _joined([layer.weight for layer in layers])
        biases = [layer.bias for layer in layers]
        self.bias = None if biases[0] is None else _joined(biases)
        self.input: Tensor | None = None
        self.outputs: tuple[Tensor, ...] = ()


class Part(nn.Module):
    """Stands for one of the layers: the first that is called computes for all."""

    def __init__(self, together: Together, index: int):
        """The layer number `index` of these."""
        super().__init__()
        self.together, self.index = together, index

    def forward(self, x: Tensor) -> Tensor:
        """[..., in] -> [..., out of this layer]."""
        whole = self.together
        if whole.input is not x:
            out = linear(x, whole.weight, whole.bias)
            whole.input, whole.outputs = x, out.split(whole.sizes, dim=-1)
        mine = whole.outputs[self.index]
        if self.index == len(whole.sizes) - 1:
            whole.input, whole.outputs = None, ()
        return mine


def merge_linears(twin: PreTrainedModel) -> int:
    """Let a twin compute linear layers with a common input as one: Q, K and V, say.

    Which those are is seen in a forward of one token. A large multiplication is quicker
    than several small ones. Returns how many layers were put together. Done twice, it
    changes nothing. Memory: at its peak, once more the largest set of such layers.

    The weights move to other addresses, those of the user's model too. There they are
    the same parameters, with the same names, numbers, types and shapes. Whoever holds
    an old address, such as a CUDA graph of the user's, must be made anew.
    """
    groups = list(_with_common_inputs(twin))
    for layers in groups:
        together = Together([module for _, module in layers])
        for index, (name, _) in enumerate(layers):
            twin.set_submodule(name, Part(together, index))
    return sum(map(len, groups))


def _with_common_inputs(
    twin: PreTrainedModel,
) -> Iterator[list[tuple[str, nn.Linear]]]:
    """Layers, by name, that a token's forward calls once and with the same tensor."""
    layers = {
        name: module
        for name, module in twin.named_modules()
        if type(module) is nn.Linear and type(module.weight.data) is Tensor
    }
    calls: list[tuple[str, Tensor]] = []  # holds the inputs, so that none comes twice
    with ExitStack() as stack:
        for name, module in layers.items():

            def note(_module: nn.Module, inputs: tuple, name: str = name) -> None:
                calls.append((name, inputs[0]))

            stack.callback(module.register_forward_pre_hook(note).remove)
        token = torch.zeros(1, 1, dtype=torch.int64, device=twin.device)
        with torch.inference_mode(), attending(attends_to_nothing):
            twin(input_ids=token, position_ids=token, use_cache=False)
    times = Counter(name for name, _ in calls)
    groups: dict[tuple, list[tuple[str, nn.Linear]]] = {}
    for name, given in calls:
        layer = layers[name]
        if times[name] == 1:
            key = id(given), layer.weight.dtype, layer.bias is None
            groups.setdefault(key, []).append((name, layer))
    yield from (group for group in groups.values() if len(group) > 1)


def attends_to_nothing(
    _number: int, q: Tensor, _k: Tensor, v: Tensor, _masking: object
) -> Tensor:
    """An attention for forwards whose result nobody looks at."""
    return q.new_zeros(*q.shape[:2], v.shape[2])


def _joined(parts: list[nn.Parameter]) -> nn.Parameter:
    """One parameter, of which these become views, with the numbers that they have."""
    with torch.inference_mode(False):  # else the user's model could not be trained
        whole = torch.cat([part.data for part in parts])
        for part, view in zip(parts, whole.split([len(p) for p in parts]), strict=True):
            part.data = view
        return nn.Parameter(whole, requires_grad=False)
