"""What the probe measures inside the forward pass is what the attention matrices say, in float64."""

from __future__ import annotations

import families
import pytest
import torch
import transformers
from torch import Tensor, nn

from strop.kernels import LazyMask
from strop.normalisers import Softmax
from strop.patching import masks, observed, sharpened
from strop.patching.measure import RECENT, last_rows
from strop.sharpness import best_top_weight

N = 40


def double(family: str) -> nn.Module:
    model = families.fresh(family).double()
    if family == "gpt_oss":
        model.set_experts_implementation("eager")  # the grouped product has no float64
    return model


def inputs_of(family: str, side: str | None = None) -> dict[str, Tensor]:
    made = families.inputs(family, n=N, side=side)
    return {name: value.double() if value.is_floating_point() else value for name, value in made.items()}


def matrices(model: nn.Module, inputs: dict[str, Tensor], kind: str) -> tuple[Tensor, ...]:
    before, softmax = model.config._attn_implementation, nn.functional.softmax
    model.set_attn_implementation("eager")
    with torch.no_grad(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(nn.functional, "softmax", lambda e, dim, dtype=None: softmax(e, dim))  # models ask for float32
        out = model(**inputs, output_attentions=True)
    model.set_attn_implementation(before)
    return out[kind]


def expected(weights: Tensor, two_sided: bool = False) -> dict[str, Tensor]:
    """The same numbers from an n×n matrix, written out plainly for one batch entry, head by head."""
    rows = last_rows(weights.shape[-2])
    p = weights[:, rows]
    seen = p.sum(-1) > 0
    spent = p.sum(-1)
    q = p / spent[..., None]
    n_keys = (p > 0).sum(-1)
    spread = q.amax(-1).log() - torch.where(q > 0, q, torch.inf).amin(-1).log()
    distance = rows[:, None] - torch.arange(weights.shape[-1])
    near = (distance.abs() < RECENT) if two_sided else (distance >= 0) & (distance < RECENT)
    entropy = -torch.xlogy(q, q).sum(-1)
    best = best_top_weight(n_keys.double(), spread)
    values = {
        "n_keys": n_keys, "entropy": entropy, "effective_keys": entropy.exp(), "top_weight": p.amax(-1),
        "log_top_weight": p.amax(-1).log(), "spread": spread, "null_weight": 1 - spent,
        "recent_weight": (p * near).sum(-1), "first_weight": p[..., 0], "best_weight": best,
        "position": (q.amax(-1).log() + n_keys.log()) / (best.log() + n_keys.log()),
    }  # fmt: skip
    assert seen.all()
    return {name: value.double().mean(-1) for name, value in values.items()} | {"spread_max": spread.amax(-1)}


CASES = [
    ("llama", "attentions", 0, False), ("qwen3", "attentions", 0, False), ("gemma2", "attentions", 0, False),
    ("gemma3", "attentions", 0, False), ("gpt2", "attentions", 0, False), ("gpt_neox", "attentions", 0, False),
    ("gpt_oss", "attentions", 0, False), ("bert", "attentions", 0, True), ("modernbert", "attentions", 0, True),
    ("t5", "encoder_attentions", 0, True),
]  # fmt: skip


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize(("family", "kind", "start", "two_sided"), CASES)
def test_equal_to_output_attentions(
    family: str, kind: str, start: int, two_sided: bool, lazy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, inputs = double(family), inputs_of(family)
    if lazy:
        monkeypatch.setattr(masks, "LAZY_FROM", 1)
    inputs = {name: value[:1] for name, value in inputs.items()}
    weights = matrices(model, inputs, kind)
    with observed(model) as seen, torch.no_grad():
        model(**inputs)
    for layer, matrix in enumerate(weights):
        for name, value in expected(matrix[0], two_sided).items():
            found = seen.calls[start + layer].numbers[name].double()
            torch.testing.assert_close(found, value, rtol=1e-7, atol=1e-9, msg=lambda m, name=name: f"{name}: {m}")


def test_padding_on_the_left_is_as_if_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strop.patching.measure.last_rows", lambda n: torch.arange(n - 4, n))
    model, inputs = double("llama"), inputs_of("llama", side="left")
    numbers = []
    for batch in ({name: value[1:] for name, value in inputs.items()}, {"input_ids": inputs["input_ids"][1:, 5:]}):
        with observed(model) as seen, torch.no_grad():
            model(**batch)
        numbers.append([call.numbers for call in seen.calls])
    for padded, alone in zip(*numbers, strict=True):
        for name, value in alone.items():
            torch.testing.assert_close(
                padded[name], value, rtol=1e-6, atol=1e-7, msg=lambda m, name=name: f"{name}: {m}"
            )


def test_cross_attention_has_no_recent_tokens() -> None:
    model, inputs = double("t5"), inputs_of("t5")
    with observed(model) as seen, torch.no_grad():
        model(**inputs)
    cross = [call for call in seen.calls if "EncDec" in call.name]
    assert len(cross) == 2
    assert all(call.numbers["recent_weight"].isnan().all() for call in cross)
    assert all((call.numbers["n_keys"] == N).all() for call in cross)


@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_decoding_steps_equal_the_rows_of_one_pass(cache: str) -> None:
    model, tokens = double("llama"), families.ids(1, 20)
    settings = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False, "disable_compile": True}
    with observed(model) as seen:
        whole = model.generate(tokens, cache_implementation=cache, **settings)
    steps = [record for record in seen.records() if record["layer"] == 1 and record["step"] > 0]
    assert [record["n_keys"] for record in steps if record["head"] == 0] == [21, 22, 23]
    weights = matrices(model, {"input_ids": whole[:, :-1]}, "attentions")[1][0]
    for record in steps:
        row = weights[record["head"], 19 + record["step"]]
        visible = row[: 20 + record["step"]]
        assert record["entropy"] == pytest.approx(float(-torch.xlogy(visible, visible).sum()), abs=1e-9)
        assert record["recent_weight"] == pytest.approx(float(visible[-RECENT:].sum()), abs=1e-9)
        assert record["first_weight"] == pytest.approx(float(visible[0]), abs=1e-9)


def test_observing_changes_no_output() -> None:
    model, inputs = families.model("gemma3"), families.inputs("gemma3")
    with torch.no_grad():
        plain = model(**inputs).logits
        with observed(model):
            torch.testing.assert_close(model(**inputs).logits, plain, rtol=2e-5, atol=2e-5)
        with sharpened(model, Softmax(3.0)):
            sharp = model(**inputs).logits
            with observed(model) as seen:
                assert torch.equal(model(**inputs).logits, sharp)
    assert len(seen.calls) == 2


def test_torch_modules_are_observed_too() -> None:
    torch.manual_seed(0)
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 2).eval()
    x = torch.randn(2, 9, 16, generator=torch.Generator().manual_seed(0))
    with observed(model) as seen, torch.inference_mode():
        model(x)
    assert [call.name for call in seen.calls] == ["layers.0.self_attn", "layers.1.self_attn"]
    assert seen.records()[0]["n_keys"] == 9


