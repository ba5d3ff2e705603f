"""Copies that are made inside a block are plain, and load where strop is not installed."""

from __future__ import annotations

import copy
import io
import pickle
import subprocess
import sys
from pathlib import Path

import families
import pytest
import tiny
import torch
import transformers
from torch import Tensor, nn

import strop
from strop.edges.output_scales import OutputScales
from strop.normalisers import Softmax
from strop.patching import observed, sharpened


def save_and_load(model: nn.Module) -> nn.Module:
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


COPIES = {
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "torch.save": save_and_load,
    "its class": lambda model: type(model)(model.config),
}


def logits(model: nn.Module) -> Tensor:
    with torch.no_grad():
        return model(families.ids(2, 9)).logits


def is_plain(model: nn.Module) -> bool:
    clean = all(
        not {"_strop", "forward"} & set(vars(part)) and type(part).__mro__[1].__module__ != "strop.patching.frames"
        and not (part._forward_pre_hooks or part._forward_hooks)
        for part in model.modules()
    )  # fmt: skip
    names = [part.config._attn_implementation for part in model.modules() if hasattr(part, "config")]
    return clean and all(type(name) is str and name == "sdpa" for name in names)


@pytest.mark.parametrize("way", COPIES)
def test_a_copy_made_inside_is_plain(way: str) -> None:
    model = families.fresh("llama")
    plain = logits(model)
    with sharpened(model, Softmax(3.0)), observed(model):
        made = COPIES[way](model)
        if way not in ("copy", "its class"):  # which share parts or the config
            assert is_plain(made)
            assert torch.equal(logits(made), plain)
        sharp = logits(model)
    assert (sharp - plain).abs().max() > 1e-3
    assert is_plain(made)
    assert is_plain(model)
    assert type(made) is type(model) is transformers.LlamaForCausalLM


def test_a_copy_made_before_stays_plain_inside() -> None:
    model = families.fresh("llama")
    made, plain = copy.deepcopy(model), logits(model)
    with sharpened(model, Softmax(3.0)):
        assert torch.equal(logits(made), plain)


def test_a_copy_under_an_edge_that_scales_outputs_is_plain() -> None:
    model = tiny.model()
    scales = {name: OutputScales(torch.full((4,), 0.5)) for name in strop.coverage(model).reached}
    edge = strop.Edge.of(model, {"outputs": scales})
    with sharpened(model, edge):
        made = copy.deepcopy(model)
        changed = logits(model)
    assert is_plain(made)
    assert (logits(made) - changed).abs().max() > 1e-3


def test_copies_of_torchs_own_modules() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 8, batch_first=True)
    model, x = nn.TransformerEncoder(layer, 2).eval(), torch.randn(1, 3, 8)
    with sharpened(model, Softmax(3.0)):
        made = save_and_load(model)
        assert made.use_nested_tensor
        assert made.layers[0].activation_relu_or_gelu
        inside = made(x)
    assert type(made.layers[0].self_attn) is nn.MultiheadAttention
    torch.testing.assert_close(inside, model(x))


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_what_was_saved_inside_loads_without_strop(tmp_path: Path) -> None:
    model = families.fresh("llama")
    with sharpened(model, Softmax(3.0)):
        torch.save(model, tmp_path / "model.pt")
        model.save_pretrained(tmp_path / "folder")
    program = (
        "import sys; sys.modules['strop'] = None\n"
        "import torch, transformers\n"
        f"a = torch.load(r'{tmp_path / 'model.pt'}', weights_only=False)\n"
        f"b = transformers.AutoModelForCausalLM.from_pretrained(r'{tmp_path / 'folder'}')\n"
        "print(a.config._attn_implementation, b.config._attn_implementation, type(a) is type(b))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "sdpa sdpa True\n", done.stderr
