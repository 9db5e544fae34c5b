"""Tiny models with random weights: one for every way in which architectures differ.

Real enough to catch a mistake: weights are spread so that logits depend on attention,
and embeddings are not tied, so that a model does not just repeat its last token.
"""

import functools

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

VOCABULARY = 128

_COMMON = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "tie_word_embeddings": False,
    "bos_token_id": 2,
    "eos_token_id": 1,
    "pad_token_id": 0,
}
_MIXED = ["sliding_attention", "full_attention", "sliding_attention"]
_MOE = {"num_experts_per_tok": 2, "moe_intermediate_size": 32}

# What each is here for is said beside it.
ARCHITECTURES: dict[str, dict] = {
    "llama": {"num_key_value_heads": 4},  # one query head for each KV head
    "qwen2": {"hidden_size": 112, "num_attention_heads": 14},  # 7 for each
    "qwen3": {"num_attention_heads": 6, "head_dim": 32},  # 3; head_dim is its own
    "phi3": {  # head_dim 80
        "hidden_size": 160,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
    },
    "mistral": {"sliding_window": 7, "head_dim": 16},
    "gemma2": {"head_dim": 16, "sliding_window": 6},  # soft cap, mixed windows
    "gemma3_text": {"head_dim": 16, "sliding_window": 6, "layer_types": _MIXED},
    "gemma4_text": {  # layers of unequal shape, scale 1
        "head_dim": 16,
        "global_head_dim": 32,
        "num_global_key_value_heads": 1,
        "sliding_window": 6,
        "layer_types": ["sliding_attention", "full_attention", "full_attention"],
        "num_kv_shared_layers": 0,
        "hidden_size_per_layer_input": 0,
    },
    "deepseek_v3": {  # K wider than V
        "num_key_value_heads": 4,
        "q_lora_rank": 16,
        "kv_lora_rank": 16,
        "qk_rope_head_dim": 8,
        "qk_nope_head_dim": 16,
        "v_head_dim": 12,
        "n_routed_experts": 4,
        "n_group": 1,
        "topk_group": 1,
        "first_k_dense_replace": 1,
        **_MOE,
    },
    "qwen3_moe": {"head_dim": 16, "num_experts": 4, **_MOE},
    "gpt2": {"n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 256},  # learned
    "opt": {"ffn_dim": 96, "word_embed_proj_dim": 64},  # positions offset by 2
    "gpt_neox": {},  # rotates a part of the head, attention beside the MLP
    "granite": {"attention_multiplier": 0.3},  # a scale of its own
    "cohere": {},
    "olmo2": {},
    "starcoder2": {"sliding_window": 5},
    "gpt_oss": {  # attention sinks, in layers with and without a window
        "head_dim": 16,
        "sliding_window": 6,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
    },
}

# Where one test of many tries them all, the others try those that are least alike.
UNLIKE = "qwen3 gemma2 gemma4_text deepseek_v3 opt gpt_oss".split()

# Each would generate wrong text in silence if it were not refused.
REFUSED: dict[str, dict] = {
    "llama4_text": {"head_dim": 16},
    "diffllama": {},
    "gpt_neo": {
        "num_layers": 2,
        "num_heads": 4,
        "attention_types": [[["global", "local"], 1]],
    },
    "bloom": {"n_layer": 2, "n_head": 4},
    "mamba": {},
}


@functools.cache
def tiny_model(name: str, **smaller: int) -> PreTrainedModel:
    """A model of this architecture with seeded random weights, in eval mode.

    smaller: fields of its config, for who pays for every layer and head.
    """
    torch.manual_seed(0)
    own = (ARCHITECTURES | REFUSED)[name]
    common = dict(_COMMON)
    if name in ("gpt2", "gpt_neo"):  # these name their sizes differently
        common.pop("num_hidden_layers"), common.pop("num_attention_heads")
    model = AutoModelForCausalLM.from_config(
        AutoConfig.for_model(name, **{**common, **own, **smaller}),
        # Older releases skip gemma2's soft cap in their faster implementation.
        attn_implementation="eager" if name == "gemma2" else None,
    )
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(std=1.5 / parameter.shape[-1] ** 0.5)
        for module in model.modules():
            if isinstance(sinks := getattr(module, "sinks", None), torch.nn.Parameter):
                sinks.normal_()
    return model.eval()
