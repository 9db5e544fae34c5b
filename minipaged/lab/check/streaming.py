"""Lab: what lesson 5's checks share: a token that attends to blocks, one at a time."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from minipaged.lab.check.blocks import Blocks
from minipaged.lab.check.diagnose import diagnose, telling, why
from minipaged.lab.check.misread import (
    TOLERANCE,
    Inputs,
    has_one_maximum,
    misdivided,
    misread,
    misscaled,
    near,
)
from minipaged.lab.check.verdict import Rejected
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
    heads: int = 1,
    kv_heads: int = 1,
    spread: float = 1.0,
) -> Inputs:
    """q [heads, 5]; k and v [num_tokens, kv heads, 5], in float64."""
    shapes = (heads, 5), (num_tokens, kv_heads, 5), (num_tokens, kv_heads, 5)
    q, k, v = (torch.randn(shape, generator=generator).double() for shape in shapes)
    return Inputs(spread * q, spread * k, v)


def ramp(
    generator: torch.Generator, ends: tuple[float, float], heads: int, kv_heads: int
) -> Inputs:
    """As `draw`, for 19 tokens, with logits that go evenly from start to end."""
    q, k, v, _ = draw(generator, 19, heads, kv_heads)
    logits = torch.linspace(*ends, 19).double().view(-1, 1, 1)
    return Inputs(torch.ones_like(q), (logits * 5**-0.5).expand_as(k), v)


class Asked:
    """The reader's function, asked once, for a token that sees positions from `first`.

    ask: asks it, over blocks. read: the blocks. hint: what overflows, if the logits are
    made for that.
    """

    def __init__(
        self,
        story: str,
        ask: Callable[[Blocks], Any],
        read: Blocks,
        given: Inputs,
        first: int = 0,
        hint: str = "",
    ):
        self.story, self.ask, self.read, self.hint = story, ask, read, hint
        self.seen = Inputs(given.q, given.k[first:], given.v[first:])
        size, num_tokens = read.block_size, len(given.k)
        self.positions = range(first, num_tokens)
        self.wanted = range(first // size, -(-num_tokens // size))
        self.found = self._answer()

    def _answer(self) -> Any:
        """What it returns; if it fails, which blocks and positions mattered."""
        try:
            return self.ask(self.read)
        except Rejected as failure:
            reads, sees = self.read.reads, _span("position", self.positions)
            where = f"{sees}, in {_span('block', self.wanted)}"
            needless = [block for block in reads if block not in self.wanted]
            if needless:
                what = f"block {needless[0]} was asked for, though the token sees only "
                what += where
            elif not reads and "no block" not in str(failure):
                what = f"no block was asked for, though the token sees {where}"
            elif "non-zero size" in str(failure) or "numel() == 0" in str(failure):
                what = f"of block {reads[-1]} nothing is left to attend to, though "
                what += f"the token sees {sees}"
            else:
                raise
            raise Rejected(f"{self.story}: {what}\n  {failure}") from failure

    def is_attention(self, seen: Inputs) -> bool:
        """Is the answer attention over all of these?"""
        found, right = self.found, seen.attention()
        is_alike = isinstance(found, Tensor) and found.shape == right.shape
        return is_alike and near(found.double(), right)

    def judge(self, others: Mapping[str, Inputs] = {}) -> None:
        """Compare with softmax over all at once; each block is to be read once.

        others: see `misread`.
        """
        with telling(self.story):
            reads = self.read.reads
            if twice := [block for block in reads if reads.count(block) > 1]:
                raise Rejected(f"block {min(twice)} was read more than once")
            diagnose("blocks read", sorted(reads), list(self.wanted))
            if not isinstance(self.found, Tensor):
                raise Rejected(f"got {self.found!r:.40}, expected a tensor")
            diagnose("shape", tuple(self.found.shape), tuple(self.seen.q.shape))
            found = self.found.double()
            if found.isnan().any():
                raise Rejected(f"NaN; {self.hint or self._why_nan(found)}")
            error = (found - self.seen.attention()).abs().max()
            if error > TOLERANCE:
                said = why(found, self._mistakes(others), near)
                raise Rejected(f"off by up to {error:.2g}{said}")

    def _why_nan(self, found: Tensor) -> str:
        """What must be forgiven for it to vanish in this case."""
        if has_one_maximum(found, self.seen):
            return (
                "0 / 0: one maximum serves several heads, and all weights of the "
                "others become 0; each head needs its own"
            )
        slot = "a slot past the last token was used (0 × NaN is NaN, too)"
        kept = "a block was kept after the next one had been read"
        causes = {slot: {"empty": 0.0}, kept: {"is_forgotten": False}}
        causes[f"{slot}, and {kept}"] = {"empty": 0.0, "is_forgotten": False}
        for said, mercy in causes.items():
            try:
                found = self.ask(self.read.milder(**mercy))
            except Rejected:
                continue
            if isinstance(found, Tensor) and not found.isnan().any():
                return said
        return (
            "is -inf subtracted from -inf, does an exp overflow, is 0 / 0 computed, or "
            "is a factor upside down? It is e^(old - new)"
        )

    def _mistakes(self, others: Mapping[str, Inputs]) -> dict[str, Tensor | bool]:
        """What is read wrongly, divided wrongly, or forgotten on the way."""
        (q, k, v, _), read = self.seen, self.read
        zeros = k.new_zeros(read.block_size - read.num_in_last, *k.shape[1:])
        if len(zeros):
            said = "right if empty slots held zeros: a logit of 0 still has a weight"
            padded = Inputs(q, torch.cat([k, zeros]), torch.cat([v, zeros]))
            others = {**others, f"{said}; cut them": padded}
        sizes = [len(k)]
        if len(read.reads) > 1:  # the first block may be seen in part
            sizes = [read.block_size] * (len(read.reads) - 2) + [read.num_in_last]
            sizes = [len(k) - sum(sizes), *sizes]
        mistakes = misread(self.seen, read.block_size, others)
        mistakes |= misdivided(self.seen, sizes)
        if len(sizes) > 1:
            rules = misscaled(*self.seen.scaled(), sizes)
            mistakes |= {said: wrong.view(q.shape) for said, wrong in rules.items()}
            question = "is what was summed so far rescaled when the maximum rises?"
            mistakes[self.hint or question] = True
        return mistakes


def _span(word: str, numbers: range) -> str:
    if len(numbers) == 1:
        return f"{word} {numbers[0]}"
    return f"{word}s {numbers[0]} to {numbers[-1]}"


def holds_little(compute: Callable[[Blocks, int], object], heads: int) -> None:
    """Raise Rejected if what `compute` holds grows with the context.

    compute: called with the blocks and the number of tokens, twice; the second context
    is the longer one. It must hold as much in both.
    """
    generator, peaks = torch.Generator().manual_seed(0), []
    for num_blocks in LONG_BLOCKS:
        num_tokens = num_blocks * BLOCK_SIZE
        _, k, v, _ = draw(generator, num_tokens, heads, heads)
        if heads == 1:
            k, v = k[:, 0], v[:, 0]
        read = Blocks(k, v, BLOCK_SIZE)
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
