"""Under torch.autocast a patched model does what the untouched one does: mixed dtypes inside, the same dtype out."""

from __future__ import annotations

import pytest
import torch
from families import inputs, model
from torch import nn

from strop import sharpened
from strop.normalisers import Softmax


def granite_speech() -> nn.Module:
    """Its encoder gives torch's function a bias without the batch dimension that its queries have."""
    from transformers import GraniteSpeechEncoderConfig
    from transformers.models.granite_speech.modeling_granite_speech import GraniteSpeechCTCEncoder

    torch.manual_seed(0)
    config = GraniteSpeechEncoderConfig(
        input_dim=16, num_layers=2, hidden_dim=32, feedforward_mult=2, num_heads=4, dim_head=8, output_dim=10,
        context_size=8, max_pos_emb=16, conv_kernel_size=3,
    )  # fmt: skip
    return GraniteSpeechCTCEncoder(config).eval()


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
@pytest.mark.parametrize("family", ["deepseek_v3", "granite_speech"])
def test_a_patched_model_under_autocast(family: str, dtype: torch.dtype | None, draw: torch.Generator) -> None:
    speech = family == "granite_speech"
    net = granite_speech() if speech else model(family)
    given = {"hidden_states": torch.randn(2, 19, 16, generator=draw)} if speech else inputs(family)
    with torch.no_grad(), torch.autocast("cpu", dtype=dtype, enabled=dtype is not None):
        plain = net(**given)[0]
        with sharpened(net, Softmax()):
            same = net(**given)[0]
        with sharpened(net, Softmax(3.0)):
            other = net(**given)[0]
    assert same.dtype == plain.dtype == (dtype or torch.float32)
    eps = torch.finfo(plain.dtype).eps
    assert (same - plain).abs().max() <= 8 * eps * plain.abs().max()
    assert (other - plain).abs().max() > 0.004
