"""A tape does what a CUDA graph does, and nothing that it does not."""

import pytest
import torch

import minipaged as mp
from helpers.serving import PROMPTS, check, config
from helpers.tiny_models import tiny_model
from minipaged.decoding.strategy import output_of
from minipaged.engine.ahead import StepsAhead
from minipaged.engine.arguments import make_requests
from minipaged.lab.tour.reference import huggingface_outputs
from minipaged.lab.tour.tape import TapedRunner, on_tape, padded_attention
from minipaged.model.bridge import connect
from minipaged.model.merged_linears import merge_linears
from minipaged.model.twin import make_twin
from minipaged.scheduling.preemption import PreemptingScheduler


def test_a_replay_reads_the_same_tensors_and_writes_to_the_same():
    x = torch.tensor([1.0, 2.0])
    replay, out = on_tape(lambda: (x * 10).sum())
    assert out.item() == 30
    x.copy_(torch.tensor([3.0, 4.0]))
    assert out.item() == 30
    replay()
    assert out.item() == 70


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: x.to(torch.int64) + 1,  # another type
        lambda x: x.to(torch.float32) + 1,  # the same type: x itself
        lambda x: x.view(2, 2).t()[1:].reshape(-1),  # views, and a copy
        lambda x: x.view(2, 2).split([1, 1])[1].clone(),
        lambda x: x.max(0),  # two results
        lambda x: x.expand(3, 4).sum(0),
        lambda x: torch.zeros(4).add_(x).mul_(2),  # in place
    ],
)
@pytest.mark.parametrize("inference", [False, True])
def test_whatever_torch_returns_is_where_it_was(compute, inference):
    """Views, tensors that are handed through, several results, results in place."""
    x = torch.tensor([1.0, 2.0, 3.0, 4.0])
    with torch.inference_mode(inference):
        replay, out = on_tape(lambda: compute(x))
        x.copy_(torch.tensor([9.0, 7.0, 5.0, 6.0]))
        replay()
        right = compute(x)
    pairs = zip(out, right, strict=True) if isinstance(out, tuple) else [(out, right)]
    assert all(torch.equal(one, other) for one, other in pairs)


def test_numbers_of_python_and_other_tensors_are_not_seen():
    x, length = torch.ones(8), 3
    replay, out = on_tape(lambda: x[:length].sum())
    length, x = 5, torch.zeros(8)
    replay()
    assert out.item() == 3


@pytest.mark.parametrize(
    "compute", [lambda x: x * x.sum().item(), lambda x: x if x.sum() > 3 else -x]
)
@pytest.mark.parametrize("inference", [False, True])
def test_nothing_is_read_in_a_capture(compute, inference):
    """Torch refuses it for CUDA graphs, too."""
    x = torch.ones(4)
    refused = pytest.raises(RuntimeError, match="cannot read a number")
    with refused, torch.inference_mode(inference):
        on_tape(lambda: compute(x))


@pytest.mark.parametrize("merged", [False, True])
def test_a_step_on_tape_is_a_step(merged):
    """One ahead, padded, replayed, and all prompts' tokens are HuggingFace's."""
    model = tiny_model("qwen3")
    paged = mp.PagedModel(model, 96, 4, padded_attention)
    twin = None
    if merged:
        twin = make_twin(model)
        connect(twin)
        assert merge_linears(twin) > 0
        paged.note_weights()
    runner = TapedRunner(paged, 16, twin=twin)
    scheduler = PreemptingScheduler(paged.pool, max_sequences=16, max_tokens=40)
    steps = StepsAhead(runner, scheduler)
    requests = make_requests(paged, PROMPTS, config(6), None, b"")
    for request in requests:
        scheduler.add(request)
    num_steps = 0
    while scheduler.waiting or scheduler.running:
        steps.step()
        num_steps += 1
    right = huggingface_outputs(model, PROMPTS, config(6))
    check([*map(output_of, requests)], right)
    assert runner.num_replays >= num_steps - 1
