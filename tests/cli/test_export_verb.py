"""`strop export`: the plan comes before the file, and --dry-run writes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tiny
from click.testing import CliRunner

from strop.cli.group import strop


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("models")
    tiny.save(made / "tiny")
    tiny.edge().save(made / "edge.safetensors")
    return made


def run(folder: Path, *words: object, code: int = 0) -> str:
    given = ("export", folder / "tiny", "--edge", folder / "edge.safetensors", *words)
    result = CliRunner().invoke(strop, [str(word) for word in given])
    assert result.exit_code == code, result.output
    if not code and "--json" not in words:
        assert result.stderr.splitlines()[-1].startswith("Nothing" if "--dry-run" in words else "Written: ")
    return result.stdout if code == 0 else result.stderr


def test_it_says_what_will_hold_and_writes_it(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "adapter"
    shown = run(folder, "--to", "lora", "--max-rank", 20, "--out", out, "--dry-run")
    assert shown.startswith(f"Export to lora: {out}\n  exact      2 query and 0 output projections, by rank 16")
    assert "not held   for the limit of rank, the query of 4 heads, which change least: L0 H" in shown
    assert not out.exists()
    assert run(folder, "--to", "lora", "--max-rank", 20, "--out", out) == shown
    assert (out / "adapter_model.safetensors").is_file()
    told = json.loads(run(folder, "--to", "peft", "--out", tmp_path / "other", "--json"))
    assert told["written"] is True
    assert told["exact"][0] == "what 2 query projections give"


def test_what_is_wrong_is_one_line(folder: Path, tmp_path: Path) -> None:
    words = run(folder, "--to", "gguf", "--out", tmp_path / "x.gguf", code=2)
    assert words.strip() == "strop: a GGUF file must be given, got a model that came from none. Add --gguf FILE."
    assert "at_length" in run(folder, "--to", "peft", "--out", tmp_path / "x", "--at-length", 8, code=1).replace(
        "-", "_"
    )
    assert list(tmp_path.iterdir()) == []
