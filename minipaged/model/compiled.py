"""Appendix D: the model's own layers, compiled, in steps replayed from CUDA graphs."""

import torch
from torch import Tensor, nn
from torch._dynamo import config as compiler

from minipaged.model.bridge import attending
from minipaged.model.fixed_order import fix_order, refuse_dependence
from minipaged.model.graphs import ROWS, GraphRunner
from minipaged.model.inputs import RaggedBatch
from minipaged.model.merged_linears import attends_to_nothing, merge_linears
from minipaged.model.paged_model import PagedModel, last_logits
from minipaged.model.placed_linear import place_logits
from minipaged.model.runner import Run
from minipaged.progress import progress_bar


class CompiledRunner(GraphRunner):
    """A GraphRunner whose layers are compiled by torch.compile, for prompts, too.

    HuggingFace's code adds, norms and rotates in many kernels, each of which reads and
    writes memory. The compiler merges kernels that follow each other. It leaves
    attention as it is, because that is an operator. All layers have the same code, so
    it is compiled once for all layers, and for any number of tokens. torch keeps the
    result on the disk for the next time. Linear layers with a common input are merged:
    see `merge_linears` for the memory that this takes.

    It makes another twin to run, so other runners of the PagedModel stay as they are.
    Other PagedModels of the same model have to be made anew.
    """

    name: Run = "compiled"
    runs_ahead = True

    def __init__(
        self,
        paged: PagedModel,
        max_sequences: int,
        max_tokens: int = 8192,
        num_guesses: int = 0,
    ):
        """Compile, then capture, with progress bars. Raises what GraphRunner raises."""
        paged.refuse_changes()
        self._twin = paged.new_twin()
        merge_linears(self._twin)
        if paged.deterministic:
            fix_order(self._twin)
        paged.note_weights()  # which merging has moved
        self._last_layer = place_logits(self._twin)
        for module in self._twin.modules():
            # HuggingFace sums gradients in them; torch 2.9 compiles no layer with one.
            module._backward_hooks.clear()
            module._backward_pre_hooks.clear()
        for layer in layers_of(self._twin):
            layer.compile()
        super().__init__(paged, max_sequences, max_tokens, num_guesses)
        if paged.deterministic:
            refuse_dependence(paged, paged.pool.block_size, self._twin)

    def forward(self, batch: RaggedBatch) -> Tensor:
        """Compute what `PagedModel.forward` computes, with compiled layers."""
        paged = self.paged
        # For a single token, the compiler would make another program.
        if len(batch.tokens) == 1 and not paged.deterministic:
            return paged.forward(batch)
        paged.refuse_replaced_weights()
        with torch.inference_mode(), paged.attending(batch):
            paged.cache.copy(batch.copies)
            return last_logits(self._twin, batch)

    def _capture_all(self) -> None:
        # Once the compiler has met two values of a number, it allows any value: for the
        # number of a layer's module, and for the number of tokens. torch counts how
        # often it compiles the layers of all models, and would soon give up.
        with compiler.patch(allow_unspec_int_on_nn_module=True, recompile_limit=64):
            # Of some kernels, the compiler times a few forms, with the tokens at hand.
            # The quickest is kept, so there are as many tokens as in a large step.
            most = max(3 * ROWS, self._max_rows)
            sizes = (most + ROWS, most)
            for size in progress_bar(sizes, desc="compile a layer", unit=" times"):
                positions = torch.arange(size, device=self.paged.device)
                positions = positions.clamp(max=self._longest - 1)
                tokens = torch.zeros_like(positions)
                with torch.inference_mode(), attending(attends_to_nothing):
                    self._twin(
                        input_ids=tokens[None],
                        position_ids=positions[None],
                        use_cache=False,
                        logits_to_keep=1,
                    )
            super()._capture_all()

    def close(self) -> None:
        """Free the graphs, the memory that they share, and the compiled code."""
        super().close()
        for layer in layers_of(self._twin):
            layer._compiled_call_impl = None


def layers_of(twin: nn.Module) -> list[nn.Module]:
    """The modules that a model repeats, found by class name; without any, the model."""
    names = set(getattr(twin, "_no_split_modules", None) or [])
    layers = [module for module in twin.modules() if type(module).__name__ in names]
    return layers or [twin]
