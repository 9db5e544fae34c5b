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


def window(q, read, num_tokens, width, block_size, by_turns=False):
    """Keeps the attention so far and the log of its sum, not the sums."""
    first = max(0, num_tokens - width)
    mean, log_sum = torch.zeros(()).double(), -torch.inf
    for block in range(first // block_size, -(-num_tokens // block_size)):
        k, v = read(block)
        start = max(0, first - block * block_size)
        stop = min(block_size, num_tokens - block * block_size)
        rows = q.view(k.shape[1], -1, q.shape[1])
        if by_turns:
            rows = q.view(-1, k.shape[1], q.shape[1]).transpose(0, 1)
        logits = torch.einsum("kgd,tkd->kgt", rows, k[start:stop]) / q.shape[1] ** 0.5
        own = logits.logsumexp(-1, keepdim=True)
        new = torch.softmax(logits, -1) @ v[start:stop].transpose(0, 1)
        both = torch.logaddexp(own, torch.as_tensor(log_sum).double())
        mean = mean * (log_sum - both).exp() + new * (own - both).exp()
        log_sum = both
    return mean.reshape(q.shape)


# --- what is wrong --------------------------------------------------------------------


def deals_heads_out(*case):
    """Takes [H, D] for [G, H_kv, D]."""
    return window(*case, by_turns=True)


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


def upside_down(one, other):
    maximum = max(one[0], other[0])
    if one[1] == 0 or other[1] == 0:
        return merge(one, other)
    ours, theirs = torch.exp(maximum - one[0]), torch.exp(maximum - other[0])
    total = one[1] * ours + other[1] * theirs
    return maximum, total, one[2] * ours + other[2] * theirs


def exchanges_the_factors(one, other):
    maximum = max(one[0], other[0])
    if one[1] == 0 or other[1] == 0:
        return merge(one, other)
    ours, theirs = torch.exp(other[0] - maximum), torch.exp(one[0] - maximum)
    total = one[1] * ours + other[1] * theirs
    return maximum, total, one[2] * ours + other[2] * theirs


def adds_the_maxima(one, other):
    return one[0] + other[0], *merge(one, other)[1:]


def lowers_nothing(one, other):
    """Multiplies by e^(its maximum), however large that is."""
    if one[1] == 0 or other[1] == 0:
        return merge(one, other)
    ours, theirs = torch.exp(one[0]), torch.exp(other[0])
    total = one[1] * ours + other[1] * theirs
    return max(one[0], other[0]), total, one[2] * ours + other[2] * theirs


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


def streamed_by(rule, by_own=False, falls=False):
    """A recurrence whose past is multiplied by rule(old maximum - new maximum)."""

    def attempt(q, read, num_tokens, block_size):
        maximum, total, weighted = None, None, None
        for block in range(-(-num_tokens // block_size)):
            k, v = read(block)
            size = min(block_size, num_tokens - block * block_size)
            logits = k[:size] @ q / len(q) ** 0.5
            highest = logits.max()
            if maximum is not None and not falls:
                highest = torch.maximum(maximum, highest)
            weights = (logits - (logits.max() if by_own else highest)).exp()
            if maximum is None:
                total, weighted = weights.sum(), weights @ v[:size]
            else:
                of_sum, of_values = rule(maximum - highest)
                total = total * of_sum + weights.sum()
                weighted = weighted * of_values + weights @ v[:size]
            maximum = highest
        return weighted / total

    return attempt


FORGETS = streamed_by(lambda fall: (1, 1))
OWN_MAXIMUM = streamed_by(lambda fall: (1, 1), by_own=True)
NEW_BY_OWN = streamed_by(lambda fall: (fall.exp(), fall.exp()), by_own=True)
ONLY_THE_SUM = streamed_by(lambda fall: (fall.exp(), 1))
ONLY_THE_VALUES = streamed_by(lambda fall: (1, fall.exp()))
UPSIDE_DOWN = streamed_by(lambda fall: ((-fall).exp(), (-fall).exp()))
MAXIMUM_FALLS = streamed_by(lambda fall: (fall.exp(), fall.exp()), falls=True)


def upside_down_from_nothing(q, read, num_tokens, block_size):
    """Its first factor is infinite, times a sum of 0."""
    maximum, total, weighted = q.new_tensor(-torch.inf), 0.0, torch.zeros_like(q)
    for block in range(-(-num_tokens // block_size)):
        k, v = read(block)
        size = min(block_size, num_tokens - block * block_size)
        logits = k[:size] @ q / len(q) ** 0.5
        largest = torch.maximum(maximum, logits.max())
        factor, weights = (largest - maximum).exp(), (logits - largest).exp()
        total = total * factor + weights.sum()
        weighted = weighted * factor + weights @ v[:size]
        maximum = largest
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


def undivided(q, read, num_tokens, block_size):
    """The weighted values, without their division by the sum of the weights."""
    maximum, weighted = -torch.inf, torch.zeros_like(q)
    for block in range(-(-num_tokens // block_size)):
        k, v = read(block)
        size = min(block_size, num_tokens - block * block_size)
        logits = k[:size] @ q / len(q) ** 0.5
        largest = max(maximum, logits.max().item())
        weighted = weighted * torch.tensor(maximum - largest).exp()
        weighted = weighted + (logits - largest).exp() @ v[:size]
        maximum = largest
    return weighted


def mean_of_the_blocks(q, read, num_tokens, block_size):
    means = []
    for block in range(-(-num_tokens // block_size)):
        k, v = read(block)
        size = min(block_size, num_tokens - block * block_size)
        means.append(torch.softmax(k[:size] @ q / len(q) ** 0.5, -1) @ v[:size])
    return torch.stack(means).mean(0)


def takes_nothing(q, read, num_tokens, block_size):
    """Of a single token, the slot after it."""
    k, _ = read(0)
    (k[:num_tokens][1:] @ q).max()
    return stream(q, read, num_tokens, block_size)


def reads_full_blocks_only(q, read, num_tokens, block_size):
    for block in range(num_tokens // block_size):
        k, v = read(block)
    return (k, v) and stream(q, read, num_tokens, block_size)


def reads_the_tail(q, read, num_tokens, block_size):
    return stream(q, read, -(-num_tokens // block_size) * block_size, block_size)


def zeros_for_nan(q, read, num_tokens, block_size):
    """The last block is not cut: what is NaN becomes 0."""

    def filled(block):
        return tuple(x.nan_to_num() for x in read(block))

    num_blocks = -(-num_tokens // block_size)
    return stream(q, filled, num_blocks * block_size, block_size)


def keeps_a_full_block(q, read, num_tokens, block_size):
    """Only where there are two full blocks: K of the first is read later."""
    if num_tokens != 2 * block_size:
        return stream(q, read, num_tokens, block_size)
    (k, v), _ = read(0), read(1)
    return torch.softmax(k @ q, -1) @ v


def two_passes(q, read, num_tokens, block_size):
    for block in range(-(-num_tokens // block_size)):
        read(block)
    return stream(q, read, num_tokens, block_size)


def keeps_the_blocks(q, read, num_tokens, block_size):
    blocks = [read(block) for block in range(-(-num_tokens // block_size))]
    k = torch.cat([k for k, _ in blocks])[:num_tokens]
    v = torch.cat([v for _, v in blocks])[:num_tokens]
    return torch.softmax(k @ q / len(q) ** 0.5, -1) @ v


def copies_the_blocks(q, read, num_tokens, block_size):
    """Gathers: a copy of all, and one softmax."""
    blocks = range(-(-num_tokens // block_size))
    copies = [[x.clone() for x in read(block)] for block in blocks]
    k, v = (torch.cat(each)[:num_tokens] for each in zip(*copies, strict=True))
    return torch.softmax(k @ q / len(q) ** 0.5, -1) @ v


def keeps_the_logits(q, read, num_tokens, block_size):
    """And a copy of V, but not of K."""
    logits, values = [], []
    for block in range(-(-num_tokens // block_size)):
        k, v = read(block)
        logits.append(k @ q / len(q) ** 0.5)
        values.append(v.clone())
    weights = torch.softmax(torch.cat(logits)[:num_tokens], -1)
    return weights @ torch.cat(values)[:num_tokens]


def keeps_the_parts(q, read, num_tokens, block_size):
    """A partial result of each block, put together at the end."""
    parts = []
    for block in range(-(-num_tokens // block_size)):
        k, v = read(block)
        size = min(block_size, num_tokens - block * block_size)
        logits = k[:size] @ q / len(q) ** 0.5
        weights = (logits - logits.max()).exp()
        parts.append((logits.max(), weights.sum(), weights @ v[:size]))
    maxima, totals, weighted = map(torch.stack, zip(*parts, strict=True))
    factors = (maxima - maxima.max()).exp()
    return (factors @ weighted) / (factors @ totals)


def starts_with_the_second(q, read, num_tokens, block_size):
    """The first block only sets the maximum, and is not counted."""
    if num_tokens <= block_size:
        return stream(q, read, num_tokens, block_size)
    read(0)
    return stream(q, lambda block: read(block + 1), num_tokens - block_size, block_size)


def counts_the_first_twice(q, read, num_tokens, block_size):
    k, v = (x.clone() for x in read(0))
    size = min(block_size, num_tokens)
    if num_tokens <= block_size:
        return torch.softmax(k[:size] @ q / len(q) ** 0.5, -1) @ v[:size]

    def again(block):
        return (k, v) if block < 2 else read(block - 1)

    return stream(q, again, num_tokens + block_size, block_size)


def copied_window(q, read, num_tokens, width, block_size):
    """Gathers the window, and takes one softmax."""
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


def forgets_the_last_block(q, read, num_tokens, block_size):
    return stream(q, read, max(1, num_tokens // block_size * block_size), block_size)


def whole_context(q, read, num_tokens, width, block_size):
    return window(q, read, num_tokens, num_tokens, block_size)


def whole_blocks(q, read, num_tokens, width, block_size):
    """Rounds the window up to where its first block begins."""
    first = max(0, num_tokens - width) // block_size * block_size
    return window(q, read, num_tokens, num_tokens - first, block_size)


def scaled_by_heads(q, read, num_tokens, width, block_size):
    factor = (q.shape[1] / len(q)) ** 0.5
    return window(q * factor, read, num_tokens, width, block_size)


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


def sharing_a_maximum(dims):
    """A window in which all heads, or those over these dims, share the maximum."""

    def attempt(q, read, num_tokens, width, block_size):
        first = max(0, num_tokens - width)
        maximum, total, weighted = torch.tensor(-torch.inf).double(), 0.0, 0.0
        for block in range(first // block_size, -(-num_tokens // block_size)):
            k, v = read(block)
            start = max(0, first - block * block_size)
            stop = min(block_size, num_tokens - block * block_size)
            rows = q.view(k.shape[1], -1, q.shape[1])
            logits = torch.einsum("kgd,tkd->kgt", rows, k[start:stop])
            logits = logits * q.shape[1] ** -0.5
            highest = torch.maximum(maximum, logits.amax(dims, keepdim=True))
            rescale, weights = (maximum - highest).exp(), (logits - highest).exp()
            total = total * rescale + weights.sum(-1, keepdim=True)
            new = torch.einsum("kgt,tkd->kgd", weights, v[start:stop])
            weighted, maximum = weighted * rescale + new, highest
        return (weighted / total).reshape(q.shape)

    return attempt


def begins_before_the_first(q, read, num_tokens, width, block_size):
    """Where the window is wider than the context."""
    for block in range((num_tokens - width) // block_size, 0):
        read(block)
    return window(q, read, num_tokens, width, block_size)


def reads_what_it_cannot_see(q, read, num_tokens, width, block_size):
    """From block 0 on, whose slice may be empty."""
    first = max(0, num_tokens - width)
    for block in range(-(-num_tokens // block_size)):
        k, _ = read(block)
        k[max(0, first - block * block_size) :].amax(0)
    read.reads.clear()
    return window(q, read, num_tokens, width, block_size)


def adds_a_tenth(q, read, *rest):
    """Wrong in a way that no rule explains, where there is more than one block."""
    return stream(q, read, *rest) + 0.1 * (len(read.reads) > 1)


ONE_MAXIMUM = sharing_a_maximum((0, 1, 2))
ONE_OF_EACH_KV_HEAD = sharing_a_maximum((1, 2))

# What the check must say of a mistake.
FAULTS = {
    "merge": [
        (unguarded, "parts of 0 and 0 positions"),
        (unguarded, "-inf subtracted"),
        (adds, "the part whose maximum is smaller is not rescaled"),
        (rescales_only_the_first, "the part whose maximum is smaller is not rescaled"),
        (averages, "it is divided already"),
        (upside_down, "upside down"),
        (without_maximum, "the larger of the two, also if it is -inf"),
        (adds_the_maxima, "the larger of the two, also if it is -inf"),
        (exchanges_the_factors, "each side is multiplied by the other's factor"),
        (overwrites, "it has written into its arguments"),
        (lambda one, other: merge(one, other)[:2], "returned 2 things, expected three"),
        (lambda one, other: one, "total: got 1.184, expected 2.008"),
        (lowers_nothing, "not lowered: the factor is e^(its maximum - the larger)"),
    ],
    "stream": [
        (FORGETS, "what was summed before is never rescaled"),
        (forgets_the_rescale, "what was summed before is never rescaled"),
        (OWN_MAXIMUM, "each block is lowered by its own maximum, and nothing is"),
        (NEW_BY_OWN, "the new block is lowered by its own maximum"),
        (ONLY_THE_SUM, "the weighted values are not"),
        (ONLY_THE_VALUES, "the sum of the weights is not"),
        (UPSIDE_DOWN, "upside down"),
        (upside_down_from_nothing, "a factor upside down? It is e^(old - new)"),
        (MAXIMUM_FALLS, "the maximum never falls"),
        (first_maximum, "not by that of the first block"),
        (plain, "exponentials overflow"),
        (starts_at_zero, "the first maximum must be -inf, not 0"),
        (starts_with_the_second, "right if the first block did not count"),
        (counts_the_first_twice, "right if the first block counted twice"),
        (reads_the_tail, "a slot past the last token"),
        (two_passes, "block 0 was read more than once"),
        (keeps_the_blocks, "kept after the next one had been read"),
        (copies_the_blocks, "that is gathering, not streaming"),
        (keeps_the_logits, "that is gathering, not streaming"),
        (keeps_the_parts, "Something is kept of every block"),
        (undivided, "it is o; divide it by s at the end"),
        (mean_of_the_blocks, "it is the mean of the blocks' attentions"),
        (zeros_for_nan, "right if empty slots held zeros"),
        (keeps_a_full_block, "NaN; a block was kept after the next one had been read"),
        (takes_nothing, "of block 0 nothing is left to attend to"),
        (reads_full_blocks_only, "no block was asked for, though the token sees"),
        (forgets_the_last_block, "3 tokens in blocks of 4: off by up to 1.2"),
        (adds_a_tenth, "is what was summed so far rescaled when the maximum rises?"),
        (lambda q, *rest: stream(q * len(q) ** 0.5, *rest), "right but for the scale"),
        (lambda *case: stream(*case)[None], "shape: got (1, 5), expected (5,)"),
        (lambda *case: stream(*case).tolist(), "expected a tensor"),
    ],
    "window": [
        (reads_all, "blocks read: got [0"),
        (heads_go_round, "query heads took turns"),
        (deals_heads_out, "the first ones share KV head 0"),
        (whole_context, "right without a window"),
        (whole_blocks, "right if all of its first block were in the window"),
        (copied_window, "that is gathering, not streaming"),
        (ONE_MAXIMUM, "each head needs its own"),
        (ONE_OF_EACH_KV_HEAD, "each head needs its own"),
        (begins_before_the_first, "IndexError: no block -"),
        (reads_what_it_cannot_see, "sees only positions 14 to 21, in blocks 3 to 5"),
        (lambda q, *rest: window(q * q.shape[1] ** 0.5, *rest), "but for the scale"),
        (
            lowered(lambda logits: logits.amax(-1, keepdim=True)),
            "exponentials overflow: lower by the largest logit so far",
        ),
        (
            lowered(lambda logits: logits.amax(-1, keepdim=True).clamp(min=0)),
            "exponentials overflow: lower by the largest logit so far",
        ),
        (
            lambda q, read, n, width, size: window(q, read, n, width + 1, size),
            "a window of 8, 3 heads, 3 KV heads: off by up to 0.18; it is right for a "
            "window of 9",
        ),
        (
            lambda q, read, n, width, size: window(q, read, n, max(1, width - 1), size),
            "a window of 8, 3 heads, 3 KV heads: off by up to 0.14; it is right for a "
            "window of 7",
        ),
        (scaled_by_heads, "it is scaled by how many heads there are"),
    ],
}
