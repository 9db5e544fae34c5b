"""Lesson 2: texts that end with words of the user's choice (the border)."""

from typing import Any

import torch
from transformers import StopStringCriteria

from minipaged.errors import UnsupportedOption


class StopStrings:
    """HuggingFace's test of whether a text has just reached a stop string.

    One object serves many requests: what strings mean for the whole vocabulary is
    worked out once, which takes longer than a step.
    """

    def __init__(self, tokenizer: Any = None):
        """`tokenizer`: the model's; without one no request may have stop strings."""
        self._tokenizer = tokenizer
        self._known: dict[tuple[str, ...], StopStringCriteria] = {}

    def for_strings(
        self, strings: str | list[str] | None, num_beams: int = 1
    ) -> "StopStringCriteria | None":
        """The test for these strings, or None if there are none.

        Raises ValueError without a tokenizer, and UnsupportedOption for beams.
        """
        if not strings:
            return None
        if num_beams > 1:
            raise UnsupportedOption(
                f"stop_strings={strings!r} with num_beams={num_beams} is not "
                "supported; leave one of them unset"
            )
        if self._tokenizer is None:
            raise ValueError(
                f"stop_strings={strings!r} need the model's tokenizer: pass "
                "tokenizer=... to generate, or to the Engine"
            )
        key = (strings,) if isinstance(strings, str) else tuple(strings)
        if key not in self._known:
            self._known[key] = StopStringCriteria(self._tokenizer, list(key))
        return self._known[key]


def has_reached(test: StopStringCriteria, tokens: list[int]) -> bool:
    """Does a stop string end within the last of these tokens?

    As with HuggingFace, it may have begun in the prompt, and the last token may go on
    behind it.
    """
    end = torch.tensor([tokens[-test.maximum_token_len :]])
    return bool(test(end, None))
