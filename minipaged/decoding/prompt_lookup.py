"""Appendix E: guesses from the text itself, which often repeats what it has said."""

from collections.abc import Sequence

from minipaged.decoding.speculation import Speculation
from minipaged.errors import require_counts


class PromptLookup(Speculation):
    """Guesses that the text goes on as it did where its last tokens stood before.

    Source: Apoorv Saxena's prompt lookup decoding, as in HuggingFace's `generate` with
    `prompt_lookup_num_tokens`; for `suffix`, SuffixDecoding (Oliaro et al., 2024).
    """

    def __init__(
        self,
        num_tokens: int = 10,
        max_ngram: int = 2,
        *,
        suffix: bool = False,
        tree: int = 1,
    ):
        """Guess so many tokens at a time.

        Args:
            num_tokens: guesses at most.
            max_ngram: how many of the last tokens are looked for; if they do not stand
                before, fewer. The first place counts. So does HuggingFace.
            suffix: look for as many of the last tokens as stand anywhere before, and
                take the latest place. The more tokens were found, the more are guessed:
                twice as many and one, because a longer match is more likely to go on.
            tree: guess from so many places that go on differently, side by side.
        """
        super().__init__(num_tokens, tree)
        require_counts(max_ngram=max_ngram)
        self.max_ngram = max_ngram
        self.suffix = suffix

    def guess(self, tokens: Sequence[int], count: int) -> list[list[int]]:
        """What came after the last tokens where they stood before."""
        text = "".join(map(chr, tokens))  # because Python finds texts in texts fast
        length = self._longest_found(text)
        if not length:
            return []
        if self.suffix:
            count = min(count, 2 * length + 1)
        found = {}
        for start in self._places(text, length):
            guesses = list(tokens[start : start + count])
            if self.suffix:  # the text may end before: then it repeats itself
                guesses = (guesses * count)[:count]
            found.setdefault(guesses[0], guesses)
            if len(found) == self.num_branches:
                break
        return list(found.values())

    def _longest_found(self, text: str) -> int:
        """How many of the last tokens stand before, too, with a token after them."""
        most = min(len(text) - 1, len(text) if self.suffix else self.max_ngram)
        if not self.suffix:
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
        find = text.rfind if self.suffix else text.find
        start, stop = 0, len(text) - 1
        while (place := find(pattern, start, stop)) >= 0:
            yield place + length
            start, stop = (0, place + length - 1) if self.suffix else (place + 1, stop)
