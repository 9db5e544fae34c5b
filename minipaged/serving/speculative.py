"""Lab: `--speculative-config`: guesses, in the words of vLLM."""

from typing import Annotated, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from minipaged.decoding.draft_model import DraftModel
from minipaged.decoding.prompt_lookup import PromptLookup
from minipaged.decoding.speculation import Speculation
from minipaged.model.load import load
from minipaged.model.paged_model import PagedModel

Count = Annotated[int, Field(ge=1)]


class SpeculativeConfig(BaseModel):
    """What we take of vLLM's: n-grams, suffixes, or a smaller model."""

    model_config = ConfigDict(extra="forbid", strict=True)

    method: Literal["ngram", "suffix", "draft_model"] | None = None
    num_speculative_tokens: Count
    prompt_lookup_max: Count = 5  # of "ngram"; fewer tokens are looked for, too
    model: str | None = None  # which guesses


def speculation_of(
    text: str, paged: PagedModel, attention: str, dtype: str
) -> Speculation:
    """Guesses for a model, as JSON asks for them.

        {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4}
        {"method": "suffix", "num_speculative_tokens": 8}
        {"model": "Qwen/Qwen3-0.6B", "num_speculative_tokens": 4}

    attention, dtype: of a model that guesses.

    Raises ValueError for anything else, and MemoryError if that model has no room.
    """
    try:
        asked = SpeculativeConfig.model_validate_json(text)
    except ValidationError as error:
        fault = error.errors()[0]
        place = ".".join(map(str, fault["loc"])) or "JSON"
        raise ValueError(f"--speculative-config: {place}: {fault['msg']}") from error
    drafts = asked.method in (None, "draft_model")
    if drafts != (asked.model is not None):
        raise ValueError(
            '--speculative-config: give "model", or "method": "ngram" or "suffix"'
        )
    count = asked.num_speculative_tokens
    if not drafts:
        by_suffix = asked.method == "suffix"
        return PromptLookup(count, None if by_suffix else asked.prompt_lookup_max)
    small, _ = load(asked.model, getattr(torch, dtype))
    pool = paged.pool
    # Over the same blocks, so on a GPU the large model must have left room for them.
    return DraftModel(
        PagedModel(small, pool.num_blocks, pool.block_size, attention), count
    )
