"""A load that an engine served, stored, read, and simulated beside it."""

import json
from copy import deepcopy

import pytest

import minipaged as mp
from benchmarks.gpu.simulated import serve, table
from helpers.tiny_models import tiny_model
from minipaged.simulate.costs import load_of
from minipaged.simulate.report import Summary
from minipaged.simulate.validation import (
    Beside,
    Limits,
    Load,
    Validation,
    beside,
    read_validations,
    stored,
)

LIMITS = Limits(num_blocks=400, block_size=16, max_tokens=64, max_sequences=8)


class Even:
    """Each step takes 10 ms, and each of its tokens 0.1 ms."""

    def step_seconds(self, plan, moved_blocks=0):
        return 0.01 + 0.0001 * load_of(plan).num_tokens


def simulated(runs_ahead, **options):
    load = Load(**({"lengths": "wmt", "count": 40, "rate": 6.0} | options))
    return Validation(load, LIMITS, runs_ahead, None).simulated(Even())


@pytest.mark.parametrize("prefix", [0, 48])
def test_what_is_stored_is_read_again(tmp_path, prefix):
    report = simulated(False, prefix=prefix)
    found = Validation(Load("wmt", 40, 6.0, prefix), LIMITS, False, report)
    path = tmp_path / "served.json"
    path.write_text(json.dumps({"validations": [{"name": "a"} | stored(found)]}))
    (read,) = read_validations(path)
    assert (report.share_cached > 0) == (prefix > 0)
    for row in beside(read.report, read.simulated(Even())):
        assert row.off.mean == pytest.approx(0, abs=1e-3)
        assert row.off.p99 == pytest.approx(0, abs=1e-3)
    assert "+0.0%" in table(read, Even())


def test_how_far_it_is_off():
    row = Beside("latency", Summary(2.0, 4.0), Summary(2.1, 3.0))
    assert row.off == (pytest.approx(0.05), -0.25)


def test_a_step_ahead_a_request_waits_for_a_step_more():
    """It arrives while a step runs, and the next one is planned already."""
    first, ahead = (simulated(ahead, rate=2.0) for ahead in (False, True))
    waits = [report.summary("time_to_first_token").mean for report in (first, ahead)]
    assert waits[0] + 0.002 < waits[1] < waits[0] + 0.011
    gaps = [report.summary("time_per_token").mean for report in (first, ahead)]
    assert gaps[0] == pytest.approx(gaps[1], rel=0.02)


def test_an_engine_serves_a_load_in_true_time():
    endless = deepcopy(tiny_model("qwen3"))
    endless.generation_config.eos_token_id = None
    paged = mp.PagedModel(endless, num_blocks=512)
    load = Load("wmt", 6, 40.0, prefix=32)
    found = serve(paged, load, "eager", warm=False)
    trace = load.trace()
    served = found.report.served
    assert [one.output for one in served] == [one.lengths[0] for one in trace]
    assert [one.arrival for one in served] == pytest.approx(
        [one.arrival for one in trace], abs=1e-4
    )
    assert all(one.arrival < one.first_token <= one.end for one in served)
    assert sum(one.cached for one in served) >= 4 * 32
    computed = sum(moment.num_tokens for moment in found.report.timeline)
    assert computed == sum(one.prompt + one.output - 1 - one.cached for one in served)
    assert paged.pool.num_free == 512
