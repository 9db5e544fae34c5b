"""Appendix D: a twin that computes each token as if it were alone.

A product of matrices, and the mean in a norm, are sums, and the order in which a
library adds depends on what else is computed. Three things make a token's numbers
depend on its text alone, to the bit:

- Linear layers add in the same order for any number of rows: see `fixed_linear.py`.
- Attention reads a context in fixed parts: see `minipaged/attention/fixed_order.py`.
- A step has a multiple of 32 tokens; if not, it is filled up. For from 16 rows on,
  torch's sums over a row on a GPU have the same order. And on a CPU, some of torch's
  functions, such as silu, round otherwise at the end of a tensor whose length is no
  multiple of 32.

So a text is the same alone and in any batch, however its prompt is cut, whether its
start comes from a prefix cache, and whether it was preempted. This holds for one
machine, version and way to run. One thing remains on a GPU: draws with a seed use
torch's softmax, which rounds by a row's place if the vocabulary is no multiple of 4.
"""

from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from minipaged.errors import UnsupportedModel
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable
from minipaged.model.bridge import attending
from minipaged.model.fixed_linear import fixed_order_linear
from minipaged.model.inputs import Chunk, RaggedBatch
from minipaged.model.merged_linears import MergedLinear, attends_to_nothing
from minipaged.model.paged_model import PagedModel, last_logits

TOKENS = 32  # a step has a multiple of so many


class _FixedLinear(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        """As its class, but in a fixed order."""
        return fixed_order_linear(x, self.weight, self.bias)


class _FixedConv1D(Conv1D):  # GPT-2's, whose weight is transposed
    def forward(self, x: Tensor) -> Tensor:
        """As its class, but in a fixed order."""
        return fixed_order_linear(x, self.weight.T, self.bias)


class _FixedMergedLinear(MergedLinear):
    def forward(self, x: Tensor) -> Tensor:
        """As its class, but in a fixed order."""
        return fixed_order_linear(x, self.weight, self.bias)


_FIXED = {
    nn.Linear: _FixedLinear,
    Conv1D: _FixedConv1D,
    MergedLinear: _FixedMergedLinear,
}


class _FilledUp:
    """The twin's model, in front of its own class: it is given a multiple of 32 tokens.

    Those that are added have no slot, and attend to nothing.
    """

    def forward(
        self,
        input_ids: Tensor,
        position_ids: Tensor,
        logits_to_keep: int | Tensor = 0,
        **options: Any,
    ) -> Any:
        """As the model's own, with logits of the tokens that were given."""
        count = input_ids.shape[1]
        if isinstance(logits_to_keep, int):  # so many of the last; 0: all
            start = max(0, count - logits_to_keep) if logits_to_keep else 0
            logits_to_keep = slice(start, count)
        added = (0, -count % TOKENS)
        return super().forward(
            input_ids=pad(input_ids, added),
            position_ids=pad(position_ids, added),
            logits_to_keep=logits_to_keep,
            **options,
        )


def fix_order(twin: PreTrainedModel) -> None:
    """Exchange the classes of a connected twin's modules; weights stay as they are.

    Raises UnsupportedModel if it also multiplies matrices elsewhere, as mixtures of
    experts do.
    """
    for module in twin.modules():
        module.__class__ = _FIXED.get(type(module), type(module))
    kind = type(twin)
    twin.__class__ = type(kind.__name__, (_FilledUp, kind), {})
    token = torch.zeros(1, 1, dtype=torch.int64, device=twin.device)
    with torch.no_grad(), attending(attends_to_nothing), _Products() as products:
        twin(input_ids=token, position_ids=token, use_cache=False)
    if products.found:
        raise UnsupportedModel(
            f"{kind.__name__} multiplies matrices outside of linear layers "
            f"({', '.join(sorted(products.found))}), and the sums of these products "
            "depend on the batch: wrap it without deterministic=True"
        )


_PRODUCTS = (
    "mm addmm bmm baddbmm mv addmv dot convolution _grouped_mm _scaled_mm "
    "_scaled_grouped_mm"
).split()


class _Products(TorchDispatchMode):
    """Notes the products of matrices that a forward calls, but for fixed_order_linear.

    A sum of one term has no order, as in the product of positions and frequencies.
    """

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        if name in _PRODUCTS:
            *_, left, _right = (x for x in args if isinstance(x, Tensor))
            if left.shape[-1] > 1:
                self.found.add(name)
        return function(*args, **(kwargs or {}))


def refuse_dependence(
    paged: PagedModel, block_size: int, twin: PreTrainedModel
) -> None:
    """Raise UnsupportedModel if a text's logits depend on what else is computed.

    twin: the one that is asked, over a small cache that is made for this. A text is
    computed alone, and beside others: whole, and in two and three parts. The last
    token's logits must be equal, to the bit.
    """
    length = 40
    num_others = 16 if paged.device.type == "cuda" else 3  # there, tiles get large
    num_blocks = (num_others + 1) * -(-length // block_size)
    cache = paged.new_cache(num_blocks, block_size)
    pool = BlockPool(num_blocks, block_size)
    texts = [
        [(n * 37 + other) % paged.num_embeddings for n in range(length)]
        for other in range(num_others + 1)
    ]

    def logits(texts: list[list[int]], *sizes: int) -> Tensor:
        """After the last of these texts, computed in parts of these sizes."""
        tables = [BlockTable(pool) for _ in texts]
        for stop, size in zip(accumulate(sizes), sizes, strict=True):
            chunks = []
            for text, table in zip(texts, tables, strict=True):
                table.append(size)
                chunks.append(Chunk(text[stop - size : stop], table))
            batch = RaggedBatch.build(chunks, device=paged.device)
            with torch.inference_mode(), paged.attending(batch, cache):
                last = last_logits(twin, batch)[-1]
        for table in tables:
            table.free()
        return last

    alone = logits(texts[-1:], length)
    for sizes in ((length,), (length - 1, 1), (17, length - 18, 1)):
        if not torch.equal(logits(texts, *sizes), alone):
            raise UnsupportedModel(
                f"{type(paged.model).__name__}: on this {paged.device.type}, a text's "
                "logits depend on what else is computed, although linear layers and "
                "attention add in a fixed order: wrap it without deterministic=True"
            )
