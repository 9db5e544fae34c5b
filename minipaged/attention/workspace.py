"""Lesson 2: memory that attention uses again, layer after layer and step after step."""

import math

import torch


def borrow(
    workspace: dict[str, torch.Tensor], name: str, num_rows: int, like: torch.Tensor
) -> torch.Tensor:
    """Memory for `num_rows` rows like those of `like`: [num_rows, *like.shape[1:]].

    On a CPU, fresh memory of some megabytes costs more in page faults than gathering
    into it. Whoever borrows the same name again gets the same memory. For inference
    only: what autograd has kept would be overwritten.
    """
    shape = (num_rows, *like.shape[1:])
    size, piece = math.prod(shape), workspace.get(name)
    kind = like.dtype, like.device
    if piece is None or len(piece) < size or (piece.dtype, piece.device) != kind:
        # Half as much again, since contexts grow by a token every step.
        piece = workspace[name] = like.new_empty(size + size // 2)
    return piece[:size].view(shape)
