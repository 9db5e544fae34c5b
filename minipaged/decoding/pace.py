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
    faster way is taken. Now and then the other way is tried for a few steps, and only
    these steps count: older ones may be of another time, when the machine was slower.
    A first trial may fall into a slow moment, so the next comes soon. If it ends alike,
    the next comes after twice the time, up to a minute; and later if much time was
    lost, so that these trials lose no more than 2 % of the time.

    A way only wins if it stays ahead for three times as long as a trial.

    Texts of the same length that decode together end together. With guesses, some end
    earlier, and steps become smaller before the last one ends. So where several texts
    decode, guesses must bring a seventh more.

    `Worth` decides for each text besides.
    """

    COST = 0.02  # what trials may lose of the time
    LEAD = 1.03  # the other way must be so many times as fast to be taken
    SOON, LONGEST = 0.2, 60.0  # seconds between trials
    STEPS, DRAFTS = 6, 48  # of a trial, at least
    TOGETHER = 0.9  # what the pace with guesses counts for, of several sequences
    TO_WIN = 3  # times as long as a trial that is lost
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
        self.note(seconds, tokens_of_step(plan) / len(works), len(works))

    def restore_counts(self, saved: Any) -> None:
        """A step was undone: its time says nothing."""
        self._last = None


class _Size:
    """Both paces for steps of about as many sequences."""

    def __init__(self, guesses: bool = True):
        self.guesses = guesses
        self._paces = {True: _Measured(), False: _Measured()}
        self._is_trial = True
        self._steps: list[tuple[float, float]] = []  # seconds and tokens of a trial
        self._rest = 0.0 if guesses else 0.5  # seconds until the next trial
        self._last_rest = 0.0

    def like(self) -> "_Size":
        """For steps of another size: it begins in the same way.

        Without guesses, it does not try them at once: a batch whose last texts end has
        each size for a few steps.
        """
        is_tried = self._is_trial and self._paces[not self.guesses].pace > 0
        return _Size(self.guesses != is_tried)

    def note(self, seconds: float, tokens: float, count: int) -> None:
        """A step is over, with so many tokens for each of `count` sequences."""
        own, other = self._paces[self.guesses], self._paces[not self.guesses]
        self._rest -= seconds
        self._steps.append((seconds, tokens))
        if len(self._steps) > Pace.LATE:
            own.add(seconds, tokens)
        least = max(Pace.STEPS, Pace.DRAFTS // count) if self.guesses else Pace.STEPS
        if len(self._steps) < least + Pace.LATE:
            return
        if not other.pace:
            if self._rest <= 0:
                self._change(is_trial=True)
        elif self._is_trial:
            if not self._is_faster(self.guesses, count):
                self._rest = self._next_rest(other.pace)
                self._last_rest = self._rest
                self._change(is_trial=False)
            elif len(self._steps) >= Pace.TO_WIN * least + Pace.LATE:
                self._is_trial = False
                self._rest = self._last_rest = Pace.SOON
        elif self._rest < 0 or self._is_faster(not self.guesses, count):
            self._change(is_trial=True)
        else:  # so the next look comes some steps later
            del self._steps[: Pace.STEPS]

    def _is_faster(self, guesses: bool, count: int) -> bool:
        """Is this way the faster one, by so much that a change pays?"""
        paces = {way: measured.pace for way, measured in self._paces.items()}
        if count > 1:
            paces[True] *= Pace.TOGETHER
        return paces[guesses] > Pace.LEAD * paces[not guesses]

    def _next_rest(self, pace: float) -> float:
        """Seconds until the next trial, after one that was lost to this pace."""
        if not self._last_rest:
            return Pace.SOON
        rest = max(2 * self._last_rest, self._lost(pace) / Pace.COST)
        return min(rest, Pace.LONGEST)

    def _lost(self, pace: float) -> float:
        """Seconds that the trial has lost, beside the other way's pace.

        As it begins, a draft model may have to catch up: that counts, too. But a step
        of ten times the time did something else, such as to compile a kernel.
        """
        times = sorted([seconds for seconds, _ in self._steps])
        most = 10 * times[len(times) // 2]
        return sum([min(seconds, most) - t / pace for seconds, t in self._steps])

    def _change(self, is_trial: bool) -> None:
        self.guesses = not self.guesses
        self._is_trial = is_trial
        self._steps = []
        if is_trial:
            self._paces[self.guesses] = _Measured()


class _Measured:
    """The pace of the latest steps."""

    def __init__(self) -> None:
        self._steps: deque[tuple[float, float]] = deque(maxlen=48)

    def add(self, seconds: float, tokens: float) -> None:
        """A step of this way is over."""
        self._steps.append((seconds, tokens))

    @property
    def pace(self) -> float:
        """Tokens a second, of a sequence; 0 if there was no step yet.

        Steps may be uneven, so their sum counts, not their median. Now and then a step
        has to wait: it counts as three usual ones at most.
        """
        if not self._steps:
            return 0.0
        times = sorted([seconds for seconds, _ in self._steps])
        most = 3 * times[len(times) // 2]
        told = sum([tokens for _, tokens in self._steps])
        return told / sum([min(seconds, most) for seconds in times])


def tokens_of_step(plan: "Plan") -> int:
    """How many tokens a step that decodes has brought."""
    return sum([max(0, w.sequence.num_known - w.start - 1) for w in plan.works])
