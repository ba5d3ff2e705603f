"""Patched = baked = saved and opened without strop = (IA)³ = LoRA, family by family; what cannot be says why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import families
import pytest
import torch
import transformers
from torch import nn

from exporting import jobs
from strop.edges.bake import apply_placement, baked
from strop.errors import BakeError
from strop.exporting.lora_folder import plan_lora
from strop.exporting.peft_folder import plan_peft
from strop.exporting.transformers_folder import plan_folder

ONE_BETA = ["qwen3", "gemma3"]
FAMILIES = [
    "llama", "qwen2", "gpt2", "gpt_neox", "gpt_oss", "phi3", "starcoder", "starcoder2", "olmo2", "cohere",
    "deepseek_v3", *ONE_BETA,
]  # fmt: skip


def reopened(model: nn.Module, folder: Path) -> Any:
    return type(model).from_pretrained(folder).eval()


def adapted(model: nn.Module, folder: Path, merge: bool) -> Any:
    """A fresh copy of the model with PEFT's adapter on it."""
    from peft import PeftModel

    made = type(model)(model.config).eval()
    made.load_state_dict(model.state_dict())
    found = PeftModel.from_pretrained(made, folder)
    return found.merge_and_unload() if merge else found


CASES = [
    (family, form)
    for family in FAMILIES
    for form in ("constant", "layer", "pairs", "query")
    if form != "constant" or family not in ONE_BETA
]


@pytest.mark.parametrize(("family", "form"), CASES)
def test_one_edge_is_the_same_everywhere(family: str, form: str, tmp_path: Path) -> None:
    model = jobs.model(family)
    made = jobs.edge(model, form)
    plain = jobs.logits(model)
    with made.put_on(model):
        wanted = jobs.logits(model)
    assert float((wanted - plain).abs().max()) > 0.01 * float(plain.abs().max())
    with baked(made, model):
        jobs.assert_same(jobs.logits(model), wanted)
    job = jobs.job(model, made, tmp_path)
    plan_folder(job).put(tmp_path / "plain")
    jobs.assert_same(jobs.logits(reopened(model, tmp_path / "plain")), wanted)
    kinds = {"lora": plan_lora} | ({"peft": plan_peft} if form != "query" else {})
    for kind, plan in kinds.items():
        plan(job).put(tmp_path / kind)
        for merge in (False, True):
            jobs.assert_same(jobs.logits(adapted(model, tmp_path / kind, merge)), wanted)
    assert torch.equal(jobs.logits(model), plain)


@pytest.mark.parametrize("family", ["llama", "gpt2", "gpt_neox", "olmo2", "deepseek_v3", "qwen3"])
def test_low_rank_edits_are_lora_adapters_and_bake_everywhere(family: str, tmp_path: Path) -> None:
    model = jobs.model(family)
    job = jobs.job(model, jobs.folds(model), tmp_path)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    plan_lora(job).put(tmp_path / "lora")
    with pytest.raises(BakeError, match=r"must scale queries and outputs alone for \(IA\)³, got a low-rank edit"):
        plan_peft(job)
    for place in job.places.values():
        apply_placement(place)
    wanted = jobs.logits(model)
    model.load_state_dict(before)
    for merge in (False, True):
        jobs.assert_same(jobs.logits(adapted(model, tmp_path / "lora", merge)), wanted)


def test_what_is_saved_is_an_ordinary_folder(tmp_path: Path) -> None:
    model = jobs.model("llama")
    made = jobs.edge(model)
    plan_folder(jobs.job(model, made, tmp_path, dtype="bfloat16")).put(tmp_path / "plain")
    assert "strop" not in (tmp_path / "plain" / "config.json").read_text()
    assert reopened(model, tmp_path / "plain").dtype == torch.bfloat16
    assert transformers.AutoTokenizer.from_pretrained(tmp_path / "plain")("a")["input_ids"]
    assert next(model.parameters()).dtype == torch.float32
    told = json.loads((tmp_path / "plain" / "strop_edge.json").read_text())
    assert told["strop.edge.digest"] == made.digest


@pytest.mark.parametrize("plan", [plan_peft, plan_lora])
def test_norms_alone_make_an_adapter_too(plan: Any, tmp_path: Path) -> None:
    model = jobs.model("qwen3")
    made = jobs.edge(model, "layer", outputs=False)
    with made.put_on(model):
        wanted = jobs.logits(model)
    plan(jobs.job(model, made, tmp_path)).put(tmp_path / "adapter")
    jobs.assert_same(jobs.logits(adapted(model, tmp_path / "adapter", True)), wanted)


def test_output_scales_alone_bake_under_a_soft_cap(tmp_path: Path) -> None:
    model = jobs.model("gemma2")
    with pytest.raises(BakeError, match="must be linear in the query for baking, got a soft cap"):
        jobs.job(model, jobs.edge(model), tmp_path).places  # noqa: B018
    alone = jobs.edge(model, "none")
    with alone.put_on(model):
        wanted = jobs.logits(model)
    with baked(alone, model):
        jobs.assert_same(jobs.logits(model), wanted)
    plan_peft(jobs.job(model, alone, tmp_path)).put(tmp_path / "peft")
    jobs.assert_same(jobs.logits(adapted(model, tmp_path / "peft", True)), wanted)


REASONS = {
    "qwen3": "query norm is shared",
    "gemma3": "query norm is shared",
    "modernbert": "must keep its query weights where they are known",
}


@pytest.mark.parametrize("family", REASONS)
def test_a_refusal_gives_its_reason_and_leaves_the_model_alone(family: str, tmp_path: Path) -> None:
    model = families.fresh(family).requires_grad_(False)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(BakeError, match=REASONS[family]):
        jobs.job(model, jobs.edge(model, outputs=False), tmp_path).places  # noqa: B018
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
