"""Appendix A: steps that are captured once as CUDA graphs, and then replayed."""

from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel

from minipaged.errors import UnsupportedModel
from minipaged.model.bridge import attending
from minipaged.model.inputs import RaggedBatch
from minipaged.model.paged_model import PagedModel
from minipaged.model.persistent_inputs import StepArrays, Unread, host_memory
from minipaged.model.runner import Run, Runner
from minipaged.progress import progress_bar
from minipaged.scheduling.plan import Plan

ROWS = 8  # a graph has so many rows, or a multiple of that
_EMPTY_ROW = (0, -1, 0, -1, 0)  # token, whose it is if unread, position, slot, context
_NUMBERS = len(_EMPTY_ROW)


class Graph(NamedTuple):
    """A captured step: a replay computes this batch, whatever it holds by then."""

    graph: torch.cuda.CUDAGraph
    batch: RaggedBatch


class GraphRunner(Runner):
    """Replays steps in which every sequence computes one token from CUDA graphs.

    To launch a model's kernels one by one takes the CPU longer than the GPU takes to
    run them. A graph holds all launches of a step: it is captured once, and a replay is
    one launch. But it repeats whatever was known on the CPU, shapes and addresses among
    it. So there is a graph for 8 rows, for 16, and so on; in the rows that are left
    over a context is 0 and a slot -1, so that nothing is read or written for them. And
    the inputs lie at places that never change, which one copy fills in a step.

    Prompts, several tokens of a sequence, and steps that copy blocks run eagerly.
    Source: the model runners of vLLM and nano-vllm, which do the same.
    """

    name: Run = "graphs"
    _twin: PreTrainedModel | None = None  # what runs, if not that of the PagedModel

    def __init__(self, paged: PagedModel, max_sequences: int):
        """Capture the graphs for up to so many sequences; a progress bar says so.

        Raises MemoryError if there is no room for them, and UnsupportedModel if the
        model does in its forward what no graph can hold.
        """
        super().__init__(paged)
        self._twin = self._twin or paged.twin
        self._attention = paged.attention
        # Graphs know addresses: what lies there stays, though the model's data may go.
        self._weights = [weight.detach() for weight in paged.twin.parameters()]
        self._max_rows = -(-max_sequences // ROWS) * ROWS
        config, pool = paged.model.config.get_text_config(), paged.pool
        positions = getattr(config, "max_position_embeddings", None) or 2**16
        self._width = min(pool.num_blocks, -(-positions // pool.block_size))
        self._graphs: dict[int, Graph] = {}
        try:
            self._allocate()
            self._capture_all()
        except torch.OutOfMemoryError as error:
            raise MemoryError(
                f"{paged.device} has no room for graphs of {self._max_rows} sequences; "
                "lower max_sequences, or num_blocks of the PagedModel"
            ) from error
        except RuntimeError as error:
            raise UnsupportedModel(
                f"a step of {type(paged.model).__name__} cannot be captured as a CUDA "
                f'graph ({error!s:.200}); use run="eager"'
            ) from error

    def _allocate(self) -> None:
        rows, width, device = self._max_rows, self._width, self.paged.device
        # A step's numbers, then its tables, which are no wider than they must be.
        whole = {"dtype": torch.int64, "device": device}
        self._packet = torch.zeros(rows * (_NUMBERS + width), **whole)
        self._tables = torch.zeros(rows, width, **whole)
        self._unread = torch.zeros(rows, **whole)
        self._count = torch.arange(rows + 1, device=device)
        # [rows, vocabulary], as the model makes them. All graphs write here: each would
        # have to keep as much for itself.
        self._logits: Tensor | None = None

    def compute(
        self, plan: Plan, unread: Unread | None = None
    ) -> tuple[RaggedBatch, Tensor]:
        """As `Runner.compute`; replayed where that can be."""
        if not self._can_replay(plan, unread):
            return super().compute(plan, unread)
        self.paged._original.refuse_if_changed()
        arrays, num_rows = self.inputs.arrays(plan, unread), len(plan.works)
        rows = -(-num_rows // ROWS) * ROWS
        self._send(rows, arrays)
        if unread is not None:
            self._unread[: len(unread.tokens)].copy_(unread.tokens)
        graph, batch = self._graphs[rows]
        graph.replay()
        return _first_rows(batch, arrays), self._logits[:num_rows]

    def _can_replay(self, plan: Plan, unread: Unread | None) -> bool:
        longest = self._width * self.paged.pool.block_size
        return (
            not plan.copies
            and len(plan.works) <= self._max_rows
            and all(w.stop - w.start == w.num_logits == 1 for w in plan.works)
            and max(work.stop for work in plan.works) <= longest
            and (unread is None or len(unread.tokens) <= self._max_rows)
            and self.paged.attention == self._attention  # it may be exchanged
        )

    def _send(self, rows: int, arrays: StepArrays | None = None) -> None:
        """Bring a step's numbers to where the graph of so many rows reads them."""
        num_rows, width = (0, 1) if arrays is None else arrays.block_tables.shape
        sent = host_memory(rows * (_NUMBERS + width), self.paged.device)
        numbers = sent[: rows * _NUMBERS].view(_NUMBERS, rows).numpy()
        tables = sent[rows * _NUMBERS :].view(rows, width).numpy()
        numbers.T[:], tables[num_rows:] = _EMPTY_ROW, 0
        if arrays is not None:
            numbers[0, :num_rows] = arrays.tokens
            numbers[1, arrays.unread_at] = arrays.unread_from
            numbers[2, :num_rows] = arrays.positions
            numbers[3, :num_rows] = arrays.slots
            numbers[4, :num_rows] = arrays.context_lengths
            tables[:num_rows] = arrays.block_tables
        self._packet[: len(sent)].copy_(sent, non_blocking=True)
        came = self._packet[rows * _NUMBERS : len(sent)].view(rows, width)
        self._tables[:rows, :width].copy_(came)

    def _capture_all(self) -> None:
        """The largest first: the others find room in its memory. Then what is eager."""
        self._compile_kernels()
        device, memory = self.paged.device, torch.cuda.graph_pool_handle()
        now, aside = torch.cuda.current_stream(device), torch.cuda.Stream(device)
        aside.wait_stream(now)
        sizes = range(self._max_rows, 0, -ROWS)
        with torch.cuda.stream(aside):
            for rows in progress_bar(sizes, desc="capture graphs", unit=" graphs"):
                self._send(rows)
                self._forward(rows)  # kernels are loaded before
                graph = torch.cuda.CUDAGraph()
                # Other threads may go on with what is theirs.
                graph.capture_begin(pool=memory, capture_error_mode="thread_local")
                try:
                    batch = self._forward(rows)
                finally:
                    graph.capture_end()
                self._graphs[rows] = Graph(graph, batch)
        now.wait_stream(aside)
        self._load_kernels_of_prompts()

    def _compile_kernels(self) -> None:
        """Compile what steps will launch, several kernels at a time.

        Which kernels of attention there are follows from sizes, in a few grades: those
        of prompts, and of the most, of half as many and of the fewest rows. A kernel
        that is missed is compiled when it is launched.
        """
        from minipaged.attention.kernels.side_by_side import compiled_side_by_side

        with compiled_side_by_side():
            for batch in self._prompts():  # first, as they take longest
                self.forward(batch)
            for rows in (self._max_rows, -(-self._max_rows // (2 * ROWS)) * ROWS, ROWS):
                self._send(rows)
                self._forward(rows)
        torch.cuda.empty_cache()  # what the prompts took is room for graphs

    def _load_kernels_of_prompts(self) -> None:
        """Make steps that run kernel after kernel, before any user waits."""
        prompts = self._prompts()
        for batch in progress_bar(prompts, desc="load prompts' kernels", unit=" times"):
            self.forward(batch)

    def _prompts(self) -> list[RaggedBatch]:
        """With many new tokens, and with few: their kernels differ."""
        longest = min(1024, self._width * self.paged.pool.block_size)
        sizes = ((8, longest), (1, min(8, longest)))
        return [prompts_of_nobody(*size, self.paged.device) for size in sizes]

    def _forward(self, rows: int) -> RaggedBatch:
        """As `PagedModel.forward`, from the inputs' places into that of the logits."""
        paged = self.paged
        numbers = self._packet[: rows * _NUMBERS].view(_NUMBERS, rows)
        tokens, unread_from, positions, slots, contexts = numbers
        unread = self._unread[unread_from.clamp(min=0)]
        batch = RaggedBatch(
            tokens=torch.where(unread_from < 0, tokens, unread),
            positions=positions,
            slots=slots,
            block_tables=self._tables[:rows],
            context_lengths=contexts,
            query_starts=self._count[: rows + 1],
            logits_at=self._count[:rows],
            max_query_length=1,
            min_context_length=1,
            max_context_length=self._width * paged.pool.block_size,
        )
        with torch.inference_mode(), attending(partial(paged._attend, batch)):
            out = self._twin(
                input_ids=batch.tokens[None],
                position_ids=batch.positions[None],
                use_cache=False,
            )
            if self._logits is None:  # the largest step comes first
                self._logits = torch.empty_like(out.logits[0])
            self._logits[:rows].copy_(out.logits[0])
        return batch

    def close(self) -> None:
        """Free the graphs, and the memory that they share."""
        self._graphs.clear()
        for name in ("_weights", "_packet", "_tables", "_unread", "_count", "_logits"):
            vars(self).pop(name, None)
        self._max_rows = 0  # whatever is still to be computed runs eagerly


def prompts_of_nobody(count: int, length: int, device: torch.device) -> RaggedBatch:
    """So many prompts, and one token of a sequence: K and V are written nowhere.

    Such a step runs kernel after kernel, and a kernel is compiled and loaded when it is
    first called.
    """
    whole = {"dtype": torch.int64, "device": device}
    lengths = torch.tensor([1] + [length] * count, **whole)
    starts = torch.cat([torch.zeros(1, **whole), lengths.cumsum(0)])
    tokens = torch.zeros(1 + count * length, **whole)
    positions = torch.arange(length, device=device).repeat(count)
    return RaggedBatch(
        tokens=tokens,
        positions=torch.cat([tokens[:1], positions]),
        slots=tokens - 1,
        block_tables=torch.zeros(count + 1, length, **whole),  # as if blocks held one
        context_lengths=lengths,
        query_starts=starts,
        logits_at=starts[1:] - 1,
        max_query_length=length,
        min_context_length=1,
        max_context_length=length,
    )


def _first_rows(batch: RaggedBatch, arrays: StepArrays) -> RaggedBatch:
    """A replayed batch without the rows that were left over."""
    (num_rows, width), contexts = arrays.block_tables.shape, arrays.context_lengths
    return RaggedBatch(
        tokens=batch.tokens[:num_rows],
        positions=batch.positions[:num_rows],
        slots=batch.slots[:num_rows],
        block_tables=batch.block_tables[:num_rows, :width],
        context_lengths=batch.context_lengths[:num_rows],
        query_starts=batch.query_starts[: num_rows + 1],
        logits_at=batch.logits_at[:num_rows],
        max_query_length=1,
        min_context_length=int(contexts.min()),
        max_context_length=int(contexts.max()),
    )
