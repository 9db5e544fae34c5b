"""The clock of an engine."""

import time

from minipaged.scheduling.clock import Clock


def test_time_stands_still_until_the_start_and_a_second_start_changes_nothing(
    monkeypatch,
):
    moments = iter([100.0, 103.0, 107.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(moments))
    clock = Clock()
    assert clock.now() == 0.0
    clock.start()
    assert clock.now() == 3.0
    clock.start()
    assert clock.now() == 7.0


def test_it_waits_for_what_is_left_and_not_for_what_is_past():
    waits = []
    Clock().sleep_until(2.5, waits.append)
    Clock().sleep_until(-1.0, waits.append)
    assert waits == [2.5, 0.0]
