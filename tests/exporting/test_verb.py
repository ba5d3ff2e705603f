"""`strop.export`: what is wrong is said before the model is opened; nothing is overwritten or left half-done."""

from __future__ import annotations

import os
import re
import resource
from pathlib import Path

import gguf
import pytest
import tiny
import torch

import strop
from exporting import gguf_files, jobs
from strop.errors import BakeError, EdgeError, RecordsError, UnsupportedError
from strop.exporting.at_length import fix_length
from strop.exporting.gguf_file import GGUFFile
from strop.exporting.verb import PLANNERS, planned


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return gguf_files.write(tmp_path_factory.mktemp("gguf") / "plain.gguf", jobs.model("llama"))


@pytest.mark.parametrize("to", PLANNERS)
def test_every_kind_is_written_and_never_twice(to: str, plain: Path, tmp_path: Path) -> None:
    model, out = jobs.model("llama").requires_grad_(True), tmp_path / "new"
    more = {"gguf": plain} if "gguf" in to else {}
    plan = strop.export(model, jobs.edge(model), to=to, out=out, tokenizer=tiny.tokeniser(), **more)
    assert out.exists()
    assert (plan.to, plan.out) == (to, out)
    assert plan.exact or plan.rounded
    with pytest.raises(RecordsError, match=r"nothing is ever overwritten, got .*new, which exists"):
        strop.export(model, jobs.edge(model), to=to, out=out, **more)
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_a_sharpened_file_says_which_edge_is_in_it_and_takes_no_other(plain: Path, tmp_path: Path) -> None:
    model = jobs.model("llama")
    made = jobs.edge(model)
    strop.export(model, made, to="gguf", out=tmp_path / "sharp.gguf", gguf=plain)
    keys = gguf.GGUFReader(tmp_path / "sharp.gguf").fields
    assert keys["strop.edge.digest"].contents() == made.digest
    assert keys["strop.edge.figures"].contents() == "[]"
    with pytest.raises(RecordsError, match="must not be sharpened yet, got Edge for a model"):
        strop.export(model, made, to="gguf", out=tmp_path / "again.gguf", gguf=tmp_path / "sharp.gguf")
    assert not (tmp_path / "again.gguf").exists()


def test_the_input_is_never_the_output(plain: Path) -> None:
    model, before = jobs.model("llama"), plain.read_bytes()
    with pytest.raises(RecordsError, match="which exists"):
        strop.export(model, jobs.edge(model), to="gguf", out=plain, gguf=plain)
    assert plain.read_bytes() == before


def test_an_edge_of_another_model_is_refused(plain: Path, tmp_path: Path) -> None:
    made = jobs.edge(jobs.model("llama"))
    for to in PLANNERS:
        more = {"gguf": plain} if "gguf" in to else {}
        with pytest.raises(EdgeError, match="weights of fingerprint"):
            strop.export(jobs.model("llama", seed=1), made, to=to, out=tmp_path / "new", **more)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("form", "way"),
    [
        ("log-n", "Fix it at one length .--at-length 8192"),
        ("power-n", "Fix it at one length .--at-length 8192"),
        ("hold", "Fix it at one length .--at-length 8192"),
        ("polynomial", "Use strop.sharpened"),
    ],
)
def test_a_beta_that_depends_on_the_input_is_refused_with_the_reason(
    form: str, way: str, plain: Path, tmp_path: Path
) -> None:
    model = jobs.model("llama")
    made = jobs.edge(model, form)
    with pytest.raises(BakeError, match=rf"form {form}\. llama.cpp has one temperature for all heads.*\. {way}"):
        strop.export(model, made, to="gguf", out=tmp_path / "new", gguf=plain)
    with pytest.raises(BakeError, match=rf"Weights do not\. {way}"):
        strop.export(model, made, to="transformers", out=tmp_path / "new")
    if form == "polynomial":
        with pytest.raises(BakeError, match="must come with an edge whose β depends on the length, got the form poly"):
            strop.export(model, made, to="gguf", out=tmp_path / "new", gguf=plain, at_length=64)


