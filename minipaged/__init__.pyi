from .attention.gathered import gathered_attention as gathered_attention
from .attention.kernels.attention import triton_attention as triton_attention
from .attention.streamed import streamed_attention as streamed_attention
from .decoding.request import Output as Output
from .decoding.request import Request as Request
from .decoding.sequence import Sequence as Sequence
from .engine.generate import generate as generate
from .engine.step import step as step
from .errors import OutOfBlocks as OutOfBlocks
from .errors import UnsupportedModel as UnsupportedModel
from .errors import UnsupportedOption as UnsupportedOption
from .memory.block_pool import BlockPool as BlockPool
from .memory.block_table import BlockTable as BlockTable
from .memory.kv_cache import KVCache as KVCache
from .memory.prefix_cache import PrefixCache as PrefixCache
from .model.load import load as load
from .model.paged_model import PagedModel as PagedModel
from .model.ragged_batch import Chunk as Chunk
from .model.ragged_batch import RaggedBatch as RaggedBatch

__version__: str
