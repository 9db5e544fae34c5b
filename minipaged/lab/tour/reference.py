"""Lab: HuggingFace's side of every proof."""

from collections.abc import Sequence
from copy import copy

import torch
from transformers import DynamicCache, GenerationConfig, PreTrainedModel

from minipaged.decoding.strategy import Output
from minipaged.memory.block_table import BlockTable
from minipaged.memory.kv_cache import KVCache
from minipaged.model.keywords import cache_argument
from minipaged.progress import progress_bar


@torch.no_grad()
def huggingface_cache(model: PreTrainedModel, tokens: Sequence[int]) -> DynamicCache:
    """HuggingFace's cache, with K and V of all these tokens, also behind a window."""
    cache = DynamicCache()
    ids = torch.tensor([tokens], device=model.device)
    model(ids, **cache_argument(cache), use_cache=True)
    return cache


def same_cache(ours: KVCache, table: BlockTable, theirs: DynamicCache) -> bool:
    """Are a sequence's K and V where its table says, in every layer of our cache?"""
    slots = table.slots(0, table.num_tokens)
    for layer, their in enumerate(theirs.layers):
        pairs = (ours.keys[layer], their.keys), (ours.values[layer], their.values)
        for blocks, contiguous in pairs:
            found = blocks.flatten(0, 1)[slots]  # [tokens, KV heads, head_dim]
            wanted = contiguous[0].transpose(0, 1)
            if len(found) != len(wanted):
                return False
            # Not exactly equal: in a batch and alone, float32 rounds differently.
            if not torch.allclose(found, wanted, atol=1e-4):
                return False
    return True


def huggingface_generate(
    model: PreTrainedModel,
    prompts: Sequence[list[int]],
    generation_config: GenerationConfig | Sequence[GenerationConfig] | None = None,
    *,
    seed: int | Sequence[int] | None = None,
) -> list[list[list[int]]]:
    """What HuggingFace's `generate` answers: for each prompt, its sequences of new ids.

    One prompt at a time: batched, the prompts would be padded on the left, and padding
    changes HuggingFace's own text now and then. Every row is cut after its first eos,
    where HuggingFace goes on with padding. torch's global generator is left as it was.
    """
    outputs = huggingface_outputs(model, prompts, generation_config, seed=seed)
    return [output.sequences for output in outputs]


def huggingface_outputs(
    model: PreTrainedModel,
    prompts: Sequence[list[int]],
    generation_config: GenerationConfig | Sequence[GenerationConfig] | None = None,
    *,
    seed: int | Sequence[int] | None = None,
) -> list[Output]:
    """The same as Outputs, with the scores of a beam search; see huggingface_generate.

    The finish_reason is always "length": HuggingFace does not tell.
    """
    count = len(prompts)
    configs, seeds = (
        list(value) if isinstance(value, Sequence) else [value] * count
        for value in (generation_config, seed)
    )
    answers = []
    rows = zip(prompts, configs, seeds, strict=True)
    for prompt, config, own_seed in progress_bar(rows, "HuggingFace", count):
        ids = torch.tensor([prompt], device=model.device)
        config = copy(config) if config is not None else GenerationConfig()
        config.return_dict_in_generate = True
        beams = config.num_beams or model.generation_config.num_beams or 1
        config.output_scores = beams > 1  # as a beam's score is made of them
        with torch.random.fork_rng(enabled=own_seed is not None):
            if own_seed is not None:
                torch.manual_seed(own_seed)
            # The mask says that every token counts: HuggingFace would otherwise take a
            # pad token inside a prompt for padding.
            out = model.generate(
                ids, attention_mask=torch.ones_like(ids), generation_config=config
            )
        eos = config.eos_token_id
        eos = model.generation_config.eos_token_id if eos is None else eos
        eos_ids = set([eos] if isinstance(eos, int) else eos or [])
        new = [_cut(row, eos_ids) for row in out.sequences[:, len(prompt) :].tolist()]
        scores = getattr(out, "sequences_scores", None)
        scores = None if scores is None else scores.tolist()
        answers.append(Output(new, "length", scores))
    return answers


def _cut(row: list[int], eos_ids: set[int]) -> list[int]:
    ends = (position for position, token in enumerate(row) if token in eos_ids)
    return row[: next(ends, len(row)) + 1]
