"""Lesson 2: has the model changed since it was wrapped? (the border)"""

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
    """The wrapped model as it was, to find out whether it has changed since.

    There are three questions, of different cost. `refuse_if_changed` is for each step:
    are modules and weights the same objects, at the same addresses, and has torch
    counted no writes to them? `refuse_if_altered` is for each request: do modules have
    the same settings? `refuse_if_written_to` reads all weights, because torch does not
    count writes through `.data`.

    Two things are not compared. Objects beside the weights may hold numbers, such as
    the scales of bitsandbytes. And the code of classes and hooks is shared with the
    user's model, as are the objects that it reads: if these change, our text changes
    too, but blocks in a prefix cache stay as they were.
    """

    def __init__(self, model: PreTrainedModel):
        """Note its modules, their settings and their weights."""
        self._model = model
        self._device_type = model.device.type
        self._settings = Settings(model)
        self.note_weights()

    def note_weights(self) -> None:
        """Note the weights; to be called again after we have moved them."""
        modules = list(self._model.modules())
        parts = [part for m in modules for part in (m._modules, m._parameters)]
        self._parts = [part.values() for part in parts if part]  # views show changes
        self._empty = [part for part in parts if not part]  # about half of them
        self._buffers = [(m._buffers, name) for m, name in _lasting_buffers(modules)]
        # They are held, so that no other object can take their addresses.
        self._held = list(self._holds())
        buffers = [holder[name] for holder, name in self._buffers]
        weights = [*self._model.parameters(), *buffers]
        self._weights = list(chain.from_iterable(map(_plain_tensors, weights)))
        # Tensors of inference mode count no writes.
        self._counted = [x for x in self._weights if not x.is_inference()]
        self._seen = self._look()
        self._checksum = Checksum(self._weights)
        self._numbers = self._checksum.now()

    def refuse_if_changed(self) -> None:
        """Raise ValueError if weights or modules were replaced, moved or written to."""
        refuse_autocast(self._device_type)
        if (
            not all(map(is_, self._holds(), self._held))
            or any(self._empty)
            or self._look() != self._seen
        ):
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
        """Allow changes of these settings: modules write to them as they run."""
        self._settings.overlook(settings)

    # Every step calls these for some thousand objects: no line of Python runs for each.

    def _holds(self) -> Iterator[object]:
        """The present modules and weights, always in the same order."""
        buffers = (holder.get(name) for holder, name in self._buffers)
        return chain(chain.from_iterable(self._parts), buffers)

    def _look(self) -> tuple[int, int, list[int]]:
        """How many there are, how often all were written to, and their addresses."""
        written = sum(map(attrgetter("_version"), self._counted))
        addresses = list(map(Tensor.data_ptr, self._weights))
        return sum(map(len, self._parts)), written, addresses


def refuse_autocast(device_type: str) -> None:
    """Raise ValueError within torch.autocast, where a model's text is different."""
    if torch.is_autocast_enabled(device_type):
        raise ValueError(
            "torch.autocast is on, and a model computes in one type here: leave it; "
            "for half precision, convert the model before you wrap it: "
            "model.to(torch.bfloat16)"
        )


def _plain_tensors(tensor: Tensor) -> Iterator[Tensor]:
    """The tensors that hold a tensor's numbers: itself, or the parts of a composed one.

    A DTensor's part is its local shard; torchao's quantised weights have several parts.
    """
    if hasattr(tensor, "__tensor_flatten__"):
        names, _ = tensor.__tensor_flatten__()
        for part in (getattr(tensor, name) for name in names):
            if isinstance(part, Tensor):  # a DTensor names its mesh, too
                yield from _plain_tensors(part)
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
