"""Lab: what lesson 5's checks share: what is read, and attention over all at once."""

from collections.abc import Callable, Mapping
from typing import Any

import torch

from minipaged.lab.check.blocks import Blocks
from minipaged.lab.check.misread import (
    TOLERANCE,
    attention,
    has_one_maximum,
    scaled,
    wrong_division,
    wrong_inputs,
)
from minipaged.lab.check.verdict import Rejected, expect
from minipaged.lab.measure.peak import peak_extra_bytes

BLOCK_SIZE = 4
LONG_BLOCKS = 48, 240  # of the contexts over which memory is measured
# First and last logit, far beyond what exp can take; and what overflows there.
RAMPS = {
    (-1000.0, 1000.0): "exponentials overflow: lower by the largest logit so far, not "
    "by that of the first block, nor by none",
    (-900.0, -1000.0): "all exponentials are 0: the first maximum must be -inf, not 0",
    (1000.0, -1000.0): "a rescale overflows: the maximum never falls, it is the larger "
    "of the old one and the block's",
}


def draw(
    generator: torch.Generator,
    num_tokens: int,
    heads: int,
    kv_heads: int,
    spread: float,
) -> tuple[torch.Tensor, ...]:
    """q [heads, 5]; k and v [num_tokens, kv heads, 5], in float64."""
    shapes = (heads, 5), (num_tokens, kv_heads, 5), (num_tokens, kv_heads, 5)
    q, k, v = (torch.randn(shape, generator=generator).double() for shape in shapes)
    return spread * q, spread * k, v


def ramp(
    generator: torch.Generator, start: float, end: float, heads: int, kv_heads: int
) -> tuple[torch.Tensor, ...]:
    """As `draw`, for 19 tokens, with logits that go evenly from start to end."""
    q, k, v = draw(generator, 19, heads, kv_heads, 1.0)
    logits = torch.linspace(start, end, 19).double().view(-1, 1, 1)
    return torch.ones_like(q), (logits * 5**-0.5).expand_as(k), v


def answer_of(
    story: str, attempt: Callable[[], Any], read: Blocks, seen: range, wanted: range
) -> Any:
    """What the attempt returns; if it fails, which blocks and positions mattered.

    seen: the positions that the token sees. wanted: the blocks in which they lie.
    """
    try:
        return attempt()
    except Rejected as failure:
        if needless := [block for block in read.reads if block not in wanted]:
            what = f"block {needless[0]} was asked for, though the token sees only "
            what += f"{_span('position', seen)}, in {_span('block', wanted)}"
        elif not read.reads and "no block" not in str(failure):
            what = "no block was asked for, though the token sees "
            what += f"{_span('position', seen)}, in {_span('block', wanted)}"
        elif "non-zero size" in str(failure) or "numel() == 0" in str(failure):
            what = f"of block {read.reads[-1]} nothing is left to attend to, though "
            what += f"the token sees {_span('position', seen)}"
        else:
            raise
        raise Rejected(f"{story}: {what}\n  {failure}") from failure


def _span(word: str, numbers: range) -> str:
    if len(numbers) == 1:
        return f"{word} {numbers[0]}"
    return f"{word}s {numbers[0]} to {numbers[-1]}"


def read_once(story: str, read: Blocks, wanted: range) -> None:
    """Raise Rejected unless each wanted block was read once, and no other."""
    twice = sorted({block for block in read.reads if read.reads.count(block) > 1})
    if twice:
        raise Rejected(f"{story}: block {twice[0]} was read more than once")
    expect(f"{story}; blocks read", sorted(read.reads), list(wanted))


def holds_little(compute: Callable[[Blocks, int], object], heads: int) -> None:
    """Raise Rejected if what `compute` holds grows with the context.

    compute: called with the blocks and the number of tokens, twice; the second context
    is the longer one. It must hold as much in both.
    """
    generator, peaks = torch.Generator().manual_seed(0), []
    for num_blocks in LONG_BLOCKS:
        num_tokens = num_blocks * BLOCK_SIZE
        _, k, v = draw(generator, num_tokens, heads, heads, 1.0)
        read = Blocks(k, v, BLOCK_SIZE)
        if heads == 1:
            read = Blocks(k[:, 0], v[:, 0], BLOCK_SIZE)
        peaks.append(peak_extra_bytes(lambda: compute(read, num_tokens)))  # noqa: B023
    more, block = peaks[1] - peaks[0], read.block_bytes
    if more <= block:
        return
    short, long = LONG_BLOCKS
    said = f"of {short} blocks it held {peaks[0]:,} bytes at most, of {long} blocks "
    said += f"{peaks[1]:,}; it must not grow. "
    if more > (long - short) * block / 2:
        said += "K or V of all blocks are kept: that is gathering, not streaming"
    else:
        said += "Something is kept of every block: keep (m, s, o) of all so far instead"
    raise Rejected(said)


