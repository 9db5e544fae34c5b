"""Many clients at once, some of whom leave, or send what is no request."""

from helpers.server_soak import soak


def test_every_complete_answer_is_right_and_nothing_is_left():
    report = soak(80, clients=16)
    assert report["requests"] == 80 and report["answers"] > 30
    assert report["left"] > 0 and report["preemptions"] > 0
    for what in ("wrong", "wrong status"):
        assert not report.get(what), report
    for what in ("tasks left", "blocks lost", "streams left", "threads left"):
        assert report[what] == 0, report
