"""The page's simulator: what its knobs change, and what they cannot."""

from itertools import pairwise

import pytest

from book.playground.simulator import (
    BLOCK_SIZES,
    BLOCKS,
    LOADS,
    WAYS,
    Run,
    Simulator,
    latency_chart,
    served,
    wasted,
)


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
