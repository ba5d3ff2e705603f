"""Tensors on disk: read as they were written, or refused in one line."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest
import torch

from strop.errors import DamagedFileError, RecordsError
from strop.records.tensors import read_tensors, write_tensors


@pytest.mark.parametrize("metadata", [{}, {"step": "3", "ü": "ein Ü"}])
def test_they_are_read_as_they_were_written(tmp_path: Path, metadata: dict[str, str]) -> None:
    path, wide = tmp_path / "deep" / "one.safetensors", torch.arange(6.0).reshape(2, 3)
    write_tensors(path, {"turned": wide.mT.requires_grad_(), "whole": torch.tensor([1, 2])}, metadata)
    tensors, found = read_tensors(path, "Copy it again")
    assert found == metadata
    assert tensors["turned"].tolist() == wide.mT.tolist()
    assert tensors["whole"].tolist() == [1, 2]
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_what_is_damaged_or_not_there_is_told_with_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "one.safetensors"
    with pytest.raises(RecordsError, match=r"must exist, got nothing there\. Copy it again\.$"):
        read_tensors(path, "Copy it again")
    write_tensors(path, {"a": torch.ones(100)})
    whole = path.read_bytes()
    for damaged in (whole[:-1], whole[:20], b"", b"\xff" * 64, b"PK\x03\x04" + whole[4:]):
        path.write_bytes(damaged)
        with pytest.raises(DamagedFileError, match=r"must be a whole safetensors file, got: .*\. Copy it again\.$"):
            read_tensors(path, "Copy it again")


def test_a_full_disk_is_told_and_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "one.safetensors"
    write_tensors(path, {"a": torch.ones(10)})
    before, limits = path.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_000, limits[1]))
    try:
        with pytest.raises(RecordsError, match=r"one\.safetensors must be writable, got: .*Free some space"):
            write_tensors(path, {"a": torch.ones(10_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [one.name for one in tmp_path.iterdir()] == [path.name]
    assert path.read_bytes() == before
