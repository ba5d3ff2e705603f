"""`sharpened`: with softmax it is the model itself; with anything else it changes what was named and nothing else."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager

import families
import pytest
import torch
import transformers
from torch import Tensor, nn

from strop.normalisers import AdaptiveTemperature, OffByOne, Softmax, Sparsemax, SSMax
from strop.patching import masks, sharpened

PADDED = [family for family in families.FAMILIES if family not in ("vit", "whisper")]


def logits(model: nn.Module, inputs: dict[str, Tensor]) -> Tensor:
    with torch.no_grad():
        return model(**inputs).logits


def own(family: str, inputs: dict[str, Tensor], impl: str) -> Tensor:
    model = families.model(family)
    before = model.config._attn_implementation
    model.set_attn_implementation(impl)
    try:
        return logits(model, inputs)
    finally:
        model.set_attn_implementation(before)


def real(inputs: dict[str, Tensor], out: Tensor) -> Tensor:
    """Rows that are not padding; what a model makes of padding is nobody's business."""
    if out.dim() < 3 or "decoder_input_ids" in inputs:
        return torch.ones(out.shape[:-1], dtype=torch.bool)
    return inputs["attention_mask"].bool()


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("impl", ["eager", "sdpa"])
@pytest.mark.parametrize("family", families.FAMILIES)
def test_softmax_is_the_model_itself(family: str, impl: str) -> None:
    if impl == "sdpa" and family in families.WITHOUT_SDPA:
        pytest.skip("the family has no sdpa path")
    for side in (None, "left", "right") if family in PADDED else (None,):
        inputs = families.inputs(family, side=side)
        with sharpened(families.model(family), Softmax()):
            ours = logits(families.model(family), inputs)
        kept = real(inputs, ours)
        close(ours[kept], own(family, inputs, impl)[kept])


@pytest.mark.parametrize("family", families.FAMILIES)
def test_another_normaliser_changes_the_output(family: str) -> None:
    inputs, model = families.inputs(family), families.model(family)
    with sharpened(model, Softmax(3.0)):
        assert (logits(model, inputs) - own(family, inputs, "eager")).abs().max() > 1e-3


@pytest.mark.parametrize("family", families.DECODERS)
def test_cached_steps_equal_one_pass(family: str) -> None:
    model, tokens = families.model(family), families.ids(2, 14)
    with sharpened(model, AdaptiveTemperature()), torch.no_grad():
        whole = model(input_ids=tokens).logits
        cache, steps = None, []
        for part in (tokens[:, :9], tokens[:, 9:10], tokens[:, 10:11], tokens[:, 11:]):
            out = model(input_ids=part, past_key_values=cache, use_cache=True)
            cache = out.past_key_values
            steps.append(out.logits)
    close(torch.cat(steps, 1), whole)


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("family", [*families.DECODERS, "t5", "whisper"])
def test_batched_generation_equals_the_model(family: str, cache: str) -> None:
    model, inputs = families.model(family), families.inputs(family, side="left")
    inputs.pop("decoder_input_ids", None)
    settings = {"max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False, "cache_implementation": cache,
                "return_dict_in_generate": True, "output_logits": True, "disable_compile": True}  # fmt: skip
    theirs = model.generate(**inputs, **settings)
    with sharpened(model, Softmax()):
        ours = model.generate(**inputs, **settings)
    close(torch.stack(ours.logits), torch.stack(theirs.logits))
    assert torch.equal(ours.sequences, theirs.sequences)


@pytest.mark.parametrize("family", [*families.DECODERS, "t5", "whisper"])
def test_a_future_token_changes_nothing_earlier(family: str) -> None:
    model, inputs = families.model(family), families.inputs(family)
    name = "decoder_input_ids" if "decoder_input_ids" in inputs else "input_ids"
    changed = inputs | {name: inputs[name].clone()}
    changed[name][:, 5:] = (changed[name][:, 5:] + 7) % 90 + 3
    with sharpened(model, AdaptiveTemperature()):
        a, b = logits(model, inputs), logits(model, changed)
    assert torch.equal(a[:, :5], b[:, :5])
    assert not torch.equal(a[:, 5:], b[:, 5:])


@pytest.mark.parametrize("family", ["llama", "gemma2", "gemma3", "gpt_oss", "bert", "modernbert"])
def test_lazy_masks_change_nothing(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = families.model(family)
    for side in (None, "left"):
        inputs = families.inputs(family, n=40, side=side)
        with sharpened(model, AdaptiveTemperature()):
            dense = logits(model, inputs)
            with monkeypatch.context() as small:
                small.setattr(masks, "LAZY_FROM", 1)
                small.setattr("strop.kernels.mask.SPAN", 7)
                lazy = logits(model, inputs)
        close(lazy[real(inputs, lazy)], dense[real(inputs, dense)])


def test_padding_is_as_if_absent() -> None:
    model = families.model("llama")
    padded = families.inputs("llama", side="left")
    alone = {"input_ids": padded["input_ids"][1:, 5:]}
    with sharpened(model, SSMax()):
        close(logits(model, padded)[1:, 5:], logits(model, alone))


def test_a_static_cache_counts_only_visible_keys() -> None:
    model, tokens = families.model("llama"), families.ids(1, 9)
    settings = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False, "output_logits": True,
                "return_dict_in_generate": True, "disable_compile": True}  # fmt: skip
    with sharpened(model, SSMax()):
        static, dynamic = (
            model.generate(tokens, **settings, cache_implementation=kind, max_length=None)
            for kind in ("static", "dynamic")
        )
    close(torch.stack(static.logits), torch.stack(dynamic.logits))


