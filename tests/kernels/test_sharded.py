"""Attention over ranks equals attention in one process: outputs, statistics, gradients; and a dead rank is told."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import ranks as worker
import torch

import strop

HERE = Path(__file__).parent


def start(folder, ranks, *more):
    command = [sys.executable, str(HERE / "ranks.py"), str(folder / "store")]
    path = ":".join(p for p in sys.path if p)
    return [
        subprocess.Popen(
            [*command, str(rank), str(ranks), str(folder / "out"), *more],
            stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        )
        for rank in range(ranks)
    ]  # fmt: skip


@pytest.fixture(scope="module", params=[2, 4])
def found(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    processes = start(folder, request.param)
    for process in processes:
        told = process.communicate(timeout=240)[1]
        assert process.returncode == 0, told
    return [torch.load(folder / f"out.{rank}", weights_only=False) for rank in range(request.param)]


def assert_near(got, truth, what):
    scale = truth[truth.isfinite()].abs().max().clamp(min=1e-6)
    finite = truth.isfinite()
    assert torch.equal(got[~finite], truth[~finite]), what
    error = ((got - truth)[finite].abs().max() / scale).item()
    assert error < 1e-5, f"{what}: {error:.1e}"


def test_every_rank_has_its_rows_of_one_process(found):
    ranks = len(found)
    for case in worker.CASES:
        truth = worker.run_case(case, impl="reference")
        for layout, shards in worker.layouts(ranks).items():
            parts = [one[layout, case] for one in found]
            assert_near(shards.join([part["out"] for part in parts]), truth["out"], f"{case}, {layout}")
            for i, name in enumerate(strop.RowStats._fields):
                got = shards.join([part["stats"][i] for part in parts], -1)
                assert_near(got.float(), truth["stats"][i].float(), f"{name} of {case}, {layout}")
            for kind in ("grads", "plain grads"):
                for i, name in enumerate("qkv"):
                    got = shards.join([part[kind][i] for part in parts])
                    assert_near(got, truth[kind][i], f"{kind} of {name}, {case}, {layout}")


def test_a_model_whose_sequence_is_split(found):
    logits, grad = worker.run_model(lambda tensor, dim: tensor)
    got = strop.Shards.zigzag(24, len(found)).join([one["model"][0] for one in found], 1)
    assert_near(got, logits, "logits")
    assert_near(sum(one["model"][1] for one in found), grad, "gradient")


def test_keys_and_values_are_sent_once_to_every_other_rank(found):
    shards = strop.Shards.zigzag(worker.N, len(found))
    sizes = [shards.count(rank) * 2 * worker.GROUPS * (8 + 8) * 4 for rank in range(len(found))]
    assert sum(one["sent"] for one in found) == (len(found) - 1) * sum(sizes)


def test_a_shard_that_is_kept_lets_the_group_end(found):
    """Threads of gloo that are alive at exit abort the process now and then."""
    assert not [name for one in found for name in one["threads"] if "gloo" in name]
    assert all("backward before" in one["ended"] for one in found)


def test_ranks_that_make_different_calls_are_told(found):
    for one in found:
        assert "all ranks must make the same call" in one["disagreement"]


@pytest.mark.parametrize("ranks", [2, 3])
def test_a_rank_that_dies_is_an_error_on_the_others(ranks, tmp_path):
    processes = start(tmp_path, ranks, "die")
    processes[-1].communicate(timeout=120)
    began = time.monotonic()
    for process in processes[:-1]:
        told = process.communicate(timeout=60)[1]
        assert process.returncode == 7, told
        assert "RankError: every rank must answer within the group's timeout" in told
    assert time.monotonic() - began < 30  # its timeout is 8 seconds a wait


def test_the_door():
    q = torch.randn(1, 2, 8, 4)
    with pytest.raises(ValueError, match=r"impl='sharded' cannot run this call: no block of strop.sharded is open"):
        strop.attention(q, q, q, impl="sharded")
    with pytest.raises(strop.StropError, match=r"torch.distributed must be initialised, got no group. Call"):
        strop.sharded(strop.Shards.contiguous(8, 1)).__enter__()
    with pytest.raises(ValueError, match=r"spans must cover positions 0 … n − 1 once"):
        strop.Shards((((0, 3),), ((4, 8),)))
