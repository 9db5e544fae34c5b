"""Lesson 2: a model's twin, which has the same weights and nothing else in common."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from operator import attrgetter, is_

import torch
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel

from minipaged.errors import UnsupportedModel

# What matters only from some distance on. A probe is a few tokens long, so there it is
# made small.
_DISTANCES = ("sliding_window", "floor_scale")


def make_twin(model: PreTrainedModel) -> PreTrainedModel:
    """A second model over the same weights, with modules and configs of its own.

    We change how it attends, and what the user's model does stays as it was: also in
    other threads, and also if we are interrupted. It costs milliseconds, and memory for
    the modules alone.
    """
    weights = {id(tensor): tensor for tensor in _tensors_of(model)}
    try:
        return copy.deepcopy(model, memo=weights)  # what it knows already is not copied
    except Exception as error:
        raise UnsupportedModel(
            f"{type(model).__name__} cannot be copied without its weights: {error}"
        ) from error


def _tensors_of(model: PreTrainedModel) -> Iterator[torch.Tensor]:
    """Weights, buffers, and tensors that modules keep beside them."""
    yield from chain(model.parameters(), model.buffers())
    for module in model.modules():
        yield from (x for x in vars(module).values() if isinstance(x, torch.Tensor))


def configs_of(model: PreTrainedModel) -> list[PreTrainedConfig]:
    """All config objects that the model's modules look at, each once."""
    configs = (getattr(module, "config", None) for module in model.modules())
    return list({id(c): c for c in configs if c is not None}.values())


@contextmanager
def everything_near(twin: PreTrainedModel, to: int = 3) -> Iterator[None]:
    """Within this block, sliding windows and the like are `to` tokens wide.

    Only ever done to a twin.
    """
    places = [
        (owner, name, value)
        for owner in (*configs_of(twin), *twin.modules())
        for name in _DISTANCES
        if type(value := getattr(owner, name, None)) in (int, float)
    ]
    try:
        for owner, name, _ in places:
            setattr(owner, name, to)
        yield
    finally:
        for owner, name, value in places:
            setattr(owner, name, value)


class Original:
    """The model that was wrapped, to be asked whether it still has the same weights.

    Configs, hooks and plain attributes are not looked at: the twin has those that there
    were when it was made.
    """

    def __init__(self, model: PreTrainedModel):
        """Note its modules, and the weights that they hold."""
        modules = list(model.modules())
        parts = [d for m in modules for d in (m._modules, m._parameters)]
        self._parts = [part.values() for part in parts]  # views: they show what is now
        self._buffers = [(m._buffers, name) for m, name in _stored_buffers(modules)]
        # Held, so that no other object can come to lie at their addresses.
        self._held = list(self._holds())
        buffers = [holder[name] for holder, name in self._buffers]
        self._weights = [*model.parameters(), *buffers]
        # Tensors of inference mode count no writes.
        self._counted = [each for each in self._weights if not each.is_inference()]
        self._seen = self._look()
        # A few numbers of each weight, as views: they show what was written in place.
        # (Quantised weights have no such views.)
        self._samples = [
            weight.detach()[
                tuple(slice(None, None, max(1, n // 3)) for n in weight.shape)
            ]
            for weight in self._weights
            if type(weight.data) is torch.Tensor
        ]
        self._numbers = self._sample()

    def refuse_if_changed(self, thoroughly: bool = False) -> None:
        """Raise ValueError if weights were replaced, moved or written to since.

        thoroughly: look at some of the numbers too, for not every way to change them
        leaves another trace. It costs more, and waits for the device.
        """
        changed = not all(map(is_, self._holds(), self._held))
        changed = changed or self._look() != self._seen
        if thoroughly and not changed:
            changed = not torch.equal(self._sample(), self._numbers)
        if changed:
            raise ValueError(
                "the model's weights were replaced, moved or changed since it was "
                "wrapped; wrap it again: mp.PagedModel(model)"
            )

    # Asked in every step, of some thousand objects: so without a line for each.

    def _holds(self) -> Iterator[object]:
        """The modules and weights that there are now, in an order that stays."""
        buffers = (holder.get(name) for holder, name in self._buffers)
        return chain(chain.from_iterable(self._parts), buffers)

    def _look(self) -> tuple[int, int, list[int]]:
        """How many there are, how often all were written to, and where they lie."""
        written = sum(map(attrgetter("_version"), self._counted))
        places = list(map(Tensor.data_ptr, self._weights))
        return sum(map(len, self._parts)), written, places

    def _sample(self) -> torch.Tensor:
        return torch.cat([sample.flatten().float() for sample in self._samples])


def _stored_buffers(
    modules: list[torch.nn.Module],
) -> Iterator[tuple[torch.nn.Module, str]]:
    """Buffers that hold weights, and not what a module computes for itself."""
    for module in modules:
        for name, buffer in module._buffers.items():
            if buffer is not None and name not in module._non_persistent_buffers_set:
                yield module, name