def test_chosen_heads_and_layers_only() -> None:
    model, inputs = families.model("llama"), families.inputs("llama")
    outputs: dict[int, Tensor] = {}
    hooks = [
        layer.self_attn.o_proj.register_forward_pre_hook(lambda _, args, i=i: outputs.__setitem__(i, args[0]))
        for i, layer in enumerate(model.model.layers)
    ]
    logits(model, inputs)
    plain = dict(outputs)
    with sharpened(model, Softmax(4.0), layers=[0], heads=[1, 3]):
        logits(model, inputs)
    for hook in hooks:
        hook.remove()
    changed = (outputs[0] - plain[0]).abs().amax((0, 1)).view(4, 8).amax(1)
    assert changed[[0, 2]].max() < 1e-5
    assert changed[[1, 3]].min() > 1e-3


@pytest.mark.parametrize("rule", [Sparsemax(), OffByOne(), SSMax(heads=4), AdaptiveTemperature()])
def test_every_head_named_is_the_same_as_none_named(rule: nn.Module) -> None:
    model, inputs = families.model("qwen3"), families.inputs("qwen3", side="left")
    with sharpened(model, rule):
        everywhere = logits(model, inputs)
    with sharpened(model, rule, heads=range(4)):
        named = logits(model, inputs)
    close(named[real(inputs, named)], everywhere[real(inputs, named)])


def test_blocks_nest_and_the_inner_one_wins() -> None:
    model, inputs = families.model("llama"), families.inputs("llama")
    plain = logits(model, inputs)
    with sharpened(model, Softmax(3.0)):
        outer = logits(model, inputs)
        with sharpened(model, Softmax(1.0), heads=[0, 1]):
            mixed = logits(model, inputs)
        with sharpened(model, Softmax()):
            close(logits(model, inputs), plain)
        close(logits(model, inputs), outer)
    with sharpened(model, Softmax(3.0), heads=[2, 3]):
        close(logits(model, inputs), mixed)


def test_a_mapping_from_names_and_patterns() -> None:
    model, inputs = families.model("llama"), families.inputs("llama")
    with sharpened(model, Softmax(3.0), layers=[1]):
        by_number = logits(model, inputs)
    with sharpened(model, {"model.layers.1.self_attn": Softmax(3.0)}):
        close(logits(model, inputs), by_number)
    with sharpened(model, {"*.1.*": Softmax(3.0)}):
        close(logits(model, inputs), by_number)


def test_an_edge_puts_itself_in() -> None:
    model, inputs = families.model("llama"), families.inputs("llama")

    class Edge:
        def put_on(self, model: nn.Module, partial: bool = False) -> AbstractContextManager[nn.Module]:
            return sharpened(model, {"*.1.*": Softmax(3.0)})

    with sharpened(model, Softmax(3.0), layers=[1]):
        expected = logits(model, inputs)
    with sharpened(model, Edge()):
        close(logits(model, inputs), expected)
    with (
        pytest.raises(ValueError, match="layers and heads must be left out with an edge"),
        sharpened(model, Edge(), [0]),
    ):
        pass


@pytest.mark.parametrize("family", ["llama", "gpt_oss", "t5"])
def test_restored_after_exit_and_exception(family: str) -> None:
    model, inputs = families.model(family), families.inputs(family)
    before, names = logits(model, inputs), [c._attn_implementation for c in configs(model)]
    with pytest.raises(ZeroDivisionError), sharpened(model, Softmax(3.0)):
        fails_after(logits(model, inputs))
    assert [c._attn_implementation for c in configs(model)] == names
    assert torch.equal(logits(model, inputs), before)
    assert not any(m._forward_pre_hooks for m in model.modules())


def fails_after(_: Tensor) -> None:
    raise ZeroDivisionError


def configs(model: nn.Module) -> list[transformers.PretrainedConfig]:
    return [module.config for module in model.modules() if hasattr(module, "config")]


