"""Ranks that share a calibration find the edge of one process; one that dies is told, and loses nothing finished."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from calibration import sharing
from strop.edges import Edge
from strop.errors import RankError
from strop.ranks import Ranks, count_started

HERE = Path(__file__).parent


def start(folder, *more, ranks=2):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    path = ":".join(p for p in sys.path if p)
    about = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "PYTHONPATH": path}
    about |= {"TORCHELASTIC_RUN_ID": "test", "OMP_NUM_THREADS": "1"}
    return [
        subprocess.Popen(
            [sys.executable, str(HERE / "sharing.py"), str(folder), *more],
            stderr=subprocess.PIPE, text=True, env=os.environ | about | {"RANK": str(rank)},
        )
        for rank in range(ranks)
    ]  # fmt: skip


def wait(processes):
    try:
        told = [process.communicate(timeout=240)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [process.returncode for process in processes], told


def assert_same(folder, alone):
    edge, gain = alone
    for rank in range(2):
        found = Edge.from_pretrained(folder / f"edge.{rank}")
        for one, other in zip(found.heads(), edge.heads(), strict=True):
            assert one["beta"] == pytest.approx(other["beta"], abs=1e-5)
            assert one["output"] == pytest.approx(other["output"], abs=1e-5)
        told = json.loads((folder / f"told.{rank}").read_text())
        assert told["size"] == 2
        assert not [name for name in told["threads"] if "gloo" in name]  # alive at exit they may abort the process
        for rows, truth in ((told["answers"], gain.answers), (told["prose"], gain.prose)):
            for row, other in zip(rows, truth, strict=True):
                numbers = {name: value for name, value in other.items() if isinstance(value, int | float)}
                assert {name: row[name] for name in numbers} == pytest.approx(numbers, rel=1e-4, abs=1e-5)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return sharing.find_edge(tmp_path_factory.mktemp("alone"))


def test_a_rank_that_dies_is_told_and_the_next_run_ends_as_one_process_would(alone, tmp_path):
    assert any(row["done"] != "left alone" for row in alone[0].heads())
    codes, told = wait(start(tmp_path, "die"))
    assert codes == [7, -9], told
    assert "RankError: every rank must answer within the group's timeout" in told[0]
    assert len(list(tmp_path.glob("runs/calibrate/*/state.safetensors"))) == 1
    codes, told = wait(start(tmp_path))
    assert codes == [0, 0], told
    assert json.loads((tmp_path / "told.0").read_text())["steps"] == [2, 3]  # two were finished
    assert_same(tmp_path, alone)
    runs = [json.loads(line)["experiment"] for line in (tmp_path / "runs/index.jsonl").read_text().splitlines()]
    assert runs == ["calibrate", "evaluate", "evaluate"]  # one rank writes, once


def test_alone_there_is_one_rank_that_does_all():
    assert count_started() == 1
    ranks = Ranks()
    assert ranks.leads
    assert [ranks.does(job) for job in range(2)] == [True] * 2
    assert ranks.collect(3, lambda i: i * i) == [0, 1, 4]
    ones = torch.ones(2)
    assert ranks.add([ones])[0] is ones


def test_jobs_and_pieces_are_dealt_out(monkeypatch):
    two = Ranks(1, 2)
    assert [two.does(job) for job in range(2)] == [False, True]
    assert [two.takes(i) for i in range(3)] == [False, True, False]
    monkeypatch.setattr(Ranks, "gather", lambda self, value: [["a", "c"], value])
    assert two.collect(3, lambda i: "abc"[i]) == ["a", "b", "c"]
    monkeypatch.setattr(Ranks, "gather", lambda self, value: ["this", value])
    with pytest.raises(RankError, match=r"all ranks must have the same model, got another on ranks \[0\]"):
        two.agree("model", "that")
