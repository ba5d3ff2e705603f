import os
import types
from pathlib import Path

import pytest

from strop.engine import Failure, Local
from strop.records import StropError

ray = pytest.importorskip("ray", reason="needs the extra `ray`")
cluster = pytest.importorskip("strop.engine.cluster")


@pytest.mark.filterwarnings("default")  # Ray's own
def test_a_run_on_ray_gives_what_a_local_run_gives(tmp_path, monkeypatch):
    import jobs

    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]))
    same = [("square", 3), ("square", 4), ("by_mood", "raise"), ("by_mood", "sys.exit"), ("torch_threads", 0)]
    mark = ("die_once", str(tmp_path / "mark"))
    found = dict(cluster.Ray(retries=1).map(jobs.any_of_these, [*same, mark, ("by_mood", "exit")]))
    local = dict(Local(workers=2).map(jobs.any_of_these, same))
    assert {config: str(found[config]) for config in same} == {config: str(result) for config, result in local.items()}
    assert found[mark] == "survived"
    dead = found["by_mood", "exit"]
    assert isinstance(dead, Failure)
    assert dead.kind == "WorkerDied"
    assert not ray.is_initialized()  # it was ours, so it is gone


@pytest.mark.parametrize("address", ["nonsense", "127.0.0.1:1", "[::1]:1", "ray://127.0.0.1:1"])
def test_an_address_without_a_cluster_is_told_at_once(address):
    with pytest.raises(StropError, match=r"address must lead to a Ray cluster, got .*Start one with: ray start --head"):
        list(cluster.Ray(address=address).map(abs, [1]))


def test_a_ray_that_the_caller_joined_is_not_ours():
    assert cluster._join(types.SimpleNamespace(is_initialized=lambda: True), None) is False


def test_impossible_numbers_are_told():
    for wrong in ({"cpus": 0}, {"retries": -1}):
        with pytest.raises(ValueError, match="must be at least"):
            cluster.Ray(**wrong)


def test_other_errors_of_ray_keep_their_kind_and_lose_their_colours():
    def get(_):
        raise ray.exceptions.RayError("\x1b[36mray::attempt()\x1b[39m\n  no such module")

    failure = cluster._result(types.SimpleNamespace(get=get, exceptions=ray.exceptions), None)
    assert str(failure) == "RayError: ray::attempt() no such module"
