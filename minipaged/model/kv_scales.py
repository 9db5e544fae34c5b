"""Appendix C: K and V in 8 bits: scales from a text, and what they cost on that text.

Each layer and KV head has a scale for K and one for V: so large that twice the largest
numbers of a text fit. Then the text is computed over both caches, the model's own and
that of 8 bits. The share of tokens that both find likeliest is the *agreement*. A model
below LEAST_AGREEMENT is refused, because its text would become another in silence.

On the text that decided the scales, all numbers fit. So the agreement shows what
rounding costs. It does not show what is lost when another text has numbers that are
more than twice as large: take a text such as the model will see.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor
from transformers import PreTrainedModel

from minipaged.attention.backend import refuse_without_scales
from minipaged.errors import UnsupportedModel
from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable
from minipaged.memory.eight_bits import LayerScales, scale_for
from minipaged.memory.kv_cache import KVCache
from minipaged.model.inputs import Chunk, RaggedBatch
from minipaged.model.positions import num_positions

if TYPE_CHECKING:
    from minipaged.model.paged_model import PagedModel

FILE = "minipaged_kv_scales.safetensors"
LEAST_AGREEMENT = 0.95  # of a text's tokens
_PIECE = 256  # tokens whose logits are compared at a time
_OWN_TEXTS, _OWN_LENGTH = 8, 64  # of a model's own text, and their tokens

Kind = Literal["fp8", "fp8_v"]
Text = Sequence[Sequence[int]]


@dataclass
class EightBits:
    """How to store K and V in 8 bits: `PagedModel(model, kv_dtype=EightBits(...))`.

    kind: "fp8", or "fp8_v" for V alone: K stays in the model's type.
    text: token ids of texts such as the model will see, which decide the scales. None:
        the text and the scales that were saved with the model, or else texts that the
        model writes.
    insist: take the model whatever the agreement is, for example if its weights are
        random.
    """

    kind: Kind = "fp8"
    text: Text | None = None
    insist: bool = False

    def __post_init__(self) -> None:
        """Refuse what is no kind, or no text."""
        if self.kind not in get_args(Kind):
            raise ValueError(
                f'kv_dtype must be "fp8", "fp8_v", None or EightBits, got {self.kind!r}'
            )
        if self.text is not None and not any(map(len, self.text)):
            raise ValueError("text must have token ids: a list of them for each text")


@dataclass
class KVScales:
    """The scales of a model's K and V, and what 8 bits cost on the text behind them.

    kind: "fp8" or "fp8_v". layers: what the cache is given. text: token ids.
    agreement: the share of tokens with the same likeliest next token as in `bits` bits,
    on this text, in which no number is too large for its scale.
    error: the size of the logits' difference, relative to that of the logits.
    """

    kind: Kind
    both: list[LayerScales]  # of K and V, whatever the kind is
    text: list[list[int]]
    bits: int
    agreement: float = 0.0
    error: float = 0.0

    @property
    def layers(self) -> list[LayerScales]:
        """The scales of each layer; without those of K, if V alone is in 8 bits."""
        if self.kind == "fp8":
            return self.both
        return [LayerScales(None, values) for _, values in self.both]

    def __str__(self) -> str:
        return (
            f"{self.kind}: {self.agreement:.1%} of {sum(map(len, self.text))} tokens "
            f"as in {self.bits} bits, logits off by {self.error:.1%}"
        )

    def save(self, folder: str | os.PathLike) -> Path:
        """Write scales and text into the model's folder, where they are found again."""
        tensors = {
            "text": torch.tensor([token for tokens in self.text for token in tokens]),
            "lengths": torch.tensor(list(map(len, self.text))),
        }
        for index, (keys, values) in enumerate(self.both):
            tensors[f"layers.{index}.k_scale"] = keys
            tensors[f"layers.{index}.v_scale"] = values
        path = Path(folder) / FILE
        save_file(tensors, path)
        return path


