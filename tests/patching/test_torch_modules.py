"""`sharpened` on modules that call torch's attention themselves, where fast paths try to slip past it."""

from __future__ import annotations

import subprocess
import sys

import families
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from strop.normalisers import AdaptiveTemperature, Softmax, Sparsemax
from strop.patching import observed, sharpened
from strop.patching.sites import find_sites
from strop.sharpness import RowStats


def encoder(seed: int = 0, **settings: object) -> nn.TransformerEncoder:
    torch.manual_seed(seed)
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, **settings)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=not settings.get("norm_first")).eval()


def items(*shape: int) -> Tensor:
    return 3 * torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=2e-5, atol=2e-5)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_encoder_in_eval_mode_is_reached_past_its_fast_path(norm_first: bool, padded: bool) -> None:
    model, x = encoder(norm_first=norm_first), items(2, 6, 16)
    hidden = torch.zeros(2, 6, dtype=torch.bool)
    hidden[1, 4:] = padded
    seen = ~hidden
    with torch.inference_mode():
        plain = model(x, src_key_padding_mask=hidden)
        with sharpened(model, Softmax()):
            close(model(x, src_key_padding_mask=hidden)[seen], plain[seen])
        with sharpened(model, Softmax(5.0)):
            assert (model(x, src_key_padding_mask=hidden)[seen] - plain[seen]).abs().max() > 1e-3
        assert torch.equal(model(x, src_key_padding_mask=hidden)[seen], plain[seen])
    assert all("forward" not in vars(m) and not m._forward_pre_hooks for m in model.modules())


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("average", [False, True])
def test_multihead_attention_and_its_weights(batch_first: bool, need_weights: bool, average: bool) -> None:
    torch.manual_seed(0)
    model = nn.MultiheadAttention(16, 4, batch_first=batch_first, add_bias_kv=True, kdim=8, vdim=12).eval()
    q, k, v = items(2, 5, 16), items(2, 7, 8), items(2, 7, 12)
    q, k, v = (q, k, v) if batch_first else (q.transpose(0, 1), k.transpose(0, 1), v.transpose(0, 1))
    mask = torch.ones(5, 7, dtype=torch.bool).triu(3)
    out, weights = model(q, k, v, attn_mask=mask, need_weights=True, average_attn_weights=average)
    with sharpened(model, Softmax()):
        ours, our_weights = model(q, k, v, attn_mask=mask, need_weights=need_weights, average_attn_weights=average)
    close(ours, out)
    assert need_weights or our_weights is None
    if need_weights:
        close(our_weights, weights)


def test_causal_hint_without_and_with_a_mask() -> None:
    model, x = encoder(), items(1, 6, 16)
    causal = nn.Transformer.generate_square_subsequent_mask(6)
    with torch.no_grad():
        plain = model(x, mask=causal, is_causal=True)
        with sharpened(model, Softmax()):
            close(model(x, mask=causal, is_causal=True), plain)


def test_adaptive_temperature_inside_multihead_attention_is_the_formula() -> None:
    torch.manual_seed(0)
    model, x = nn.MultiheadAttention(16, 2, batch_first=True).eval(), items(1, 9, 16)
    q, k, _ = F.linear(x, model.in_proj_weight, model.in_proj_bias).chunk(3, -1)
    logits = (q.view(9, 2, 8).transpose(0, 1) @ k.view(9, 2, 8).permute(1, 2, 0)) / 8**0.5
    beta = AdaptiveTemperature().inverse_temperature(RowStats.of(logits))
    with sharpened(model, AdaptiveTemperature()):
        _, weights = model(x, x, x, average_attn_weights=False)
    close(weights[0], (beta[..., None] * logits).softmax(-1))


class TimmLike(nn.Module):
    """Attention as timm writes it: a switch between torch's function and a softmax written out."""

    def __init__(self, fused: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.qkv, self.num_heads, self.fused_attn = nn.Linear(16, 48), 4, fused

    def forward(self, x: Tensor) -> Tensor:
        b, n, _ = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.num_heads, 4).permute(2, 0, 3, 1, 4).unbind(0)
        out = F.scaled_dot_product_attention(q, k, v) if self.fused_attn else (q / 2 @ k.mT).softmax(-1) @ v
        return out.transpose(1, 2).reshape(b, n, 16)


