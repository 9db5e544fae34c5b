"""Families with something of their own; all of them: benchmarks/cpu/families.py."""

import pytest
from transformers import GenerationConfig

from benchmarks.cpu.tiny_families import tiny_family
from minipaged.engine.generate import generate
from minipaged.errors import UnsupportedModel
from minipaged.lab.tour.reference import huggingface_generate
from minipaged.model.paged_model import PagedModel

FULL = {"layer_types": ["full_attention"] * 4}
PROMPTS = [list(range(3, 3 + n)) for n in (1, 8, 13, 32)]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("stablelm", {}),  # does not say that it supports other attention
        ("roberta", {}),  # `generate` counts positions otherwise than its forward
        ("got_ocr2", {}),  # hands logits_to_keep on to attention
        ("granite_swa", {}),  # sinks, in layers with and without a window
        ("gemma3n_text", {}),  # layers that share K and V
        ("qwen3_next", FULL),  # without its linear attention
    ],
    ids=str,
)
def test_equal(name, options):
    model = tiny_family(name, **options)
    config = GenerationConfig(max_new_tokens=8, pad_token_id=0)
    ours = generate(PagedModel(model, num_blocks=64, block_size=8), PROMPTS, config)
    assert [o.sequences for o in ours] == huggingface_generate(model, PROMPTS, config)


@pytest.mark.parametrize(
    ("name", "options", "why"),
    [
        ("llama4_text", FULL, "logits through blocks differ"),  # scales by batch order
        ("moshi", {"sliding_window": 6}, "its cache forgets what leaves the sliding"),
        ("falcon", {}, "fails on a single token when its attention is ours"),
        ("bart", {}, "counts positions for itself"),
    ],
    ids=str,
)
def test_refused_with_the_cause(name, options, why):
    with pytest.raises(UnsupportedModel, match=why):
        PagedModel(tiny_family(name, **options), num_blocks=8, block_size=8)
