"""GGUF files: read whole or refused with the reason; what is not changed stays byte for byte."""

from __future__ import annotations

import struct
from pathlib import Path

import gguf
import numpy as np
import pytest

from exporting import gguf_files, jobs
from strop.errors import DamagedFileError, RecordsError
from strop.exporting.gguf_blocks import Stored
from strop.exporting.gguf_file import GGUFFile
from strop.pretrained.gguf_head import Kind


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return gguf_files.write(tmp_path_factory.mktemp("gguf") / "plain.gguf", jobs.model("llama"))


def test_written_again_it_is_the_same_but_for_what_was_changed(plain: Path, tmp_path: Path) -> None:
    file = GGUFFile(plain)
    name = "blk.1.attn_q.weight"
    other = gguf.quants.quantize(file.tensors[name].data * 2, Kind.Q8_0)
    file.write(tmp_path / "new.gguf", {name: Stored(other, Kind.Q8_0, 0.0)}, {"strop.edge": "ein Ü"})
    old, new = gguf.GGUFReader(plain), gguf.GGUFReader(tmp_path / "new.gguf")
    assert [t.name for t in new.tensors] == [t.name for t in old.tensors]
    for before, after in zip(old.tensors, new.tensors, strict=True):
        assert after.data_offset % 32 == 0
        assert np.array_equal(after.shape, before.shape)
        assert np.array_equal(after.data, other if after.name == name else before.data)
    assert {key: field.contents() for key, field in new.fields.items() if not key.startswith("GGUF")} == {
        key: field.contents() for key, field in old.fields.items() if not key.startswith("GGUF")
    } | {"strop.edge": "ein Ü"}
    assert new.fields["tokenizer.ggml.tokens"].contents() == ["a", "b", "ü"]


def test_a_sharpened_file_is_refused(plain: Path, tmp_path: Path) -> None:
    GGUFFile(plain).write(tmp_path / "new.gguf", {}, {"strop.edge": "Edge for tiny"})
    with pytest.raises(RecordsError, match="must not be sharpened yet, got Edge for tiny"):
        GGUFFile(tmp_path / "new.gguf")


def test_any_truncation_is_told(plain: Path, tmp_path: Path) -> None:
    whole, cut = plain.read_bytes(), tmp_path / "cut.gguf"
    for share in (1, 2, 5, 9, 30, 60, 99):
        cut.write_bytes(whole[: len(whole) * share // 100])
        with pytest.raises(DamagedFileError, match="must be a whole GGUF file"):
            GGUFFile(cut)
    cut.write_bytes(whole[:13])
    with pytest.raises(DamagedFileError, match="got 13 bytes"):
        GGUFFile(cut)


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (b"PK\x03\x04", "must be a GGUF file, got another kind"),
        (b"GGUF" + struct.pack("<I", 4), "version 2 or 3, got version 4"),
        (b"GGUF" + struct.pack("<I", 1), "version 2 or 3, got version 1"),
        (b"GGUF" + struct.pack(">I", 3), "little-endian, got a big-endian"),
    ],
)
def test_foreign_and_newer_files_are_refused(plain: Path, tmp_path: Path, start: bytes, words: str) -> None:
    other = tmp_path / "other.gguf"
    other.write_bytes(start + plain.read_bytes()[len(start) :])
    with pytest.raises(RecordsError, match=words):
        GGUFFile(other)


def test_damage_in_the_head_is_told(plain: Path, tmp_path: Path) -> None:
    damaged = bytearray(plain.read_bytes())
    damaged[24:32] = struct.pack("<Q", 1 << 60)  # the length of the first key
    (tmp_path / "damaged.gguf").write_bytes(damaged)
    with pytest.raises(DamagedFileError, match="must be a whole GGUF file"):
        GGUFFile(tmp_path / "damaged.gguf")


def test_a_part_of_a_split_file_is_refused_with_the_remedy(tmp_path: Path) -> None:
    part = gguf_files.write(tmp_path / "model-00001-of-00003.gguf", jobs.model("llama"), split_count=3)
    with pytest.raises(
        RecordsError, match=r"must be in one piece, got one of 3 parts. Join .*llama-gguf-split --merge"
    ):
        GGUFFile(part)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(RecordsError, match="must exist, got nothing there"):
        GGUFFile(tmp_path / "nowhere.gguf")
    with pytest.raises(RecordsError, match=r"must be a file, got a folder\."):
        GGUFFile(tmp_path)


def test_a_name_that_stands_twice_is_told(plain: Path, tmp_path: Path) -> None:
    twice = plain.read_bytes().replace(b"blk.1.attn_q.weight", b"blk.0.attn_q.weight")
    (tmp_path / "twice.gguf").write_bytes(twice)
    with pytest.raises(DamagedFileError, match="must name every key and tensor once"):
        GGUFFile(tmp_path / "twice.gguf")
