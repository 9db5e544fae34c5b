"""Appendix A: logits of a prompt's tokens, in parts, for all at once are too large."""

from minipaged.scheduling.plan import Work

# Rows of prompts' logits in a step. With a vocabulary of 150,000 they take 150 MB.
MOST_ROWS = 256


def with_all_logits(work: Work, most: int = MOST_ROWS) -> Work:
    """The first `most` tokens of this part of a prompt, with logits of all of them."""
    num_tokens = min(work.num_tokens, most)
    return work._replace(stop=work.start + num_tokens, num_logits=num_tokens)


def in_parts(works: list[Work]) -> list[Work]:
    """These works, with logits of at most MOST_ROWS tokens of prompts.

    The first prompts come first; the rest of the others waits for later steps.
    """
    remaining = MOST_ROWS
    taken = []
    for work in works:
        if work.request.wants_prompt_logits:
            work = with_all_logits(work, remaining)
            remaining -= work.num_logits
        if work.num_tokens:
            taken.append(work)
    return taken
