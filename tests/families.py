"""Tiny random models of twelve families and two more, with weights large enough for attention to matter."""

from __future__ import annotations

from functools import cache

import torch
import transformers
from torch import Tensor, nn

COMMON = {
    "vocab_size": 97, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": 256, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
GROUPED = COMMON | {"num_key_value_heads": 2, "head_dim": 8}
LAYERS = {"sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"]}
T5 = {
    "vocab_size": 97, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "pad_token_id": 0,
    "eos_token_id": 2, "decoder_start_token_id": 0,
}  # fmt: skip
WHISPER = {
    "vocab_size": 97, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "num_mel_bins": 8,
    "max_source_positions": 16, "max_target_positions": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "decoder_start_token_id": 1, "suppress_tokens": [], "begin_suppress_tokens": [],
}  # fmt: skip
GPT2 = {"vocab_size": 97, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 256, "bos_token_id": 1,
        "eos_token_id": 2, "pad_token_id": 0}  # fmt: skip
VIT = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "image_size": 16,
       "patch_size": 4}  # fmt: skip

FAMILIES = {
    "llama": ("LlamaForCausalLM", GROUPED),
    "qwen3": ("Qwen3ForCausalLM", GROUPED),
    "gemma2": ("Gemma2ForCausalLM", GROUPED | LAYERS | {"attn_logit_softcapping": 5.0}),
    "gemma3": ("Gemma3ForCausalLM", GROUPED | LAYERS),
    "gpt2": ("GPT2LMHeadModel", GPT2),
    "gpt_neox": ("GPTNeoXForCausalLM", COMMON),
    "gpt_oss": ("GptOssForCausalLM", GROUPED | LAYERS | {"num_local_experts": 2, "num_experts_per_tok": 1}),
    "bert": ("BertForMaskedLM", COMMON),
    "modernbert": ("ModernBertForMaskedLM", COMMON | {"local_attention": 8, "global_attn_every_n_layers": 2}),
    "t5": ("T5ForConditionalGeneration", T5),
    "vit": ("ViTForImageClassification", VIT),
    "whisper": ("WhisperForConditionalGeneration", WHISPER),
}
FUSED = {
    "phi3": ("Phi3ForCausalLM", COMMON | {"num_key_value_heads": 2}),
    "starcoder": ("GPTBigCodeForCausalLM", GPT2 | {"multi_query": True}),
}
"""More families that keep query, key and value in one layer, as GPT-2 and GPT-NeoX do, each in its own way."""

MORE = {
    "qwen2": ("Qwen2ForCausalLM", GROUPED),
    "starcoder2": ("Starcoder2ForCausalLM", GROUPED),
    "olmo2": ("Olmo2ForCausalLM", GROUPED),
    "cohere": ("CohereForCausalLM", GROUPED | {"use_qk_norm": True}),
    "deepseek_v3": ("DeepseekV3ForCausalLM", COMMON | {
        "q_lora_rank": 12, "kv_lora_rank": 8, "qk_nope_head_dim": 4, "qk_rope_head_dim": 4, "v_head_dim": 6,
        "num_key_value_heads": 4, "first_k_dense_replace": 2, "n_routed_experts": 2, "num_experts_per_tok": 1,
        "n_group": 1, "topk_group": 1, "moe_intermediate_size": 16,
    }),
}  # fmt: skip
"""Biases, norms over all heads and per head, and queries through a narrow layer (MLA)."""

DECODERS = ["llama", "qwen3", "gemma2", "gemma3", "gpt2", "gpt_neox", "gpt_oss"]
WITHOUT_SDPA = {"gemma2", "gpt_oss"}


@cache
def model(family: str) -> nn.Module:
    """The family's model, made once a session; tests must leave it as they found it."""
    return fresh(family)


def fresh(family: str, seed: int = 0, **changes: object) -> nn.Module:
    """A model of one's own, with the same weights for the same seed."""
    name, settings = (FAMILIES | FUSED | MORE)[family]
    kind = getattr(transformers, name)
    made = kind(kind.config_class(**(settings | changes))).eval()
    generator = torch.Generator().manual_seed(seed)
    for parameter in made.parameters():
        if parameter.dim() > 1 or family == "gpt_oss":  # gpt-oss keeps its sinks in vectors
            nn.init.normal_(parameter, std=0.3, generator=generator)
    return made  # type: ignore[no-any-return]


def ids(*shape: int, seed: int = 1) -> Tensor:
    """Random tokens, none of them special."""
    return torch.randint(3, 97, shape, generator=torch.Generator().manual_seed(seed))


def padding(batch: int, n: int, side: str | None) -> Tensor:
    """An attention mask with five padded places in the last row, left or right."""
    mask = torch.ones(batch, n, dtype=torch.long)
    if side == "left":
        mask[-1, :5] = 0
    if side == "right":
        mask[-1, -5:] = 0
    return mask


def inputs(family: str, n: int = 13, side: str | None = None) -> dict[str, Tensor]:
    """One batch of two for a family."""
    noise = torch.Generator().manual_seed(2)
    if family == "vit":
        return {"pixel_values": torch.randn(2, 3, 16, 16, generator=noise)}
    if family == "whisper":
        return {"input_features": torch.randn(2, 8, 32, generator=noise), "decoder_input_ids": ids(2, n)}
    text = {"input_ids": ids(2, n), "attention_mask": padding(2, n, side)}
    return text | {"decoder_input_ids": ids(2, 7)} if family == "t5" else text
