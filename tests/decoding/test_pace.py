"""A clock decides whether guessing pays: the faster way is taken."""

import random
from types import SimpleNamespace

import pytest

from minipaged.decoding import pace as module
from minipaged.decoding.pace import Pace


class Machine:
    """An engine's steps, which take so long with guesses, and so long without.

    A step with guesses brings the tokens that `tokens` draws.
    """

    def __init__(self, with_guesses, without, tokens, count=1, jitter=0.0):
        self.seconds = {True: with_guesses, False: without}
        self.tokens, self.count, self.jitter = tokens, count, jitter
        self.moment, self.told = 0.0, 0
        self.draw = random.Random(0)
        self.pace = Pace(lambda: self.moment)
        self.ways = []  # of each step: with guesses?

    def step(self, in_prompt=False):
        guesses = self.pace.allows
        seconds = self.seconds[guesses]
        if guesses and self.ways and not self.ways[-1]:
            seconds *= 5  # a draft model catches up
        self.moment += seconds * (1 + self.jitter * self.draw.random())
        works = []
        for _ in range(self.count):
            tokens = self.tokens(self.draw) if guesses else 1
            self.told += tokens
            sequence = SimpleNamespace(
                num_known=11 + tokens,
                num_prefill_tokens=20 if in_prompt else 5,
            )
            works.append(SimpleNamespace(start=10, sequence=sequence))
        self.ways.append(guesses)
        self.pace.committed(SimpleNamespace(works=works))

    def run(self, seconds):
        """Tokens a second, of a sequence, from now on for so many seconds."""
        start, told = self.moment, self.told
        while self.moment < start + seconds:
            self.step()
        return (self.told - told) / (self.moment - start) / self.count


def often_right(draw):
    """One token, and up to two guesses, each right with probability 0.6."""
    return 1 + (draw.random() < 0.6) * (1 + (draw.random() < 0.6))


SLOW = {"with_guesses": 9e-3, "without": 2e-3, "tokens": often_right, "count": 64}
FAST = {"with_guesses": 2e-3, "without": 1.4e-3, "tokens": often_right, "count": 1}


@pytest.mark.parametrize("jitter", [0.0, 0.3])
def test_where_guesses_do_not_pay_trials_cost_little(jitter):
    machine = Machine(**SLOW, jitter=jitter)
    machine.run(0.5)
    plain = 1 / SLOW["without"] / (1 + jitter / 2)
    assert machine.run(10) > 0.965 * plain
    assert 0 < sum(machine.ways[-4000:]) < 200  # now and then they are tried


@pytest.mark.parametrize("jitter", [0.0, 0.3])
def test_where_guesses_pay_steps_without_them_are_rare(jitter):
    machine = Machine(**FAST, jitter=jitter)
    machine.run(0.5)
    best = 1.96 / FAST["with_guesses"] / (1 + jitter / 2)
    assert machine.run(10) > 0.965 * best
    assert machine.ways[-4000:].count(False) > 0


@pytest.mark.parametrize("seed", range(5))
def test_steps_of_uneven_length_are_not_judged_by_the_short_ones(seed):
    """With guesses, a step takes 2.7 to 6.3 ms, and in the mean it does not pay."""
    machine = Machine(2.7e-3, 2.058e-3, often_right, count=64)
    machine.draw.seed(seed)
    run_step = machine.step

    def step():
        machine.seconds[True] = 2.7e-3 + 3.6e-3 * machine.draw.random()
        run_step()

    machine.step = step
    machine.run(0.5)
    assert machine.run(5) > 0.975 / 2.058e-3


class Shaken(Machine):
    """Several times a second, it is slower for a moment, whatever it does.

    Guesses bring 1.96 tokens in 2.1 times a step's time: a loss of 7 %.
    """

    def __init__(self, seed):
        super().__init__(4.4e-3, 2.1e-3, often_right, count=64)
        draw, end, self.slow = random.Random(seed), 0.0, []
        while end < 8:
            begin = end + draw.expovariate(3)
            end = begin + 0.05 + 0.2 * draw.random()
            self.slow.append((begin, end))

    def step(self):
        is_slow = any(begin <= self.moment < end for begin, end in self.slow)
        usual = dict(self.seconds)
        if is_slow:
            self.seconds = {way: 1.4 * seconds for way, seconds in usual.items()}
        super().step()
        self.seconds = usual


def kept_of_plain(seed):
    """Its speed, beside that of the same machine if it never guesses."""
    machine, plain = Shaken(seed), Shaken(seed)
    plain.pace.committed = lambda plan: None
    plain.pace._size.guesses = False
    return machine.run(6) / plain.run(6)


def test_slow_moments_decide_nothing(monkeypatch):
    """A way that was measured in one is not held to be slow for long."""
    monkeypatch.setattr(Pace, "TOGETHER", 1.0)  # here no text ends
    assert sum(map(kept_of_plain, range(12))) / 12 > 0.972