def test_cross_attention_to_a_text_of_the_same_length_has_no_recent_tokens() -> None:
    model = double("t5")
    with observed(model) as seen, torch.no_grad():
        model(input_ids=families.ids(1, N), decoder_input_ids=families.ids(1, N))
    assert {call.cross for call in seen.calls if "EncDec" in call.name} == {True}
    assert all(call.numbers["recent_weight"].isnan().all() == call.cross for call in seen.calls)


def test_numbers_carry_no_gradients() -> None:
    model = families.fresh("llama").double()
    with observed(model) as seen:
        model(**inputs_of("llama")).logits.sum().backward()
    assert not any(value.requires_grad for call in seen.calls for value in call.numbers.values())
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.parametrize("family", ["llama", "gemma3"])
def test_the_first_token_of_a_long_padded_text_is_past_the_padding(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long masks are built row by row; Gemma's windows of 8 hide the first token from all but a few rows."""
    model, tokens, padded = double(family), families.ids(2, 32), torch.ones(2, 32, dtype=torch.long)
    padded[1, :9] = 0
    found = []
    for limit in (1 << 22, 1):
        monkeypatch.setattr("strop.patching.masks.LAZY_FROM", limit)
        with observed(model) as seen, torch.no_grad():
            model(input_ids=tokens, attention_mask=padded)
        found.append([call.numbers for call in seen.calls])
    for dense, lazy in zip(*found, strict=True):
        for name, value in dense.items():
            torch.testing.assert_close(lazy[name], value, equal_nan=True, msg=lambda m, name=name: f"{name}: {m}")


def test_a_model_that_computes_with_its_mask_gets_all_of_it() -> None:
    rows = torch.ones(1, 1, 5, 5, dtype=torch.bool).tril()
    lazy = LazyMask(build=lambda start, stop: rows[..., start:stop, :], n_q=5)
    mask = masks.MaskTensor(lazy, 5)
    assert mask.dtype == torch.bool
    assert torch.equal(mask[..., :2, :], rows[..., :2, :])
    assert torch.equal(torch.zeros(5, 5).masked_fill(mask, 1.0), rows.float())  # type: ignore[call-overload]
    assert torch.equal(mask.logical_not(), ~rows)
    assert mask.to("cpu") is mask.to("cpu")  # one for each device, whose rows are not built
    assert torch.equal(mask.to("cpu")[..., :2, :], rows[..., :2, :])
    eager = masks.MaskTensor(lazy, 5, torch.float32)
    lowest = torch.finfo(torch.float32).min
    assert torch.equal(torch.zeros(5, 5) + eager, torch.where(rows, 0.0, lowest))  # type: ignore[operator]
    with pytest.raises(AttributeError):
        mask._unknown  # noqa: B018


class Named(nn.Module):
    """Self-attention under a given name."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        setattr(self, name, nn.MultiheadAttention(8, 2, batch_first=True))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = getattr(self, self.name)(x, x, x)[0]
        return out


def test_only_names_of_cross_attention_are_taken_for_it() -> None:
    for name, wanted in (
        ("multihead_attn", False),
        ("across_attn", False),
        ("crossscale", False),
        ("cross_attn", True),
    ):
        model = Named(name).eval()
        with observed(model) as seen, torch.no_grad():
            model(torch.zeros(1, 5, 8))
        assert [call.cross for call in seen.calls] == [wanted], name
    layer = nn.TransformerDecoderLayer(8, 2, 8, batch_first=True).eval()
    with observed(layer) as seen, torch.no_grad():
        layer(torch.zeros(1, 5, 8), torch.zeros(1, 5, 8))
    assert {call.name: call.cross for call in seen.calls} == {"self_attn": False, "multihead_attn": True}
    settings = families.COMMON | {"is_decoder": True, "add_cross_attention": True}
    model = transformers.BertModel(transformers.BertConfig(**settings)).eval()
    with observed(model) as seen, torch.no_grad():
        model(input_ids=families.ids(1, 5), encoder_hidden_states=torch.zeros(1, 5, 32))
    assert [call.cross for call in seen.calls] == [False, True, False, True]
