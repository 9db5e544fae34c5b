"""Appendix B: a request of several sequences that starts again without its blocks."""

from typing import TYPE_CHECKING

from minipaged.scheduling.plan import Work

if TYPE_CHECKING:
    from minipaged.scheduling.request import Request


def share_prompt(request: "Request") -> None:
    """Once the first sequence has computed the prompt, the others share its blocks."""
    leader, *others = request.live
    if leader.num_computed == len(request.prompt):
        for sequence in others:
            if sequence.table is None:
                sequence.table = leader.table.fork()


def chunks_of_group(request: "Request", limit: float) -> list[Work]:
    """The works, `limit` tokens at most, until all sequences can decode together.

    First, one sequence computes the prompt, and the others fork it there: so the group
    holds no more blocks than before. Then each computes its remaining tokens, except
    the last: all last tokens are computed in one step, which wants their logits.
    """
    live = request.live
    works = []
    spans = [(sequence, sequence.num_prefill_tokens) for sequence in live]
    if live[-1].table is None:
        spans = [(live[0], len(request.prompt))]
    for sequence, end in spans:
        start = sequence.num_computed
        stop = min(end, start + limit)
        if stop > start:
            works.append(Work(request, sequence, start, stop, num_logits=0))
            limit -= stop - start
    return works
