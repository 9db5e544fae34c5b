"""Appendix A: steps that are captured once as CUDA graphs, and then replayed."""

from typing import NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel

from minipaged.errors import UnsupportedModel
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable
from minipaged.model.fixed_inputs import FixedInputs, Size, without_padding
from minipaged.model.inputs import Chunk, RaggedBatch
from minipaged.model.paged_model import PagedModel
from minipaged.model.persistent_inputs import Unread
from minipaged.model.positions import num_positions
from minipaged.model.runner import Run, Runner
from minipaged.progress import progress_bar
from minipaged.scheduling.plan import Plan

ROWS = 8  # of steps that decode, a graph has so many, or a multiple of that


class Graph(NamedTuple):
    """A captured step: a replay computes this batch, whatever it holds by then."""

    graph: torch.cuda.CUDAGraph
    batch: RaggedBatch


class GraphRunner(Runner):
    """Replays steps from CUDA graphs: those that decode, and those of short prompts.

    To launch a model's kernels one by one takes the CPU longer than the GPU takes to
    run them. A graph holds all launches of a step: it is captured once, and a replay is
    one launch. But it repeats whatever was known on the CPU, shapes and addresses among
    it. So if every sequence has one new token, there is a graph for 8 of them, for 16,
    and so on; and if some have more, one for each of a few numbers of tokens, up to
    2,048, of as many sequences as there may be. A step is padded to the next size: see
    `FixedInputs`, where a graph reads it.

    Longer prompts, more logits than there may be sequences, and steps that copy blocks
    run eagerly. Source: the model runners of vLLM and nano-vllm, which replay decode
    steps.
    """

    name: Run = "graphs"
    _twin: PreTrainedModel | None = None  # what runs, if not that of the PagedModel
    _prompt_tokens = 128, 256, 384, 512, 768, 1024, 1536, 2048

    def __init__(self, paged: PagedModel, max_sequences: int, max_tokens: int = 8192):
        """Capture the graphs for steps of up to so many sequences and new tokens.

        A progress bar says so.

        Raises MemoryError if there is no room for them, and UnsupportedModel if the
        model does in its forward what no graph can hold.
        """
        super().__init__(paged)
        self._twin = self._twin or paged.twin
        self._attention = paged.attention
        # Graphs know addresses: what lies there stays, though the model's data may go.
        self._weights = [weight.detach() for weight in paged.twin.parameters()]
        self._max_rows = -(-max_sequences // ROWS) * ROWS
        pool, positions = paged.pool, num_positions(paged.model.config) or 2**16
        self._width = min(pool.num_blocks, -(-positions // pool.block_size))
        self._longest = min(self._width * pool.block_size, positions)  # context
        self._most = min(max_tokens, pool.num_blocks * pool.block_size)  # new tokens
        decoding = [Size(n, n, 1) for n in range(ROWS, self._max_rows + 1, ROWS)]
        # One row more than sequences, at least, for the tokens that are left over.
        rows = self._max_rows + ROWS
        numbers = self._prompt_tokens
        before = zip(numbers, (0, *numbers), strict=False)
        self._prompts = [Size(n, rows, n) for n, less in before if less < self._most]
        self._sizes = sorted([*decoding, *self._prompts], reverse=True)
        self._graphs: dict[Size, Graph] = {}
        try:
            self._allocate()
            self._capture_all()
        except torch.OutOfMemoryError as error:
            raise MemoryError(
                f"{paged.device} has no room for graphs of {self._max_rows} sequences; "
                "lower max_sequences, max_tokens, or num_blocks of the PagedModel"
            ) from error
        except RuntimeError as error:
            raise UnsupportedModel(
                f"a step of {type(paged.model).__name__} cannot be captured as a CUDA "
                f'graph ({error!s:.200}); use run="eager"'
            ) from error

    def _allocate(self) -> None:
        where = self._max_rows, self.paged.device
        self._fixed = FixedInputs(self._sizes, self._width, *where)
        # [rows, vocabulary], as the model makes them. All graphs write here: each would
        # have to keep as much for itself.
        self._logits: Tensor | None = None

    def compute(
        self, plan: Plan, unread: Unread | None = None
    ) -> tuple[RaggedBatch, Tensor]:
        """As `Runner.compute`; replayed where that can be."""
        size = self._size_of(plan, unread)
        if size is None:
            return super().compute(plan, unread)
        self.paged.refuse_replaced_weights()
        arrays = self.inputs.arrays(plan, unread)
        self._fixed.send(size, arrays, unread)
        graph, batch = self._graphs[size]
        graph.replay()
        return without_padding(batch, arrays), self._logits[: len(arrays.logits_at)]

    def _size_of(self, plan: Plan, unread: Unread | None) -> Size | None:
        """The smallest that holds this step; None: it has to run eagerly."""
        works = plan.works
        num_logits = sum([work.num_logits for work in works])
        if (
            plan.copies
            or max(len(works), num_logits) > self._max_rows
            or max(work.stop for work in works) > self._longest
            or (unread is not None and len(unread.tokens) > self._max_rows)
            or self.paged.attention != self._attention  # it may be exchanged
        ):
            return None
        num_tokens = plan.num_tokens
        if num_tokens == len(works) == num_logits:  # all decode
            rows = -(-len(works) // ROWS) * ROWS
            return Size(rows, rows, 1)
        return next((s for s in self._prompts if num_tokens <= s.tokens), None)

    def _capture_all(self) -> None:
        """The largest first: the others find room in its memory. Then what is eager."""
        self._compile_kernels()
        device, memory = self.paged.device, torch.cuda.graph_pool_handle()
        now, aside = torch.cuda.current_stream(device), torch.cuda.Stream(device)
        aside.wait_stream(now)
        with torch.cuda.stream(aside):
            for size in progress_bar(
                self._sizes, desc="capture graphs", unit=" graphs"
            ):
                self._fixed.send(size)
                self._forward(size)  # kernels are loaded before
                graph = torch.cuda.CUDAGraph()
                # Other threads may go on with what is theirs.
                graph.capture_begin(pool=memory, capture_error_mode="thread_local")
                try:
                    batch = self._forward(size)
                finally:
                    graph.capture_end()
                self._graphs[size] = Graph(graph, batch)
        now.wait_stream(aside)
        self._load_kernels_of_prompts()

    def _compile_kernels(self) -> None:
        """Compile what steps will launch, several kernels at a time.

        Which kernels of attention there are follows from sizes, in a few grades: those
        of prompts, and of the most, of half as many and of the fewest rows. A kernel
        that is missed is compiled when it is launched.
        """
        from minipaged.attention.kernels.side_by_side import compiled_side_by_side

        most = self._max_rows
        half = -(-most // 16) * ROWS
        beside = prompts_of_nobody(self.paged, 1, min(8, self._longest), decoding=half)
        with compiled_side_by_side():
            # First, as they take longest; then a prompt beside many that decode.
            for batch in (*self._eager_prompts(), beside):
                self.forward(batch)
            grades = [Size(n, n, 1) for n in (most, half, ROWS)]
            for size in (self._prompts[0], *grades):
                self._fixed.send(size)
                self._forward(size)
        torch.cuda.empty_cache()  # what the prompts took is room for graphs

    def _load_kernels_of_prompts(self) -> None:
        """Make steps that run kernel after kernel, before any user waits."""
        prompts = self._eager_prompts()
        for batch in progress_bar(prompts, desc="load prompts' kernels", unit=" times"):
            self.forward(batch)

    def _eager_prompts(self) -> list[RaggedBatch]:
        """With many new tokens, and with few: their kernels differ."""
        longest = min(1024, self._longest)
        sizes = ((max(1, min(8, self._most // longest)), longest), (1, min(8, longest)))
        return [prompts_of_nobody(self.paged, *size) for size in sizes]

    def _forward(self, size: Size) -> RaggedBatch:
        """As `PagedModel.forward`, from the inputs' places into that of the logits."""
        paged = self.paged
        batch = self._fixed.batch(size, paged.pool.block_size)
        with torch.inference_mode(), paged.attending(batch):
            out = self._twin(
                input_ids=batch.tokens[None],
                position_ids=batch.positions[None],
                use_cache=False,
                logits_to_keep=0 if size.decodes else batch.logits_at,  # 0: all
            )
            if self._logits is None:  # the largest step comes first
                self._logits = torch.empty_like(out.logits[0])
            self._logits[: out.logits.shape[1]].copy_(out.logits[0])
        return batch

    def close(self) -> None:
        """Free the graphs, and the memory that they share."""
        self._graphs.clear()
        for name in ("_weights", "_fixed", "_logits"):
            vars(self).pop(name, None)
        self._max_rows = 0  # whatever is still to be computed runs eagerly


def prompts_of_nobody(
    paged: PagedModel, count: int, length: int, decoding: int = 1
) -> RaggedBatch:
    """So many prompts, and sequences that decode: K and V are written nowhere.

    Such a step runs kernel after kernel, and a kernel is compiled and loaded when it is
    first called.
    """
    size = paged.pool.block_size
    prompt = BlockTable(BlockPool(-(-length // size), size))
    prompt.append(length)
    token = prompt.fork()
    token.truncate(1)
    chunks = [Chunk([0], token)] * decoding + [Chunk([0] * length, prompt)] * count
    batch = RaggedBatch.build(chunks, device=paged.device)
    batch.slots.fill_(-1)
    return batch
