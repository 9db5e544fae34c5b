"""Appendix E: guesses from the text itself, which often repeats what it has said."""

from collections.abc import Sequence

from minipaged.decoding.speculation import Speculation
from minipaged.errors import require_counts


class PromptLookup(Speculation):
    """Guesses that the text goes on as it did where its last tokens stood before.

    Source: Apoorv Saxena's prompt lookup decoding; for the longest match,
    SuffixDecoding (Oliaro et al., 2024).
    """

    def __init__(
        self,
        num_tokens: int = 16,
        max_ngram: int | None = None,
        *,
        tree: int = 1,
    ):
        """Guess so many tokens at a time.

        Args:
            num_tokens: guesses at most.
            max_ngram: how many of the last tokens are looked for. By default as many
                as stand anywhere before, and the latest place counts. The more tokens
                were found, the more are guessed: twice as many and one, because a
                longer match is more likely to go on. With a number it is HuggingFace's
                prompt lookup (there the number is 2): if so many tokens do not stand
                before, fewer are looked for, and the first place counts.
            tree: guess from so many places that go on differently, side by side.
        """
        super().__init__(num_tokens, tree)
        if max_ngram is not None:
            require_counts(max_ngram=max_ngram)
        self.max_ngram = max_ngram

    def guess(self, tokens: Sequence[int], count: int) -> list[list[int]]:
        """What came after the last tokens where they stood before."""
        text = "".join(map(chr, tokens))  # because Python finds texts in texts fast
        length = self._longest_found(text)
        if not length:
            return []
        takes_longest = self.max_ngram is None
        if takes_longest:
            count = min(count, 2 * length + 1)
        found = {}
        for start in self._places(text, length):
            guesses = list(tokens[start : start + count])
            if takes_longest:  # the text may end before: then it repeats itself
                guesses = (guesses * count)[:count]
            found.setdefault(guesses[0], guesses)
            if len(found) == self.num_branches:
                break
        return list(found.values())

    def _longest_found(self, text: str) -> int:
        """How many of the last tokens stand before, too, with a token after them."""
        most = len(text) - 1
        if self.max_ngram is not None:
            most = min(most, self.max_ngram)
            found = (n for n in range(most, 0, -1) if text.find(text[-n:], 0, -1) >= 0)
            return next(found, 0)
        least = 0  # if n tokens are found, fewer are
        while least < most:
            middle = (least + most + 1) // 2
            if text.find(text[-middle:], 0, -1) >= 0:
                least = middle
            else:
                most = middle - 1
        return least

    def _places(self, text: str, length: int):
        """Where the text goes on after each place of its last `length` tokens."""
        pattern = text[-length:]
        from_end = self.max_ngram is None
        find = text.rfind if from_end else text.find
        start, stop = 0, len(text) - 1
        while (place := find(pattern, start, stop)) >= 0:
            yield place + length
            start, stop = (0, place + length - 1) if from_end else (place + 1, stop)
