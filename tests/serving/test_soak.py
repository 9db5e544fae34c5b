"""Many clients at once, some of whom leave, or send what is no request."""

import pytest

from helpers.server_soak import soak


@pytest.mark.parametrize("in_process", [False, True])
def test_every_complete_answer_is_right_and_nothing_is_left(in_process):
    report = soak(80, clients=16, in_process=in_process)
    assert report["requests"] == 80 and report["answers"] > 30
    assert report["left"] > 0 and report["preemptions"] > 0
    for what in ("wrong", "wrong status"):
        assert not report.get(what), report
    for what in ("tasks", "streams", "threads", "processes"):
        assert report[f"{what} left"] == 0, report
    assert report["blocks lost"] == 0, report
