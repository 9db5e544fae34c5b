"""Lesson 2: who may watch a run of `generate`, and what is told when."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence as Rows

    from torch import Tensor

    from minipaged.decoding.request import Request
    from minipaged.decoding.sequence import Sequence
    from minipaged.memory.prefix_cache import PrefixCache
    from minipaged.model.ragged_batch import RaggedBatch


class Observer:
    """Is told what happens on a PagedModel while it is among its `observers`.

    Override what you want to see; by default nothing is done. An observer looks and
    changes nothing. What it raises ends the run, as any exception does.
    """

    def started(self, prefix_cache: "PrefixCache | None") -> None:
        """A run of `generate` begins, over this prefix cache, if any."""

    def admitted(self, request: "Request") -> None:
        """The request has its first sequence, with what was cached of its prompt."""

    def planned(self, requests: "Rows[Request]", batch: "RaggedBatch") -> None:
        """Tables have grown for this batch; it is computed next. `requests`: all."""

    def computed(self, batch: "RaggedBatch", logits: "Tensor") -> None:
        """K and V of the batch are in the cache, and these are its logits."""

    def chosen(self, requests: "Rows[Request]") -> None:
        """Tokens were appended, sequences forked and freed: the step of all is over."""

    def forked(self, parent: "Sequence", child: "Sequence") -> None:
        """The child shares all of the parent's blocks."""
