"""Appendix E: what the blocks of a draft model's cache hold."""

from collections.abc import Iterable, Sequence

Text = tuple[int, tuple[int, ...]]  # a hash of all tokens before; the tokens


class WrittenBlocks:
    """Of each block, the tokens whose K and V a draft model has written there.

    A draft model has a cache, but neither pool nor tables: it follows the tables of the
    model that it guesses for. So a block may hold K and V of that model, and none of
    the draft model: it was filled while nobody guessed, and found in the prefix cache.
    A block may also hold K and V of another text, which has ended, or of a wrong guess.

    Nobody has to say that a block changes hands: its tokens, and a hash of all tokens
    before, are compared. If two hashes are equal by chance, the guesses get worse, and
    no answer changes.
    """

    def __init__(self, block_size: int):
        """Nothing is written yet."""
        self._size = block_size
        self._texts: dict[int, Text] = {}

    def num_held(self, tokens: Sequence[int], block_ids: Sequence[int]) -> int:
        """How many of these tokens, from the first on, have their K and V there."""
        past = 0
        count = 0
        for block_id in block_ids:
            known = self._texts.get(block_id)
            text = tuple(tokens[count : count + self._size])
            if known is None or known[0] != past or not text:
                break
            if known[1] != text:
                return count + _common(known[1], text)
            count += len(text)
            past = hash(known)
        return count

    def note(
        self,
        tokens: Sequence[int],
        block_ids: Sequence[int],
        count: int,
        num_held: int = 0,
    ) -> None:
        """Now these blocks hold the first `count` tokens, and nothing else is known.

        Of these, the first `num_held` are known to be there: they take no time.
        """
        number = num_held // self._size
        known = self._texts.get(block_ids[number - 1]) if number else None
        if known is None:
            number = 0
        past = 0 if known is None else hash(known)
        for start in range(number * self._size, count, self._size):
            text = tuple(tokens[start : min(count, start + self._size)])
            self._texts[block_ids[number]] = past, text
            past = hash((past, text))
            number += 1
        for block_id in block_ids[number:]:
            self._texts.pop(block_id, None)

    def texts(self, block_ids: Iterable[int]) -> list[Text | None]:
        """What is known of each of these blocks, for `put`."""
        return [self._texts.get(block_id) for block_id in block_ids]

    def put(self, block_ids: Iterable[int], texts: Iterable[Text | None]) -> None:
        """The content of other blocks was copied into these; of those, `texts` say."""
        for block_id, text in zip(block_ids, texts, strict=True):
            self._texts.pop(block_id, None)
            if text is not None:
                self._texts[block_id] = text


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens are the same, from the first on."""
    pairs = zip(one, other, strict=False)
    differing = (place for place, (a, b) in enumerate(pairs) if a != b)
    return next(differing, min(len(one), len(other)))
