"""The page's simulator: what its knobs change, and what they cannot."""

from bisect import bisect
from functools import cache
from itertools import pairwise
from statistics import fmean

import pytest

from book.playground.simulator import (
    BLOCK_SIZES,
    BLOCKS,
    HIGHEST,
    LOADS,
    LONGEST,
    SLOWEST,
    WAYS,
    Run,
    Simulator,
    is_sustained,
    latency_chart,
    mean_running,
    served,
    wasted,
)
from minipaged.simulate.loop import simulate
from minipaged.simulate.pictures import queues_of
from minipaged.simulate.systems import SYSTEMS
from minipaged.simulate.traces import arrivals, poisson_trace, sharegpt_like

CHATS = next(iter(LOADS))


@pytest.mark.parametrize("load", LOADS)
def test_larger_blocks_and_longer_pieces_waste_more(load):
    """In this order of the menu; and somebody really waits, or waste means nothing."""
    by_size = [wasted(load, BLOCKS, size) for size in BLOCK_SIZES]
    by_way = [wasted(load, way, 16) for way in WAYS]
    for reports in (by_size, by_way):
        filled = [report.token_states for report in reports]
        assert all(one > other for one, other in pairwise(filled))
        assert all(
            report.mean_running < len(LOADS[load].queue) / 4 for report in reports
        )


def test_the_knobs_reach_the_run():
    here = Simulator()
    before = here.figures.value, here.waste.value, here.queue.value
    here.block_size.value = 256
    assert here.run.server.block_size == 256 and here.figures.value != before[0]
    here.way.value = list(WAYS)[-1]
    assert "longest length" in here.said.value and here.waste.value != before[1]
    here.rate.value = 8
    assert "At 8 requests a second" in here.said.value
    here.load.value = list(LOADS)[1]
    assert here.rate.value == 8 and "not tried" not in here.said.value
    here.rate.value = 16
    here.load.value = CHATS
    assert here.rate.value == 2 and "not tried at 16 a second" in here.said.value
    assert "At 2 requests a second" in here.said.value
    here.rate.value = 3
    assert "not tried" not in here.said.value


def test_the_size_of_blocks_cannot_be_chosen_where_no_blocks_are_given_out():
    here = Simulator()
    assert not here.block_size.disabled
    here.way.value = LONGEST
    assert here.block_size.disabled
    here.way.value = BLOCKS
    here.block_size.value = 1
    assert not here.block_size.disabled and "blocks of 1 slot." in here.said.value


def test_the_saturated_run_and_the_chosen_rate_are_told_apart():
    saturated, chosen = Simulator().said.value.split("mp-big")[1:]
    assert "Saturated run" in saturated and "a second" not in saturated
    assert "At 2 requests a second" in chosen and "wasted" not in chosen


def test_the_curve_is_of_this_run_and_of_the_longest_pieces():
    here = Simulator()
    while here.is_busy:
        here.go_on()
    chart = latency_chart(here.run)
    assert {curve.name for curve in chart.curves} >= {"blocks", "longest piece"}
    load = LOADS[here.load.value]
    lines = [curve for curve in chart.curves if curve.has_line]
    for curve, way in ((lines[0], BLOCKS), (lines[-1], list(WAYS)[-1])):
        expected = tuple(
            (rate, served(Run(here.load.value, way, 16, rate)).summary(
                "normalized_latency").mean)
            for rate in load.rates
        )  # fmt: skip
        assert curve.points == expected


def test_blocks_bear_more_requests_a_second():
    load = next(iter(LOADS))
    latency = {
        way: served(Run(load, way, 16, 4)).summary("normalized_latency").mean
        for way in WAYS
    }
    assert sorted(latency, key=latency.get) == list(WAYS)


