"""Tiny configurations of any transformers model, made from the library's own config class.

A rule is a pattern on a field's name and the size that such a field gets. Parts of a composite model (text_config,
vision_config, …) are made in the same way. What a rule cannot know stands in amendments.py, by model type.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from transformers import CONFIG_MAPPING, PreTrainedConfig

from sweep.amendments import AMENDMENTS

VOCABULARY, POSITIONS, WIDTH, SIDE = 100, 256, 64, 32
FIRST_SPECIAL = 70
"""Tokens from here on mean something: an image, the end of a sound. Drawn text stays below."""

NARROW = (
    (r"(^|_)(vocab_size|n_vocab)$|^num_embeddings$|_vocab$", VOCABULARY),
    (r"max_(position|source_position|target_position)\w*|n_positions|n_ctx|max_seq_len|max_sequence_length", POSITIONS),
    (r"(experts_per_tok|top_k_experts|moe_topk|moe_k|num_selected_experts)$", 2),
    (r"(num|n)_\w*experts$|^num_experts|moe_num_experts", 4),
    (r"n_shared_experts|moe_num_shared_experts", 1),
    (r"^(n_group|topk_group|num_expert_group|n_expert_groups)$", 1),
    (r"key_value_heads$|kv_heads|num_kv_heads|kv_n_heads|linear_num_key_heads", 2),
    (r"(^|_)(num_)?(attention_)?heads?$|(num|n)_\w*heads$|^num_mel_attn_heads$", 4),
    (r"qk_rope_head_dim|rotary_dim", 8),
    (r"head_dim|^d_kv$|^d_head$|dim_head|head_size|kv_channels", 16),
    (r"(num|n)_(\w*_)?layers?$|(encoder|decoder|text|hidden|speech)_layers$", 2),
    (r"^(layers|depth|num_blocks|resampler_depth)$", 2),
    (r"(intermediate|ffn|feedforward|feed_forward|inner|mlp|expert)_?\w*(size|dim)$|^(d_ff|dff|dim_ff|d_inner)$", 96),
    (r"lora_rank$|laurel_rank", 16),
    (r"^(image_size|resolution|crop_size|pretrain_image_size|tile_size|img_size)$", SIDE),
    (r"^patch_size$", 8),
    (r"^(sliding_window|attention_chunk_size|window_size|local_attention|attention_window|keep_window_size)$", 8),
    (r"^(index_topk)$", 8),
    (r"num_queries|num_query_tokens|num_latents|n_latents|num_denoising", 8),
    (r"(^|_)(hidden_size|d_model|n_embd|n_embed|embed_dim|emb_dim|embedding_size|embedding_dim|hidden_dim|dim|width|"
     r"projection_dim|project_dim|proj_dim|output_dim|output_size|proj_size|out_hidden_size|hidden_units)$", WIDTH),
)  # fmt: skip
SHALLOW = tuple(rule for rule in NARROW if rule[1] in (VOCABULARY, POSITIONS, 2, 8) and "rope" not in rule[0])
"""Fewer layers, tokens and positions, but the widths that the class came with: where widths depend on each other."""

STAGED = ("depths", "num_heads", "num_attention_heads", "hidden_sizes")
"""Where one of these is a list, every stage has its own width: widths and image stay, and each stage gets one block."""

LADDER = {"narrow": NARROW, "shallow": SHALLOW}
"""Tried in this order until one model runs."""


def tiny_config(model_type: str, rung: str = "narrow") -> PreTrainedConfig:
    """Return a tiny configuration of a model type."""
    return shrink(CONFIG_MAPPING[model_type](), LADDER[rung])


def shrink(config: PreTrainedConfig, rules: tuple[tuple[str, int], ...]) -> PreTrainedConfig:
    """Return a configuration of the same class with small sizes."""
    sizes = _sizes(config, rules) | (_special_tokens(config) if rules else {})
    sizes |= AMENDMENTS.get(config.model_type, {}) if rules is NARROW else {}
    parts = {name: shrink(part, rules) for name, part in _parts(config).items()}
    made = type(config)(**(parts | sizes | (_layers(config, sizes) if rules else {})))
    return _unify_tokens(made)


def _parts(config: PreTrainedConfig) -> dict[str, PreTrainedConfig]:
    found = {name: getattr(config, name, None) for name in getattr(config, "sub_configs", ())}
    return {name: part for name, part in found.items() if isinstance(part, PreTrainedConfig)}


def _fields(config: PreTrainedConfig) -> dict[str, Any]:
    return {field.name: vars(config).get(field.name) for field in dataclasses.fields(config)}


def _sizes(config: PreTrainedConfig, rules: tuple[tuple[str, int], ...]) -> dict[str, Any]:
    """Every whole number that a rule knows and that is larger than the rule's size."""
    found: dict[str, Any] = {}
    if any(isinstance(vars(config).get(name), (list, tuple)) for name in STAGED):
        rules = tuple(rule for rule in rules if rule[1] not in (WIDTH, SIDE))
        found = {
            name: [1] * len(value) for name in ("depths",) if isinstance(value := vars(config).get(name), (list, tuple))
        }
    for name, value in _fields(config).items():
        size = next((size for pattern, size in rules if re.search(pattern, name)), None)
        if size is not None and isinstance(value, int) and not isinstance(value, bool) and value > size:
            found[name] = size
    if "kv_lora_rank" in found and "num_key_value_heads" in found:  # compressed keys are not shared by heads
        found["num_key_value_heads"] = found["num_attention_heads"]
    if rules is NARROW and _fields(config).get("head_dim", 0) is None:
        found["head_dim"] = 16
    rope = vars(config).get("rope_parameters")
    if rules is NARROW and isinstance(rope, dict) and "rope_theta" in rope and _has_sections(config, rope):
        found["rope_parameters"] = _narrow_rope(rope, found.get("head_dim", 16))
    return found


