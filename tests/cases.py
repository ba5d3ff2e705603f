"""The normalisers, masks and logits that many tests go through, and what they need."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.attention.bias
from hypothesis import strategies as st
from torch import Tensor

import strop
from strop.kernels import native
from strop.normalisers import Normaliser, PowerN, RelativeLogN, SelectiveTemperature

HEADS, HEAD_DIM = 4, 8

built = pytest.mark.skipif(not native.status().loaded, reason=f"not built: {native.status().reason}")

NORMALISERS: dict[str, Callable[[], Normaliser]] = {
    "softmax": strop.normalisers.Softmax,
    "softmax β=2": lambda: strop.normalisers.Softmax(2.0),
    "adaptive": strop.normalisers.AdaptiveTemperature,
    "adaptive hold": lambda: strop.normalisers.AdaptiveTemperature(beyond_fit="hold"),
    "adaptive detached": lambda: strop.normalisers.AdaptiveTemperature(detach_beta=True),
    "ssmax": lambda: strop.normalisers.SSMax(HEADS, bias=True),
    "log_n": lambda: strop.normalisers.LogN(16),
    "relative_log_n": lambda: RelativeLogN(4),
    "power_n": lambda: PowerN(16, HEADS, init=0.4),
    "llama4": lambda: strop.normalisers.Llama4Temperature(floor=4),
    "yarn": lambda: strop.normalisers.YaRNTemperature(4),
    "infoscale": lambda: strop.normalisers.InfoScale(4, HEAD_DIM),
    "qassmax": lambda: _shaken(strop.normalisers.QASSMax(HEADS, HEAD_DIM)),
    "qassmax elementwise": lambda: _shaken(strop.normalisers.QASSMax(HEADS, HEAD_DIM, elementwise=True)),
    "selective_temperature": lambda: _shaken(SelectiveTemperature(HEADS, HEAD_DIM)),
    "sparsemax": strop.normalisers.Sparsemax,
    "entmax15": strop.normalisers.Entmax15,
    "entmax 1.3": lambda: strop.normalisers.Entmax(1.3, learnable=True, heads=HEADS),
    "asentmax": lambda: _shaken(strop.normalisers.ASEntmax(HEADS, HEAD_DIM)),
    "top_k": lambda: strop.normalisers.TopK(3),
    "hard": strop.normalisers.Hard,
    "average_hard": strop.normalisers.AverageHard,
    "off_by_one": strop.normalisers.OffByOne,
    "sink": lambda: strop.normalisers.LearnedSink(HEADS, init=0.5),
    "adaptive with sink": lambda: strop.normalisers.WithSink(
        strop.normalisers.AdaptiveTemperature(), torch.tensor([[0.3]])
    ),
}


def _shaken(normaliser: Normaliser) -> Normaliser:
    """Move parameters away from their start, where much is zero."""
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in normaliser.parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=draw))
    return normaliser


MASKS = ("none", "causal", "lower right", "padding", "random with empty rows", "additive")


def mask_arguments(kind: str, batch: int, n_q: int, n_k: int, draw: torch.Generator) -> dict[str, object]:
    """Arguments of `attention` for one kind of mask."""
    if kind == "none":
        return {}
    if kind == "causal":
        return {"is_causal": True}
    if kind == "lower right":
        return {"attn_mask": torch.nn.attention.bias.causal_lower_right(n_q, n_k)}
    if kind == "padding":
        lengths = torch.randint(0, n_k + 1, (batch, 1, 1, 1), generator=draw)
        return {"attn_mask": torch.arange(n_k) < lengths}
    keep = torch.rand(batch, 1, n_q, n_k, generator=draw) < 0.6
    keep = keep & (torch.arange(n_q) % 5 != 3)[:, None]
    if kind == "random with empty rows":
        return {"attn_mask": keep}
    return {"attn_mask": torch.randn(keep.shape, generator=draw, dtype=torch.float64).masked_fill(~keep, -torch.inf)}


@st.composite
def rows(draw: st.DrawFn, masked: bool = True) -> tuple[Tensor, Tensor | None]:
    """Logits [n_q, n_k] in float64 on many scales, with a mask that may hide whole rows."""
    n_q, n_k = draw(st.integers(1, 4)), draw(st.integers(1, 40))
    source = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    scale = draw(st.sampled_from([0.0, 1e-3, 0.3, 1.0, 3.0, 10.0, 100.0]))
    logits = scale * torch.randn(n_q, n_k, generator=source, dtype=torch.float64) + draw(st.floats(-20, 20))
    if not masked or draw(st.booleans()):
        return logits, None
    return logits, torch.rand(n_q, n_k, generator=source) < draw(st.sampled_from([0.0, 0.3, 0.8]))
