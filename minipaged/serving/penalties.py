"""Lab: OpenAI's penalties of tokens that were said, as a logits processor."""

import torch
from torch import Tensor
from transformers import LogitsProcessor


class SaidPenalty(LogitsProcessor):
    """Lowers the scores of tokens that the answer has already.

    By `presence`, and by `frequency` for each time. The prompt does not count.
    Source: OpenAI's API, presence_penalty and frequency_penalty.
    """

    def __init__(self, num_prompt_tokens: int, presence: float, frequency: float):
        """For answers to a prompt of so many tokens."""
        self.num_prompt_tokens = num_prompt_tokens
        self.presence, self.frequency = presence, frequency

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """input_ids: [rows, tokens so far]; scores: [rows, vocabulary]."""
        said = input_ids[:, self.num_prompt_tokens :]
        counts = torch.zeros_like(scores)
        counts.scatter_add_(1, said, torch.ones_like(said, dtype=scores.dtype))
        return scores - self.frequency * counts - self.presence * (counts > 0)