def _has_sections(config: PreTrainedConfig, rope: dict[str, Any]) -> bool:
    return "mrope_section" in {*rope, *getattr(config, "ignore_keys_at_rope_validation", ())}


def _narrow_rope(rope: dict[str, Any], head_dim: int) -> dict[str, Any]:
    """Sections of a rotation by several axes share half a head."""
    half = int(head_dim * rope.get("partial_rotary_factor", 1.0)) // 2
    return dict(rope) | {"mrope_section": [half - 2 * (half // 3), half // 3, half // 3]}


def _layers(config: PreTrainedConfig, sizes: dict[str, Any]) -> dict[str, Any]:
    """Two layers at least, and one of every kind that the model has."""
    kinds = getattr(config, "layer_types", None)
    if not isinstance(kinds, (list, tuple)) or "num_hidden_layers" not in sizes:
        return {}
    some = list(dict.fromkeys(kinds)) or ["full_attention"]
    some = some if len(some) > 1 else some * 2
    field = {"layer_types": some} if "layer_types" in _fields(config) else {}
    return field | {"num_hidden_layers": len(some)}


def _special_tokens(config: PreTrainedConfig) -> dict[str, Any]:
    """Token numbers inside the small vocabulary, each its own."""
    fields = _fields(config)
    names = [name for name in fields if re.search(r"_token_(id|index)$", name) and isinstance(fields[name], int)]
    known = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    new = [name for name in sorted(names) if name not in known]
    return {name: known[name] for name in names if name in known} | {
        name: FIRST_SPECIAL + i for i, name in enumerate(new)
    }


def _unify_tokens(config: PreTrainedConfig) -> PreTrainedConfig:
    """A part that names a token of the whole means the same one."""
    for part in _parts(config).values():
        for name in _special_tokens(part):
            if isinstance(getattr(config, name, None), int):
                setattr(part, name, getattr(config, name))
    return config
