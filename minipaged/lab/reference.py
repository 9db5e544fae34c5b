"""Lab: HuggingFace's side of every proof."""

from collections.abc import Sequence

import torch
from transformers import GenerationConfig, PreTrainedModel

from minipaged.progress import progress_bar


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
    count = len(prompts)
    configs, seeds = (
        list(value) if isinstance(value, Sequence) else [value] * count
        for value in (generation_config, seed)
    )
    answers = []
    rows = zip(prompts, configs, seeds, strict=True)
    for prompt, config, own_seed in progress_bar(rows, "HuggingFace", count):
        ids = torch.tensor([prompt], device=model.device)
        with torch.random.fork_rng(enabled=own_seed is not None):
            if own_seed is not None:
                torch.manual_seed(own_seed)
            # The mask says that every token counts: HuggingFace would otherwise take a
            # pad token inside a prompt for padding.
            out = model.generate(
                ids, attention_mask=torch.ones_like(ids), generation_config=config
            )
        eos = (
            config.eos_token_id if config and config.eos_token_id is not None else None
        )
        eos = model.generation_config.eos_token_id if eos is None else eos
        eos_ids = set([eos] if isinstance(eos, int) else eos or [])
        answers.append([_cut(row, eos_ids) for row in out[:, len(prompt) :].tolist()])
    return answers


def _cut(row: list[int], eos_ids: set[int]) -> list[int]:
    ends = (position for position, token in enumerate(row) if token in eos_ids)
    return row[: next(ends, len(row)) + 1]