def test_old_steps_that_count_are_noticed(monkeypatch):
    """Wrong: a trial counts steps of earlier trials, too."""
    change = module._Size._change

    def keeps(size, is_trial):
        paces = dict(size._paces)
        change(size, is_trial)
        size._paces = paces

    monkeypatch.setattr(module._Size, "_change", keeps)
    with pytest.raises(AssertionError):
        test_slow_moments_decide_nothing(monkeypatch)


def part_with_guesses(times):
    """Of 64 texts, to which guesses bring so many times the tokens a second."""
    machine = Machine(1.96 * 2e-3 / times, 2e-3, often_right, count=64)
    machine.run(10)
    return sum(machine.ways[-2000:]) / 2000


def test_several_texts_want_more_of_guesses(monkeypatch):
    """With guesses, texts that began together end one after the other."""
    assert part_with_guesses(1.05) < 0.1 < 0.9 < part_with_guesses(1.2)
    monkeypatch.setattr(Pace, "TOGETHER", 1.0)
    assert part_with_guesses(1.05) > 0.9


def test_a_change_is_noticed():
    """Guesses become wrong, and later right again; or the machine has other steps."""
    machine = Machine(**FAST)
    machine.run(2)
    machine.tokens = lambda draw: 1
    machine.run(2)
    assert machine.run(2) > 0.95 / FAST["without"]
    machine.tokens = often_right
    machine.run(4)
    assert machine.run(2) > 0.95 * 1.96 / FAST["with_guesses"]


def test_each_size_of_a_batch_is_measured_for_itself():
    """A user alone keeps the guesses that a full batch has given up, and back."""
    machine = Machine(**FAST)
    machine.run(2)
    full, alone = [], []
    for _ in range(4):
        machine.seconds, machine.count = {True: 9e-3, False: 2e-3}, 64
        full.append(machine.run(1))
        machine.seconds, machine.count = {True: 2e-3, False: 1.4e-3}, 1
        alone.append(machine.run(1))
    assert sum(full[1:]) / 3 > 0.95 / 2e-3
    assert sum(alone) / 4 > 0.95 * 1.96 / 2e-3


def test_a_shrinking_batch_does_not_try_at_each_size():
    machine = Machine(**SLOW)
    machine.run(3)
    tried = sum(machine.ways)
    for count in range(63, 0, -1):
        machine.count = count
        for _ in range(6):
            machine.step()
    assert sum(machine.ways) <= tried + 8


def test_a_batch_that_shrinks_during_a_trial_takes_the_way_that_stands():
    machine = Machine(**SLOW)
    machine.run(3)
    while not machine.ways[-1]:
        machine.step()
    tried = sum(machine.ways)
    for count in (63, 31, 15, 7, 3, 1):
        machine.count = count
        for _ in range(6):
            machine.step()
    assert sum(machine.ways) <= tried + 2


def test_steps_with_prompts_and_pauses_are_not_counted():
    machine = Machine(**FAST)
    for _ in range(300):
        machine.step()
        machine.step(in_prompt=True)
        machine.moment += 5.0  # nobody asks
        machine.pace.admitted(None)
    assert machine.run(1) > 0.93 * 1.96 / FAST["with_guesses"]


def test_an_undone_step_is_not_counted():
    machine = Machine(**FAST)
    machine.run(1)
    machine.pace.restore_counts(machine.pace.save_counts())
    machine.moment += 1000.0
    assert machine.run(1) > 0.93 * 1.96 / FAST["with_guesses"]


@pytest.mark.parametrize("kind", [FAST, SLOW], ids=["fast", "slow"])
def test_a_cold_start_does_not_decide_for_long(kind):
    """Kernels are compiled, and for a while all steps take three times as long."""
    machine = Machine(**kind)
    right = dict(machine.seconds)
    machine.moment += 3.0
    machine.seconds = {guesses: 3 * seconds for guesses, seconds in right.items()}
    machine.seconds[kind is SLOW] /= 9  # the slower way looks the faster one
    for _ in range(70):
        machine.step()
    assert machine.pace.allows == (kind is SLOW)
    machine.seconds = right
    machine.run(1)
    best = max(1.96 / right[True], 1 / right[False])
    assert machine.run(1) > 0.93 * best


def test_trials_that_cost_what_they_like_are_noticed(monkeypatch):
    """Wrong: the next trial always comes soon."""
    monkeypatch.setattr(module._Size, "_lost", lambda size, pace: 0.0)
    monkeypatch.setattr(Pace, "LONGEST", Pace.SOON)
    with pytest.raises(AssertionError):
        test_where_guesses_do_not_pay_trials_cost_little(0.0)
    with pytest.raises(AssertionError):
        test_where_guesses_pay_steps_without_them_are_rare(0.0)
