"""Prompts of random tokens for the benchmarks, the same ones every time."""

import torch


def random_prompts(
    count: int, shortest: int, longest: int, vocabulary: int
) -> list[list[int]]:
    """`count` prompts of `shortest` to `longest` tokens; ids 5 to `vocabulary` - 1."""
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(shortest, longest + 1, (count,), generator=generator)
    return [
        torch.randint(5, vocabulary, (n,), generator=generator).tolist()
        for n in lengths.tolist()
    ]
