"""Appendix A: the model's own code, compiled, and its steps replayed from graphs."""

from functools import partial

import torch
from torch import Tensor

from minipaged.model.bridge import attending
from minipaged.model.graphs import ROWS, GraphRunner
from minipaged.model.inputs import RaggedBatch
from minipaged.model.merged_linears import attends_to_nothing, merge_linears
from minipaged.model.paged_model import PagedModel
from minipaged.model.runner import Run
from minipaged.progress import progress_bar


class CompiledRunner(GraphRunner):
    """As GraphRunner, but the kernels in its graphs are made by torch.compile.

    HuggingFace's code multiplies, adds and norms step by step, and every step reads and
    writes memory. The compiler makes one kernel of what follows one another. Attention
    is an operator that it leaves as it is. It compiles once, for any number of tokens,
    prompts too, and keeps what it has made on the disk: the next start is quicker.
    Linear layers with a common input are computed as one (see merge_linears).
    """

    name: Run = "compiled"

    def __init__(self, paged: PagedModel, max_sequences: int):
        """Compile, then capture; progress bars say so.

        Raises MemoryError and UnsupportedModel as GraphRunner does.
        """
        merge_linears(paged)
        self._compiled = torch.compile(paged.twin, fullgraph=True, dynamic=True)
        super().__init__(paged, max_sequences)

    def forward(self, batch: RaggedBatch) -> Tensor:
        """As `PagedModel.forward`, compiled."""
        paged, rows = self.paged, batch.logits_at
        if len(batch.tokens) == 1:  # a compiler makes a program of its own for one
            return paged.forward(batch)
        paged._original.refuse_if_changed()
        least = torch.zeros(max(0, 2 - len(rows)), dtype=rows.dtype, device=rows.device)
        with torch.inference_mode(), attending(partial(paged._attend, batch)):
            paged.cache.copy(batch.copies)
            logits = self._logits_of(batch, torch.cat([rows, least]))
            return logits[0, : len(rows)].float()

    def _logits_of(self, batch: RaggedBatch, rows: Tensor) -> Tensor:
        out = self._compiled(
            input_ids=batch.tokens[None],
            position_ids=batch.positions[None],
            use_cache=False,
            logits_to_keep=rows,
        )
        return out.logits

    def _capture_all(self) -> None:
        # With other numbers of tokens and of rows: the compiler thinks that numbers
        # which are equal now always will be.
        device = self.paged.device
        some = torch.arange(3 * ROWS, device=device)[None]
        with progress_bar(desc="compile the model", total=1) as bar:
            with torch.inference_mode(), attending(attends_to_nothing):
                self._compiled(
                    input_ids=torch.zeros_like(some),
                    position_ids=some,
                    use_cache=False,
                    logits_to_keep=self._count[:ROWS],
                )
            bar.update()
        super()._capture_all()
