"""Lab: checks of the capstone's eight steps: the reader's parts beside the file's.

A step is tried by a scenario: it works with the file, into which the reader's parts are
put, and tells what it sees, line by line. The file alone tells what is right. Mistakes
are planted into the file: one that makes it tell what the reader's parts tell is named.
"""

from collections.abc import Callable, Iterable
from copy import deepcopy
from itertools import chain, zip_longest
from traceback import extract_tb
from typing import Any

import torch

from minipaged.lab.check import capstone_mistakes as mistakes
from minipaged.lab.check import capstone_scenarios as scenarios
from minipaged.lab.check.capstone_mistakes import Mistakes
from minipaged.lab.check.capstone_scenarios import Scenario
from minipaged.lab.check.diagnose import diagnose
from minipaged.lab.check.verdict import Rejected
from minipaged.lab.tour.capstone import STEPS, planted, text_of, tiny_vllm


def one_token(*functions: Callable) -> dict[str, str]:
    """norm(x, weight, eps), rotate(x, cos, sin), forward(self, batch)."""
    return _tried(functions, scenarios.one_token, mistakes.ONE_TOKEN)


def one_prompt(*functions: Callable) -> dict[str, str]:
    """attention(self, x, number, name, turn, batch)."""
    return _tried(functions, scenarios.one_prompt, mistakes.ONE_PROMPT)


def many_prompts(*functions: Callable) -> dict[str, str]:
    """ragged_batch(sequences, block_size, device), group(num_new, members, device)."""
    return _tried(functions, scenarios.many_prompts, mistakes.MANY_PROMPTS)


def blocks_and_tables(*functions: Callable) -> dict[str, str]:
    """take(self), share, give_back(self, block), make_room, release(self, seq)."""
    return _tried(functions, scenarios.blocks_and_tables, mistakes.BLOCKS_AND_TABLES)


def a_shared_prefix(*functions: Callable) -> dict[str, str]:
    """chain, publish, forget of the pool; reuse_prefix, publish_full of the engine."""
    return _tried(functions, scenarios.a_shared_prefix, mistakes.A_SHARED_PREFIX)


def two_samples(*functions: Callable) -> dict[str, str]:
    """choose(logits, options, generator); forks, must_copy, copy_on_write; copy."""
    return _tried(functions, scenarios.two_samples, mistakes.TWO_SAMPLES)


def too_small_a_pool(*functions: Callable) -> dict[str, str]:
    """schedule(self) -> the sequences that compute, each with its num_new."""
    return _tried(functions, scenarios.too_small_a_pool, mistakes.TOO_SMALL_A_POOL)


def a_stream(*functions: Callable) -> dict[str, str]:
    """add(self, tokens, options), step(self), stream(self), generate(self, ...)."""
    return _tried(functions, scenarios.a_stream, mistakes.A_STREAM)


def _tried(
    functions: Iterable[Callable], scenario: Scenario, known: Mistakes
) -> dict[str, str]:
    """Print the verdict. Returns the texts of the parts that are right, by name."""
    try:
        texts = dict(map(text_of, functions))
    except (OSError, TypeError) as error:
        print(f"✗ rejected: hand over the functions that you wrote\n  {error}")
        return {}
    missing = [name for name, text in texts.items() if "NotImplementedError" in text]
    mine = {name: text for name, text in texts.items() if name not in missing}
    names = ", ".join(mine)
    if strange := mine.keys() - chain(*STEPS.values()):
        print(f"✗ rejected: no step has a function with the name {strange.pop()}")
        return {}
    if mine:
        try:
            num_cases = _compared(mine, scenario, known)
        except Rejected as found:
            print(f"✗ {names}: rejected\n  {found}")
            return {}
    if mine and missing:
        print(f"✓ {names}: right, as far as can be seen without the rest")
    elif mine:
        print(f"✓ {names}: accepted after {num_cases} cases")
    if missing:
        print(
            f"○ {', '.join(missing)}: not attempted yet; write it, run both cells again"
        )
    return mine


def _compared(mine: dict[str, str], scenario: Scenario, known: Mistakes) -> int:
    """How many things are alike. Raises Rejected at the first that is not."""
    right = _told({}, scenario)
    found = _told(mine, scenario)
    pairs = zip_longest(found, right, fillvalue=("nothing more", None))
    for (_, got), (what, expected) in pairs:
        if not _same(got, expected):
            own = {
                said: mistake for said, mistake in known.items() if mistake[0] in mine
            }
            said = _named(found, scenario, own)
            diagnose(what, got, expected, {said: True}, same=_same, write=_written)
    return len(right)


def _told(parts: dict[str, str], scenario: Scenario) -> list[tuple[str, Any]]:
    """All that a scenario tells, to its end or to its first error."""
    told = []
    try:
        for line in scenario(tiny_vllm(parts)):
            told.append(deepcopy(line))  # as it is now
    except Exception as error:
        told.append(("", error))
    return told


def _named(found: list[tuple[str, Any]], scenario: Scenario, known: Mistakes) -> str:
    """What to say of the first mistake that tells the same, or nothing."""
    for said, mistake in known.items():
        told = _told(planted(*mistake), scenario)
        if len(told) == len(found) and all(
            _same(ours, theirs)
            for (_, ours), (_, theirs) in zip(told, found, strict=True)
        ):
            return said
    return ""


def _same(found: Any, right: Any) -> bool:
    if isinstance(found, torch.Tensor) and isinstance(right, torch.Tensor):
        return (
            found.shape == right.shape
            and found.dtype == right.dtype
            and torch.allclose(found, right, rtol=1e-4, atol=1e-4, equal_nan=True)
        )
    if isinstance(found, Exception):
        return type(found) is type(right)
    return type(found) is type(right) and found == right


def _written(value: Any) -> str:
    """A value in one line; of a tensor its first numbers, of an error its place."""
    if isinstance(value, Exception):
        line = extract_tb(value.__traceback__)[-1].line
        return f"{type(value).__name__}: {value} (in the line `{line}`)"
    if not isinstance(value, torch.Tensor):
        return str(value)
    if value.numel() <= 16:
        return str(value.tolist())
    first = ", ".join(f"{number:.3g}" for number in value.flatten()[:4].tolist())
    kind = str(value.dtype).removeprefix("torch.")
    return f"{kind} {list(value.shape)} [{first}, ...]"
