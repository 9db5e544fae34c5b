"""The page's simulator: what its knobs change, and what they cannot."""

from bisect import bisect
from itertools import pairwise
from statistics import fmean

import pytest

from book.playground.simulator import (
    BLOCK_SIZES,
    BLOCKS,
    LOADS,
    WAYS,
    Run,
    Simulator,
    latency_chart,
    mean_running,
    served,
    wasted,
)
from minipaged.simulate.pictures import queues_of


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
    assert here.rate.value in LOADS[here.load.value].rates


def test_the_curve_is_of_this_run_and_of_the_longest_pieces():
    here = Simulator()
    while here.is_busy:
        here.go_on()
    chart = latency_chart(here.run)
    assert {curve.name for curve in chart.curves} >= {"blocks", "longest piece"}
    load = LOADS[here.load.value]
    for curve, way in ((chart.curves[0], BLOCKS), (chart.curves[-1], list(WAYS)[-1])):
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
    curves = [one for one in latency_chart(run).curves if one.series == 0]
    assert [len(one.points) for one in curves] == [2, 1]
    assert [one.name for one in curves] == ["blocks", ""]
