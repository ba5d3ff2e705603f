"""What a family needs beyond the general rules: sizes that depend on each other in a way of its own."""

from __future__ import annotations

from typing import Any

MAMBA = {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_n_groups": 1}
EXPERTS = {"n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1, "n_group": 1, "topk_group": 1}
UNSHARED = {"num_kv_shared_layers": 0, "vocab_size_per_layer_input": 100}
WINDOW = {"window_size": 16}

AMENDMENTS: dict[str, dict[str, Any]] = {
    "bamba": MAMBA | {"attn_layer_indices": [1]},
    "blip-2": {"image_token_index": 70},
    "deepseek_v2": EXPERTS,
    "dots1": EXPERTS,
    "esm": {"vocab_size": 100, "mask_token_id": 70, "pad_token_id": 0},
    "esmc": {"num_key_value_heads": 4, "vocab_size": 100},
    "exaone4_5_vision": WINDOW,
    "falcon_h1": MAMBA | {"mamba_d_ssm": 128},
    "gemma3n_text": UNSHARED | {"activation_sparsity_pattern": [0.0, 0.0]},
    "gemma4_text": UNSHARED | {"hidden_size_per_layer_input": 16},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "granitemoehybrid": MAMBA | {"layer_types": ["mamba", "attention"]},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "minimax_m3_vl_text": {"layer_types": ["full_attention", "minimax_m3_sparse"], "index_block_size": 4,
                           "index_topk_blocks": 1},
    "qwen2_5_vl_vision": WINDOW,
    "xlnet": {"d_head": 16},
}  # fmt: skip
