"""Appendix E: whether guessing pays for all together, by a clock."""

from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any

from minipaged.scheduling.observer import Observer

if TYPE_CHECKING:
    from minipaged.scheduling.plan import Plan
    from minipaged.scheduling.request import Request


class Pace(Observer):
    """Lets an engine guess as long as that brings more tokens a second than without.

    A step with guesses brings more tokens, and takes longer: how much longer depends on
    how many sequences it computes, and on the machine. So a clock decides. The pace is
    measured in both ways, apart for 1 sequence, for 2 or 3, for 4 to 7, and so on. The
    faster way is taken. Now and then the other way is tried for a few steps. The time
    that a trial has lost tells when the next may come, so that all trials together lose
    no more than 2 % of the time. If a trial ends as the one before, the next comes
    after twice the time, up to a minute.

    `Worth` decides for each text besides.
    """

    COST = 0.02  # what trials may lose of the time
    LEAD = 1.03  # the other way must be so many times as fast to be taken
    LONGEST = 60.0  # seconds between trials
    STEPS, DRAFTS = 6, 48  # of a trial, at least
    LATE = 2  # steps after a change that were planned before, or catch up

    def __init__(self, now: Callable[[], float] = perf_counter):
        """Nothing is measured yet; at first there are guesses."""
        self._now = now
        self._last: float | None = None  # when the last step was over
        self._sizes: dict[int, _Size] = {}
        self._size = _Size()

    @property
    def allows(self) -> bool:
        """May the next step have guesses?"""
        return self._size.guesses

    def note(self, seconds: float | None, tokens: float, num_sequences: int) -> None:
        """A step is over, with so many tokens for each of so many sequences.

        seconds: None if the time says nothing.
        """
        number = num_sequences.bit_length()
        self._size = self._sizes.setdefault(number, self._size.like())
        if seconds is not None:
            self._size.note(seconds, tokens, num_sequences)

    def admitted(self, request: "Request") -> None:
        """A prompt is computed: that step's time says nothing."""
        self._last = None

    def committed(self, plan: "Plan") -> None:
        """A step is over."""
        now = self._now()
        seconds = None if self._last is None else now - self._last
        self._last = now
        works = [w for w in plan.works if w.start >= w.sequence.num_prefill_tokens]
        if not works or len(works) < len(plan.works):
            return
        self.note(seconds, tokens_of(plan) / len(works), len(works))

    def restore_counts(self, saved: Any) -> None:
        """A step was undone: its time says nothing."""
        self._last = None


class _Size:
    """Both paces for steps of about as many sequences."""

    def __init__(self, guesses: bool = True):
        self.guesses = guesses
        self._paces = {True: _Measured(), False: _Measured()}
        self._is_trial = True
        self._num_steps = 0  # since the last change
        self._seconds = 0.0  # since then
        self._lost = 0.0  # of these, beside the other way
        self._rest = 0.0 if guesses else 0.5  # seconds until the next trial
        self._last_rest = 0.0

    def like(self) -> "_Size":
        """For steps of another size: it begins in the same way.

        Without guesses, it does not try them at once: a batch whose last texts end has
        each size for a few steps.
        """
        return _Size(self.guesses)

    def note(self, seconds: float, tokens: float, count: int) -> None:
        """A step is over, with so many tokens for each of `count` sequences."""
        own, other = self._paces[self.guesses], self._paces[not self.guesses]
        self._num_steps += 1
        self._seconds += seconds
        self._rest -= seconds
        if self._num_steps > Pace.LATE:
            own.add(seconds, tokens)
        if other.pace:
            self._lost += seconds - tokens / other.pace
        least = max(Pace.STEPS, Pace.DRAFTS // count) if self.guesses else Pace.STEPS
        if self._num_steps < least + Pace.LATE:
            return
        if self._is_trial:
            own.trial = self._seconds
        if not other.pace:
            if self._rest <= 0:
                self._change(is_trial=True)
        elif self._is_trial:
            has_won = own.pace > Pace.LEAD * other.pace
            twice = 0.0 if has_won else 2 * self._last_rest
            self._rest = min(max(twice, self._until_next(own, other)), Pace.LONGEST)
            self._last_rest = self._rest
            self._is_trial = False
            if not has_won:
                self._change(is_trial=False)
        elif self._rest < 0 or other.pace > Pace.LEAD * own.pace:
            self._change(is_trial=True)

    def _until_next(self, own: "_Measured", other: "_Measured") -> float:
        """How long no trial may come, so that one like the slower way's costs little.

        As a trial begins, a draft model may have to catch up: that is counted, too.
        """
        slower, faster = sorted([own, other], key=lambda way: way.pace)
        lost = slower.trial * (1 - slower.pace / faster.pace)
        return max(self._lost, lost) / Pace.COST + 10 * slower.trial

    def _change(self, is_trial: bool) -> None:
        self.guesses = not self.guesses
        self._is_trial = is_trial
        self._num_steps = 0
        self._seconds = self._lost = 0.0


class _Measured:
    """The pace of the latest steps."""

    def __init__(self) -> None:
        self._steps: deque[tuple[float, float]] = deque(maxlen=48)
        self.pace = 0.0  # tokens a second, of a sequence
        self.trial = 0.0  # seconds of the last trial

    def add(self, seconds: float, tokens: float) -> None:
        """The median of the seconds counts, because some step may have to wait."""
        self._steps.append((seconds, tokens))
        times = sorted([seconds for seconds, _ in self._steps])
        mean = sum([tokens for _, tokens in self._steps]) / len(times)
        self.pace = mean / times[len(times) // 2]


def tokens_of(plan: "Plan") -> int:
    """How many tokens a step that decodes has brought."""
    return sum([max(0, w.sequence.num_known - w.start - 1) for w in plan.works])
