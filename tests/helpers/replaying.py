"""CUDA graphs without a GPU: a replay computes again, from and to the same places."""

from minipaged.attention.backend import Backend
from minipaged.attention.gathered import attend_gathered
from minipaged.engine.ahead import StepsAhead
from minipaged.memory.kv_cache import KVCache
from minipaged.model.graphs import ROWS, Graph, GraphRunner


class Replayed:
    """In place of a torch.cuda.CUDAGraph: its launches are made anew."""

    def __init__(self, runner, rows):
        self.runner, self.rows, self.count = runner, rows, 0

    def replay(self):
        self.count += 1
        batch = self.runner._forward(self.rows)
        self.runner._graphs[self.rows].batch.tokens.copy_(batch.tokens)


class ReplayingRunner(GraphRunner):
    """A GraphRunner whose graphs are of that kind."""

    def _capture_all(self):
        for rows in range(self._max_rows, 0, -ROWS):
            self._send(rows)
            self._graphs[rows] = Graph(Replayed(self, rows), self._forward(rows))

    @property
    def num_replays(self):
        """Of all graphs together."""
        return sum(each.graph.count for each in self._graphs.values())


class SkippingCache(KVCache):
    """As the kernels' cache: a slot of -1 stores nothing."""

    def write(self, layer, slots, keys, values):
        real = slots >= 0
        super().write(layer, slots[real], keys[real], values[real])


# What graphs need of an attention, and quick without a GPU.
replayable = Backend(attend_gathered, SkippingCache)


def steps_ahead(engine):
    """The engine, one step ahead, as it is on a GPU."""
    engine._steps = StepsAhead(engine._runner, engine.scheduler)
    return engine


def replaying(engine):
    """The engine with graphs, as it is on a GPU; its attention must be `replayable`."""
    engine._runner = ReplayingRunner(engine.paged, engine.scheduler.max_sequences)
    return steps_ahead(engine)