@pytest.mark.parametrize(
    ("form", "remedy"),
    [
        ("polynomial", "Use strop.sharpened"),
        ("pairs+log-n", "Use strop.sharpened"),
        ("pairs", "Use --to transformers, which folds it"),
        ("query", "Use --to transformers, which folds it"),
        ("none", "Use --to transformers, which folds it"),
    ],
)
def test_a_folder_for_vllm_is_refused_where_its_plugin_would_refuse_it(form: str, remedy: str, tmp_path: Path) -> None:
    model = jobs.model("llama")
    rule = f"must be constant, layer, log-n, power-n or hold in vLLM, got {form}. {remedy}"
    with pytest.raises(UnsupportedError, match=re.escape(rule)):
        strop.export(model, jobs.edge(model, form), to="vllm", out=tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_a_length_is_fixed_and_said(tmp_path: Path) -> None:
    model = jobs.model("llama")
    made = jobs.edge(model, "log-n")
    fixed = fix_length(made, 64)
    for at, always in zip(made.heads(n_keys=64), fixed.heads(n_keys=7), strict=True):
        assert always["beta"] == pytest.approx(at["beta"], rel=1e-6)
        assert always["output"] == at["output"]
    with planned(model, made, to="transformers", out=tmp_path / "new", at_length=64) as plan:
        assert plan.lost == ("β at other lengths: it is fixed at that of 64 keys",)
    with pytest.raises(BakeError, match="got the form constant"):
        fix_length(jobs.edge(model), 64)


def test_arguments_that_would_do_nothing_are_refused(tmp_path: Path) -> None:
    model = jobs.model("llama")
    for to, name, value in (("peft", "max_rank", 4), ("peft", "gguf", "x.gguf"), ("gguf", "dtype", "bfloat16")):
        with pytest.raises(ValueError, match=f"{name} must come with to="):
            strop.export(model, jobs.edge(model), to=to, out=tmp_path / "new", **{name: value})
    with pytest.raises(ValueError, match="Did you mean 'gguf'"):
        strop.export(model, jobs.edge(model), to="ggfu", out=tmp_path / "new")
    with pytest.raises(ValueError, match="dtype must be known"):
        strop.export(model, jobs.edge(model), to="transformers", out=tmp_path / "new", dtype="int8")
    with pytest.raises(
        ValueError, match=r"a GGUF file must be given, got a model that came from none. Add --gguf FILE"
    ):
        strop.export(model, jobs.edge(model), to="gguf", out=tmp_path / "new")


@pytest.mark.parametrize("to", PLANNERS)
def test_a_failed_export_leaves_nothing_and_the_model_as_it_was(
    to: str, plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = jobs.model("llama")
    before = {name: value.clone() for name, value in model.state_dict().items()}

    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "replace", full)
    monkeypatch.setattr(os, "rename", full)
    with pytest.raises(RecordsError, match="must fit on the disk, got: No space left"):
        strop.export(model, jobs.edge(model), to=to, out=tmp_path / "new", **({"gguf": plain} if "gguf" in to else {}))
    assert list(tmp_path.iterdir()) == []
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("to", PLANNERS)
def test_a_full_disk_is_told_and_leaves_nothing(to: str, plain: Path, tmp_path: Path) -> None:
    model, limits = jobs.model("llama"), resource.getrlimit(resource.RLIMIT_FSIZE)
    with planned(
        model, jobs.edge(model), to=to, out=tmp_path / "new", **({"gguf": plain} if "gguf" in to else {})
    ) as plan:
        resource.setrlimit(resource.RLIMIT_FSIZE, (500, limits[1]))
        try:
            with pytest.raises(RecordsError, match=r"new must (fit on the disk|be writable), got: .*Free some space"):
                plan.write()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(tmp_path.iterdir()) == []


def test_parts_of_a_package_are_joined_beside_the_output_and_removed(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = plain.read_bytes()
    parts = [tmp_path / "part0", tmp_path / "part1"]
    parts[0].write_bytes(whole[:5000])
    parts[1].write_bytes(whole[5000:])
    monkeypatch.setattr("strop.pretrained.sources.find_gguf", lambda name: parts)
    model = jobs.model("llama")
    strop.export(model, jobs.edge(model), to="gguf", out=tmp_path / "deep" / "sharp.gguf")
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["sharp.gguf"]
    with pytest.raises(RecordsError, match="sharpened yet"):
        GGUFFile(tmp_path / "deep" / "sharp.gguf")
