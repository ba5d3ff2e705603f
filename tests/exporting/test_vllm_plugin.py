"""The vLLM plugin, on a stand-in of the function that it wraps: vLLM itself is not run here."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import families
import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from exporting import jobs
from strop.errors import UnsupportedError
from strop.exporting import vllm_plugin
from strop.exporting.vllm_folder import plan_vllm
from strop.exporting.vllm_plugin import BACKEND, NAME, sharpen_vllm


def stand_in(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any, scaling: float | None = None, **_: Any
) -> tuple[Tensor, None]:
    """What vLLM's function does, without pages: queries and keys [1, heads, n, d] in, [n, heads·d] out."""
    groups = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    window = getattr(module, "sliding_window", None) or query.shape[2]
    gap = torch.arange(query.shape[2])[:, None] - torch.arange(query.shape[2])
    mask = (gap >= 0) & (gap < window)
    out = torch.nn.functional.scaled_dot_product_attention(query, key, value, mask, scale=scaling)
    return out[0].transpose(0, 1).flatten(1), None


@pytest.fixture(autouse=True)
def backend(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A module by the name of vLLM's backend; its function is registered as there."""
    parts = BACKEND.split(".")
    for i in range(1, len(parts) + 1):
        monkeypatch.setitem(sys.modules, ".".join(parts[:i]), ModuleType(parts[i - 1]))
    ALL_ATTENTION_FUNCTIONS[NAME] = stand_in
    yield
    del ALL_ATTENTION_FUNCTIONS[NAME]


def answer(folder: Path, ids: Tensor) -> Tensor:
    """Logits by the stand-in, as vLLM calls a model: one sequence, with positions."""
    served: Any = AutoModelForCausalLM.from_pretrained(folder, attn_implementation=NAME).eval()
    with torch.no_grad():
        found: Tensor = served(ids, position_ids=torch.arange(ids.shape[1])[None], use_cache=False).logits
    return found


@pytest.mark.parametrize(("family", "form"), [("llama", "log-n"), ("qwen3", "constant"), ("gemma3", "hold")])
def test_the_plugin_gives_the_patched_models_logits(family: str, form: str, tmp_path: Path) -> None:
    model, ids = jobs.model(family), families.ids(1, 24)
    made = jobs.edge(model, form)
    with made.put_on(model), torch.no_grad():
        wanted = model(ids).logits
    plan_vllm(jobs.job(model, made, tmp_path)).put(tmp_path / "served")
    plain = answer(tmp_path / "served", ids)
    sharpen_vllm()
    sharpen_vllm()  # as vLLM may
    jobs.assert_same(answer(tmp_path / "served", ids), wanted)
    (tmp_path / "served" / "edge.safetensors").unlink()
    vars(ALL_ATTENTION_FUNCTIONS[NAME])["strop_edges"].clear()
    assert torch.equal(answer(tmp_path / "served", ids), plain)
    assert float((wanted - plain).abs().max()) > 0.01 * float(plain.abs().max())


def test_an_edge_by_entropies_is_refused(tmp_path: Path) -> None:
    model = jobs.model("llama")
    plan_vllm(jobs.job(model, jobs.edge(model), tmp_path)).put(tmp_path / "served")
    (tmp_path / "served" / "edge.safetensors").unlink()
    jobs.edge(model, "polynomial").save(tmp_path / "served" / "edge.safetensors")
    sharpen_vllm()
    with pytest.raises(
        UnsupportedError, match="form must be constant, layer, log-n, power-n or hold in vLLM, got polynomial"
    ):
        answer(tmp_path / "served", families.ids(1, 8))


def test_the_plugin_is_small_and_says_that_it_was_not_run() -> None:
    text = Path(vllm_plugin.__file__).read_text()
    assert len(text.splitlines()) <= 80
    assert "Not run here" in text
