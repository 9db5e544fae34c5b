"""What tests note of a run, as observers."""

from minipaged.model.paged_model import PagedModel
from minipaged.scheduling.observer import Observer


class Watcher(Observer):
    """Notes each batch of the runs to come, its logits, and the number of blocks."""

    def __init__(self, paged: PagedModel):
        self.batches, self.logits, self.held = [], [], []
        self._pool = paged.pool
        paged.observers.append(self)

    def planned(self, plan):
        self.held.append(self._pool.num_blocks - self._pool.num_free)

    def computed(self, batch, logits):
        self.batches.append(batch)
        self.logits.append(logits)

    @property
    def num_tokens(self):
        """Of each batch."""
        return [len(batch.tokens) for batch in self.batches]
