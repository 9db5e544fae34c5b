"""What steps cost: counted, by data sheets, and fitted."""

import json
import random

import pytest

from minipaged.memory.block_pool import BlockPool
from minipaged.memory.block_table import BlockTable
from minipaged.scheduling.plan import Plan, Work
from minipaged.simulate.costs import StepLoad, load_of
from minipaged.simulate.fit import (
    FittedCosts,
    Measured,
    fit,
    fitted_server,
    least_squares,
    read_steps,
)
from minipaged.simulate.script import Script
from minipaged.simulate.servers import LLAMA_13B, OPT_13B, OPT_66B, OPT_175B


def plan(*spans, copies=()):
    """Works of requests that compute positions start to stop - 1, with one logit."""
    pool = BlockPool(4096, 16)
    works = []
    for start, stop in spans:
        request = Script([5]).request([0] * stop)
        request.start(BlockTable(pool))
        works.append(Work(request, request.answers[0], start, stop, 1))
    return Plan(works, list(copies))


def test_what_a_step_does_is_counted():
    load = load_of(plan((8, 12), (20, 21), copies=[(1, 2)]), moved_blocks=7)
    assert load == StepLoad(5, 2, 2, 33, 9 + 10 + 11 + 12, 1, 7)


def test_the_paper_s_pools_hold_what_table_1_says():
    """12, 21 and 264 GB, in binary gigabytes, to the digit that the paper gives."""
    for server, gigabytes in ((OPT_13B, 12), (OPT_66B, 21), (OPT_175B, 264)):
        slots = gigabytes * 2**30 / server.kv_bytes_per_token
        assert abs(slots / server.num_slots - 1) < 0.02, server.name
    assert OPT_13B.kv_bytes_per_token == 819_200 == LLAMA_13B.kv_bytes_per_token


def test_a_decode_step_reads_weights_and_k_and_v():
    seconds = OPT_13B.step_seconds(plan((99, 100), (199, 200)))
    assert seconds == pytest.approx((26e9 + 300 * 819_200) / 1555e9)


def test_a_long_prompt_is_bound_by_arithmetic():
    seconds = OPT_13B.step_seconds(plan((0, 2000)))
    operations = 2 * 13e9 * 2000 + 4 * 40 * 5120 * 2000 * 2001 / 2
    assert seconds == pytest.approx(operations / 312e12 + 2000 * 819_200 / 1555e9)


def test_copies_and_swaps_take_time_and_more_gpus_less():
    step = plan((99, 100))
    base = OPT_13B.step_seconds(step)
    block = 16 * 819_200
    copied = OPT_13B.step_seconds(plan((99, 100), copies=[(1, 2)])) - base
    assert copied == pytest.approx(2 * block / 1555e9)
    moved = OPT_13B.step_seconds(step, moved_blocks=10) - base
    assert moved == pytest.approx(10 * block / 32e9)
    assert OPT_175B.step_seconds(step) < 173e9 * 2 / 2039e9 / 7.9


def measured(costs, count, seed, noise=0.0):
    """Steps of random loads that take what these costs say."""
    chance = random.Random(seed)
    steps = []
    for _ in range(count):
        sequences = chance.randint(1, 256)
        prompt = chance.choice([0, 0, 128, 512, 1024])
        keys = sequences * chance.randint(1, 1000) + prompt
        pairs = prompt * (prompt + 1) // 2
        load = StepLoad(sequences + prompt, sequences, sequences, keys, pairs)
        seconds = costs.seconds_of(load) * (1 + noise * chance.uniform(-1, 1))
        steps.append(Measured(load, seconds))
    return steps


TRUE = FittedCosts(
    {"step": 5e-3, "num_sequences": 1e-5, "num_tokens": 8e-6, "keys_read": 2e-8}, 256
)


def test_the_fit_finds_the_costs_again():
    """`num_logits` is always the number of sequences: one of the two gets all."""
    steps = measured(TRUE, 60, seed=0)
    steps.append(
        Measured(
            StepLoad(256, 1, 1, 256, 0), TRUE.seconds_of(StepLoad(256, 1, 1, 256, 0))
        )
    )
    found = fit(steps)
    assert found.free_tokens == 256
    assert found.error(measured(TRUE, 50, seed=1)) < 1e-6
    each = found.seconds.get("num_sequences", 0) + found.seconds.get("num_logits", 0)
    assert each == pytest.approx(1e-5) and min(found.seconds.values()) >= 0


def test_the_fit_stands_noise_and_is_tested_on_other_steps():
    found = fit(measured(TRUE, 60, seed=0, noise=0.05))
    assert found.error(measured(TRUE, 50, seed=1)) < 0.03
    assert min(found.seconds.values()) >= 0


def test_a_wrong_model_has_a_large_error():
    assert FittedCosts({"step": 5e-3}).error(measured(TRUE, 50, seed=1)) > 0.2


def test_no_cost_is_negative():
    """Steps with more keys are shorter here: keys then cost nothing."""
    steps = [
        Measured(StepLoad(1, 1, 1, keys, 0), 1.0 - keys / 1000) for keys in (1, 99, 500)
    ]
    assert min(fit(steps).seconds.values()) >= 0


def test_least_squares_solves_and_leaves_out_what_depends_on_others():
    assert least_squares([[2.0, 0.0], [0.0, 4.0]]) == pytest.approx([0.5, 0.25])
    assert least_squares([[1.0, 1.0], [2.0, 2.0]]) == pytest.approx([0.6, 0.0])


def test_a_server_is_read_from_a_file(tmp_path):
    steps = measured(TRUE, 40, seed=0)
    rows = [step.load._asdict() | {"seconds": step.seconds} for step in steps]
    sizes = {"num_slots": 4096, "max_length": 2048, "block_size": 16}
    path = tmp_path / "a-gpu.json"
    path.write_text(json.dumps(sizes | {"fit": rows[:30], "test": rows[30:]}))
    stored = read_steps(path)
    assert [*stored.fitted, *stored.test] == steps and len(stored.test) == 10
    server = fitted_server(path)
    assert (server.name, server.num_slots) == ("a-gpu", 4096)
    step = plan((99, 100), (0, 50))
    expected = TRUE.step_seconds(step)
    assert server.step_seconds(step) == pytest.approx(expected, rel=0.01)


def test_nothing_is_fitted_to_nothing():
    with pytest.raises(ValueError, match="no steps"):
        fit([])
