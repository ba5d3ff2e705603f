"""Where layers lie, and the weights of a model that accelerate has spread."""

from pathlib import Path

import pytest
import spread
import tiny
import torch

from strop.errors import BakeError, StateError
from strop.kernels import LazyMask
from strop.patching.freeze import freeze
from strop.patching.identity import digest_weights, dtype_of, fingerprint
from strop.patching.masks import MaskTensor
from strop.patching.placement import device_of, read_weights, weights_present


def test_a_model_is_where_its_weights_are():
    assert device_of(tiny.model()) == torch.device("cpu")
    assert device_of(tiny.model().to("meta")) == torch.device("meta")
    assert device_of(torch.nn.Identity()) == torch.device("cpu")


def test_what_a_run_records_names_the_device_unless_it_is_the_cpu():
    assert dtype_of(tiny.model()) == "float32"
    assert dtype_of(tiny.model().to("meta").bfloat16()) == "bfloat16 on meta"


@pytest.mark.parametrize("way", spread.WAYS)
def test_a_spread_model_is_the_same_model(way: str, tmp_path: Path):
    whole, apart = tiny.model(), spread.model(way, tmp_path)
    assert any(parameter.is_meta for parameter in apart.parameters())
    assert device_of(apart) == torch.device("cpu")
    assert device_of(apart.model.layers[1].self_attn) == torch.device("cpu")
    assert (fingerprint(apart), digest_weights(apart)) == (fingerprint(whole), digest_weights(whole))
    assert dtype_of(apart) == "float32"
    for (name, found), (_, wanted) in zip(read_weights(apart), sorted(whole.named_parameters()), strict=True):
        assert torch.equal(found, wanted), name


@pytest.mark.parametrize("way", spread.WAYS)
def test_weights_are_there_inside_the_block_alone(way: str, tmp_path: Path):
    layer = spread.model(way, tmp_path).model.layers[1]
    with weights_present(layer):
        assert not layer.self_attn.q_proj.weight.is_meta
        assert not layer.input_layernorm.weight.is_meta
    assert layer.self_attn.q_proj.weight.is_meta


def test_weights_that_are_nowhere_are_named():
    with pytest.raises(StateError, match=r"lm_head\.weight must have numbers, got a tensor on the meta device"):
        fingerprint(tiny.model().to("meta"))


def test_freezing_reaches_weights_that_come_and_go(tmp_path: Path):
    model = spread.model("disk", tmp_path).requires_grad_(True)
    with freeze(model):
        model(torch.arange(3, 9)[None])
        assert not any(parameter.requires_grad for parameter in model.parameters())
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_a_lazy_mask_follows_the_layers_and_is_looked_at_once_for_each_device():
    built = []

    def build(start: int, stop: int) -> torch.Tensor:
        built.append(start)
        return (torch.arange(start, stop)[:, None] >= torch.arange(600))[None, None]

    mask = MaskTensor(LazyMask(build=build, n_q=600), 600)
    assert mask.to("meta").mask.rows(0, 3).keep.is_meta
    assert mask.to("meta", non_blocking=True) is mask.to(torch.device("meta"))
    assert mask.to(torch.float16) is mask
    moved = mask.to("cpu").mask
    built.clear()
    assert [keys.stop for _, keys in moved.spans] == [256, 512, 600]
    assert moved.spans is moved.spans
    assert built == [0, 256, 512]


def test_baking_wants_weights_in_memory(tmp_path: Path):
    with pytest.raises(BakeError, match="weights must be in memory for baking"):
        tiny.edge().bake(spread.model("disk", tmp_path))
