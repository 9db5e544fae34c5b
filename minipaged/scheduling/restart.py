"""Appendix B: sequences of one request that start again, their blocks being gone."""

from typing import TYPE_CHECKING

from minipaged.scheduling.plan import Work

if TYPE_CHECKING:
    from minipaged.scheduling.request import Request


def share_prompt(request: "Request") -> None:
    """Once the first sequence has computed the prompt, the others fork it there."""
    leader, *others = request.live
    if leader.num_computed == len(request.prompt):
        for sequence in others:
            if sequence.table is None:
                sequence.table = leader.table.fork()


def chunks_of_group(request: "Request", limit: float) -> list[Work]:
    """What to compute, `limit` tokens at most, until all sequences can decode together.

    First one of them computes the prompt, and the others fork it there: so the group
    holds no more blocks than it did. Then each computes what is its own, but for the
    last token, whose logits are wanted of all at once.
    """
    live, works = request.live, []
    spans = [(one, one.num_prefill_tokens) for one in live]
    if live[-1].table is None:
        spans = [(live[0], len(request.prompt))]
    for sequence, end in spans:
        start = sequence.num_computed
        stop = min(end, start + limit)
        if stop > start:
            works.append(Work(request, sequence, start, stop, num_logits=0))
            limit -= stop - start
    return works
