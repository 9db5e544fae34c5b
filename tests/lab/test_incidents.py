"""Appendix G's incidents: each suspect switched off, as their verdicts tell it."""

from functools import cache
from statistics import fmean

import pytest

from helpers.attempts_of_appendix_g import Third
from minipaged.lab.tour.desk import BEFORE, TODAY, Desk
from minipaged.lab.tour.tunnels import LENGTH, Server, Setup, Trip


@cache
def morning(release):
    return Desk(release).morning()


def wait(release):
    """Steps until the first token, on average."""
    return fmean(row["first_token_after"] for row in morning(release).log)


def test_only_without_ratings_do_first_tokens_come_in_less_than_half_of_the_steps():
    assert wait(TODAY) > 2.9 * wait(BEFORE)
    assert wait(TODAY._replace(rated_every=0)) < wait(TODAY) / 2
    for change in ("num_blocks", "num_keys", "together", "says_date"):
        taken_back = TODAY._replace(**{change: getattr(BEFORE, change)})
        assert wait(taken_back) > wait(TODAY) / 2, change


def test_the_hit_rate_does_not_show_what_nobody_looked_up():
    before, today = (morning(one).metrics() for one in (BEFORE, TODAY))
    rates = [
        one["prefix_cache_hits"] / one["prefix_cache_queries"]
        for one in (before, today)
    ]
    assert rates[1] > rates[0]
    assert today["prefix_cache_queries"] < 0.51 * today["prompt_tokens"]


def cut(**setup):
    """Who has not received the whole answer, but for Eve, who has left."""
    received = Server(Setup(**setup)).day().received
    return {
        user
        for user, tokens in received.items()
        if user != "Eve" and len(tokens) < LENGTH
    }


@pytest.mark.parametrize(
    ("setup", "users"),
    [
        ({}, {"Ben", "Gus"}),
        ({"num_blocks": 64}, {"Ben"}),  # it helps Gus, and is not the cause
        ({"patience": 100}, set()),  # all answers end before
        ({"may_end_early": False}, {"Ben", "Gus"}),
        ({"writes_in_vain": 0}, set()),
    ],
)
def test_short_tunnels_cut_an_answer_unless_the_server_sees_them_at_once(setup, users):
    assert cut(**setup) == users


def test_a_user_may_come_back_in_the_step_of_the_abort_but_after_it():
    """So a guard that compares steps wakes somebody up for nothing."""
    server = Server(gone_since=Third().repair).day([Trip("Zed", 0, [(5, 31)])])
    lines = [(step, what) for step, what, *_ in server.log]
    at = lines.index((36, "aborted"))
    assert lines[at + 1] == (36, "arrives") and not Third().guard(server.log)
