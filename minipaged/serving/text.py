"""Lab: an answer's text as it grows, which ends before a stop string."""

from collections.abc import Callable, Sequence
from functools import cache

from transformers import PreTrainedTokenizerBase

from minipaged.decoding.text_pieces import Decoder, TextPieces

_BEFORE = 5  # tokens of the prompt: a word may look different at a text's beginning


class NamingDecoder(Decoder):
    """A decoder that all answers share; it names single tokens, too."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase):
        """`tokenizer`: the model's."""
        super().__init__(tokenizer)
        # Special tokens have names, though they are never text.
        self.name: Callable[[int], str] = cache(lambda token: tokenizer.decode([token]))


class AnswerText:
    """One answer's text: what is certain of it is said, and never taken back.

    The end is held as long as it may be the beginning of a stop string. Attributes:
    stopped_by, the stop string that was found; nothing is said after it.
    """

    def __init__(
        self,
        decoder: Decoder,
        prompt: Sequence[int],
        stops: Sequence[str] = (),
        keeps_stop: bool = False,
    ):
        """stops: none of them empty. keeps_stop: say the stop string, too."""
        self._decoder = decoder
        self._before = list(prompt[-_BEFORE:])
        self._stops, self._keeps_stop = stops, keeps_stop
        self._pieces = TextPieces(decoder)
        said = sum([len(self._pieces.add(token)) for token in self._before])
        # Of what will come, letters that are the prompt's.
        self._num_foreign = len(decoder.decode(self._before)) - said
        self._held = ""
        self.stopped_by: str | None = None

    def add(self, token: int) -> str:
        """What is certain with this token."""
        return self._say(self._pieces.add(token))

    def rest(self) -> str:
        """What remains when no more tokens will come."""
        return self._say(self._pieces.rest()) + self._let_go()

    def whole(self, tokens: Sequence[int]) -> str:
        """The text of all tokens at once, for an answer that has just begun."""
        before = self._decoder.decode(self._before)
        text = self._decoder.decode([*self._before, *tokens])
        self._num_foreign = 0
        return self._say(text[len(before) :]) + self._let_go()

    def _say(self, piece: str) -> str:
        own = piece[self._num_foreign :]
        self._num_foreign -= len(piece) - len(own)
        if self.stopped_by is not None:
            return ""
        if not self._stops:
            return own
        self._held += own
        at, stop = min(
            ((at, s) for s in self._stops if (at := self._held.find(s)) >= 0),
            default=(-1, None),
        )
        if stop is not None:
            self.stopped_by = stop
            end = at + len(stop) * self._keeps_stop
            return self._cut(end)
        return self._cut(len(self._held) - self._num_doubtful())

    def _num_doubtful(self) -> int:
        """How many letters at the end may begin a stop string."""
        return max(
            (
                length
                for stop in self._stops
                for length in range(1, len(stop))
                if self._held.endswith(stop[:length])
            ),
            default=0,
        )

    def _cut(self, end: int) -> str:
        said, self._held = self._held[:end], self._held[end:]
        return said

    def _let_go(self) -> str:
        return "" if self.stopped_by is not None else self._cut(len(self._held))
