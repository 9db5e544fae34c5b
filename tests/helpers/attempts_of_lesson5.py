"""Right and wrong attempts at lesson 5's exercises."""

import torch


def merge(one, other):
    """By the log of the sums, unlike the solution in the notebook."""
    maximum = max(one[0], other[0])
    total, weighted = torch.zeros(()).double(), torch.zeros_like(one[2])
    for part in (one, other):
        if part[1] > 0:
            total = total + part[1] * torch.exp(part[0] - maximum)
            weighted = weighted + part[2] * torch.exp(part[0] - maximum)
    return maximum, total, weighted


def stream(q, read, num_tokens, block_size):
    """From the last block to the first."""
    maximum, total, weighted = -torch.inf, 0.0, torch.zeros_like(q)
    for block in reversed(range(-(-num_tokens // block_size))):
        k, v = read(block)
        size = min(block_size, num_tokens - block * block_size)
        logits = k[:size] @ q / len(q) ** 0.5
        largest = max(maximum, logits.max().item())
        rescale = torch.tensor(maximum - largest).exp()
        weights = (logits - largest).exp()
        total = total * rescale + weights.sum()
        weighted = weighted * rescale + weights @ v[:size]
        maximum = largest
    return weighted / total


def window(q, read, num_tokens, width, block_size):
    """Keeps its own copy of what it needs, so that softmax can be taken at the end."""
    first = max(0, num_tokens - width)
    logits, values = [], []
    for block in range(first // block_size, -(-num_tokens // block_size)):
        k, v = read(block)
        start = max(0, first - block * block_size)
        stop = min(block_size, num_tokens - block * block_size)
        rows = q.view(k.shape[1], -1, q.shape[1])
        logits.append(torch.einsum("kgd,tkd->kgt", rows, k[start:stop]))
        values.append(v[start:stop].clone())
    weights = torch.softmax(torch.cat(logits, -1) / q.shape[1] ** 0.5, -1)
    return torch.einsum("kgt,tkd->kgd", weights, torch.cat(values)).reshape(q.shape)


# --- what is wrong --------------------------------------------------------------------


def adds(one, other):
    return max(one[0], other[0]), one[1] + other[1], one[2] + other[2]


def rescales_only_the_first(one, other):
    maximum = max(one[0], other[0])
    rescale = torch.exp(one[0] - maximum).nan_to_num()
    return maximum, one[1] * rescale + other[1], one[2] * rescale + other[2]


def unguarded(one, other):
    maximum = torch.maximum(one[0], other[0])
    ours, theirs = torch.exp(one[0] - maximum), torch.exp(other[0] - maximum)
    total = one[1] * ours + other[1] * theirs
    return maximum, total, one[2] * ours + other[2] * theirs


def averages(one, other):
    maximum, total, weighted = merge(one, other)
    return maximum, total, weighted / total


def without_maximum(one, other):
    ours, theirs = torch.exp(one[0]), torch.exp(other[0])
    total = one[1] * ours + other[1] * theirs
    return torch.zeros(()), total, one[2] * ours + other[2] * theirs


def overwrites(one, other):
    """Right, but the caller's tensors are changed."""
    maximum, total, weighted = merge(one, other)
    one[2].copy_(weighted)
    return maximum, total, one[2]


def forgets_the_rescale(q, read, num_tokens, block_size):
    maximum, total, weighted = -torch.inf, 0.0, torch.zeros_like(q)
    for block in range(-(-num_tokens // block_size)):
        k, v = read(block)
        size = min(block_size, num_tokens - block * block_size)
        logits = k[:size] @ q / len(q) ** 0.5
        maximum = max(maximum, logits.max().item())
        weights = (logits - maximum).exp()
        total, weighted = total + weights.sum(), weighted + weights @ v[:size]
    return weighted / total


def first_maximum(q, read, num_tokens, block_size):
    """Lowers by the largest logit of the first block, for good."""
    maximum, total, weighted = None, 0.0, torch.zeros_like(q)
    for block in range(-(-num_tokens // block_size)):
        k, v = read(block)
        size = min(block_size, num_tokens - block * block_size)
        logits = k[:size] @ q / len(q) ** 0.5
        maximum = logits.max() if maximum is None else maximum
        weights = (logits - maximum).exp()
        total, weighted = total + weights.sum(), weighted + weights @ v[:size]
    return weighted / total


def starts_at_zero(q, read, num_tokens, block_size):
    """A running maximum that is never below 0."""
    maximum, total, weighted = torch.zeros(()).double(), 0.0, torch.zeros_like(q)
    for block in range(-(-num_tokens // block_size)):
        k, v = read(block)
        size = min(block_size, num_tokens - block * block_size)
        logits = k[:size] @ q / len(q) ** 0.5
        largest = torch.maximum(maximum, logits.max())
        rescale, weights = (maximum - largest).exp(), (logits - largest).exp()
        total, weighted = total * rescale, weighted * rescale
        total, weighted = total + weights.sum(), weighted + weights @ v[:size]
        maximum = largest
    return weighted / total


def plain(q, read, num_tokens, block_size):
    total, weighted = 0.0, torch.zeros_like(q)
    for block in range(-(-num_tokens // block_size)):
        k, v = read(block)
        size = min(block_size, num_tokens - block * block_size)
        weights = (k[:size] @ q / len(q) ** 0.5).exp()
        total, weighted = total + weights.sum(), weighted + weights @ v[:size]
    return weighted / total


def reads_the_tail(q, read, num_tokens, block_size):
    return stream(q, read, -(-num_tokens // block_size) * block_size, block_size)


def two_passes(q, read, num_tokens, block_size):
    for block in range(-(-num_tokens // block_size)):
        read(block)
    return stream(q, read, num_tokens, block_size)


def keeps_the_blocks(q, read, num_tokens, block_size):
    blocks = [read(block) for block in range(-(-num_tokens // block_size))]
    k = torch.cat([k for k, _ in blocks])[:num_tokens]
    v = torch.cat([v for _, v in blocks])[:num_tokens]
    return torch.softmax(k @ q / len(q) ** 0.5, -1) @ v


def forgets_the_last_block(q, read, num_tokens, block_size):
    return stream(q, read, max(1, num_tokens // block_size * block_size), block_size)


def whole_context(q, read, num_tokens, width, block_size):
    return window(q, read, num_tokens, num_tokens, block_size)


def whole_blocks(q, read, num_tokens, width, block_size):
    """Rounds the window up to where its first block begins."""
    first = max(0, num_tokens - width) // block_size * block_size
    return window(q, read, num_tokens, num_tokens - first, block_size)


def reads_all(q, read, num_tokens, width, block_size):
    for block in range(max(0, num_tokens - width) // block_size):
        read(block)
    return window(q, read, num_tokens, width, block_size)


def heads_go_round(q, read, num_tokens, width, block_size):
    num_kv_heads = read(max(0, num_tokens - 1) // block_size)[0].shape[1]
    read.reads.clear()
    q = q.view(-1, num_kv_heads, q.shape[1]).transpose(0, 1).reshape(q.shape)
    out = window(q, read, num_tokens, width, block_size)
    out = out.view(num_kv_heads, -1, q.shape[1]).transpose(0, 1)
    return out.reshape(q.shape)


def lowered(largest_of):
    """A window whose logits are lowered by largest_of(the first block's logits)."""

    def attempt(q, read, num_tokens, width, block_size):
        first = max(0, num_tokens - width)
        maximum = total = weighted = None
        for block in range(first // block_size, -(-num_tokens // block_size)):
            k, v = read(block)
            start = max(0, first - block * block_size)
            stop = min(block_size, num_tokens - block * block_size)
            rows = q.view(k.shape[1], -1, q.shape[1])
            logits = torch.einsum("kgd,tkd->kgt", rows, k[start:stop])
            logits = logits * q.shape[1] ** -0.5
            if maximum is None:
                maximum = largest_of(logits)
                total, weighted = 0.0, torch.zeros_like(rows)
            weights = (logits - maximum).exp()
            total = total + weights.sum(-1, keepdim=True)
            weighted = weighted + torch.einsum("kgt,tkd->kgd", weights, v[start:stop])
        return (weighted / total).reshape(q.shape)

    return attempt


WRONG = {
    "merge": [
        adds,
        rescales_only_the_first,
        unguarded,
        averages,
        without_maximum,
        overwrites,
        lambda one, other: merge(one, other)[:2],
        lambda one, other: one,
    ],
    "stream": [
        forgets_the_rescale,
        plain,
        first_maximum,
        starts_at_zero,
        reads_the_tail,
        two_passes,
        keeps_the_blocks,
        forgets_the_last_block,
        lambda q, *rest: stream(q * len(q) ** 0.5, *rest),
        lambda *arguments: stream(*arguments)[None],
        lambda *arguments: stream(*arguments).tolist(),
    ],
    "window": [
        whole_context,
        whole_blocks,
        reads_all,
        heads_go_round,
        lowered(lambda logits: logits.amax(-1, keepdim=True)),
        lowered(lambda logits: logits.amax(-1, keepdim=True).clamp(min=0)),
        lambda q, read, n, width, size: window(q, read, n, width + 1, size),
        lambda q, read, n, width, size: window(q, read, n, max(1, width - 1), size),
        lambda q, *rest: window(q * q.shape[1] ** 0.5, *rest),
    ],
}
