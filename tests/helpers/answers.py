"""HuggingFace's answers, each computed once: many tests ask for the same one.

As in minipaged.lab.tour.reference, for models whose weights no test changes. No
mistake of ours can hide here: an answer is made by `transformers` alone.
"""

from collections.abc import Sequence
from copy import deepcopy

from transformers import GenerationConfig, PreTrainedModel

from minipaged.decoding.strategy import Output
from minipaged.lab.tour import reference

_KNOWN: dict[tuple, tuple[PreTrainedModel, Output]] = {}


def huggingface_generate(*arguments, **options) -> list[list[list[int]]]:
    """For each prompt its sequences of new ids; see huggingface_outputs."""
    return [out.sequences for out in huggingface_outputs(*arguments, **options)]


def huggingface_outputs(
    model: PreTrainedModel,
    prompts: Sequence[list[int]],
    generation_config: GenerationConfig | Sequence[GenerationConfig] | None = None,
    *,
    seed: int | Sequence[int] | None = None,
) -> list[Output]:
    """The same as Outputs, which the caller may change. Who samples gives a seed."""
    configs, seeds = (
        list(value) if isinstance(value, Sequence) else [value] * len(prompts)
        for value in (generation_config, seed)
    )
    rows = zip(prompts, configs, seeds, strict=True)
    return [deepcopy(_answer(model, *row)) for row in rows]


def _answer(
    model: PreTrainedModel,
    prompt: list[int],
    config: GenerationConfig | None,
    seed: int | None,
) -> Output:
    """The key holds all that decides. The model is kept, so its id stays its own."""
    configs = [vars(each) for each in (config, model.generation_config) if each]
    assert seed is not None or not any(each["do_sample"] for each in configs)
    key = id(model), model.dtype, model.device, str((prompt, configs, seed))
    if key not in _KNOWN:
        (out,) = reference.huggingface_outputs(model, [prompt], config, seed=seed)
        _KNOWN[key] = model, out
    return _KNOWN[key][1]