@pytest.mark.parametrize("rate", [1, 4])
def test_the_mean_of_those_who_run_is_that_of_the_picture_while_requests_arrive(rate):
    """Measured in another way: at many moments of the picture's stairs."""
    report = served(Run(next(iter(LOADS)), BLOCKS, 16, rate))
    last = max(one.arrival for one in report.served)
    first = min(one.arrival for one in report.served)
    queues = [*queues_of(report.timeline)]
    starts = [queue.moment for queue in queues]
    moments = [first + (last - first) * at / 4000 for at in range(1, 4000)]
    seen = [queues[bisect(starts, moment) - 1].running for moment in moments]
    assert mean_running(report) == pytest.approx(fmean(filter(None, seen)), rel=0.03)
    assert mean_running(report) > report.mean_running  # with the end, it is less


def test_no_line_leads_over_a_rate_that_was_not_tried():
    load = list(LOADS)[1]
    rates = LOADS[load].rates
    run = Run(load, BLOCKS, 4, rates[0])
    for rate in (rates[0], rates[1], rates[-1]):
        served(run._replace(rate=rate))
    curves = latency_chart(run).curves
    curves = [one for one in curves if one.series == 0 and one.has_line]
    assert [len(one.points) for one in curves] == [2, 1]
    assert [one.name for one in curves] == ["blocks", ""]


def failing(way, load=CHATS):
    """The rates that are not sustained, with blocks of 16 slots."""
    rates = LOADS[load].rates
    return [
        rate for rate in rates if not is_sustained(served(Run(load, way, 16, rate)))
    ]


@cache
def longer(way, rate):
    """The same at four times as many chats."""
    run = Run(CHATS, way, 16, rate)
    scheduler = SYSTEMS[WAYS[way].system](run.server)
    trace = poisson_trace(sharegpt_like(480), rate)
    return simulate(scheduler, arrivals(trace), run.server)


def most_waiting(report):
    return max(step.waiting for step in report.timeline)


@pytest.mark.parametrize("way", WAYS)
def test_what_is_not_sustained_grows_with_the_run_and_what_is_does_not(way):
    """A longer run is the judge: it was not asked for the mark."""
    slowest, *_ = failing(way)
    grown = most_waiting(longer(way, slowest))
    assert grown > 3 * most_waiting(served(Run(CHATS, way, 16, slowest)))
    rate = LOADS[CHATS].rates[0]
    for report in (served(Run(CHATS, way, 16, rate)), longer(way, rate)):
        assert is_sustained(report) and most_waiting(report) < 5


def test_the_longer_the_pieces_the_sooner_a_rate_is_not_sustained():
    first = [failing(way)[0] for way in WAYS]
    assert first == sorted(first, reverse=True) and first[0] > first[-1]
    for way in WAYS:  # and from there on, no higher rate is
        assert failing(way) == list(LOADS[CHATS].rates[-len(failing(way)) :])


def test_the_plot_has_a_cross_and_the_table_says_it():
    here = Simulator()
    assert "not sustained" not in here.figures.value + here.said.value
    here.way.value, here.rate.value = LONGEST, 8
    assert here.figures.value.count("not sustained") == 3  # each of the latencies
    assert "not sustained" in here.said.value
    while here.is_busy:
        here.go_on()
    crosses = {
        curve.series: [rate for rate, _ in curve.points]
        for curve in latency_chart(here.run).curves
        if curve.marker == "x" and not curve.has_line
    }
    assert crosses[0] == failing(BLOCKS)
    assert crosses[len(WAYS) - 1] == failing(LONGEST)
    assert "not sustained" in here.latency.value


def test_far_above_the_chart_a_cross_stands_at_its_edge():
    here = Simulator()
    here.load.value, here.way.value = list(LOADS)[1], LONGEST
    here.rate.value = 64
    report = served(here.run)
    assert report.summary("normalized_latency").mean > SLOWEST
    *_, crosses = latency_chart(here.run).curves
    assert crosses.marker == "x" and crosses.points[-1] == (64, HIGHEST)
