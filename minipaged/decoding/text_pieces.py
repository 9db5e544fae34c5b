"""Appendix A: an answer's text, piece by piece, as its tokens come."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import chain
from typing import Any

from transformers import PreTrainedTokenizerFast

from minipaged.decoding.stop_strings import require_tokenizer

_BYTE = re.compile("<0x[0-9A-F]{2}>")  # tokens for bytes that are in no other token
_FEW = 4  # tokens, whose text is remembered
_LONGEST = 4  # letters, with the space, of a text that `clean_up_tokenization` changes


class Decoder:
    """Decodes the same few tokens again and again: many texts may share one of it."""

    def __init__(self, tokenizer: Any):
        """`tokenizer`: the model's; TypeError if it is none of transformers."""
        require_tokenizer(tokenizer)
        self.tokenizer = tokenizer
        # Transformers takes ten times as long to look at the arguments.
        self._backend = tokenizer.backend_tokenizer if is_plain(tokenizer) else None
        self._of_few = lru_cache(maxsize=1 << 16)(self._decode)
        self.is_open = cache(self._is_open)

    def decode(self, tokens: Sequence[int]) -> str:
        """The text, without special tokens."""
        decode = self._of_few if len(tokens) <= _FEW else self._decode
        return decode(tuple(tokens))

    def _decode(self, tokens: tuple[int, ...]) -> str:
        if self._backend is not None:
            return self._backend.decode(tokens, skip_special_tokens=True)
        return self.tokenizer.decode(list(tokens), skip_special_tokens=True)

    def _is_open(self, token: int) -> bool:
        """Does this token's text depend on the next token?

        It does for a byte, for a token that has no text alone, and for the beginning of
        a word if its mark vanishes when the word goes on, such as CTRL's "un@@".
        """
        if self._backend is not None:
            name = self._backend.id_to_token(token)
        else:
            name = self.tokenizer.convert_ids_to_tokens(token)
        said = self.decode([token])
        twice = self._decode((token, token))
        is_byte = _BYTE.fullmatch(name or "")
        return bool(is_byte) or not said or not twice.startswith(said)


class TextPieces:
    """Decodes tokens one by one; the pieces together are the text of all the tokens.

    A piece is never taken back. So a token waits as long as later tokens may change its
    text: half a letter may be completed, a byte may turn out to belong to no letter at
    all, a space may vanish before a full stop. Special tokens are left out.

    Texts are long, so each time only the end is decoded: the tokens since the last
    piece, and before them the tokens of that piece, because a word looks different at
    the start of a text. Source: the incremental detokenizing of TGI and vLLM.
    """

    def __init__(self, tokenizer: Any):
        """`tokenizer`: the model's, or a Decoder; TypeError if it is neither."""
        known = tokenizer if isinstance(tokenizer, Decoder) else Decoder(tokenizer)
        self._decoder = known
        tokenizer = known.tokenizer
        self._cleans = getattr(tokenizer, "clean_up_tokenization_spaces", False)
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
        if self._decoder.is_open(token):
            return ""
        tokens = self._tokens[self._start :]
        text = self._decoder.decode(tokens)
        if len(text) <= len(self._known) or text.endswith("\ufffd"):
            return ""
        if self._cleans:
            raw = self._decoder.tokenizer.decode(
                tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False
            )
            if " " in raw[1 - _LONGEST :]:
                return ""
        piece = text[len(self._known) :]
        self._start, self._stop = self._stop, len(self._tokens)
        self._known = self._decoder.decode(self._tokens[self._start :])
        self._num_said += len(piece)
        return piece

    def rest(self) -> str:
        """The remaining text, when no more tokens will come."""
        return self._decoder.decode(self._tokens)[self._num_said :]


def is_plain(tokenizer: Any) -> bool:
    """Does it decode as its backend does, the library tokenizers, and no more?"""
    own = chain.from_iterable(
        vars(kind)
        for kind in type(tokenizer).__mro__
        if kind is not PreTrainedTokenizerFast
        and issubclass(kind, PreTrainedTokenizerFast)
    )
    return (
        isinstance(tokenizer, PreTrainedTokenizerFast)
        and not tokenizer.clean_up_tokenization_spaces
        and not {"decode", "_decode"} & {*own}
    )
