"""A sharpened GGUF file holds the baked model's weights, architecture by architecture and format by format."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest
import torch

from exporting import gguf_files, jobs
from strop.edges.bake import apply_placement
from strop.errors import BakeError, EdgeError
from strop.exporting.adapter_gguf import plan_gguf_lora
from strop.exporting.gguf_file import GGUFFile
from strop.exporting.gguf_model import plan_gguf
from strop.pretrained.gguf_head import Kind

WIDE = {"hidden_size": 64, "head_dim": 32, "num_attention_heads": 2, "num_key_value_heads": 1}


@pytest.mark.parametrize("family", gguf_files.ARCHITECTURES)
@pytest.mark.parametrize("rank", [0, 2])
def test_every_fold_goes_where_the_model_has_it(family: str, rank: int, tmp_path: Path) -> None:
    model = jobs.model(family)
    file = GGUFFile(gguf_files.write(tmp_path / "plain.gguf", model))
    job = jobs.job(model, jobs.folds(model, rank), tmp_path, file=file)
    plan = plan_gguf(job)
    plan.put(tmp_path / "sharp.gguf")
    assert plan.rounded == ()
    for place in job.places.values():
        apply_placement(place)
    wanted = {name: value.clone() for name, value in model.state_dict().items()}
    found = gguf_files.read_into(tmp_path / "sharp.gguf", model).state_dict()
    for name, value in wanted.items():
        torch.testing.assert_close(found[name], value, rtol=1e-6, atol=1e-6, msg=name)


@pytest.mark.parametrize("kind", [Kind.F16, Kind.BF16, Kind.Q8_0, Kind.Q5_1, Kind.Q4_0], ids=lambda kind: kind.name)
def test_a_quantised_file_keeps_its_formats_and_gives_the_patched_models_logits(kind: Kind, tmp_path: Path) -> None:
    model = jobs.model("llama", **WIDE)
    gguf_files.read_into(gguf_files.write(tmp_path / "plain.gguf", model, kind), model)
    made, plain = jobs.edge(model), jobs.logits(model)
    with made.put_on(model):
        wanted = jobs.logits(model)
    before = GGUFFile(tmp_path / "plain.gguf")
    plan = plan_gguf(jobs.job(model, made, tmp_path, file=before))
    plan.put(tmp_path / "sharp.gguf")
    after = gguf.GGUFReader(tmp_path / "sharp.gguf")
    assert [t.tensor_type for t in after.tensors] == [t.kind for t in before.tensors.values()]
    assert len(plan.rounded) == 2
    assert "as before" in plan.rounded[0]
    found = jobs.logits(gguf_files.read_into(tmp_path / "sharp.gguf", model))
    assert float((found - wanted).norm() / (plain - wanted).norm()) < (0.05 if kind is Kind.BF16 else 0.01)


def test_an_output_whose_heads_are_no_whole_blocks_is_stored_anew_and_named(tmp_path: Path) -> None:
    model = jobs.model("llama")  # heads of 8
    gguf_files.read_into(gguf_files.write(tmp_path / "plain.gguf", model, Kind.Q4_0), model)
    made, plain = jobs.edge(model), jobs.logits(model)
    with made.put_on(model):
        wanted = jobs.logits(model)
    plan = plan_gguf(jobs.job(model, made, tmp_path, file=GGUFFile(tmp_path / "plain.gguf")))
    assert any("attn_output.weight × 2: Q4_0 cannot hold it, stored as Q8_0" in line for line in plan.rounded)
    assert any("attn_q.weight × 2: Q4_0 as before" in line for line in plan.rounded)
    plan.put(tmp_path / "sharp.gguf")
    found = jobs.logits(gguf_files.read_into(tmp_path / "sharp.gguf", model))
    assert float((found - wanted).norm() / (plain - wanted).norm()) < 0.05


def test_a_file_quantised_from_the_model_takes_its_edge_and_says_how_far_it_is(tmp_path: Path) -> None:
    model = jobs.model("llama", **WIDE)
    file = GGUFFile(gguf_files.write(tmp_path / "plain.gguf", model, Kind.Q4_0))
    plan = plan_gguf(jobs.job(model, jobs.edge(model), tmp_path, file=file))
    assert "differ by" in plan.rounded[-1]
    assert "from the model's, by quantisation" in plan.rounded[-1]


def test_a_file_of_other_weights_is_refused(tmp_path: Path) -> None:
    model, other = jobs.model("llama"), jobs.model("llama", seed=1)
    file = GGUFFile(gguf_files.write(tmp_path / "plain.gguf", other))
    with pytest.raises(
        EdgeError, match=r"must hold the query and output weights of .*, got weights that differ by 1[0-9.]+ % before"
    ):
        plan_gguf(jobs.job(model, jobs.edge(model), tmp_path, file=file))
    larger = jobs.model("llama", num_hidden_layers=3)
    with pytest.raises(EdgeError, match=r"no such tensors in blk.2 of llama"):
        plan_gguf(jobs.job(larger, jobs.edge(larger), tmp_path, file=GGUFFile(_of(larger, 2, tmp_path))))


def _of(model: torch.nn.Module, layers: int, folder: Path) -> Path:
    """A file with fewer layers than the model that it is made from."""
    smaller = jobs.model("llama", num_hidden_layers=layers)
    smaller.load_state_dict({name: model.state_dict()[name] for name in smaller.state_dict()})
    return gguf_files.write(folder / "smaller.gguf", smaller)


@pytest.mark.parametrize(("family", "query"), [("llama", True), ("qwen2", False), ("gpt2", False), ("qwen3", False)])
def test_a_gguf_adapter_is_the_difference_of_weights(family: str, query: bool, tmp_path: Path) -> None:
    model = jobs.model(family)
    file = GGUFFile(gguf_files.write(tmp_path / "plain.gguf", model))
    job = jobs.job(model, jobs.folds(model, query=query), tmp_path, file=file)
    plan_gguf_lora(job).put(tmp_path / "adapter.gguf")
    plan_gguf(job).put(tmp_path / "sharp.gguf")
    sharp = {tensor.name: tensor.data for tensor in gguf.GGUFReader(tmp_path / "sharp.gguf").tensors}
    adapter = gguf.GGUFReader(tmp_path / "adapter.gguf")
    parts = {tensor.name: tensor.data for tensor in adapter.tensors}
    assert adapter.get_field("general.type").contents() == "adapter"
    for name in {name.rpartition(".lora_")[0] for name in parts}:
        change = parts[f"{name}.lora_b"] @ parts[f"{name}.lora_a"]
        np.testing.assert_allclose(file.tensors[name].data + change, sharp[name], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("family", "what"), [("qwen2", "biases"), ("qwen3", "norms")])
def test_a_gguf_adapter_refuses_what_it_cannot_hold(family: str, what: str, tmp_path: Path) -> None:
    model = jobs.model(family)
    file = GGUFFile(gguf_files.write(tmp_path / "plain.gguf", model))
    with pytest.raises(BakeError, match=rf"for a GGUF adapter, got {what} of the query\. Use --to gguf"):
        plan_gguf_lora(jobs.job(model, jobs.folds(model), tmp_path, file=file))
