"""CUDA graphs without a GPU: a replay computes again, from and to the same places."""

from minipaged.decoding.draft_model import DraftingRunner
from minipaged.engine.ahead import StepsAhead
from minipaged.engine.limits import sizes_of_steps
from minipaged.lab.tour.tape import padded_attention
from minipaged.model.graphs import Graph, GraphRunner


class Replayed:
    """In place of a torch.cuda.CUDAGraph: its launches are made anew."""

    def __init__(self, runner, size):
        self.runner, self.size, self.count = runner, size, 0

    def replay(self):
        self.count += 1
        batch = self.runner._forward(self.size)
        self.runner._graphs[self.size].batch.tokens.copy_(batch.tokens)


def capture_without_a_gpu(runner):
    """In place of GraphRunner._capture_all."""
    for size in runner._sizes:
        runner._fixed.send(size)
        runner._graphs[size] = Graph(Replayed(runner, size), runner._forward(size))


class ReplayingRunner(GraphRunner):
    """A GraphRunner whose graphs are of that kind, and small."""

    _prompt_tokens = 16, 40
    _guess_tokens = 8, 16, 40, 192

    _capture_all = capture_without_a_gpu

    @property
    def num_replays(self):
        """Of all graphs together."""
        return sum(each.graph.count for each in self._graphs.values())


replayable = padded_attention


def steps_ahead(engine):
    """The engine, one step ahead, as it is on a GPU."""
    engine._steps = StepsAhead(engine._runner, engine.scheduler)
    return engine


def replaying(engine):
    """The engine with graphs, as it is on a GPU; its attention must be `replayable`."""
    scheduler, speculation = engine.scheduler, engine._configs._speculation
    limits = scheduler.max_sequences, scheduler.max_tokens
    sizes = sizes_of_steps(*limits, speculation)
    runner = ReplayingRunner(engine.paged, *sizes)
    if isinstance(engine._runner, DraftingRunner):
        engine._runner._runner = runner
        draft = speculation.paged
        if draft.attention.attend is replayable.attend:
            engine._runner._own = ReplayingRunner(draft, *sizes)
    else:
        engine._runner = runner
    return steps_ahead(engine)
