"""Shapes of models that the GPU benchmarks make with random weights."""

from typing import Any

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, OPTConfig, Qwen3Config


def qwen3_06b(**options: Any) -> Qwen3Config:
    """That of Qwen3-0.6B; options are the config's own."""
    return Qwen3Config(
        vocab_size=151_936,
        hidden_size=1024,
        intermediate_size=3072,
        num_hidden_layers=28,
        num_attention_heads=16,
        num_key_value_heads=8,
        head_dim=128,
        max_position_embeddings=40_960,
        tie_word_embeddings=True,
        **options,
    )


def llama_8b(**options: Any) -> LlamaConfig:
    """That of Llama-3.1-8B, without its scaled positions: for times alone."""
    return LlamaConfig(
        vocab_size=128_256,
        hidden_size=4096,
        intermediate_size=14_336,
        num_hidden_layers=32,
        num_attention_heads=32,
        num_key_value_heads=8,
        max_position_embeddings=8192,
        tie_word_embeddings=False,
        **options,
    )


def opt_13b(**options: Any) -> OPTConfig:
    """That of OPT-13B, the smallest of the PagedAttention paper's models."""
    return OPTConfig(
        hidden_size=5120,
        word_embed_proj_dim=5120,
        ffn_dim=20_480,
        num_hidden_layers=40,
        num_attention_heads=40,
        **options,
    )


SHAPES = {"qwen3-0.6b": qwen3_06b, "llama-8b": llama_8b, "opt-13b": opt_13b}


def random_model(device: str = "cuda", shape: str = "qwen3-0.6b") -> torch.nn.Module:
    """A shape's model, random weights, bfloat16, on the GPU or elsewhere."""
    config = SHAPES[shape](eos_token_id=None)
    torch.manual_seed(0)
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    return model.eval()
