"""benchmarks.gpu.step_costs on a tiny model: what it stores, a simulation reads."""

from copy import deepcopy
from math import isfinite

import pytest

import minipaged as mp
from benchmarks.gpu.step_costs import Grids, Window, grids, measure, store
from helpers.tiny_models import tiny_model
from minipaged.simulate.fit import fit, fitted_server, read_steps
from minipaged.simulate.loop import simulate
from minipaged.simulate.systems import paged
from minipaged.simulate.traces import arrivals, poisson_trace, wmt_like

FIT = [Window(1, 8), Window(4, 8), Window(4, 60), Window(2, 20, 1, 16), Window(8, 30)]


@pytest.fixture(scope="module")
def model():
    endless = deepcopy(tiny_model("qwen3"))
    endless.generation_config.eos_token_id = None
    return mp.PagedModel(endless, num_blocks=256)


def test_a_window_is_what_it_says(model):
    windows = [Window(4, 32), Window(2, 20, 3, 16)]
    with mp.Engine(model, run="eager") as engine:
        decode, mixed = measure(engine, windows, steps=4)
    assert decode["num_tokens"] == decode["num_sequences"] == 4
    assert decode["num_logits"] == 4 and decode["pairs"] == 0
    assert 4 * 33 <= decode["keys_read"] <= 4 * 45 and decode["seconds"] > 0
    assert mixed["num_tokens"] == 2 + 3 * 16 and mixed["num_sequences"] == 5
    assert mixed["num_logits"] == 5 and mixed["pairs"] == 3 * 16 * 17 // 2
    assert model.pool.num_free == 256


def test_what_is_stored_makes_a_server(model, tmp_path):
    path = tmp_path / "tiny.json"
    store(model, Grids(FIT, [Window(6, 20)]), "eager", path, "tiny", rounds=1)
    stored = read_steps(path)
    assert len(stored.fitted) == len(FIT) and len(stored.test) == 1
    assert stored.num_slots == 4096 and stored.max_length == 256
    assert isfinite(fit(stored.fitted).error(stored.fitted))  # of real seconds
    server = fitted_server(path)
    report = simulate(paged(server), arrivals(poisson_trace(wmt_like(20), 5.0)), server)
    assert len(report.served) == 20 and report.seconds > 0


def test_the_test_has_windows_that_are_not_fitted():
    found = grids()
    assert not {*found.fit} & {*found.test} and found.test
