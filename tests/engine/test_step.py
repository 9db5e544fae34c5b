"""One step and the loop around it: who is admitted, how much is computed."""

import pytest
import torch
from transformers import GenerationConfig

from helpers.answers import huggingface_generate
from helpers.tiny_models import tiny_model
from helpers.watching import Watcher
from minipaged.attention.rectangles import gathered_attention
from minipaged.decoding.options import resolve_options
from minipaged.engine.arguments import make_request
from minipaged.engine.generate import generate
from minipaged.engine.loop import step
from minipaged.errors import OutOfBlocks
from minipaged.memory.block_table import BlockTable
from minipaged.model.paged_model import PagedModel
from minipaged.scheduling.observer import Observer
from minipaged.scheduling.scheduler import Scheduler
from minipaged.scheduling.sequence import Sequence


def config(**options):
    return GenerationConfig(**{"max_new_tokens": 4, "eos_token_id": 127, **options})


def request_for(paged, prompt, generation_config):
    options = resolve_options(paged.model, generation_config, prompt)
    return make_request(prompt, options)


def test_a_step_whose_blocks_were_taken_takes_none():
    """Three requests are certain to fit; then others take what they count on."""
    paged = PagedModel(tiny_model("qwen3"), num_blocks=9, block_size=4)
    scheduler = Scheduler(paged.pool)
    requests = [
        request_for(paged, [5] * n, config(max_new_tokens=5)) for n in (3, 4, 8)
    ]
    for request in requests:
        scheduler.add(request)
    step(paged, scheduler)
    held = [one.sequences[0].table.block_ids.copy() for one in requests]
    others = BlockTable(paged.pool)
    others.append(5 * 4)
    with pytest.raises(OutOfBlocks, match="wanted 1 block, 0 free of 9"):
        step(paged, scheduler)
    assert [len(ids) for ids in held] == [1, 1, 2]
    # The step is undone: all wait, and start again as soon as there is room.
    assert list(scheduler.waiting) == requests and paged.pool.num_free == 4
    others.free()
    while scheduler.waiting or scheduler.running:
        step(paged, scheduler)
    assert paged.pool.num_free == 9
    ours = [request.strategy.output(request).sequences for request in requests]
    prompts = [request.prompt for request in requests]
    five = config(max_new_tokens=5)
    assert ours == huggingface_generate(paged.model, prompts, five)


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
def test_a_step_computes_no_more_prompt_tokens_than_allowed(limit):
    paged = PagedModel(tiny_model("qwen3"), num_blocks=32, block_size=4)
    batches = Watcher(paged).batches
    prompts = [[5], [6], [7], [8, 9], [5] * 9]
    generate(paged, prompts, config(max_new_tokens=1), max_prompt_tokens=limit)
    sizes = [len(batch.tokens) for batch in batches]
    assert max(sizes) <= limit
    assert sum(sizes) == 14
    assert len(sizes) == -(-14 // limit)


def test_prompts_that_fit_together_start_together():
    paged = PagedModel(tiny_model("qwen3"), num_blocks=32, block_size=4)
    batches = Watcher(paged).batches
    generate(paged, [[5] * 3, [6] * 5, [7]], config())
    assert len(batches[0].context_lengths) == 3
    assert [len(batch.tokens) for batch in batches] == [9, 3, 3, 3]


def test_prompts_and_single_tokens_share_a_forward():
    paged = PagedModel(tiny_model("qwen3"), num_blocks=4, block_size=4)
    batches = Watcher(paged).batches
    short, long = config(max_new_tokens=2), config(max_new_tokens=6)
    generate(paged, [[5] * 3, [6] * 3, [7] * 5], [short, long, short])
    lengths = [batch.query_starts.diff().tolist() for batch in batches]
    assert [1, 5] in lengths


def test_the_worst_case_of_samples_counts_what_they_share_once():
    paged = PagedModel(tiny_model("qwen3"), num_blocks=29, block_size=4)
    samples = config(do_sample=True, num_return_sequences=4)
    prompt = [5] * 100
    request = request_for(paged, prompt, samples)
    assert request.blocks_at_most(4) == 25 + 4 * 1
    out = generate(paged, [prompt, prompt], samples, seed=3)
    theirs = huggingface_generate(paged.model, [prompt], samples, seed=3)[0]
    assert [o.sequences for o in out] == [theirs, theirs]
    smaller = PagedModel(tiny_model("qwen3"), num_blocks=28, block_size=4)
    assert generate(smaller, [prompt], samples)[0].finish_reason == "error"


@pytest.mark.parametrize("length", range(1, 14))
@pytest.mark.parametrize("new", [1, 2, 5])
@pytest.mark.parametrize("samples", [1, 3])
def test_the_worst_case_is_enough_and_not_too_much(length, new, samples):
    paged = PagedModel(tiny_model("llama"), num_blocks=64, block_size=4)
    options = config(max_new_tokens=new)
    if samples > 1:
        options = config(
            max_new_tokens=new, do_sample=True, num_return_sequences=samples
        )
    worst = request_for(paged, [5] * length, options).blocks_at_most(4)
    seen = Watcher(paged)
    generate(paged, [[5] * length], options, seed=0)
    assert max(seen.held) <= worst
    assert max(seen.held) == worst or new == 1


def test_interrupted_while_forking_no_block_is_lost(monkeypatch):
    paged = PagedModel(tiny_model("qwen3"), num_blocks=32, block_size=4)
    fork, calls = Sequence.fork, []

    def interrupted(self):
        calls.append(self)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return fork(self)

    monkeypatch.setattr(Sequence, "fork", interrupted)
    with pytest.raises(KeyboardInterrupt):
        generate(paged, [[5] * 9], config(do_sample=True, num_return_sequences=4))
    assert paged.pool.num_free == 32


class AbortsAtFirst(Observer):
    """Ends all requests while the first step's logits are on their way."""

    def __init__(self, scheduler):
        self.scheduler = scheduler

    def computed(self, batch, logits):
        for request in self.scheduler.running.copy():
            self.scheduler.abort(request)


@pytest.mark.parametrize(
    "options", [{"do_sample": True, "num_return_sequences": 4}, {"num_beams": 4}]
)
def test_who_is_aborted_before_the_fork_does_not_come_back(options):
    paged = PagedModel(tiny_model("qwen3"), num_blocks=64, block_size=4)
    scheduler = Scheduler(paged.pool)
    scheduler.observers.append(AbortsAtFirst(scheduler))
    request = request_for(paged, [5, 6, 7], config(max_new_tokens=5, **options))
    scheduler.add(request)
    step(paged, scheduler)
    assert [one.finish_reason for one in request.sequences] == ["aborted"]
    assert not (scheduler.running or scheduler.waiting)
    assert paged.pool.num_free == 64


def test_generation_inside_an_attention_function():
    """Re-entrant: an attention of the reader's own may generate with another model."""
    model = tiny_model("qwen3")
    inner = PagedModel(model, num_blocks=16, block_size=4)
    answers = []

    def curious(q, cache, batch, masking):
        answers.append(generate(inner, [[5, 6]], config(max_new_tokens=2))[0].sequences)
        return gathered_attention(q, cache, batch, masking)

    outer = PagedModel(model, num_blocks=16, block_size=4, attention=curious)
    out = generate(outer, [[7, 8, 9]], config())
    assert [out[0].sequences] == huggingface_generate(model, [[7, 8, 9]], config())
    two = config(max_new_tokens=2)
    assert answers[-1] == huggingface_generate(model, [[5, 6]], two)[0]


def test_logits_are_float32_whatever_the_model_is():
    model = tiny_model("llama")
    try:
        paged = PagedModel(model.to(torch.bfloat16), num_blocks=8)
        seen = Watcher(paged)
        generate(paged, [[5, 6]], config(max_new_tokens=1))
        assert seen.logits[0].dtype == torch.float32
    finally:
        tiny_model.cache_clear()
