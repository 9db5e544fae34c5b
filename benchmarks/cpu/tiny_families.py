"""Every family of causal language models in transformers, tiny, with random weights.

`tiny_family(name)` makes any of them. The config class of a family is shrunk by the
names of its fields (`SMALL`), which is enough for most. `OVERRIDES` says what else a
family needs, and `VARIANTS` which further models of it are worth a look.
"""

import re
from dataclasses import fields
from typing import Any

import torch
import transformers
from transformers import CONFIG_MAPPING, AutoConfig, PreTrainedConfig, PreTrainedModel
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as MODEL_CLASSES,
)

VOCABULARY = 128
# Tokens. What a model does only from some length on, it does from this one on, so that
# a prompt can be longer.
LONG = 24

_SIZES = {
    256: "context_length max_position_embeddings max_seq_len max_source_positions "
    "max_target_positions model_max_length n_ctx n_positions",
    VOCABULARY: "mamba_d_ssm vocab_size vocab_size_per_layer_input",
    96: "d_inner decoder_ffn_dim dense_intermediate_size dff dim_ff encoder_ffn_dim "
    "feed_forward_size ffn_dim ffn_hidden_size intermediate_size intermediate_size_mlp",
    64: "attention_hidden_size backbone_hidden_size d_model emb_dim embedding_dim "
    "embedding_size hidden_size hidden_size_global input_embedding_size n_embd "
    "output_embedding_size word_embed_proj_dim",
    32: "expert_ffn_hidden_size lru_width moe_intermediate_size "
    "moe_shared_expert_intermediate_size num_centroids router_hidden_size "
    "shared_expert_intermediate_size shared_experts_intermediate_size "
    "shared_intermediate_size",
    LONG: "attention_chunk_size floor_scale index_topk indexer_budget keep_window_size "
    "log_scaling_n_floor",
    16: "attention_head_dim attention_head_size d_head dim_head head_dim "
    "index_head_dim indexer_head_dim kv_channels kv_lora_rank linear_head_dim "
    "linear_key_head_dim linear_value_head_dim mamba_d_head mamba_head_dim "
    "mamba_headdim o_lora_rank q_lora_rank qk_nope_head_dim swa_head_dim",
    12: "local_attention v_head_dim",
    8: "adapter_rank chunk_size hc_lowrank hidden_size_per_layer_input "
    "index_block_size laurel_rank mamba_chunk_size mamba_d_state mamba_dt_rank "
    "mamba_n_heads mamba_num_heads pronunciation_embed_dim qk_rope_head_dim "
    "rotary_dim shape_embed_dim ssm_state_size state_size time_step_rank",
    6: "attention_window_size sliding_window sliding_window_size window_size",
    4: "attention_heads decoder_attention_heads decoder_layers "
    "encoder_attention_heads encoder_layers index_n_heads indexer_n_heads "
    "linear_num_heads linear_num_value_heads moe_num_experts n_head n_heads n_layer "
    "n_layers n_routed_experts num_attention_heads num_blocks "
    "num_decoder_attention_heads num_decoder_layers num_encoder_attention_heads "
    "num_encoder_layers num_experts num_heads num_hidden_layers num_layers "
    "num_local_experts num_query_groups swa_num_attention_heads zero_expert_num",
    2: "hc_mult index_topk_blocks linear_num_key_heads max_window_layers moe_k "
    "moe_top_k moe_topk num_experts_per_tok num_experts_per_token "
    "num_key_value_heads num_kv_heads swa_num_key_value_heads",
    1: "first_k_dense_replace mamba_n_groups mamba_ngroups moe_num_shared_experts "
    "n_group n_groups n_mamba_heads n_shared_experts num_dense_layers "
    "num_expert_group num_nextn_predict_layers num_shared_experts topk_group",
}
SMALL: dict[str, Any] = {
    **{name: value for value, names in _SIZES.items() for name in names.split()},
    "attn_scale": 1.0,  # of queries from LONG on: large enough to be seen
    "is_decoder": True,
    "use_sliding_window": True,
}
# Fields that are None are left at that, but for these: not every model derives them.
_EVEN_IF_NONE = {"head_dim", "num_key_value_heads"}
_SPECIAL = {"pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 2}

_FULL, _SLIDING, _LINEAR = "full_attention", "sliding_attention", "linear_attention"
_WINDOWS = {"layer_types": [_SLIDING, _FULL] * 2}
_SHARED_KV = {"num_kv_shared_layers": 2, **_WINDOWS}
_SOME_LINEAR = {"layer_types": [_LINEAR, _FULL] * 2}
_SOME_CONV = {"layer_types": ["conv", _FULL] * 2}
_DOTS3 = {  # sizes of its sliding layers: no fields, but read from the arguments
    "swa_num_attention_heads": 4,
    "swa_num_key_value_heads": 4,
    "swa_q_lora_rank": 16,
    "swa_kv_lora_rank": 16,
    "swa_head_dim": 24,
    "swa_qk_nope_head_dim": 16,
    "swa_v_head_dim": 12,
}
_QWEN4 = {
    "indexer_n_heads": 4,
    "indexer_kv_heads": 1,
    "indexer_head_dim": 16,
    "indexer_budget": LONG,
    "indexer_compress_ratio": 4,
}

OVERRIDES: dict[str, dict[str, Any]] = {
    "bailing_hybrid": {"layer_group_size": 2},  # every second layer attends
    "bamba": {"attn_layer_indices": [1, 3]},
    # Its `generate` needs a number of layers, which its config does not have.
    "blt": {"encoder_hash_byte_group_vocab": 64, "num_hidden_layers": 4},
    "cohere_compass_text": {
        "rope_parameters": {
            _FULL: {
                "rope_type": "default",
                "rope_theta": 1e4,
                "mrope_section": [4, 2, 2],
            }
        }
    },
    "dbrx": {"attn_config": {"rope_theta": 1e4, "kv_n_heads": 2, "clip_qkv": 8}},
    "deepseek_v2": {"num_experts_per_tok": 2},
    "dots1": {"n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2},
    "dots3_note": _DOTS3,
    "dots3_note_text": _DOTS3,
    "gemma3": {"text_config": _WINDOWS},
    "gemma3_text": _WINDOWS,
    "gemma3n": {"text_config": _SHARED_KV},
    "gemma3n_text": _SHARED_KV,
    "gemma4": {"text_config": _WINDOWS},
    "gemma4_assistant": {
        "text_config": {
            "hidden_size_per_layer_input": 0,
            "vocab_size_per_layer_input": 0,
            "num_kv_shared_layers": 4,
        }
    },
    "gemma4_text": _WINDOWS,
    "gemma4_unified": {"text_config": _WINDOWS},
    "gemma4_unified_text": _WINDOWS,
    "gpt_neo": {"attention_types": [[["global", "local"], 2]]},
    "granitemoehybrid": _SOME_LINEAR,
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "kimi_linear": _SOME_LINEAR,
    "kolibri1": _WINDOWS,
    "laguna": _WINDOWS,
    "lfm2": _SOME_CONV,
    "lfm2_moe": _SOME_CONV,
    "longcat_flash": {"head_dim": 8},  # the rotated part only
    "mamba2": {"num_heads": 8},
    "mellum": _WINDOWS,
    "minimax_m3_vl_text": {"layer_types": ["minimax_m3_sparse", _FULL] * 2},
    "ministral": _WINDOWS,
    "ministral3": {
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 1e4,
            "factor": 8.0,
            "original_max_position_embeddings": LONG,
            "llama_4_scaling_beta": 0.5,
        }
    },
    # As many as there are positions, like the real ones. A cache of HuggingFace drops
    # what leaves the window, but this model's mask shows it: with and without a cache,
    # answers of HuggingFace's that are longer than the window differ.
    "moshi": {"sliding_window": 256},
    "musicgen": {"num_codebooks": 1},  # a prompt has a row for each
    "musicgen_melody": {"num_codebooks": 1},
    "qwen4_exp": _QWEN4,
    "qwen4_exp_text": _QWEN4,
    "reformer": {
        "axial_pos_shape": (16, 16),
        "axial_pos_embds_dim": (32, 32),
        "attn_layers": ["local", "lsh"] * 2,
    },
    "xlstm": {"hidden_size": 128},  # it rounds sizes up to 64
    "xmod": {"default_language": "en_XX"},
    "zamba2": {"layers_block_type": [_LINEAR, "hybrid"] * 2},
    "zaya": {"num_experts_per_tok": 1},  # it knows no other number
}

FULL_ONLY = "full attention only"
_ONE_WINDOW = {"sliding window": {"sliding_window": 6}}
_GEMMA4 = {
    "shared K and V": _SHARED_KV,
    "K is V": {"attention_k_eq_v": True},
    "experts": {
        "enable_moe_block": True,
        "num_experts": 4,
        "top_k_experts": 2,
        "moe_intermediate_size": 32,
    },
}
# Other models of a family, by the words that name them. Families with layers of other
# kinds are tried with full attention only, too: with other `layer_types`, or as is said
# here. Empty: the family has no such model.
VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "bamba": {FULL_ONLY: {"attn_layer_indices": [0, 1, 2, 3]}},
    "deepseek_v4": {},
    "dots3_note": {"no indexer": {"use_dsa": False}},
    "dots3_note_text": {"no indexer": {"use_dsa": False}},
    "falcon_h1": {},
    "falcon_mamba": {},
    "gemma4_text": _GEMMA4,
    "granite": {"scale of its own": {"attention_multiplier": 0.3}},
    "jamba": {FULL_ONLY: {"attn_layer_period": 1, "attn_layer_offset": 0}},
    "mamba": {},
    "mamba2": {},
    "ministral3": _ONE_WINDOW,
    "mistral": {"no window": {"sliding_window": None}},
    "mixtral": _ONE_WINDOW,
    "nemotron_h": {FULL_ONLY: {"layers_block_type": [_FULL] * 4}},
    "olmo_hybrid": {},
    "phi3": _ONE_WINDOW,
    "phi4_multimodal": _ONE_WINDOW,
    "phimoe": _ONE_WINDOW,
    # Its attention always has a window.
    "recurrent_gemma": {"sliding attention only": {"block_types": ["attention"]}},
    "smollm3": _ONE_WINDOW,
    "starcoder2": _ONE_WINDOW,
    "zamba": {},
    "zamba2": {},
    "zaya": {},
}


