"""Lab: what stands in for a model where only the scheduler is looked at."""

from minipaged.scheduling.plan import Plan


def answer_all(plan: Plan) -> None:
    """Whoever asks for logits gets a token, and ends after as many as it may have."""
    for work in plan.works:
        if work.num_logits:
            work.sequence.append(0)
            if work.sequence.num_new == work.request.max_new_tokens:
                work.sequence.end("length")