def find_scales(
    paged: "PagedModel", kv_dtype: str | EightBits, block_size: int
) -> KVScales:
    """The scales for this model, and their cost, measured by the attention it has.

    Raises UnsupportedModel if the agreement is too low, or scales in the model's folder
    are wrong; ValueError for another kv_dtype, or attention that heeds no scales.
    """
    wanted = kv_dtype if isinstance(kv_dtype, EightBits) else EightBits(kv_dtype)
    refuse_without_scales(paged.attention)
    saved = None
    text = wanted.text
    if text is None:
        saved = _load(paged)
        text = _own_text(paged.model) if saved is None else saved.text
    text = [list(map(int, tokens)) for tokens in text if len(tokens)]
    num_blocks = -(-max(map(len, text)) // block_size)
    own = paged.new_cache(num_blocks, block_size)
    both = []
    for keys, values in _largest(paged, own, text):
        both.append(LayerScales(scale_for(keys), scale_for(values)))
    if saved is not None:
        _refuse_wrong(saved.both, both, paged)
        both = saved.both
    found = KVScales(wanted.kind, both, text, 8 * paged.dtype.itemsize)
    eight = paged.new_cache(num_blocks, block_size, found.layers)
    found.agreement, found.error = _cost(paged, own, eight, text)
    if not (found.agreement >= LEAST_AGREEMENT or wanted.insist):
        remedy = 'try kv_dtype="fp8_v", ' if wanted.kind == "fp8" else ""
        raise UnsupportedModel(
            f"{type(paged.model).__name__} with K and V in 8 bits ({found}); at least "
            f"{LEAST_AGREEMENT:.0%} should be: {remedy}or do without kv_dtype; "
            f'mp.EightBits("{wanted.kind}", insist=True) takes it as it is'
        )
    return found


def _largest(
    paged: "PagedModel", cache: KVCache, text: Text
) -> Iterator[tuple[Tensor, Tensor]]:
    """The largest numbers of K and V of each layer, by KV head: [num_kv_heads]."""
    largest: list[list[Tensor]] = []
    for batch in _batches(paged, cache, text):
        paged.forward_over(batch, cache)
        layers = map(cache.layer, range(len(cache.keys)))
        tensors = [blocks for layer in layers for blocks in (layer.keys, layer.values)]
        news = (x.flatten(0, 1)[batch.slots].abs().amax((0, 2)) for x in tensors)
        largest.append(list(news))
    of_all = [torch.stack(each).amax(0) for each in zip(*largest, strict=True)]
    return zip(of_all[::2], of_all[1::2], strict=True)


def _cost(
    paged: "PagedModel", own: KVCache, eight: KVCache, text: Text
) -> tuple[float, float]:
    """Agreement and error of logits over the cache of 8 bits."""
    same = count = square = square_off = 0.0
    for batch in _batches(paged, own, text):
        right, ours = (paged.forward_over(batch, cache) for cache in (own, eight))
        same += (right.argmax(-1) == ours.argmax(-1)).sum().item()
        count += len(right)
        square += right.square().sum().item()
        square_off += (ours - right).square().sum().item()
    return same / count, (square_off / square) ** 0.5


def _batches(paged: "PagedModel", cache: KVCache, text: Text) -> Iterator[RaggedBatch]:
    """The texts one after another, in pieces, with the logits of all tokens."""
    for tokens in text:
        table = BlockTable(BlockPool(cache.num_blocks, cache.block_size))
        for start in range(0, len(tokens), _PIECE):
            piece = tokens[start : start + _PIECE]
            table.append(len(piece))
            chunk = Chunk(piece, table, num_logits=len(piece))
            yield RaggedBatch.build([chunk], device=paged.device)


def _own_text(model: PreTrainedModel) -> list[list[int]]:
    """Texts that the model itself finds likeliest, each after another second token."""
    config = model.generation_config
    first = config.eos_token_id if config.bos_token_id is None else config.bos_token_id
    first = first[0] if isinstance(first, list) else first or 0
    length = min(_OWN_LENGTH, num_positions(model.config) or _OWN_LENGTH)
    with torch.inference_mode():
        start = torch.tensor([[first]], device=model.device)
        seconds = model(input_ids=start).logits[0, -1].topk(_OWN_TEXTS).indices
        starts = torch.stack([start[0].expand(_OWN_TEXTS), seconds], dim=1)
        texts = model.generate(
            input_ids=starts,
            attention_mask=torch.ones_like(starts),
            max_new_tokens=length - 2,
            do_sample=False,
            num_beams=1,
            eos_token_id=None,  # texts go on
        )
    return texts.tolist()


def _load(paged: "PagedModel") -> KVScales | None:
    """What was saved in the folder that the model was loaded from; None without it."""
    path = Path(paged.model.name_or_path) / FILE
    if not path.is_file():
        return None
    with safe_open(path, "pt", device=str(paged.device)) as file:
        lengths = file.get_tensor("lengths").tolist()
        text = [part.tolist() for part in file.get_tensor("text").split(lengths)]
        both = []
        while f"layers.{len(both)}.k_scale" in file.keys():  # noqa: SIM118
            names = (f"layers.{len(both)}.{side}_scale" for side in "kv")
            both.append(LayerScales(*map(file.get_tensor, names)))
    return KVScales("fp8", both, text, 8 * paged.dtype.itemsize)


def _refuse_wrong(
    saved: list[LayerScales], wanted: list[LayerScales], paged: "PagedModel"
) -> None:
    """Refuse saved scales that are not, up to a factor of 2, what their text asks for.

    A number may lie just below a power of two on another device, and just above it
    here.
    """
    of_saved, of_wanted = (
        [scale for layer in layers for scale in layer] for layers in (saved, wanted)
    )
    shapes = [[scale.shape for scale in each] for each in (of_saved, of_wanted)]
    right = shapes[0] == shapes[1] and all(
        ((one / other).log2().abs() <= 1).all()
        for one, other in zip(of_saved, of_wanted, strict=True)
    )
    if not right:
        raise UnsupportedModel(
            f"{FILE} in {paged.model.name_or_path} has scales that are not this "
            "model's: delete the file, and save its scales anew, by "
            "paged.kv_scales.save(folder)"
        )
