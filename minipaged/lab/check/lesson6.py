"""Lab: checks of lesson 6's exercises: the least time, and two kernels."""

import inspect
import math
from collections.abc import Callable
from typing import Any

import torch

from minipaged.lab.check.verdict import Attempt, Rejected, attempted, exercise, expect

GUARD = -7  # in places that the kernel must leave alone
TOLERANCE = 1e-4  # of float32, with values about 1
LN_2 = math.log(2)


@exercise
def least_time(attempt: Attempt) -> None:
    """(contexts, num_kv_heads, head_dim, bytes_each, gb_per_s) -> microseconds."""
    for contexts, kv_heads, dim, bytes_each, rate in (
        ([1], 1, 64, 4, 1),
        ([2048] * 32, 8, 128, 2, 4589),
        ([100, 3000, 1], 2, 64, 2, 300),
        ([4096], 32, 128, 1, 2000),
        ([], 8, 128, 2, 4589),
    ):
        arguments = contexts, kv_heads, dim, bytes_each, rate
        found = attempt(*arguments)
        try:
            found = float(found + 0)  # text is no number
        except (TypeError, ValueError):
            raise Rejected(
                f"{attempt.call(*arguments)}: got {found!r:.40}, expected a number"
            ) from None
        one = sum(contexts) * kv_heads * dim * bytes_each / (rate * 1e3)
        if not abs(found - 2 * one) <= 1e-6 * one + 1e-12:  # nor is NaN
            said = _mistake(found, one)
            raise Rejected(
                f"{attempt.call(*arguments)}: got {found:.6g}, expected {2 * one:.6g}"
                f"{said}"
            )


def _mistake(found: float, one: float) -> str:
    """What was forgotten, if it is a thing that often is."""
    mistakes = {
        one: "half of it; who else must be read beside K?",
        2 * one / 1.024**3: "a GB is 10**9 bytes, not 2**30",
        2 * one / 1e3: "these are milliseconds",
        2 * one / 1e6: "these are seconds",
        2e3 * one: "these are nanoseconds",
    }
    near = [m for x, m in mistakes.items() if abs(found - x) < 1e-6 * abs(x)]
    return f"; {near[0]}" if near else ""


