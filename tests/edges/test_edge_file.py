"""The file of an edge: damaged, cut off, foreign or newer ones are refused."""

import json
from pathlib import Path

import pytest
import tiny
import torch
from safetensors.torch import save_file

from edges.test_edge import edge
from strop.edges.edge import Edge
from strop.edges.edge_file import KEY
from strop.errors import DamagedFileError, EdgeFileError


@pytest.mark.parametrize("place", [0, 4, 30, 500, -5])
def test_a_changed_byte_is_refused(tmp_path: Path, place):
    path = tmp_path / "edge.safetensors"
    edge(tiny.model(), outputs=True).save(path)
    data = bytearray(path.read_bytes())
    data[place] ^= 0x11
    path.write_bytes(data)
    with pytest.raises((DamagedFileError, EdgeFileError)):
        Edge.load(path)


@pytest.mark.parametrize("keep", [0, 3, 8, 100, 0.5, 0.99])
def test_a_cut_file_is_refused(tmp_path: Path, keep):
    path = tmp_path / "edge.safetensors"
    edge(tiny.model()).save(path)
    data = path.read_bytes()
    path.write_bytes(data[: int(keep * len(data)) if isinstance(keep, float) else keep])
    with pytest.raises(DamagedFileError, match="must be a whole safetensors file"):
        Edge.load(path)


def test_pickles_and_foreign_files_are_refused(tmp_path: Path):
    path = tmp_path / "edge.safetensors"
    torch.save({"a": torch.zeros(3)}, path)
    with pytest.raises(DamagedFileError):
        Edge.load(path)
    save_file({"a": torch.zeros(3)}, path)
    with pytest.raises(EdgeFileError, match="must be an edge, got other safetensors"):
        Edge.load(path)
    with pytest.raises(EdgeFileError, match="no such file"):
        Edge.load(tmp_path / "nothing")


def test_a_newer_format_is_refused(tmp_path: Path):
    path = tmp_path / "edge.safetensors"
    save_file({"a.numbers": torch.zeros(3, 1)}, path, metadata={KEY: json.dumps({"format": 2, "form": "constant"})})
    with pytest.raises(EdgeFileError, match="got 2: a newer strop wrote it"):
        Edge.load(path)
    save_file({"a.numbers": torch.zeros(3, 1)}, path, metadata={KEY: "{"})
    with pytest.raises(DamagedFileError, match="must describe itself"):
        Edge.load(path)
