"""Appendix A: an answer's text, piece by piece, as its tokens come."""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from typing import Any

from minipaged.decoding.stop_strings import require_tokenizer

_BYTE = re.compile("<0x[0-9A-F]{2}>")  # tokens for bytes that are in no other token
_LONGEST = 4  # letters, with the space, of a text that `clean_up_tokenization` changes


class TextPieces:
    """Decodes tokens one by one; the pieces together are the text of all the tokens.

    A piece is never taken back. So a token waits as long as later tokens may change its
    text: half a letter may be completed, a byte may turn out to belong to no letter at
    all, a space may vanish before a full stop. Special tokens are left out.

    Texts are long, so each time only the end is decoded: the tokens since the last
    piece, and before them the tokens of that piece, because a word looks different at
    the start of a text. Source: the incremental detokenizing of TGI and vLLM.
    """

    def __init__(self, tokenizer: Any, is_open: Callable[[int], bool] | None = None):
        """`tokenizer`: the model's; TypeError if it is none of transformers.

        is_open: an `open_tokens(tokenizer)`, which many texts may share.
        """
        require_tokenizer(tokenizer)
        self._tokenizer = tokenizer
        self._cleans = getattr(tokenizer, "clean_up_tokenization_spaces", False)
        self._is_open = is_open or open_tokens(tokenizer)
        self._tokens: list[int] = []
        self._start = self._stop = 0  # of the last piece's tokens
        self._known = ""  # their text, alone
        self._num_said = 0  # letters

    def of(self, tokens: Iterable[int]) -> Iterator[str]:
        """The pieces of all these tokens, none of them empty."""
        for token in tokens:
            if piece := self.add(token):
                yield piece
        if piece := self.rest():
            yield piece

    def add(self, token: int) -> str:
        """The text that is certain with this token; often that of the token, or ""."""
        self._tokens.append(token)
        if self._is_open(token):
            return ""
        tokens = self._tokens[self._start :]
        text = self._decode(tokens)
        if len(text) <= len(self._known) or text.endswith("\ufffd"):
            return ""
        if self._cleans:
            raw = self._decode(tokens, clean_up_tokenization_spaces=False)
            if " " in raw[1 - _LONGEST :]:
                return ""
        piece = text[len(self._known) :]
        self._start, self._stop = self._stop, len(self._tokens)
        self._known = self._decode(self._tokens[self._start :])
        self._num_said += len(piece)
        return piece

    def rest(self) -> str:
        """The remaining text, when no more tokens will come."""
        return self._decode(self._tokens)[self._num_said :]

    def _decode(self, tokens: list[int], **options: bool) -> str:
        return self._tokenizer.decode(tokens, skip_special_tokens=True, **options)


def open_tokens(tokenizer: Any) -> Callable[[int], bool]:
    """`is_open` for this tokenizer, which remembers each token's answer."""
    return cache(partial(is_open, tokenizer))


def is_open(tokenizer: Any, token: int) -> bool:
    """Does this token's text depend on the next token?

    It does for a byte, for a token that has no text alone, and for the beginning of a
    word if its mark vanishes when the word goes on, such as CTRL's "un@@".
    """
    name = tokenizer.convert_ids_to_tokens(token) or ""
    said = tokenizer.decode([token], skip_special_tokens=True)
    twice = tokenizer.decode([token, token], skip_special_tokens=True)
    return bool(_BYTE.fullmatch(name)) or not said or not twice.startswith(said)
