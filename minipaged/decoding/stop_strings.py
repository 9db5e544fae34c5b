"""Lesson 2: texts that end with words of the user's choice (the border)."""

from functools import lru_cache
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase, StopStringCriteria

from minipaged.errors import UnsupportedOption


class StopStrings:
    """HuggingFace's test of whether a text has just reached a stop string.

    One object serves many requests. To compare strings with the whole vocabulary takes
    longer than a step, and megabytes. So the tests for the latest strings are kept.
    """

    def __init__(self, tokenizer: Any = None):
        """`tokenizer`: the model's; without one no request may have stop strings."""
        if tokenizer is not None:
            require_tokenizer(tokenizer)
        self._tokenizer = tokenizer
        # The number of its tokens is a key, too: it may be given more tokens.
        self._test_of = lru_cache(maxsize=32)(
            lambda strings, _num_tokens: StopStringCriteria(tokenizer, [*strings])
        )

    def for_strings(
        self, strings: str | list[str] | None, num_beams: int = 1
    ) -> "StopStringCriteria | None":
        """The test for these strings, or None if there are none.

        As with HuggingFace, an empty text ends every text at once. Raises ValueError
        without a tokenizer, TypeError for no text, UnsupportedOption for beams.
        """
        if strings is None or strings == []:
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
        texts = [strings] if isinstance(strings, str) else strings
        if not isinstance(texts, list | tuple) or {str} != set(map(type, texts)):
            raise TypeError(
                f"stop_strings must be a text or a list of texts, got {strings!r:.60}"
            )
        return self._test_of(tuple(texts), len(self._tokenizer))


def has_reached(test: StopStringCriteria, tokens: list[int], start: int = 0) -> bool:
    """Does a stop string end within the last of these tokens?

    start: the first token that it may begin in. With 0, it may have begun in the
    prompt, as with HuggingFace. The last token may be longer than its end.
    """
    longest = test.maximum_token_len or 1  # of an empty text it is 0
    # On the CPU, where the test's tables are, whatever torch's default device is.
    end = torch.tensor([tokens[max(start, len(tokens) - longest) :]], device="cpu")
    return bool(test(end, None))


def require_tokenizer(tokenizer: Any) -> None:
    """Raise TypeError if this is no tokenizer of transformers."""
    if not isinstance(tokenizer, PreTrainedTokenizerBase):
        raise TypeError(
            f"tokenizer must be one of transformers, got {tokenizer!r:.60}; "
            "mp.load(...) returns the model's, and so does AutoTokenizer"
        )
