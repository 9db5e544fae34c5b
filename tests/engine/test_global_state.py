"""torch's global state, set around any of our calls: the text stays HuggingFace's.

On a machine with a GPU the model lies there, and its steps are replayed from graphs.
"""

import contextlib
import copy

import pytest
import torch
from transformers import GenerationConfig

import minipaged as mp
from helpers.tiny_models import tiny_model
from minipaged.lab.tour.reference import huggingface_generate

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
ON_GPU = {"attention": "triton"} if DEVICE == "cuda" else {}
ENDS = {"pad_token_id": 0, "eos_token_id": 1}
PROMPTS = [[5, 6, 7], [9] * 11, list(range(3, 20))]
GREEDY = GenerationConfig(max_new_tokens=8, **ENDS)
CONFIGS = {
    "greedy": GREEDY,
    "drawn": GenerationConfig(
        max_new_tokens=6, do_sample=True, temperature=1.3, top_k=20, top_p=0.9,
        min_p=0.01, repetition_penalty=1.2, **ENDS,
    ),
    "samples": GenerationConfig(
        max_new_tokens=6, do_sample=True, num_return_sequences=3, **ENDS
    ),
    "beams": GenerationConfig(
        max_new_tokens=6, num_beams=3, num_return_sequences=2, length_penalty=0.7,
        early_stopping=True, **ENDS,
    ),
}  # fmt: skip


@contextlib.contextmanager
def restored(change, before, *values):
    """`change` is called with the values; afterwards with those of before."""
    change(*values)
    try:
        yield
    finally:
        change(*before)


def default_dtype(dtype):
    return restored(torch.set_default_dtype, [torch.float32], dtype)


def set_default_device(device):
    torch.set_default_device(device)
    if device is None:  # torch 2.9 cannot read a default that was taken back
        vars(torch._GLOBAL_DEVICE_CONTEXT).pop("device_context", None)


def default_device(device):
    return restored(set_default_device, [None], device)


class NothingSpecial(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


STATES = {
    "float16": lambda: default_dtype(torch.float16),
    "bfloat16": lambda: default_dtype(torch.bfloat16),
    "float64": lambda: default_dtype(torch.float64),
    # Where the model is not: whatever forgets its device stumbles.
    "elsewhere": lambda: default_device("meta"),
    "with elsewhere": lambda: torch.device("meta"),
    "inference": torch.inference_mode,
    "grad": torch.enable_grad,
    "deterministic": lambda: restored(
        torch.use_deterministic_algorithms, [False], True
    ),
    "a mode": NothingSpecial,
    "autocast off": lambda: torch.autocast(DEVICE, enabled=False),
}
if DEVICE == "cuda":
    STATES["the gpu"] = lambda: default_device("cuda")
    del STATES["deterministic"]  # cuBLAS wants a variable of the environment for it
UNLIKE = ["bfloat16", "elsewhere", "inference"]
PLACES = ["wrap", "engine", "add", "step"]


@pytest.fixture(scope="module")
def model():
    return copy.deepcopy(tiny_model("qwen3", num_hidden_layers=2)).to(DEVICE)


@pytest.fixture(scope="module")
def expected(model):
    return {
        name: huggingface_generate(model, PROMPTS, config, seed=3)
        for name, config in CONFIGS.items()
    }


@pytest.mark.parametrize("state", STATES)
def test_generate(state, model, expected):
    """Twice, so that the second time all prompts are found in the cache."""
    with STATES[state]():
        paged = mp.PagedModel(model, 64, 4, **ON_GPU)
        prefix = mp.PrefixCache(paged.pool)
        for name, config in CONFIGS.items():
            for options in ({}, {"prefix_cache": prefix}, {"prefix_cache": prefix}):
                outputs = mp.generate(paged, PROMPTS, config, seed=3, **options)
                assert [out.sequences for out in outputs] == expected[name], name


def serve(model, state, places, preemption="swap"):
    """All configs at once, in little memory; the state only in some of the places."""

    def there(place):
        return STATES[state]() if place in places else contextlib.nullcontext()

    with there("wrap"):
        paged = mp.PagedModel(model, 16, 4, **ON_GPU)
    with there("engine"):
        engine = mp.Engine(paged, preemption=preemption, max_tokens=48, max_sequences=8)
    streams = []
    for config in CONFIGS.values():
        with there("add"):
            streams += [engine.add(prompt, config, seed=3) for prompt in PROMPTS]
    for number in range(1000):
        # Around each second step only: what one makes, another uses.
        with there("step" if number % 2 else "no place"):
            if not engine.step():
                break
    assert engine.paged.pool.num_free == 16
    return streams


@pytest.mark.parametrize("state", STATES)
def test_an_engine_all_within(state, model, expected):
    streams = serve(model, state, PLACES)
    assert sum(stream.num_preemptions for stream in streams) > 0
    texts = [stream.output.sequences for stream in streams]
    assert texts == [text for name in CONFIGS for text in expected[name]]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("state", UNLIKE)
def test_an_engine_now_and_then(state, place, model, expected):
    """Tensors made in one state are written to in another."""
    streams = serve(model, state, [place])
    texts = [stream.output.sequences for stream in streams]
    assert texts == [text for name in CONFIGS for text in expected[name]]


def test_scores_of_beams_under_any_default_type(model):
    plain = mp.generate(mp.PagedModel(model, 64, 4), PROMPTS, CONFIGS["beams"])
    for dtype in (torch.float16, torch.float64):
        with default_dtype(dtype):
            paged = mp.PagedModel(model, 64, 4)
            outputs = mp.generate(paged, PROMPTS, CONFIGS["beams"])
        for ours, theirs in zip(outputs, plain, strict=True):
            assert ours.scores == pytest.approx(theirs.scores, abs=1e-5)


def test_the_model_can_be_trained_after_an_engine_of_inference_mode(model):
    own = copy.deepcopy(model)
    with torch.inference_mode():
        paged = mp.PagedModel(own, 64, 4, **ON_GPU)
        mp.generate(paged, PROMPTS, GREEDY)
        mp.Engine(paged, max_sequences=8)
    ids = torch.tensor([PROMPTS[0]], device=DEVICE)
    own(ids, labels=ids).loss.backward()
    assert own.lm_head.weight.grad.abs().sum() > 0


def test_autocast_is_refused_before_any_token(model):
    """HuggingFace's text is another there; and the message says what to do."""
    paged = mp.PagedModel(model, 64, 4)
    engine = mp.Engine(paged)
    stream = engine.add(PROMPTS[0], GREEDY)
    calls = [
        lambda: mp.PagedModel(model, 64, 4),
        lambda: mp.generate(paged, PROMPTS, GREEDY),
        engine.run,
        engine.step,
        stream.result,
    ]
    for call in calls:
        with (
            torch.autocast(DEVICE, dtype=torch.bfloat16),
            pytest.raises(ValueError, match=r"leave it; .*model.to\(torch.bfloat16\)"),
        ):
            call()
    assert not stream.tokens
    theirs = huggingface_generate(model, PROMPTS[:1], GREEDY)
    assert [stream.result().sequences] == theirs
