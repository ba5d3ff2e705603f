"""`strop probe`: from a folder to a report, and one line for everything that can be wrong."""

from __future__ import annotations

import json
from pathlib import Path

import folders
import pytest
from click.testing import CliRunner, Result

from strop import records
from strop.cli.group import strop


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folders.save(tmp_path_factory.mktemp("models") / "tiny <b>")


@pytest.fixture
def text(tmp_path: Path) -> Path:
    (tmp_path / "notes.txt").write_text(folders.text(300))
    return tmp_path / "notes.txt"


def invoke(tmp_path: Path, *arguments: object) -> Result:
    return CliRunner().invoke(strop, ["probe", *map(str, arguments), "--runs", str(tmp_path / "runs")])


def test_a_report_records_and_a_table(model: Path, text: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    result = invoke(tmp_path, model, "--text", text, "--lengths", "16,32,64", "--out", report)
    assert result.exit_code == 0, result.output
    assert "8 heads" in result.output
    assert "blunt fastest" in result.output
    assert str(report) in result.output
    html = report.read_text()
    assert "<b>?" not in html
    assert "How sharp is tiny &lt;b&gt;?" in html
    folder = next((tmp_path / "runs" / "probe").iterdir())
    assert len(records.read(folder / "records.jsonl")) == 24
    assert len(records.read(folder / "heads.jsonl")) == 8


def test_json_is_one_document_and_a_second_run_reuses_the_first(model: Path, text: Path, tmp_path: Path) -> None:
    said = [
        json.loads(invoke(tmp_path, model, "--text", text, "--lengths", "16,32", "--samples", 2, "--json").stdout)
        for _ in range(2)
    ]
    assert said[0] == said[1]
    assert len(said[0]["records"]) == 8
    assert {"slope", "horizon", "class", "spread_bound"} <= set(said[0]["records"][0])
    assert Path(said[0]["report"]).exists()


def test_bad_input_is_one_line_a_code_and_no_report(model: Path, text: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text(" \n")
    (tmp_path / "latin.txt").write_bytes("naïve".encode("latin-1"))
    (tmp_path / "void").mkdir()
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "config.json").write_text("{}")
    out = ["--out", tmp_path / "report.html"]
    cases = [
        (["nothing-like-it"], "model must be known, got 'nothing-like-it'"),
        ([tmp_path / "void"], "must hold config.json"),
        ([bare], "must hold weights"),
        ([model, "--text", tmp_path / "empty.txt"], "text must hold words, got an empty file"),
        ([model, "--text", tmp_path / "latin.txt"], "latin.txt must be UTF-8 text, got other bytes"),
        ([model, "--text", tmp_path / "absent.txt"], "absent.txt"),
        ([model, "--text", text, "--lengths", "16,512"], "lengths must be at most the model's 256 positions, got 512"),
        ([model, "--text", text, "--device", "cuda:7"], "got 'cuda:7'. There are: cpu."),
        ([model, "--text", text, "--lengths", "16,x"], "must be integers between commas"),
    ]
    for arguments, message in cases:
        result = invoke(tmp_path, *arguments, *out)
        assert result.exit_code == 2, (arguments, result.output)
        assert message in " ".join(result.stderr.split()), result.stderr
        assert "Traceback" not in result.output
    assert not (tmp_path / "report.html").exists()


def test_a_model_without_attention_is_named(tmp_path: Path, text: Path) -> None:
    import torch
    import transformers

    config = transformers.MambaConfig(vocab_size=97, hidden_size=16, num_hidden_layers=1, state_size=4)
    torch.manual_seed(0)
    transformers.MambaModel(config).save_pretrained(tmp_path / "mamba")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / "mamba" / name).write_bytes((folders.save(tmp_path / "donor") / name).read_bytes())
    result = invoke(tmp_path, tmp_path / "mamba", "--text", text, "--lengths", "16,32", "--out", tmp_path / "r.html")
    assert result.exit_code == 2
    assert "got MambaModel, whose MambaMixer has no softmax over queries and keys" in " ".join(result.stderr.split())
    assert not (tmp_path / "r.html").exists()
