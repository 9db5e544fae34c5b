"""Lab: letters for sequences that come and go."""

from collections.abc import Collection
from itertools import count
from string import ascii_uppercase


class Names:
    """A, B, C and so on; after Z the letters come again, if their bearer has ended.

    While all letters are taken: A2, B2, and so on.
    """

    def __init__(self) -> None:
        """Begin with A."""
        self._num_given = 0

    def new(self, taken: Collection[str]) -> str:
        """The next name that is not among those `taken`."""
        letters = len(ascii_uppercase)
        for tried in count():
            letter = ascii_uppercase[(self._num_given + tried) % letters]
            number = tried // letters
            name = f"{letter}{number + 1}" if number else letter
            if name not in taken:
                self._num_given += tried + 1
                return name
        raise AssertionError  # count() never ends