def tiny_family(name: str, **overrides: Any) -> PreTrainedModel:
    """A model of this family with seeded random weights, in eval mode.

    Args:
        name: as transformers names it, a key of MODEL_CLASSES.
        overrides: fields of its config; they go before those of `OVERRIDES`.

    Raises whatever transformers raises where it cannot be built, such as ImportError
    for a package that is missing.
    """
    model_class = getattr(transformers, MODEL_CLASSES[name])
    config_class = CONFIG_MAPPING[name]
    # Of most families with images or sound, only the part that writes text is built.
    if model_class.config_class in config_class.sub_configs.values():
        config_class = model_class.config_class
    torch.manual_seed(0)
    config = tiny_config(config_class, OVERRIDES.get(name, {}) | overrides)
    model = model_class(config).eval()
    spread_weights(model)
    return model


def tiny_config(
    config_class: type[PreTrainedConfig], overrides: dict[str, Any]
) -> PreTrainedConfig:
    """A small config of this class; a nested one takes its overrides from a dict."""
    default = {field.name: field.default for field in fields(config_class)}
    used = {n for n, v in default.items() if v is not None or n in _EVEN_IF_NONE}
    small = {name: value for name, value in SMALL.items() if name in used}
    small["tie_word_embeddings"] = False  # else a model repeats its last token
    if "kv_lora_rank" in default:  # K and V are made anew for each head of the queries
        small["num_key_value_heads"] = small["num_attention_heads"]
    # Tokens that stand for images and the like are the last ones, not to be prompted.
    others = sorted(name for name in used if re.search("_token_(id|index)$", name))
    small |= {name: VOCABULARY - 1 - place for place, name in enumerate(others)}
    small |= {name: value for name, value in _SPECIAL.items() if name in default}
    nested = {}
    whole = None
    for name, part in config_class.sub_configs.items():
        if part is AutoConfig:  # any may stand there: that of the default is taken
            whole = whole or config_class()
            part = type(getattr(whole, name))
        nested[name] = tiny_config(part, overrides.get(name, {}))
    return config_class(**small | overrides | nested)


@torch.no_grad()
def spread_weights(model: PreTrainedModel) -> None:
    """Draw weights anew, so that a text depends on all tokens before it.

    Matrices keep the size of what they multiply. Norms and biases get a little noise,
    attention sinks much. Then the head is made blind to what all hidden states share:
    in some models that is nearly everything, and every text would be the same.
    """
    for name, parameter in model.named_parameters():
        if parameter.ndim > 1:
            parameter.normal_(std=1.5 / parameter.shape[-1] ** 0.5)
        else:
            noise = torch.randn_like(parameter)
            parameter.add_(noise if "sink" in name else 0.2 * noise)
    head, states = model.get_output_embeddings(), []
    if not isinstance(head, torch.nn.Linear):  # musicgen has a list of them
        return
    hook = head.register_forward_pre_hook(lambda _, inputs: states.append(inputs[0]))
    for tokens in torch.randint(5, VOCABULARY - 20, (8, 1, 32)):
        model(input_ids=tokens, use_cache=False)
    hook.remove()
    shared = torch.cat(states).flatten(end_dim=-2).mean(0)
    head.weight.sub_(torch.outer(head.weight @ shared, shared) / shared.dot(shared))
    if head.bias is not None:
        head.bias.zero_()
