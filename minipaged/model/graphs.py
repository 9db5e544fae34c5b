"""Appendix D: steps that are captured once as CUDA graphs, and then replayed."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from minipaged.errors import UnsupportedModel
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable
from minipaged.model.fixed_inputs import FixedInputs, Size, without_padding
from minipaged.model.inputs import Chunk, RaggedBatch
from minipaged.model.paged_model import PagedModel
from minipaged.model.persistent_inputs import Pending, StepArrays
from minipaged.model.positions import num_positions
from minipaged.model.runner import Run, Runner, of_last_tokens, why_no_graphs
from minipaged.progress import progress_bar
from minipaged.scheduling.plan import Plan

ROWS = 8  # if a step decodes, its graph has a multiple of so many rows


class Graph(NamedTuple):
    """A captured step: a replay computes this batch from the numbers it has by then."""

    graph: torch.cuda.CUDAGraph
    batch: RaggedBatch


class _Series(NamedTuple):
    """The last step, from which the next may be made on the device (appendix E)."""

    size: Size
    length: int  # rows of each sequence
    longest: int  # context


class GraphRunner(Runner):
    """Replays steps from CUDA graphs: those that decode, and those of short prompts.

    To launch a model's kernels one by one takes the CPU longer than the GPU takes to
    run them. A graph holds all launches of a step: it is captured once, and a replay is
    one launch. But it repeats all that was known on the CPU, such as shapes and
    addresses. So there are many graphs. If every sequence has one new token, there is a
    graph for 8 sequences, for 16, and so on. If some have more, there is a graph for
    128 tokens, for 256, and so on up to 8,192, with rows for as many sequences as there
    may be. A step is padded to the next size: see `FixedInputs`, where a graph reads
    it. For example: 13 sequences that decode take the graph for 16 sequences; beside a
    prompt of 200 tokens, they take the graph for 256 tokens.

    With guesses, a sequence has several new tokens, all with logits. Each is a row of
    its own, and there are graphs for 8 such rows, for 16, and so on (appendix E).

    Longer prompts, and more logits than there may be sequences, run eagerly. Blocks are
    copied before a replay. Source: the model runners of vLLM and nano-vllm, which
    replay decode steps.
    """

    name: Run = "graphs"
    runs_ahead = True
    _twin: PreTrainedModel | None = None  # to run, if not the PagedModel's
    _last_layer: nn.Module | None = None  # that can write to the common logits
    _series: _Series | None = None
    _prompt_tokens = 128, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192
    _guess_tokens = 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024, 2048

    def __init__(
        self,
        paged: PagedModel,
        max_sequences: int,
        max_tokens: int = 8192,
        num_guesses: int = 0,
    ):
        """Capture the graphs for steps of up to so many sequences and new tokens.

        num_guesses: of a sequence, that a step checks. A progress bar shows the work.

        Raises MemoryError if there is no room for them, and UnsupportedModel if no
        graph can hold the model's forward.
        """
        super().__init__(paged)
        self._twin = self._twin or paged.twin
        self._attention = paged.attention
        # Graphs know addresses. These references keep the weights there, even if the
        # model gets others.
        self._weights = [weight.detach() for weight in paged.twin.parameters()]
        self._max_rows = -(-max_sequences // ROWS) * ROWS
        pool = paged.pool
        positions = num_positions(paged.model.config) or 2**16
        self._width = min(pool.num_blocks, -(-positions // pool.block_size))
        self._longest = min(self._width * pool.block_size, positions)  # context
        self._most = min(max_tokens, pool.num_blocks * pool.block_size)  # new tokens
        decoding = [Size(n, n, 1) for n in range(ROWS, self._max_rows + 1, ROWS)]
        # At least one row more than sequences, for the padding tokens.
        rows = self._max_rows + ROWS
        numbers = _up_to(self._most, self._prompt_tokens)
        self._prompts = [Size(n, rows, n) for n in numbers]
        self.num_guesses = num_guesses
        most = min(self._most, max_sequences * (1 + num_guesses))
        numbers = _up_to(most, self._guess_tokens) if num_guesses else []
        self._guesses = [Size(n, n, 1, rows_share=True) for n in numbers]
        self._most_logits = max(self._max_rows, *numbers, 0)
        self._sizes = sorted([*decoding, *self._prompts, *self._guesses], reverse=True)
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

    def like(self, paged: PagedModel) -> Runner:
        """A runner of this kind for another model; eager, if that has no graphs."""
        if why_no_graphs(paged):
            return Runner(paged)
        return type(self)(paged, self._max_rows, self._most, self.num_guesses)

    def _allocate(self) -> None:
        self._fixed = FixedInputs(
            self._sizes, self._width, self._most_logits, self.paged.device
        )
        # [rows, vocabulary], in the model's type. All graphs write to the same memory:
        # otherwise each graph would have to keep as much.
        self._logits: Tensor | None = None

    def compute_arrays(
        self,
        arrays: StepArrays,
        copies: list[tuple[int, int]],
        pending: Pending | None = None,
    ) -> tuple[RaggedBatch, Tensor]:
        """As `Runner.compute_arrays`; a replay, if there is a graph for this step."""
        size = self._size_of(arrays, pending)
        block_size = self.paged.pool.block_size
        if size is None:
            batch = arrays.on_device(self.paged.device, block_size, copies, pending)
            if self.paged.attention == self._attention:
                # As in graphs: for other lengths, kernels would have to be compiled.
                batch.min_context_length = 1
                batch.max_context_length = self._width * block_size
            return batch, self.forward(batch)
        arrays = self._replay(size, arrays, copies, pending)
        self.paged.refuse_replaced_weights()  # while the GPU computes
        batch = without_padding(self._graphs[size].batch, arrays, copies)
        return batch, self._logits[: arrays.logits_at.size]

    def last_logits(
        self, plan: Plan, pending: Pending | None = None, num_more: int = 0
    ) -> Tensor:
        """As Runner's. Callers must call `refuse_replaced_weights`, but only once."""
        arrays = self.inputs.arrays(plan, pending, num_more)
        size = self._size_of(arrays, pending)
        self._series = None
        if size is None:
            logits = self.compute_arrays(arrays, plan.copies, pending)[1]
            return of_last_tokens(plan, logits)
        num_tokens, length = len(arrays.tokens), arrays.max_query_length
        if size.decodes and num_tokens == length * len(plan.works):
            self._series = _Series(size, length, arrays.max_context_length)
        self._replay(size, arrays, plan.copies, pending)
        return of_last_tokens(plan, self._logits)

    def next_logits(self, chosen: Tensor) -> Tensor | None:
        """As Runner's: a replay of the last graph, if each sequence has as many rows.

        Nothing is sent: the device makes the step from the last one.
        """
        series = self._series
        if series is None or series.longest == self._longest:
            return None
        size, length, longest = series
        # Now each sequence has one row. Such a step has its numbers at the same places.
        alone = size._replace(rows_share=False)
        size = alone if alone in self._graphs else size
        self._series = _Series(size, length, longest + 1)
        self._fixed.advance(size, chosen, length, self.paged.pool.block_size)
        self._graphs[size].graph.replay()
        return self._logits[length - 1 : length * chosen.shape[0] : length]

    def _replay(
        self,
        size: Size,
        arrays: StepArrays,
        copies: list[tuple[int, int]],
        pending: Pending | None,
    ) -> StepArrays:
        """Send the step, and launch its graph; returns the step as it was sent."""
        if size.rows_share:
            arrays = arrays.with_a_row_for_each_token()
        self._fixed.send(size, arrays, pending)
        if pending is not None and pending.back is not None and not size.decodes:
            self._fixed.take_pending(size, self.paged.pool.block_size)
        self.paged.cache.copy(copies)
        self._graphs[size].graph.replay()
        return arrays

    def _size_of(self, arrays: StepArrays, pending: Pending | None) -> Size | None:
        """The smallest size that holds this step; None if it has to run eagerly."""
        num_tokens = len(arrays.tokens)
        num_logits = len(arrays.logits_at)
        num_sequences = len(arrays.context_lengths)
        if (
            arrays.max_context_length > self._longest
            or (pending is not None and pending.num_tokens > self._most_logits)
            or self.paged.attention != self._attention  # it may be exchanged
        ):
            return None
        sizes = self._prompts
        if num_tokens == num_logits > num_sequences:  # they decode, and check guesses
            sizes = self._guesses
        elif num_sequences > self._max_rows or num_logits > self._most_logits:
            return None
        elif num_tokens == num_logits:  # all decode
            rows = -(-num_sequences // ROWS) * ROWS
            return Size(rows, rows, 1)
        return next((size for size in sizes if num_tokens <= size.tokens), None)

    def _capture_all(self) -> None:
        """Capture the largest size first: the others find room in its memory."""
        self._compile_kernels()
        device = self.paged.device
        memory = torch.cuda.graph_pool_handle()
        stream = torch.cuda.current_stream(device)
        side_stream = torch.cuda.Stream(device)
        side_stream.wait_stream(stream)
        with torch.cuda.stream(side_stream):
            for size in progress_bar(
                self._sizes, desc="capture graphs", unit=" graphs"
            ):
                self._fixed.send(size)
                self._forward(size)  # loads the kernels, before the capture
                graph = torch.cuda.CUDAGraph()
                # Other threads may use the GPU meanwhile.
                graph.capture_begin(pool=memory, capture_error_mode="thread_local")
                try:
                    batch = self._forward(size)
                finally:
                    graph.capture_end()
                graph.replay()  # the first replay brings the graph to the GPU
                self._graphs[size] = Graph(graph, batch)
        stream.wait_stream(side_stream)
        self._load_kernels_of_prompts()

    def _compile_kernels(self) -> None:
        """Compile the kernels that steps will launch, several at a time.

        Attention has different kernels for different sizes of a step, in a few grades.
        So these steps are run: prompts, and steps that decode with the most rows, half
        as many, and the fewest. Other kernels are compiled when they are launched.
        """
        from minipaged.attention.kernels.side_by_side import compiled_side_by_side

        most = self._max_rows
        half = -(-most // 16) * ROWS
        mixed = unwritten_prompts(self.paged, 1, min(8, self._longest), decoding=half)
        with compiled_side_by_side():
            # Prompts take longest, so they are first; then one beside many that decode.
            for batch in (*self._eager_prompts(), mixed):
                self.forward(batch)
            grades = [Size(n, n, 1) for n in (most, half, ROWS)]
            for size in (self._prompts[0], *grades, *self._guesses):
                self._fixed.send(size)
                self._forward(size)
        torch.cuda.empty_cache()  # the prompts' memory is room for graphs

    def _load_kernels_of_prompts(self) -> None:
        """Run eager steps once: their kernels are loaded before any user waits."""
        self.paged.cache.load_kernels()
        prompts = self._eager_prompts()
        for batch in progress_bar(prompts, desc="load prompts' kernels", unit=" times"):
            self.forward(batch)
        if self._guesses:
            stays = torch.zeros(1, dtype=torch.int64, device=self.paged.device)
            self._fixed.send(self._guesses[0])
            block_size = self.paged.pool.block_size
            self._fixed.advance(self._guesses[0], stays, 1, block_size)

    def _eager_prompts(self) -> list[RaggedBatch]:
        """Prompts with many new tokens, and with few: their kernels differ."""
        longest = min(1024, self._longest)
        count = max(1, min(8, self._most // longest))
        many = unwritten_prompts(self.paged, count, longest)
        few = unwritten_prompts(self.paged, 1, min(8, longest))
        return [many, few]

    def _forward(self, size: Size) -> RaggedBatch:
        """As `PagedModel.forward`, from the fixed inputs to the common logits."""
        paged = self.paged
        batch = self._fixed.batch(size, paged.pool.block_size)
        with torch.inference_mode(), paged.attending(batch):
            out = self._twin(
                input_ids=batch.tokens[None],
                position_ids=batch.positions[None],
                use_cache=False,
                logits_to_keep=0 if size.decodes else batch.logits_at,  # 0: all
            )
            if self._logits is None:
                shape = self._most_logits, out.logits.shape[2]
                self._logits = out.logits.new_empty(shape)
                if self._last_layer is not None:
                    self._last_layer.place = self._logits
            if out.logits.data_ptr() != self._logits.data_ptr():
                self._logits[: out.logits.shape[1]].copy_(out.logits[0])
        return batch

    def close(self) -> None:
        """Free the graphs, and the memory that they share."""
        self._graphs.clear()
        for name in ("_weights", "_fixed", "_logits"):
            vars(self).pop(name, None)
        self._max_rows = self._most_logits = 0  # later steps run eagerly
        self._series = None
        self._guesses.clear()


def _up_to(most: int, numbers: tuple[int, ...]) -> list[int]:
    """These ascending numbers, up to the first that is not less than `most`."""
    pairs = zip(numbers, (0, *numbers), strict=False)
    return [number for number, less in pairs if less < most]


def unwritten_prompts(
    paged: PagedModel, count: int, length: int, decoding: int = 1
) -> RaggedBatch:
    """A batch of prompts and of sequences that decode, whose K and V go nowhere.

    If it is computed eagerly, kernel after kernel is compiled and loaded.
    """
    block_size = paged.pool.block_size
    prompt = BlockTable(BlockPool(-(-length // block_size), block_size))
    prompt.append(length)
    token = prompt.fork()
    token.truncate(1)
    chunks = [Chunk([0], token)] * decoding + [Chunk([0] * length, prompt)] * count
    batch = RaggedBatch.build(chunks, device=paged.device)
    batch.slots.fill_(-1)
    return batch
