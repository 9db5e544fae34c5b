"""minipaged: PagedAttention, learnt by building it.

`import minipaged as mp` takes milliseconds: a name is looked up, and torch with it,
only when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minipaged.attention.gathered import gathered_attention as gathered_attention
    from minipaged.attention.streamed import streamed_attention as streamed_attention
    from minipaged.attention.triton_attention import (
        triton_attention as triton_attention,
    )
    from minipaged.decoding.request import Output as Output
    from minipaged.decoding.request import Request as Request
    from minipaged.decoding.sequence import Sequence as Sequence
    from minipaged.engine.generate import generate as generate
    from minipaged.engine.step import step as step
    from minipaged.errors import OutOfBlocks as OutOfBlocks
    from minipaged.errors import UnsupportedModel as UnsupportedModel
    from minipaged.errors import UnsupportedOption as UnsupportedOption
    from minipaged.memory.block_pool import BlockPool as BlockPool
    from minipaged.memory.block_table import BlockTable as BlockTable
    from minipaged.memory.kv_cache import KVCache as KVCache
    from minipaged.memory.prefix_cache import PrefixCache as PrefixCache
    from minipaged.model.load import load as load
    from minipaged.model.paged_model import PagedModel as PagedModel
    from minipaged.model.ragged_batch import Chunk as Chunk
    from minipaged.model.ragged_batch import RaggedBatch as RaggedBatch

__version__ = "0.1.0"

_HOMES = {
    "BlockPool": "memory.block_pool",
    "BlockTable": "memory.block_table",
    "Chunk": "model.ragged_batch",
    "KVCache": "memory.kv_cache",
    "OutOfBlocks": "errors",
    "Output": "decoding.request",
    "PagedModel": "model.paged_model",
    "PrefixCache": "memory.prefix_cache",
    "RaggedBatch": "model.ragged_batch",
    "Request": "decoding.request",
    "Sequence": "decoding.sequence",
    "UnsupportedModel": "errors",
    "UnsupportedOption": "errors",
    "gathered_attention": "attention.gathered",
    "generate": "engine.generate",
    "load": "model.load",
    "step": "engine.step",
    "streamed_attention": "attention.streamed",
    "triton_attention": "attention.triton_attention",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'minipaged' has no attribute {name!r}")
    value = getattr(import_module(f"minipaged.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
