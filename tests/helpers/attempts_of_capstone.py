"""Right and wrong attempts at the capstone's steps: the file's parts, as functions."""

from minipaged.lab.check import capstone_mistakes
from minipaged.lab.tour.capstone import STEPS, planted, tiny_vllm

CHECKS = [
    "one_token",
    "one_prompt",
    "many_prompts",
    "blocks_and_tables",
    "a_shared_prefix",
    "two_samples",
    "too_small_a_pool",
    "a_stream",
]
MISTAKES = {check: getattr(capstone_mistakes, check.upper()) for check in CHECKS}


def functions(step, parts=None):
    """What the reader would write in a step, perhaps with a mistake."""
    tiny = tiny_vllm(parts)
    owners = tiny, tiny.BlockPool, tiny.Qwen3, tiny.Engine
    return tuple(
        next(vars(owner)[name] for owner in owners if name in vars(owner))
        for name in STEPS[step]
    )


RIGHT = {check: functions(step) for check, step in zip(CHECKS, STEPS, strict=True)}


def fault(check, step, said):
    attempt = functions(step, planted(*MISTAKES[check][said]))
    return attempt, said


# Through the whole check, the first mistake of each step and the last one; that all are
# told apart, test_capstone.py sees.
FAULTS = {
    check: [
        fault(check, step, said)
        for said in [*MISTAKES[check]][:: len(MISTAKES[check]) - 1]
    ]
    for check, step in zip(CHECKS, STEPS, strict=True)
}
