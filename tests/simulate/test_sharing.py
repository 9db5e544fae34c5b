"""What is saved by sharing: counted, and compared with a model's own beams."""

import pytest
from transformers import GenerationConfig

import minipaged as mp
from minipaged.lab import StepClock
from minipaged.scheduling.scheduler import Scheduler
from minipaged.simulate.loop import Arrival, simulate
from minipaged.simulate.script import BeamScript, Script
from minipaged.simulate.sharing import SharingMeter
from minipaged.simulate.traces import alpaca_like


def saved(*requests):
    scheduler = Scheduler(mp.BlockPool(512, 4))
    meter = SharingMeter(scheduler)
    simulate(scheduler, [Arrival(0.0, each) for each in requests], StepClock())
    return meter


def test_samples_share_the_blocks_that_the_prompt_fills():
    """Two samples of a prompt of 9, blocks of 4: they share 2 blocks of 3 or 4 each."""
    meter = saved(Script([6, 6]).request([1] * 9))
    # The prompt's step: 3 blocks. Positions 10 to 12: 2 + 1 + 1 blocks; 13 and 14: + 2.
    assert meter.held == 3 + 3 * 4 + 2 * 6
    assert meter.named == 3 + 3 * 6 + 2 * 8
    assert meter.saved == pytest.approx(1 - 27 / 37)


def test_alone_nothing_is_saved():
    assert saved(Script([6]).request([1] * 9)).saved == 0
    assert SharingMeter(Scheduler(mp.BlockPool(2, 4))).saved == 0


def test_a_model_s_own_beams_stay_apart_for_longer_than_random_ones():
    model, tokenizer = mp.load("pocket", device="cpu")
    text = tokenizer("Once upon a time, there lived a penguin who").input_ids
    lengths = [(min(p, len(text)), min(n, 40)) for p, n in alpaca_like(4)]
    paged = mp.PagedModel(model, num_blocks=512, block_size=4)
    engine = mp.Engine(paged)
    meter = SharingMeter(engine.scheduler)
    for prompt, output in lengths:
        config = GenerationConfig(
            max_new_tokens=output, min_new_tokens=output, num_beams=4
        )
        engine.add(text[:prompt], config)
    engine.run()
    random_beams = saved(
        *(
            BeamScript(4, output, seed).request([seed] * prompt)
            for seed, (prompt, output) in enumerate(lengths)
        )
    )
    assert 0.2 < meter.saved < random_beams.saved - 0.05
