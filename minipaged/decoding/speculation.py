"""Appendix E: who guesses the next tokens, and whether that pays."""

from collections.abc import Sequence
from typing import Any

from minipaged.decoding.pace import Pace
from minipaged.errors import require_counts
from minipaged.memory.kv_cache import KVCache
from minipaged.memory.swap_space import SwapSpace


class Speculation:
    """What `generate` and an Engine take as `speculation`: the base of those who guess.

    The model checks all guesses of a text in a single step. So guesses change no token:
    they change how many steps a text takes.

    Attributes: num_tokens, guessed at a time; num_branches, guessed side by side.
    """

    # Guessing pays if at least this part of the guesses is right: about what another
    # token costs, beside a step of one token.
    least_right = 0.05

    # Does it guess where the tokens are, on the device, before the CPU has read them?
    guesses_on_device = False

    # Whether guessing pays for all texts together; of an engine whose steps run ahead.
    pace: Pace | None = None

    def __init__(self, num_tokens: int, num_branches: int = 1):
        """So many tokens are guessed at a time, at most, by each of the branches."""
        require_counts(num_tokens=num_tokens, tree=num_branches)
        self.num_tokens = num_tokens
        self.num_branches = num_branches

    @property
    def tokens_of_sequence(self) -> int:
        """How many tokens a step computes for a sequence: guesses, and the newest."""
        return self.num_branches * (1 + self.num_tokens)

    def guess(self, tokens: Sequence[int], count: int) -> list[list[int]]:
        """How these tokens go on: `count` guesses at most, for each branch.

        An empty list if there is nothing to guess from.
        """
        raise NotImplementedError

    def new_pace(self) -> Pace:
        """A clock for the steps of an engine, which must have it as an observer."""
        self.pace = Pace()
        return self.pace

    def num_ahead(self, length: int, count: int) -> int:
        """How many tokens, `count` at most, it can guess after so many unread ones."""
        return 0

    def read_guesses(self) -> None:
        """Write guesses that lie on the device into the texts, if there are any."""

    def runner(self, runner: Any, paged: Any) -> Any:
        """What computes the steps of `paged`: this runner, unless a model guesses."""
        return runner

    def swap_space(self, cache: KVCache, num_blocks: int) -> SwapSpace:
        """Where an engine that swaps keeps the blocks of this cache."""
        return SwapSpace(cache, num_blocks)


class Worth:
    """Whether guessing pays for a text: a moving average of how many guesses are right.

    While it does not pay, most steps go without guesses. Now and then one is tried, and
    if it is right, guessing goes on. The pauses double, up to 64 steps.
    """

    WEIGHT = 0.2  # of the latest guesses
    PAUSES = 2, 64  # steps: the first pause, and the longest

    def __init__(self, least: float):
        """Guessing pays if this part of the guesses is right. At first, it is tried."""
        self._least = least
        self._average = 2 * least
        self._pause = self.PAUSES[0]
        self._steps_to_wait = 0

    def allows(self) -> bool:
        """May the next step have guesses? It is asked once before each step."""
        self._steps_to_wait -= self._steps_to_wait > 0
        return not self._steps_to_wait

    def note(self, num_guesses: int, num_right: int) -> None:
        """So many guesses were checked in a step, and so many of them were right."""
        right = num_right / num_guesses
        self._average += self.WEIGHT * (right - self._average)
        if self._average >= self._least:
            self._pause = self.PAUSES[0]
            return
        self._steps_to_wait = self._pause
        self._pause = min(2 * self._pause, self.PAUSES[1])
        self._average = self._least  # so that the next try decides
