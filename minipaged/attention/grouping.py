"""Lesson 2: sequences with similarly many new tokens, put together in rectangles."""

from typing import NamedTuple

import torch

from minipaged.attention.interface import AttentionBatch


class Rectangle(NamedTuple):
    """Sequences that attend together, the longest context first.

    Letters: S sequences, Q new tokens of the one that has most.
    """

    lengths: list[int]  # new tokens of each sequence
    contexts: list[int]  # tokens that each reads, the new ones included
    sequences: torch.Tensor  # [S]: their numbers in the batch
    queries: torch.Tensor  # [S, Q]: which token of the batch; padding repeats the last
    positions: torch.Tensor  # [S, Q]: where it stands in its sequence


def group_by_length(batch: AttentionBatch) -> tuple[list[Rectangle], torch.Tensor]:
    """Put every sequence of the batch into a group.

    A prompt of 500 tokens beside 31 single tokens would be mostly padding in one
    rectangle. So the sequences are grouped by their number of new tokens, rounded up to
    a power of two: at most half of a group's queries are padding.

    Returns the groups, and for each token of the batch its row in the groups' results
    put together.
    """
    starts, device = batch.query_starts[:-1], batch.query_starts.device
    lengths = batch.query_starts.diff().tolist()
    contexts = batch.context_lengths.tolist()
    by_power: dict[int, list[int]] = {}
    for sequence in sorted(range(len(lengths)), key=lambda s: -contexts[s]):
        power = (lengths[sequence] - 1).bit_length()
        by_power.setdefault(power, []).append(sequence)
    groups, num_rows = [], 0
    first_row = torch.empty_like(starts)
    for members in by_power.values():
        sequences = torch.tensor(members, device=device)
        own_lengths = [lengths[sequence] for sequence in members]
        own_contexts = [contexts[sequence] for sequence in members]
        query = torch.arange(max(own_lengths), device=device)
        stop = batch.query_starts[sequences + 1, None]  # [S, 1]
        queries = (starts[sequences, None] + query).minimum(stop - 1)
        # A sequence's tokens are its last ones: they end where its context ends.
        positions = queries + (batch.context_lengths[sequences, None] - stop)
        groups.append(
            Rectangle(own_lengths, own_contexts, sequences, queries, positions)
        )
        step = torch.arange(len(members), device=device)
        first_row[sequences] = num_rows + step * len(query)
        num_rows += queries.numel()
    token = torch.arange(sum(lengths), device=device)
    shift = (first_row - starts).repeat_interleave(batch.query_starts.diff())
    return groups, token + shift
