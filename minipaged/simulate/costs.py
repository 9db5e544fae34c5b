"""Appendix F: what a step does, and so what it costs."""

from typing import NamedTuple, Protocol

from minipaged.scheduling.plan import Plan


class StepLoad(NamedTuple):
    """What a step does. Tokens that are computed again count as any others."""

    num_tokens: int  # computed, of all sequences together
    num_sequences: int  # that compute something
    num_logits: int  # rows of logits
    keys_read: int  # positions whose K and V are read, once for each sequence
    pairs: int  # of a query and a key, in parts of prompts (over one token)
    copied_blocks: int = 0  # copy-on-write
    moved_blocks: int = 0  # out to the swap space, or back


def load_of(plan: Plan, moved_blocks: int = 0) -> StepLoad:
    """What this plan does.

    For example, a prompt's positions 8 to 11 and a sequence's token 20: 5 tokens, 12 +
    21 keys read, and 9 + 10 + 11 + 12 pairs.
    """
    num_tokens = num_logits = keys_read = pairs = 0
    for _, _, start, stop, logits in plan.works:
        count = stop - start
        num_tokens += count
        num_logits += logits
        keys_read += stop
        if count > 1:
            pairs += count * (start + 1 + stop) // 2
    works, copies = len(plan.works), len(plan.copies)
    return StepLoad(
        num_tokens, works, num_logits, keys_read, pairs, copies, moved_blocks
    )


class CostModel(Protocol):
    """Says how long a step takes."""

    def step_seconds(self, plan: Plan, moved_blocks: int = 0) -> float:
        """Seconds from one plan to the next.

        moved_blocks: out to the swap space and back, before this step.
        """