@exercise
def slots(attempt: Attempt) -> None:
    """A kernel (slots, table, positions, num_tokens, BLOCK_SIZE, TILE)."""
    generator = torch.Generator().manual_seed(0)
    for num_tokens, block_size, tile, largest in (
        (1, 4, 16, 50),
        (16, 16, 16, 50),
        (21, 4, 32, 50),
        (40, 16, 16, 2**30),
    ):
        num_blocks = -(-num_tokens // block_size)
        table = torch.randint(largest // 2, largest, (num_blocks,), generator=generator)
        positions = torch.randperm(num_tokens, generator=generator)
        right = table[positions // block_size] * block_size + positions % block_size
        if num_tokens > 1:
            positions[1], right[1] = -1, -1
        found = torch.full((num_tokens + 16,), GUARD)
        story = (
            f"{num_tokens} positions, blocks of {block_size}, {tile} in a program, "
            f"block ids up to {table.max()}"
        )
        arguments = found, table.int(), positions, num_tokens, block_size, tile
        found, *_ = _launch(attempt, story, (-(-num_tokens // tile),), *arguments)
        if (found[num_tokens:] != GUARD).any():
            raise Rejected(f"{story}: it stored behind the last slot; mask the store")
        for position, mine, slot in zip(
            positions.tolist(), found.tolist(), right.tolist(), strict=False
        ):
            more = ""
            if mine != slot and (mine - slot) % 2**32 == 0:
                more = " (it wrapped: 64 bits, before anything is multiplied)"
            expect(f"{story}; slot of position {position}{more}", mine, slot)


@exercise
def split(attempt: Attempt) -> None:
    """A kernel (means, logs, q, keys, values, table, num_tokens, scale, five sizes)."""
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    for num_tokens, heads, kv_heads, block_size, share, num_splits, spread in (
        (1, 1, 1, 4, 4, 1, 1),
        (3, 2, 1, 4, 4, 2, 1),
        (8, 4, 2, 4, 4, 2, 1),
        (13, 4, 2, 8, 8, 3, 200),
        (21, 3, 3, 4, 8, 3, 1),
        (6, 2, 2, 4, 4, 2, -200),
    ):
        dim, num_blocks = 16, 9
        table = torch.randperm(num_blocks, generator=generator)
        q, k, v = (
            spread * draw(heads, dim),
            *(draw(num_tokens, kv_heads, dim) for _ in "kv"),
        )
        if spread < 0:
            q, k = -q.abs(), k.abs()
        position = torch.arange(num_tokens)
        places = table[position // block_size] * block_size + position % block_size
        pools = []
        for content in (k, v):
            pool = torch.full((num_blocks, block_size, kv_heads, dim), torch.nan)
            pool.flatten(0, 1)[places] = content
            pools.append(pool)
        means = torch.full((heads + 1, num_splits, dim), float(GUARD))
        scale, sizes = 0.3, (share, heads // kv_heads, kv_heads, dim, block_size)
        story = (
            f"{num_tokens} tokens in blocks of {block_size}, {heads} heads, {kv_heads} "
            f"KV heads, scale {scale}{', logits in the hundreds' * (spread > 1)}"
            f"{', all logits below -100' * (spread < 0)}"
        )
        inputs = q, *pools, table.int(), num_tokens, scale, *sizes
        arguments = means, means[..., 0].clone(), *inputs
        means, logs = _launch(attempt, story, (heads, num_splits), *arguments)[:2]
        if (means[heads] != GUARD).any() or (logs[heads] != GUARD).any():
            raise Rejected(f"{story}: it stored behind the last head's numbers")
        for at in range(num_splits):
            own = slice(at * share, (at + 1) * share)
            of = f"{story}; split {at}, with {len(k[own])} of them"
            right = _part(q, k[own], v[own], scale)
            _leaves(of, means[:heads, at], logs[:heads, at], *right)


def _leaves(
    story: str,
    mean: torch.Tensor,
    log: torch.Tensor,
    right_mean: torch.Tensor,
    right_log: torch.Tensor,
) -> None:
    """Compare what all heads of a split leave behind with what they should."""
    if (mean == GUARD).any() or (log == GUARD).any():
        raise Rejected(f"{story}: not all was stored")
    if mean.isnan().any() or log.isnan().any():
        is_empty = right_log.isinf().all()
        said = "a slot past the last token was used, of K or of V, or it overflowed"
        said = "is it 0 / 0?" if is_empty else f"{said}, or all weights became 0"
        raise Rejected(f"{story}: NaN; {said}")
    error = (mean - right_mean).abs().max().item()
    if error > TOLERANCE:
        said = "which positions, which block and which KV head are read?"
        raise Rejected(f"{story}: the mean is off by up to {error:.2g}; {said}")
    for found, right in zip(log.tolist(), right_log.tolist(), strict=True):
        if found != right and not abs(found - right) < TOLERANCE * max(1, abs(right)):
            said = "; that is to the base 2" * (abs(found * LN_2 - right) < TOLERANCE)
            raise Rejected(f"{story}: a log is {found:.6g}, not {right:.6g}{said}")


def _part(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Softmax over all of k and v at once, in float64: the mean, the log of the sum."""
    group = len(q) // k.shape[1]
    k, v = (x.double().repeat_interleave(group, dim=1) for x in (k, v))
    logits = torch.einsum("hd,thd->ht", q.double(), k) * scale
    return torch.einsum("ht,thd->hd", logits.softmax(-1), v), logits.logsumexp(-1)


def _launch(
    attempt: Attempt, story: str, grid: tuple[int, ...], *arguments: Any
) -> list[torch.Tensor]:
    """Run the kernel where kernels run; return its tensors as they are then, here."""
    # Only here: lessons 1 to 5 do without Triton, and their checks stand beside these.
    from minipaged.attention.kernels.setup import INTERPRETED

    kernel = attempt.function
    if not hasattr(kernel, "__getitem__"):  # kernel[grid](...)
        attempt.shared(*arguments)  # the stub says that it is one
        raise Rejected(f"{attempt.name} is no kernel; write @triton.jit above it")
    if "raise NotImplementedError" in inspect.getsource(kernel.fn):
        raise NotImplementedError
    device = "cpu" if INTERPRETED else "cuda"
    arguments = tuple(
        x.to(device) if isinstance(x, torch.Tensor) else x for x in arguments
    )
    attempt.num_cases += 1
    run: Callable[..., Any] = kernel[grid]
    attempted(story, run, *arguments)
    return [x.cpu() for x in arguments if isinstance(x, torch.Tensor)]
