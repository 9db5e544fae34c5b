"""Appendix A: logits of a prompt's own tokens, in parts: all at once are too large."""

from collections.abc import Sequence as Rows

from minipaged.scheduling.plan import Work

# Of prompts, in a step. With a vocabulary of 150,000, so many are 150 MB.
MOST_ROWS = 256


def with_all_logits(work: Work, most: int = MOST_ROWS) -> Work:
    """The first `most` tokens of this part of a prompt, with the logits of them all."""
    num_tokens = min(work.num_tokens, most)
    return work._replace(stop=work.start + num_tokens, num_logits=num_tokens)


def in_parts(works: Rows[Work]) -> list[Work]:
    """The same, but of all prompts together at most so many logits.

    The first prompts come first; what is left of the others waits for later steps.
    """
    left, taken = MOST_ROWS, []
    for work in works:
        if work.request.is_scored:
            work = with_all_logits(work, left)
            left -= work.num_logits
        if work.num_tokens:
            taken.append(work)
    return taken