def attends(
    story: str,
    found: Any,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    read: Blocks,
    again: Callable[[Blocks], Any],
    others: Mapping[str, tuple[torch.Tensor, ...]] | None = None,
    hint: str = "",
) -> None:
    """Compare with softmax over all of k and v at once.

    again: asks the attempt once more, over other blocks. others: see wrong_inputs.
    hint: what overflows, if the logits are made for that.
    """
    if not isinstance(found, torch.Tensor):
        raise Rejected(f"{story}: got {found!r:.40}, expected a tensor")
    expect(f"{story}; shape", tuple(found.shape), tuple(q.shape))
    if found.isnan().any():
        said = _unreadable(read, again)
        if has_one_maximum(found.double(), q, k, v):
            said = "0 / 0: one maximum serves several heads, and all weights of the "
            said += "others become 0; each head needs its own"
        raise Rejected(f"{story}: NaN; {hint or said}")
    error = (found.double() - attention(q, k, v)).abs().max()
    if error > TOLERANCE:
        others = dict(others or {}) | _with_zeros(q, k, v, read)
        said = wrong_inputs(found.double(), q, k, v, read.block_size, others)
        said = said or wrong_division(found.double(), q, k, v, _sizes(read, len(k)))
        said = said or _forgotten(found.double(), q, k, v, read)
        if not said and len(read.reads) > 1:
            said = "is what was summed so far rescaled when the maximum rises?"
            said = f"; {hint or said}"
        raise Rejected(f"{story}: off by up to {error:.2g}{said}")


def is_attention(found: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> bool:
    """Is it attention over all of k and v?"""
    if not isinstance(found, torch.Tensor) or found.shape != q.shape:
        return False
    return bool((found.double() - attention(q, k, v)).abs().max() < TOLERANCE)


def _unreadable(read: Blocks, again: Callable[[Blocks], Any]) -> str:
    """Where NaN comes from in this case: what must be forgiven for it to vanish."""
    slot = "a slot past the last token was used (0 × NaN is NaN, too)"
    kept = "a block was kept after the next one had been read"
    causes = {slot: {"empty": 0.0}, kept: {"is_forgotten": False}}
    causes[f"{slot}, and {kept}"] = {"empty": 0.0, "is_forgotten": False}
    for said, mercy in causes.items():
        try:
            found = again(read.milder(**mercy))
        except Rejected:
            continue
        if isinstance(found, torch.Tensor) and not found.isnan().any():
            return said
    return (
        "is -inf subtracted from -inf, does an exp overflow, is 0 / 0 computed, or "
        "is a factor upside down? It is e^(old - new)"
    )


def _with_zeros(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, read: Blocks
) -> dict[str, tuple[torch.Tensor, ...]]:
    """What is attended to if each empty slot counts as zeros."""
    zeros = k.new_zeros(read.block_size - read.num_in_last, *k.shape[1:])
    name = "right if empty slots held zeros: a logit of 0 still has a weight; cut them"
    return (
        {name: (q, torch.cat([k, zeros]), torch.cat([v, zeros]))} if len(zeros) else {}
    )


# What is done to the past's sum and output when the maximum rises by `rise`, and by
# what the new block is lowered: by the running maximum, or by its own.
Rule = Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
RULES: Mapping[str, tuple[Rule, bool]] = {
    "what was summed before is never rescaled": (
        lambda rise: (torch.ones_like(rise), torch.ones_like(rise)),
        False,
    ),
    "each block is lowered by its own maximum, and nothing is rescaled": (
        lambda rise: (torch.ones_like(rise), torch.ones_like(rise)),
        True,
    ),
    "the new block is lowered by its own maximum, not by the running one": (
        lambda rise: ((-rise).exp(), (-rise).exp()),
        True,
    ),
    "the sum of the weights is rescaled, and the weighted values are not": (
        lambda rise: ((-rise).exp(), torch.ones_like(rise)),
        False,
    ),
    "the weighted values are rescaled, and the sum of the weights is not": (
        lambda rise: (torch.ones_like(rise), (-rise).exp()),
        False,
    ),
    "the rescale is upside down: it is e^(old maximum - new maximum)": (
        lambda rise: (rise.exp(), rise.exp()),
        False,
    ),
}


def _sizes(read: Blocks, num_tokens: int) -> list[int]:
    """How many tokens of each block that was read are seen."""
    if len(read.reads) < 2:
        return [num_tokens]
    sizes = [read.block_size] * (len(read.reads) - 2) + [read.num_in_last]
    return [num_tokens - sum(sizes), *sizes]  # the first one may be seen in part


def _forgotten(
    found: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    read: Blocks,
) -> str:
    """Which rule of the recurrence is broken, if the result is that of breaking it."""
    if len(read.reads) < 2:
        return ""
    logits, v = scaled(q, k, v)
    sizes = _sizes(read, len(k))
    for name, (rule, by_own) in RULES.items():
        wrong = walk(logits, v, sizes, rule, by_own).view(q.shape)
        if (found - wrong).abs().max() < TOLERANCE:
            return f"; {name}"
    return ""


def walk(
    logits: torch.Tensor,
    values: torch.Tensor,
    sizes: list[int],
    rule: Rule,
    by_own: bool,
) -> torch.Tensor:
    """Attention in one pass by a broken rule: [heads, D]."""
    maximum = total = weighted = None
    for x, v in zip(logits.split(sizes, 1), values.split(sizes, 1), strict=True):
        own = x.amax(dim=1)
        highest = own if maximum is None else torch.maximum(maximum, own)
        weights = (x - (own if by_own else highest)[:, None]).exp()
        new = weights.sum(1), (weights[:, None] @ v)[:, 0]
        if maximum is None:
            total, weighted = new
        else:
            of_sum, of_values = rule(highest - maximum)
            total = total * of_sum + new[0]
            weighted = weighted * of_values[:, None] + new[1]
        maximum = highest
    return weighted / total[:, None]
