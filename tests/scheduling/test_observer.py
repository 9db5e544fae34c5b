"""Several observers as one: whatever there is to tell, each is told."""

import inspect

import pytest

from minipaged.scheduling.observer import Observer, Observers, check_observers

METHODS = [name for name, one in vars(Observer).items() if inspect.isfunction(one)]
EVENTS = [name for name in METHODS if name not in ("save_counts", "restore_counts")]


@pytest.mark.parametrize("event", EVENTS)
def test_each_is_told_of_every_event_in_order(event):
    told = []

    def noting(name):
        def method(self, *arguments):
            told.append((name, *arguments))

        return type(name, (Observer,), {event: method})()

    observers = Observers([noting("first"), noting("second")])
    count = len(inspect.signature(getattr(Observer, event)).parameters) - 1
    getattr(observers, event)(*range(count))
    assert told == [("first", *range(count)), ("second", *range(count))]


def test_what_each_has_counted_is_saved_and_restored():
    class Counter(Observer):
        count = 0

        def planned(self, plan):
            self.count += 1

        def save_counts(self):
            return self.count

        def restore_counts(self, saved):
            self.count = saved

    one, two, three = Counter(), Counter(), Counter()
    observers = Observers([one, Observer(), Observers([two])])
    observers.planned(None)
    saved = observers.save_counts()
    observers.append(three)  # it came meanwhile
    observers.planned(None)
    for _ in range(2):
        observers.restore_counts(saved)
        assert (one.count, two.count, three.count) == (1, 1, 1)


def test_there_are_as_many_events_as_the_design_wants():
    wanted = "admitted planned computed chosen forked published freed".split()
    assert set(wanted) < set(EVENTS)


def test_nobody_is_told_of_what_is_no_event():
    with pytest.raises(AttributeError, match="finished"):
        Observers().finished()


def test_only_observers_are_observers():
    one = Observer()
    assert check_observers(iter([one])) == [one]
    for wrong in (one, 5, None, [one, 5], [Observer]):
        with pytest.raises(TypeError, match="observers must be"):
            check_observers(wrong)