@pytest.mark.parametrize("fused", [False, True])
def test_timm_like_attention_either_way(fused: bool) -> None:
    model, x = nn.Sequential(TimmLike(fused), TimmLike(fused)), items(2, 6, 16)
    plain = model(x)
    with sharpened(model, Softmax()):
        close(model(x), plain)
    with sharpened(model, Sparsemax(), layers=["1"], heads=[0]):
        changed = (model(x) - plain).abs().amax((0, 1)).view(4, 4).amax(1)
    assert changed[0] > 1e-3
    assert changed[1:].max() < 1e-5
    assert [m.fused_attn for m in model] == [fused, fused]


class Own(nn.Module):
    """A user's module that calls torch's attention on whatever shape it is given."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return F.scaled_dot_product_attention(x, x, x, attn_mask=mask)


@pytest.mark.parametrize("shape", [(5, 8), (3, 5, 8), (2, 3, 5, 8), (2, 2, 3, 5, 8)])
@pytest.mark.parametrize("masked", [False, True])
def test_any_number_of_axes(shape: tuple[int, ...], masked: bool) -> None:
    model, x = Own(), items(*shape)
    mask = torch.ones(5, 5, dtype=torch.bool).tril() if masked else None
    with sharpened(model, Softmax()), observed(model) as seen:
        close(model(x, mask), F.scaled_dot_product_attention(x, x, x, attn_mask=mask))
    assert len(seen.calls[0].numbers["entropy"]) == (3 if len(shape) > 3 else 1)


def test_a_model_without_attention_is_refused() -> None:
    with (
        pytest.raises(ValueError, match="got Linear, in which no attention was found"),
        sharpened(nn.Linear(2, 2), Softmax()),
    ):
        pass


class Mentions(nn.Module):
    """Names torch's attention and never calls it."""

    def forward(self, x: Tensor) -> Tensor:
        return x if len(x) else F.scaled_dot_product_attention(x, x, x)


def test_a_model_that_runs_without_calling_attention_raises_on_exit() -> None:
    model = Mentions()

    def use() -> None:
        with sharpened(model, Softmax()):
            model(torch.ones(2))
            model(torch.ones(2))

    with pytest.raises(RuntimeError, match=r"of Mentions must be reached, got the model itself .* ran without calling"):
        use()


def test_an_error_inside_is_not_hidden_by_the_count() -> None:
    model = Mentions()
    with pytest.raises(ZeroDivisionError), sharpened(model, Softmax()):
        divide(model(torch.ones(2)), 0)


def divide(_: Tensor, by: int) -> float:
    return 1 / by


class Spoken(nn.Module):
    """Calls torch's attention with nothing but keywords."""

    def forward(self, x: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(query=x, key=x, value=x)


def test_keywords_and_empty_inputs_are_no_obstacle() -> None:
    model, x = Spoken(), items(2, 4, 6, 8)
    with sharpened(model, Softmax()):
        close(model(x), F.scaled_dot_product_attention(x, x, x))
        assert model(x[:, :, :0]).shape == (2, 4, 0, 8)
        assert model(x[:0]).shape == (0, 4, 6, 8)


class Mixed(nn.Module):
    """A tower of torch's own before a transformers model."""

    def __init__(self) -> None:
        super().__init__()
        self.tower = nn.MultiheadAttention(16, 4)
        self.words = families.fresh("llama")


def test_layers_are_numbered_in_the_order_of_the_model() -> None:
    found = find_sites(Mixed())
    assert list(found.all) == ["tower", "words.model.layers.0.self_attn", "words.model.layers.1.self_attn"]
    assert list(found.choose([0])) == list(found.by_torch) == ["tower"]
    assert list(found.by_interface) == list(found.all)[1:]


def test_torchs_own_modules_do_without_transformers() -> None:
    program = (
        "import sys, torch; sys.modules['transformers'] = None\n"
        "import strop\n"
        "model = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(8, 2, 8, batch_first=True), 1).eval()\n"
        "with strop.sharpened(model, 'adaptive'): print(model(torch.zeros(1, 3, 8)).shape)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "torch.Size([1, 3, 8])\n", done.stderr