def test_two_models_in_two_threads_that_share_a_config() -> None:
    first = families.fresh("llama", seed=3)
    second = transformers.LlamaForCausalLM(first.config).eval()
    second.load_state_dict(first.state_dict())
    inputs = families.inputs("llama")
    with sharpened(first, Softmax(3.0)):
        sharp = logits(first, inputs)
    plain, wrong = logits(first, inputs), []

    def work(model: nn.Module, beta: float | None, expected: Tensor) -> None:
        for _ in range(25):
            if beta is None:
                out = logits(model, inputs)
            else:
                with sharpened(model, Softmax(beta)):
                    out = logits(model, inputs)
            if (out - expected).abs().max() > 1e-4:
                wrong.append(beta)

    threads = [threading.Thread(target=work, args=a) for a in ((first, 3.0, sharp), (second, None, plain))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert first.config._attn_implementation == "sdpa"


def test_bfloat16_stays_close_to_float32() -> None:
    model, inputs = families.fresh("llama"), families.inputs("llama")
    with sharpened(model, AdaptiveTemperature()):
        exact = logits(model, inputs)
    model.to(torch.bfloat16)
    with sharpened(model, AdaptiveTemperature()):
        rough = logits(model, inputs)
    assert rough.dtype == torch.bfloat16
    assert (rough.float() - exact).abs().mean() < 0.05 * exact.abs().mean()


def test_gradients_flow() -> None:
    model, rule = families.fresh("llama"), SSMax(heads=4)
    with sharpened(model, rule):
        model(**families.inputs("llama")).logits.square().mean().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in rule.parameters())
    assert model.model.layers[0].self_attn.q_proj.weight.grad.abs().max() > 0


UNREACHABLE = {
    "BloomForCausalLM": {"vocab_size": 97, "hidden_size": 32, "n_layer": 1, "n_head": 4},
    "DebertaV2Model": {"vocab_size": 97, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4,
                       "intermediate_size": 48},
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*torch.jit.script")  # DeBERTa's own
@pytest.mark.parametrize("name", UNREACHABLE)
def test_models_that_never_call_the_interface_are_named(name: str) -> None:
    kind = getattr(transformers, name)
    model = kind(kind.config_class(**UNREACHABLE[name]))
    wrong = rf"model must call .* got {name}, whose \w+Attention writes its softmax out"
    with pytest.raises(ValueError, match=wrong), sharpened(model, Softmax()):
        pass


TORCHS = {
    "FalconForCausalLM": {"vocab_size": 97, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
                          "alibi": True, "bos_token_id": 1, "eos_token_id": 2},
    "WavLMModel": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
                   "conv_dim": (16, 16), "conv_stride": (5, 2), "conv_kernel": (10, 3), "num_conv_pos_embeddings": 16,
                   "num_conv_pos_embedding_groups": 4},
    "Aimv2VisionModel": families.VIT,
}  # fmt: skip
"""Models of transformers that call torch's function themselves, all through or in part."""


@pytest.mark.parametrize("name", TORCHS)
def test_transformers_classes_that_call_torchs_function(name: str, draw: torch.Generator) -> None:
    kind = getattr(transformers, name)
    model = kind(kind.config_class(**TORCHS[name])).eval()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.3, generator=draw)
    given = {"FalconForCausalLM": families.ids(2, 9), "WavLMModel": torch.randn(2, 800, generator=draw)}
    inputs = given.get(name, torch.randn(2, 3, 16, 16, generator=draw))
    with torch.no_grad():
        plain = model(inputs)[0 if name != "Aimv2VisionModel" else 1]
        with sharpened(model, Softmax()):
            close(model(inputs)[0 if name != "Aimv2VisionModel" else 1], plain)
        with sharpened(model, Softmax(3.0)):
            assert (model(inputs)[0 if name != "Aimv2VisionModel" else 1] - plain).abs().max() > 1e-2


def test_bad_arguments_say_what_is_wrong() -> None:
    model = families.model("llama")
    cases = [
        (dict(normaliser=Softmax(), layers=[2]), r"layers must lie in 0\.\.1 for LlamaForCausalLM, got 2"),
        (dict(normaliser=Softmax(), layers=["model.layer.0"]), "Did you mean 'model.layers.0.self_attn'"),
        (dict(normaliser={"nothing": Softmax()}), "layers of LlamaForCausalLM must be known, got 'nothing'"),
        (dict(normaliser="softmaxx"), "Did you mean 'softmax'"),
        (dict(normaliser=3.0), "normaliser must be a strop normaliser, .* got float"),
    ]
    for settings, message in cases:
        with pytest.raises((ValueError, TypeError), match=message), sharpened(model, **settings):
            pass
    with (
        pytest.raises(ValueError, match=r"heads must lie in 0\.\.3, got \[9\]"),
        sharpened(model, "softmax", heads=[9]),
    ):
        logits(model, families.inputs("llama"))
    oss = families.model("gpt_oss")
    with pytest.raises(ValueError, match=r"temperature family .* got Sparsemax"), sharpened(oss, Sparsemax()):
        logits(oss, families.inputs("gpt_oss"))
    assert model.config._attn_implementation == "sdpa"


def test_without_an_sdpa_path_no_mask_means_every_key() -> None:
    """An encoder that was never written for sdpa need not say that it is not causal; sdpa would take it for causal."""
    model, inputs = families.fresh("bert"), families.inputs("bert")
    expected = own("bert", inputs, "eager")
    for module in model.modules():
        vars(module).pop("is_causal", None)
        if hasattr(module, "_supports_sdpa"):
            module._supports_sdpa = False
    with sharpened(model, Softmax()):
        close(logits(model, inputs), expected)
