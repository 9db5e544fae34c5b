"""Lab: attention over all at once, and mistakes that are known by their result."""

from collections.abc import Mapping

import torch

TOLERANCE = 1e-5  # the inputs are float64, and the values about 1


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float | None = None
) -> torch.Tensor:
    """Softmax over all positions: as q, in [..., D]. k and v: [tokens, KV heads, D]."""
    logits, v = _by_head(q, k, v)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    weights = torch.softmax(logits * scale, dim=-1)
    return (weights[:, None] @ v).view(q.shape)


def _by_head(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits [heads, tokens], not scaled, and values [heads, tokens, D]."""
    rows = q.view(-1, q.shape[-1])
    k, v = (x.repeat_interleave(len(rows) // k.shape[1], dim=1) for x in (k, v))
    return torch.einsum("hd,thd->ht", rows, k), v.transpose(0, 1)


def scaled(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits [heads, tokens] and values [heads, tokens, D]."""
    logits, values = _by_head(q, k, v)
    return logits * q.shape[-1] ** -0.5, values


def wrong_inputs(
    found: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    size: int,
    others: Mapping[str, tuple[torch.Tensor, ...]],
) -> str:
    """What the mistake is, if it is one that is often made, or one of `others`."""
    tiled = torch.arange(k.shape[1]).repeat(q.numel() // q.shape[-1] // k.shape[1])
    by_turns = q.view(-1, k.shape[1], q.shape[-1]).transpose(0, 1).reshape(q.shape)
    mistakes = {
        "right but for the scale": (q, k, v, 1.0),
        "scaled by how many heads there are: take q.shape[-1]": (
            *(q, k, v),
            len(q) ** -0.5,
        ),
        "right if query heads took turns; the first ones share KV head 0": (
            by_turns,
            k,
            v,
        ),
        "right if query heads took turns; but neighbours share one": (
            q,
            k[:, tiled],
            v[:, tiled],
        ),
        "right if the last token did not count": (q, k[:-1], v[:-1]),
        "right if the first block did not count": (q, k[size:], v[size:]),
        "right if the first block counted twice": (
            q,
            torch.cat([k[:size], k]),
            torch.cat([v[:size], v]),
        ),
        **others,
    }
    for name, inputs in mistakes.items():
        if len(inputs[1]) and (found - attention(*inputs)).abs().max() < TOLERANCE:
            return f"; it is {name}"
    return ""


def wrong_division(
    found: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    sizes: list[int],
) -> str:
    """Is the division missing, or is there one for each block? sizes: their tokens."""
    logits, values = scaled(q, k, v)
    total = (logits - logits.amax(1, keepdim=True)).exp().sum(1)
    parts = zip(logits.split(sizes, 1), values.split(sizes, 1), strict=True)
    means = [(torch.softmax(x, 1)[:, None] @ part)[:, 0] for x, part in parts]
    undivided = attention(q, k, v) * total.view(*q.shape[:-1], 1)
    mean = torch.stack(means).mean(0).view(q.shape)
    if (found - undivided).abs().max() < TOLERANCE:
        return "; it is o; divide it by s at the end"
    if len(sizes) > 1 and (found - mean).abs().max() < TOLERANCE:
        return (
            "; it is the mean of the blocks' attentions; divide only once, at the end"
        )
    return ""


def has_one_maximum(
    found: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
) -> bool:
    """Is it what follows if heads that share K and V, or all heads, share m?

    Of the other heads all weights become 0, and so does their sum.
    """
    logits, _ = scaled(q, k, v)
    of_head = found.isnan().view(len(logits), -1).all(1)
    for num_groups in (1, k.shape[1]):
        grouped = logits.view(num_groups, -1, logits.shape[1])
        weights = (grouped - grouped.amax((1, 2), keepdim=True)).exp()
        is_lost = weights.sum(2).flatten() == 0  # of each head
        if is_lost.any() and torch.equal(is_lost, of_head):
            return True
    return False
