"""Lesson 2: the model that was wrapped: is it still what it was? (the border)"""

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from operator import attrgetter, is_

import torch
from torch import Tensor
from transformers import PreTrainedModel

from minipaged.model.checksum import Checksum
from minipaged.model.settings import Setting, Settings

_WRAP_AGAIN = "wrap it again: mp.PagedModel(model)"


class Original:
    """The model that was wrapped, to be asked whether it has changed since.

    There are three questions, of different cost. `refuse_if_changed` is for each step:
    are modules and weights the same objects, at the same addresses, and has torch
    counted no writes to them? `refuse_if_altered` is for each request: are modules set
    as they were? torch does not count all writes, not those through `.data`. They are
    found by `refuse_if_written_to`, which reads all weights.

    Two things are not compared. Objects beside the weights may hold numbers, such as
    the scales of bitsandbytes. And the code of classes and hooks, with what it looks
    at, is shared: if it changes, our text changes too, but blocks that lie in a prefix
    cache stay as they were.
    """

    def __init__(self, model: PreTrainedModel):
        """Note its modules, what they are set to, and the weights that they hold."""
        self._model, self._device_type = model, model.device.type
        self._settings = Settings(model)
        self.note_weights()

    def note_weights(self) -> None:
        """Note the weights; once more if they were moved, and rightly so."""
        modules = list(self._model.modules())
        parts = [d for m in modules for d in (m._modules, m._parameters)]
        self._parts = [part.values() for part in parts]  # views: they show what is now
        self._buffers = [(m._buffers, name) for m, name in _lasting_buffers(modules)]
        # Held, so that no other object can come to lie at their addresses.
        self._held = list(self._holds())
        buffers = [holder[name] for holder, name in self._buffers]
        weights = [*self._model.parameters(), *buffers]
        self._weights = list(chain.from_iterable(map(_plain, weights)))
        # Tensors of inference mode count no writes.
        self._counted = [each for each in self._weights if not each.is_inference()]
        self._seen = self._look()
        self._checksum = Checksum(self._weights)
        self._numbers = self._checksum.now()

    def refuse_if_changed(self) -> None:
        """Raise ValueError if weights or modules were replaced, moved or written to."""
        refuse_autocast(self._device_type)
        if not all(map(is_, self._holds(), self._held)) or self._look() != self._seen:
            raise ValueError(
                "the model's weights were replaced, moved or changed since it was "
                f"wrapped; {_WRAP_AGAIN}"
            )

    def refuse_if_altered(self) -> None:
        """Raise ValueError if hooks, adapters, flags or configs have changed."""
        if self._settings.have_changed():
            changes = islice(self._settings.changes(), 3)
            names = ", ".join(f"{path or 'model'}.{name}" for _, path, name in changes)
            raise ValueError(
                f"the model was altered since it was wrapped ({names}): undo that, or "
                f"{_WRAP_AGAIN}"
            )

    def refuse_if_written_to(self) -> None:
        """Raise ValueError if any number of any weight has changed."""
        if self._checksum.now() != self._numbers:
            raise ValueError(
                "numbers of the model's weights were changed since it was wrapped; "
                f"{_WRAP_AGAIN}"
            )

    def overlook(self, settings: Iterable[Setting]) -> None:
        """These may change: modules keep them as they run."""
        self._settings.overlook(settings)

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


def refuse_autocast(device_type: str) -> None:
    """Raise ValueError within torch.autocast, where a model's text is different."""
    if torch.is_autocast_enabled(device_type):
        raise ValueError(
            "torch.autocast is on, and a model computes in one type here: leave it; "
            "for half precision, convert the model before you wrap it: "
            "model.to(torch.bfloat16)"
        )


def _plain(tensor: Tensor) -> Iterator[Tensor]:
    """What holds a tensor's numbers: itself, or the parts of a composed one.

    Such as a DTensor's local shard, or what torchao makes of a quantised weight.
    """
    if hasattr(tensor, "__tensor_flatten__"):
        names, _ = tensor.__tensor_flatten__()
        for part in (getattr(tensor, name) for name in names):
            if isinstance(part, Tensor):  # a DTensor names its mesh, too
                yield from _plain(part)
    else:
        yield tensor


def _lasting_buffers(
    modules: list[torch.nn.Module],
) -> Iterator[tuple[torch.nn.Module, str]]:
    """All buffers but those that HuggingFace computes anew as sequences grow."""
    for module in modules:
        grows = "dynamic" in str(getattr(module, "rope_type", ""))
        for name, buffer in module._buffers.items():
            stays = name not in module._non_persistent_buffers_set or not grows
            if buffer is not None and stays:
                yield module, name
