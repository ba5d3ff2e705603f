"""Exact changes of low rank, and what a limit of rank leaves out."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from exporting import jobs
from strop.exporting.lora import find_changes
from strop.exporting.lora_folder import plan_lora


@pytest.mark.parametrize("family", ["llama", "gpt2", "gpt_neox"])
def test_changes_are_the_difference_of_weights(family: str, tmp_path: Path) -> None:
    from strop.edges.bake import apply_placement
    from strop.patching.layout import is_transposed

    model = jobs.model(family)
    job = jobs.job(model, jobs.folds(model), tmp_path)
    changes = find_changes(job)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    for place in job.places.values():
        apply_placement(place)
    after = model.state_dict()
    for name, change in (changes.queries | changes.outputs).items():
        found = change.up @ change.down
        found = found.T if is_transposed(model.get_submodule(name)) else found
        torch.testing.assert_close(before[f"{name}.weight"] + found, after[f"{name}.weight"], rtol=1e-5, atol=1e-6)
        if change.bias is not None:
            torch.testing.assert_close(before[f"{name}.bias"] + change.bias, after[f"{name}.bias"])
    assert changes.dropped == []


def test_a_head_that_is_left_alone_costs_no_rank(tmp_path: Path) -> None:
    model = jobs.model("llama")
    made = jobs.edge(model, outputs=False)
    for part in made.parts["constant"].values():
        part.numbers[1:] = 0
    assert find_changes(jobs.job(model, made, tmp_path)).rank == 8


def test_a_limit_keeps_the_heads_that_change_most_and_names_the_others(tmp_path: Path) -> None:
    model = jobs.model("llama")
    made = jobs.edge(model)
    for name in made.heads_of:
        made.parts["constant"][name].numbers.copy_(torch.tensor([[0.1], [2.0], [-1.5], [0.2]]))
        made.parts["outputs"][name].outputs.copy_(torch.tensor([0.5, 0.0, 0.0, 0.0]))
    plan = plan_lora(jobs.job(model, made, tmp_path, max_rank=20))
    told = "for the limit of rank, the query of 4 heads, which change least: L0 H0, L0 H3, L1 H0, L1 H3"
    assert plan.lost == (told,)
    changes = find_changes(jobs.job(model, made, tmp_path, max_rank=20))
    assert changes.rank == 16
    assert {head for _, part, head in changes.dropped if part == "query"} == {0, 3}


def test_an_adapter_beyond_vllms_limit_says_so(tmp_path: Path) -> None:
    model = jobs.model("llama", hidden_size=64, head_dim=160)
    plan = plan_lora(jobs.job(model, jobs.edge(model), tmp_path))
    assert plan.lost == ("in vLLM: it takes no adapter with ranks over 512 (--max-rank 512 keeps to it); PEFT does",)
    biased = jobs.model("qwen2")
    assert "adapter with biases" in plan_lora(jobs.job(biased, jobs.edge(biased), tmp_path)).lost[0]
